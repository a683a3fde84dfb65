"""Counts that vary more than Poisson ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.families.count_sums import by_terms
from npvi.likelihoods.families.rates import Rates, few_counts
from npvi.likelihoods.families.scales import spread_of_exp
from npvi.likelihoods.families.thresholds import Threshold
from npvi.likelihoods.integrals.log_gamma import log_rising_ratio
from npvi.likelihoods.integrals.logistic_normal import LARGEST_FACTOR, expected_softplus
from npvi.likelihoods.links import softplus
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp

__all__ = ["NegativeBinomial", "initial_dispersion"]


class NegativeBinomial(Rates, name="negative_binomial", about="counts"):
    """Negative binomial counts with mean μ = exposure · link(f) and variance μ + μ²/dispersion.

    Parameters
    ----------
    dispersion : float
        The larger, the closer to Poisson.
    link : {"exp", "softplus"}
        exp(f), or knee · log(1 + exp(f)/knee), which grows only linearly beyond the knee.
    knee : float
        Where softplus turns from exp(f) to a straight line; not learned.

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies the mean.

    Examples
    --------
    >>> round(float(NegativeBinomial(dispersion=1.0).log_prob(0.0, 0.0)), 4)  # geometric: log(1/2)
    -0.6931
    """

    limits: ClassVar[dict[str, tuple[float, float]]] = {"dispersion": (1e-2, 1e4)}

    def __init__(self, dispersion: float = 1.0, link: str = "exp", knee: float = 1.0) -> None:
        self.dispersion = dispersion
        self.link = link
        self.knee = knee

    @property
    def log_concave(self) -> bool:
        # far right log p falls like −dispersion · log(mean): a straight line for exp, convex for softplus
        return self.link == "exp"

    def bend(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[float, float] | None:
        return self.bend_at(float(self.dispersion), exposure)  # log(1 + λ/r) at λ = −r

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        log_odds = self.log_rate(f, exposure) - jnp.log(self.dispersion)
        return self._constant(y) - y * softplus(-log_odds) - self.dispersion * softplus(log_odds)

    def _constant(self, y: jax.Array) -> jax.Array:
        return log_rising_ratio(self.dispersion, y)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array
    ) -> jax.Array | None:
        if self.link != "exp":
            return None
        log_odds = m + jnp.log(exposure) - jnp.log(self.dispersion)
        return self._constant(y) + y * log_odds - (y + self.dispersion) * expected_softplus(log_odds, v)

    def keeps_digits(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return y + float(self.dispersion) <= LARGEST_FACTOR

    def conditional_mean(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self.rate(f, exposure)

    def conditional_variance(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        mean = self.conditional_mean(f, exposure)
        return mean + mean**2 / self.dispersion

    def cdf(self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        r = float(self.dispersion)
        ratio = self.rate_numpy(f, exposure) / r
        with np.errstate(divide="ignore"):
            x = 1.0 / (1.0 + 1.0 / ratio)
        return by_terms(y, np.exp(-r * np.log1p(ratio)), x, r, 1.0, _beyond, 1.0 / (1.0 + ratio))

    def threshold(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> Threshold:
        dispersion = np.full(len(y), float(self.dispersion))
        return Threshold(y + 1.0, dispersion, self.latent_of_log_rate(exposure / dispersion), self.link == "exp")

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        r = np.asarray(self.dispersion, dtype=np.float64)
        rate = rng.gamma(r, np.minimum(self.rate_numpy(f, exposure), 1e300) / r)
        # NumPy refuses means beyond what its integers hold
        return rng.poisson(np.minimum(rate, 9e18)).astype(np.float64)

    def initial_parameters(
        self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> dict[str, Number]:
        return {"dispersion": initial_dispersion(y, exposure)}

    def unseen(self, y: np.ndarray) -> dict[str, list[tuple[float, float] | None]]:
        return {"dispersion": few_counts(y, 0.0)}

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        if self.link != "exp":
            return None
        m = m + np.log(exposure)
        with np.errstate(over="ignore"):  # beyond float64 the mean is inf
            mean = np.exp(m + 0.5 * v)
            spread = spread_of_exp(m, v)  # of the rate, whose square has the mean spread + mean²
            return mean, mean + spread + (spread + mean**2) / self.dispersion


def initial_dispersion(y: np.ndarray, exposure: np.ndarray | float) -> float:
    """Dispersion that explains half of what the variance of `y` has beyond Poisson; the other half is left to f.

    >>> initial_dispersion(np.array([0.0, 0.0, 0.0, 8.0]), 1.0)
    0.8
    """
    exposure = np.broadcast_to(exposure, np.shape(y))
    mean = exposure * max(float(np.sum(y) / np.sum(exposure)), 1e-300)
    excess = 0.5 * float(np.sum((y - mean) ** 2 - mean))
    return float(np.clip(np.sum(mean**2) / max(excess, 1e-300), 0.01, 1000.0))


def _beyond(y: np.ndarray, share: np.ndarray, r: np.ndarray) -> np.ndarray:
    return special.betainc(r, y + 1.0, share)
