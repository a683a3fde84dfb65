"""Poisson counts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.links import RATE, rate_bend
from npvi.likelihoods.support import COUNTS

__all__ = ["Poisson"]


class Poisson(Likelihood):
    """Poisson counts, y ~ Poisson(exposure · link(f)).

    Parameters
    ----------
    link : {"exp", "softplus"}
        exp(f), or log(1 + exp(f)), which grows only linearly.

    Notes
    -----
    Takes `exposure` per row (area, hours of observation, population; 1 by default), which multiplies the
    mean.

    Examples
    --------
    >>> round(float(Poisson().log_prob(0.0, 0.0, exposure=3.0)), 4)
    -3.0
    """

    support = COUNTS
    extras = ("exposure",)
    log_concave = True
    static = ("link",)
    links = RATE

    def __init__(self, link: str = "exp") -> None:
        self.link = link

    def bend(self, exposure: np.ndarray | float = 1.0, **row: Any) -> tuple[float, float] | None:
        return rate_bend(self.link, np.inf, exposure)

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        link = self.links[self.link]
        return y * (link.log_mean(f) + jnp.log(exposure)) - exposure * link.mean(f) - gammaln(y + 1.0)

    def conditional_mean(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        return exposure * self.links[self.link].mean(f)

    def conditional_variance(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        return self.conditional_mean(f, exposure)

    def cdf(self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: Any) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        return np.where(y < 0.0, 0.0, special.pdtr(np.maximum(np.floor(y), 0.0), self._rate(f, exposure)))

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: Any
    ) -> np.ndarray:
        # NumPy refuses means beyond what its integers hold
        return rng.poisson(np.minimum(self._rate(f, exposure), 9e18)).astype(np.float64)

    def initial_latent(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: Any) -> np.ndarray:
        return self.links[self.link].inverse(np.maximum(y, 0.5) / exposure)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, exposure: jax.Array | float = 1.0, **row: Any
    ) -> jax.Array | None:
        if self.link != "exp":
            return None
        return y * (m + jnp.log(exposure)) - exposure * jnp.exp(m + 0.5 * v) - gammaln(y + 1.0)

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, exposure: np.ndarray | float = 1.0, **row: Any
    ) -> tuple[np.ndarray, np.ndarray] | None:
        if self.link != "exp":
            return None
        with np.errstate(over="ignore"):  # beyond float64 the mean is inf
            mean = exposure * np.exp(m + 0.5 * v)
            return mean, mean + mean**2 * np.expm1(v)

    def _rate(self, f: np.ndarray, exposure: np.ndarray | float) -> np.ndarray:
        with np.errstate(over="ignore"):
            return exposure * self.links[self.link].mean_numpy(np.asarray(f, dtype=np.float64))
