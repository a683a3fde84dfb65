"""What likelihoods of counts have in common: a rate, by a link from f, times the exposure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.links import RATE, rate_bend
from npvi.likelihoods.support import COUNTS
from npvi.runtime.lazy import jax, jnp

__all__ = ["Rates", "few_counts", "largest_count", "typical_count"]

#: counts above 0 that tell of the shape of their distribution
_MANY = 10


class Rates(Likelihood):
    """Counts with a rate λ = exposure · link(f).

    The link is exp(f), or "softplus", knee · log(1 + exp(f)/knee): exp(f) far below the knee, linear in f above it, so
    that means don't explode where f is hardly known. A knee is a matter of the model, not learned.
    """

    support = COUNTS
    extras = ("exposure",)
    static = ("link",)
    held = ("knee",)
    links = RATE
    link: str
    knee: Any

    def log_rate(self, f: jax.Array, exposure: jax.Array | float) -> jax.Array:
        """log λ, in JAX."""
        shift = self._shift(jnp)
        return shift + self.links[self.link].log_mean(f - shift) + jnp.log(exposure)

    def rate(self, f: jax.Array, exposure: jax.Array | float) -> jax.Array:
        """λ, in JAX."""
        shift = self._shift(jnp)
        return exposure * jnp.exp(shift) * self.links[self.link].mean(f - shift)

    def rate_numpy(self, f: np.ndarray, exposure: np.ndarray | float) -> np.ndarray:
        """λ, in NumPy; inf beyond float64."""
        shift = self._shift(np)
        with np.errstate(over="ignore"):
            mean = self.links[self.link].mean_numpy(np.asarray(f, dtype=np.float64) - shift)
            return exposure * np.exp(shift) * mean

    def rate_slopes(self, f: np.ndarray, exposure: np.ndarray | float) -> tuple[np.ndarray, tuple, tuple]:
        """log λ; λ, λ′ and λ″; (log λ)′ and (log λ)″: derivatives in f, in NumPy."""
        log_exposure = np.log(exposure)
        with np.errstate(over="ignore", under="ignore"):
            if self.link == "exp":
                rate = exposure * np.exp(f)
                return f + log_exposure, (rate, rate, rate), (1.0, 0.0)
            shift, scale = self._shift(np), exposure * self.knee
            g = f - shift
            small = np.exp(-np.abs(g))
            sigmoid = np.where(g < 0.0, small, 1.0) / (1.0 + small)
            mean = np.maximum(g, 0.0) + np.log1p(small)
            far = g < -36.0  # there log(log(1 + e^g)) is g to all digits, and e^g underflows in the end
            shown = np.where(far, 1.0, mean)
            first = np.where(far, 1.0, sigmoid / shown)
            second = np.where(far, 0.0, first * (1.0 - sigmoid - first))
            log_rate = shift + np.where(far, g, np.log(shown)) + log_exposure
            rates = scale * mean, scale * sigmoid, scale * sigmoid * (1.0 - sigmoid)
            return log_rate, rates, (first, second)

    def latent_of(self, rate: np.ndarray) -> np.ndarray:
        """The f with link(f) = rate, in NumPy."""
        shift = self._shift(np)
        return shift + self.links[self.link].inverse(rate / np.exp(shift))

    def latent_of_log_rate(self, exposure: np.ndarray | float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """The function (log λ, rows) → f, for log λ of shape (rows, nodes): see `Threshold`."""
        shift = np.log(exposure)

        def latent(log_rate: np.ndarray, rows: np.ndarray) -> np.ndarray:
            per_unit = log_rate - (shift[rows, None] if np.ndim(shift) else shift)
            if self.link == "exp":
                return per_unit
            with np.errstate(under="ignore", over="ignore", divide="ignore"):
                return self.latent_of(np.exp(per_unit))

        return latent

    def shared(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[dict, np.ndarray | float] | None:
        if self.link == "exp":
            return {}, np.log(exposure)
        return super().shared(exposure=np.atleast_1d(exposure))

    def initial_latent(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return self.latent_of(np.maximum(y, 0.5) / exposure)

    def latent_unit(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> float:
        if self.link == "exp":
            return 1.0
        return max(1.0, float(np.std(y / exposure)) / float(self.knee))

    def bend_at(self, rate: float, exposure: np.ndarray | float) -> tuple[float, float] | None:
        """Where log p bends that is singular at |λ| ≥ `rate` (see `Likelihood.bend`)."""
        knee = float(self.knee)
        found = rate_bend(self.link, rate, knee * np.asarray(exposure))
        return None if found is None else (found[0] + np.log(knee), found[1] + np.log(knee))

    def _shift(self, xp: Any) -> Any:
        """log knee, by which softplus is shifted to both sides."""
        return 0.0 if self.link == "exp" else xp.log(self.knee)


def largest_count(y: np.ndarray, exposure: np.ndarray | float) -> float:
    """The largest rate that counts are sure of, per unit of exposure: where a knee changes least of what was seen.

    Less a standard deviation of a count: a single event in next to no exposure is no rate.

    >>> largest_count(np.array([0.0, 1.0, 4.0, 100.0]), np.array([1.0, 1e-9, 1.0, 2.0]))
    45.0
    """
    sure = (y - np.sqrt(y)) / exposure
    return max(typical_count(y, exposure), float(np.max(sure, initial=0.0)))


def few_counts(y: np.ndarray, typical: float) -> list[tuple[float, float] | None]:
    """A normal prior, mean and standard deviation, of a parameter of the shape: `typical` if there is one count
    above 0, which says nothing of it, and the weaker the more there are.

    A shape that makes zeros of any rate leaves the rate open: next to nothing then says that it isn't a million.

    >>> few_counts(np.array([0.0, 0.0, 5.0]), 0.0), few_counts(np.arange(20.0), 0.0)
    ([(0.0, 1.0)], [None])
    """
    seen = int(np.count_nonzero(y))
    return [(typical, float(max(seen, 1))) if seen < _MANY else None]


def typical_count(y: np.ndarray, exposure: np.ndarray | float) -> float:
    """The mean of the counts that aren't 0, per unit of exposure: where a knee belongs.

    >>> typical_count(np.array([0.0, 0.0, 2.0, 4.0]), 1.0)
    3.0
    """
    seen = y > 0.0
    if not seen.any():
        return 1.0
    return float(np.sum(y[seen]) / np.sum(np.broadcast_to(exposure, np.shape(y))[seen]))
