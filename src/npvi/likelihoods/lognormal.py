"""Log-normal noise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.gaussian import normal_log_density
from npvi.likelihoods.scales import log_variance
from npvi.likelihoods.support import POSITIVE

__all__ = ["LogNormal"]


class LogNormal(Likelihood):
    """Log-normal noise, log y ~ N(f, variance): positive responses with errors in proportion.

    The density is that of y itself, so it has the factor 1/y. f is the log of the median, not of the mean,
    which is exp(f + variance/2).

    Parameters
    ----------
    variance : float
        Of log y given f.

    Examples
    --------
    >>> round(float(LogNormal(variance=1.0).log_prob(1.0, 0.0)), 4)
    -0.9189
    """

    support = POSITIVE
    log_concave = True

    def __init__(self, variance: float = 0.01) -> None:
        self.variance = variance

    def log_prob(self, y: jax.Array, f: jax.Array, **row: Any) -> jax.Array:
        log_y = jnp.log(y)
        return -log_y - 0.5 * (jnp.log(2.0 * jnp.pi * self.variance) + (log_y - f) ** 2 / self.variance)

    def conditional_mean(self, f: jax.Array, **row: Any) -> jax.Array:
        return jnp.exp(f + 0.5 * self.variance)

    def conditional_variance(self, f: jax.Array, **row: Any) -> jax.Array:
        return jnp.expm1(self.variance) * jnp.exp(2.0 * f + self.variance)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: Any) -> np.ndarray:
        return special.ndtr((_log(y) - f) / np.sqrt(self.variance))

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: Any) -> np.ndarray:
        return np.exp(rng.normal(f, np.sqrt(self.variance)))

    def initial_latent(self, y: np.ndarray, **row: Any) -> np.ndarray:
        return np.log(y)

    def initial_parameters(self, y: np.ndarray, **row: Any) -> dict[str, Any]:
        noise = log_variance(y)
        return {} if noise is None else {"variance": noise}

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: Any) -> jax.Array | None:
        return self.log_prob(y, m) - 0.5 * v / self.variance

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: Any) -> np.ndarray:
        return normal_log_density(np.log(y), m, v + self.variance) - np.log(y)

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: Any) -> tuple[np.ndarray, np.ndarray]:
        total = v + self.variance
        # a latent variance of 800 has no finite mean in float64: inf says so
        with np.errstate(over="ignore"):
            return np.exp(m + 0.5 * total), np.expm1(total) * np.exp(2.0 * m + total)

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: Any) -> np.ndarray:
        return special.ndtr((_log(y) - m) / np.sqrt(v + self.variance))

    def marginal_quantile(self, q: float, m: np.ndarray, v: np.ndarray, **row: Any) -> np.ndarray:
        return np.exp(m + np.sqrt(v + self.variance) * special.ndtri(q))


def _log(y: np.ndarray) -> np.ndarray:
    """log y, and −∞ for y ≤ 0, where the distribution has nothing."""
    y = np.asarray(y, dtype=np.float64)
    return np.log(y, out=np.full(y.shape, -np.inf), where=y > 0)
