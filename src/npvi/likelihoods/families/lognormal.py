"""Log-normal noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.gaussian import normal_log_density
from npvi.likelihoods.families.scales import log_variance, spread_of_exp
from npvi.likelihoods.support import POSITIVE
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp

__all__ = ["LogNormal"]

#: exp(−f) may be as large as the mean's other factor, exp(variance/2)
_LARGEST_VARIANCE = 700.0


class LogNormal(Likelihood, name="lognormal", about="positive numbers"):
    """Log-normal noise, log y ~ N(f, variance): positive responses with errors in proportion.

    The density is that of y itself, so it has the factor 1/y. f is the log of the median, not of the mean,
    which is exp(f + variance/2).

    Parameters
    ----------
    variance : float
        Of log y given f, the same for all rows; this is what learning changes.

    Notes
    -----
    Takes `noise_variance` per row (0 by default): the known variance of each log y, added to `variance`. Predictions
    that are given none are of a measurement without error of its own.

    Examples
    --------
    >>> round(float(LogNormal(variance=1.0).log_prob(1.0, 0.0)), 4)
    -0.9189
    """

    support = POSITIVE
    extras = ("noise_variance",)
    log_concave = True
    floors: ClassVar[dict[str, float]] = {"variance": 1e-12}

    def __init__(self, variance: float = 0.01) -> None:
        self.variance = variance

    def validate(self) -> None:
        super().validate()
        if self.variance > _LARGEST_VARIANCE:
            raise ValueError(
                f"LogNormal: variance must be at most {_LARGEST_VARIANCE:g}, or the mean exp(f + variance/2) is no "
                f"number; it is that of log y, got {self.variance!r}"
            )

    def log_prob(self, y: jax.Array, f: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array) -> jax.Array:
        log_y, total = jnp.log(y), self.variance + noise_variance
        return -log_y - 0.5 * (jnp.log(2.0 * jnp.pi * total) + (log_y - f) ** 2 / total)

    def conditional_mean(self, f: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array) -> jax.Array:
        return jnp.exp(f + 0.5 * (self.variance + noise_variance))

    def conditional_variance(self, f: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array) -> jax.Array:
        total = self.variance + noise_variance
        return jnp.expm1(total) * jnp.exp(2.0 * f + total)

    def cdf(self, y: np.ndarray, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray) -> np.ndarray:
        return special.ndtr((_log(y) - f) / np.sqrt(self.variance + noise_variance))

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(rng.normal(f, np.sqrt(self.variance + noise_variance)))

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return np.log(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = log_variance(y)
        return {} if noise is None else {"variance": noise}

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array
    ) -> jax.Array | None:
        return self.log_prob(y, m, noise_variance=noise_variance) - 0.5 * v / (self.variance + noise_variance)

    def expected_slopes(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[Any, ...] | None:
        log_y, total = np.log(y), self.variance + noise_variance
        value = normal_log_density(log_y, m, total) - log_y - 0.5 * v / total
        return value, (log_y - m) / total, -1.0 / total, 0.0, 0.0

    def marginal_log_prob(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return normal_log_density(np.log(y), m, v + (self.variance + noise_variance)) - np.log(y)

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        total = v + (self.variance + noise_variance)
        # a latent variance of 800 has no finite mean in float64: inf says so
        with np.errstate(over="ignore"):
            return np.exp(m + 0.5 * total), spread_of_exp(m, total)

    def marginal_cdf(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return special.ndtr((_log(y) - m) / np.sqrt(v + (self.variance + noise_variance)))

    def marginal_quantile(
        self, q: float, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(m + np.sqrt(v + (self.variance + noise_variance)) * special.ndtri(q))


def _log(y: np.ndarray) -> np.ndarray:
    """log y, and −∞ for y ≤ 0, where the distribution has nothing."""
    y = np.asarray(y, dtype=np.float64)
    return np.log(y, out=np.full(y.shape, -np.inf), where=y > 0)
