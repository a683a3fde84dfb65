"""Poisson counts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from npvi.likelihoods.families.count_sums import by_terms
from npvi.likelihoods.families.rates import Rates
from npvi.likelihoods.families.scales import spread_of_exp
from npvi.likelihoods.families.thresholds import Threshold
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["Poisson", "poisson_cdf"]


class Poisson(Rates, name="poisson", about="counts"):
    """Poisson counts, y ~ Poisson(exposure · link(f)).

    Parameters
    ----------
    link : {"exp", "softplus"}
        exp(f), or knee · log(1 + exp(f)/knee), which grows only linearly beyond the knee.
    knee : float
        Where softplus turns from exp(f) to a straight line; not learned.

    Notes
    -----
    Takes `exposure` per row (area, hours of observation, population; 1 by default), which multiplies the
    mean.

    Examples
    --------
    >>> round(float(Poisson().log_prob(0.0, 0.0, exposure=3.0)), 4)
    -3.0
    """

    log_concave = True

    def __init__(self, link: str = "exp", knee: float = 1.0) -> None:
        self.link = link
        self.knee = knee

    def bend(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[float, float] | None:
        return self.bend_at(np.inf, exposure)

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return y * self.log_rate(f, exposure) - self.rate(f, exposure) - gammaln(y + 1.0)

    def conditional_mean(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self.rate(f, exposure)

    def conditional_variance(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self.conditional_mean(f, exposure)

    def log_prob_slopes(
        self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        log_rate, (rate, rate_1, rate_2), (log_1, log_2) = self.rate_slopes(f, exposure)
        return y * log_rate - rate - _log_factorial(y), y * log_1 - rate_1, y * log_2 - rate_2

    def conditional_moments(
        self, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rate = self.rate_numpy(f, exposure)
        return rate, rate

    def cdf(self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return poisson_cdf(y, self.rate_numpy(f, exposure))

    def threshold(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> Threshold:
        return Threshold(y + 1.0, None, self.latent_of_log_rate(exposure), self.link == "exp")

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        # NumPy refuses means beyond what its integers hold
        return rng.poisson(np.minimum(self.rate_numpy(f, exposure), 9e18)).astype(np.float64)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array
    ) -> jax.Array | None:
        if self.link != "exp":
            return None
        return y * (m + jnp.log(exposure)) - exposure * jnp.exp(m + 0.5 * v) - gammaln(y + 1.0)

    def expected_slopes(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[Any, ...] | None:
        if self.link != "exp":
            return None
        with np.errstate(over="ignore"):
            mean = exposure * np.exp(m + 0.5 * v)
        falling = -mean
        return y * (m + np.log(exposure)) - mean - _log_factorial(y), y - mean, falling, falling, falling

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        if self.link != "exp":
            return None
        m = m + np.log(exposure)
        with np.errstate(over="ignore"):  # beyond float64 the mean is inf
            mean = np.exp(m + 0.5 * v)
            return mean, mean + spread_of_exp(m, v)


def _log_factorial(y: np.ndarray) -> np.ndarray:
    """log y!: counts are small whole numbers, and there is a table of those."""
    if len(y) and y.min() >= 0.0 and y.max() < _TABLED:
        whole = y.astype(np.intp)
        if np.array_equal(whole, y):
            return _log_factorials()[whole]
    return special.gammaln(y + 1.0)


_TABLED = 1024


@lru_cache(maxsize=1)
def _log_factorials() -> np.ndarray:
    return special.gammaln(np.arange(1.0, 1.0 + _TABLED))


def poisson_cdf(y: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) for these means.

    >>> poisson_cdf(np.zeros(1), np.ones(1)).round(6)
    array([0.367879])
    """
    return by_terms(y, np.exp(-rate), rate, 1.0, 0.0, lambda y, rate, _: special.pdtr(y, rate), rate)
