"""Counts whose zeros follow a rule of their own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.poisson import poisson_cdf
from npvi.likelihoods.families.rates import Rates
from npvi.parameters import Interval
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["HurdlePoisson"]


class HurdlePoisson(Rates, name="hurdle_poisson", about="counts with many zeros"):
    """0 with probability `zero`, else a Poisson(λ) count known not to be 0, with λ = exposure · link(f).

    A zero says nothing about f: f is about how large the other counts are.

    Parameters
    ----------
    zero : float
        Probability of a zero, between 0 and 1.
    link : {"exp", "softplus"}
        exp(f), or knee · log(1 + exp(f)/knee), which grows only linearly beyond the knee.
    knee : float
        Where softplus turns from exp(f) to a straight line; not learned.

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies λ.

    Examples
    --------
    >>> round(float(HurdlePoisson(zero=0.5).log_prob(1.0, -50.0)), 4)  # a tiny λ leaves only 0 and 1
    -0.6931
    """

    log_concave = True
    resolution = 0.5  # expm1(λ) = 0 at λ = ±2πi, which is f = log 2π ± iπ/2
    domains: ClassVar = {"zero": Interval(0.0, 1.0)}

    def __init__(self, zero: float = 0.5, link: str = "exp", knee: float = 1.0) -> None:
        self.zero = zero
        self.link = link
        self.knee = knee

    def bend(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[float, float] | None:
        return self.bend_at(2.0 * np.pi, exposure)

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        rate, log_rate = self.rate(f, exposure), self.log_rate(f, exposure)
        count = (y - 1.0) * log_rate - rate - _log_share(rate) - gammaln(y + 1.0)
        return jnp.where(y > 0.0, jnp.log1p(-self.zero) + count, jnp.log(self.zero))

    def conditional_mean(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return (1.0 - self.zero) * jnp.exp(-_log_share(self.rate(f, exposure)))

    def conditional_variance(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        rate = self.rate(f, exposure)
        mean = jnp.exp(-_log_share(rate))
        # E[y²] − E[y]² without the cancellation, for counts with mean λ / (1 − e^−λ)
        return (1.0 - self.zero) * mean * (1.0 + self.zero * mean - jnp.exp(-rate - _log_share(rate)))

    def cdf(self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        at, (y, rate) = y, np.broadcast_arrays(np.floor(np.asarray(y, dtype=np.float64)), self.rate_numpy(f, exposure))
        k, positive = np.maximum(y, 0.0), np.clip(rate, 1e-300, None)
        some = -np.expm1(-positive)
        count = (poisson_cdf(at, positive) - np.exp(-positive)) / some
        small = rate < 0.1  # there the difference has few digits
        count[small] = 1.0 - special.pdtrc(k[small], positive[small]) / some[small]
        count[y < 1.0] = 0.0
        return np.where(y < 0.0, 0.0, self.zero + (1.0 - np.asarray(self.zero)) * count)

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        rate = self.rate_numpy(f, exposure)
        # events at unit rate over a time λ: the first one, given that there is one, and those after it
        first = -np.log1p(rng.random(np.shape(rate)) * np.expm1(-rate))
        count = 1.0 + rng.poisson(np.clip(rate - first, 0.0, 9e18))
        return np.where(rng.random(np.shape(rate)) < self.zero, 0.0, count)

    def beside_zeros(self) -> tuple[float, Likelihood] | None:
        return float(self.zero), _PositivePoisson(0.0, self.link, self.knee)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        return {"zero": float((np.sum(y == 0.0) + 0.5) / (len(y) + 1.0))}


class _PositivePoisson(HurdlePoisson):
    """Those that are not 0."""

    def beside_zeros(self) -> None:
        return None


def _log_share(rate: jax.Array) -> jax.Array:
    """log((1 − e^−λ) / λ), to all digits for small λ."""
    small = rate < 0.01
    # each branch sees only what it is good for: the other is differentiated too, and must stay a number
    smaller, larger = jnp.where(small, rate, 0.0), jnp.where(small, 1.0, rate)
    series = -smaller / 2.0 + smaller**2 / 24.0 - smaller**4 / 2880.0
    return jnp.where(small, series, jnp.log(-jnp.expm1(-larger)) - jnp.log(larger))
