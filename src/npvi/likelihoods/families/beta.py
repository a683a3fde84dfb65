"""Shares between 0 and 1."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import SMALLEST, noise_variance
from npvi.likelihoods.links import PROBABILITY
from npvi.likelihoods.support import UNIT
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["Beta"]

_LARGEST = 1.0 - 2.0**-53
_NEAR_EDGE = 18.0
"""Log-odds beyond which a share says little more of its mean."""
_LOGIT = PROBABILITY["logit"]


class Beta(Likelihood, name="beta", about="shares between 0 and 1"):
    """Shares strictly between 0 and 1 with mean μ = logistic(f): y ~ Beta(μ · concentration, (1 − μ) · concentration).

    Parameters
    ----------
    concentration : float
        The variance is μ(1 − μ)/(1 + concentration).

    Examples
    --------
    >>> round(float(Beta(concentration=2.0).log_prob(0.3, 0.0)), 4)  # uniform
    0.0
    """

    support = UNIT

    limits: ClassVar[dict[str, tuple[float, float]]] = {"concentration": (1e-2, 1e4)}

    def __init__(self, concentration: float = 10.0) -> None:
        self.concentration = concentration

    def bend(self, **row: np.ndarray) -> tuple[float, float]:
        # Γ(c·logistic(f)) has poles where its argument is −k: at f = −log(1 + c/k) ± iπ, k = 1, 2, …
        end = math.log1p(float(self.concentration))
        return -end, end

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        total = self.concentration
        a, b = total * _LOGIT.mean(f), total * _LOGIT.mean(-f)
        # Γ(a) = Γ(1 + a)/a, with log a from f: the digits of a are there when a itself underflows
        inverse_gammas = 2.0 * jnp.log(total) + _LOGIT.log_mean(f) + _LOGIT.log_mean(-f)
        inverse_gammas -= gammaln(1.0 + a) + gammaln(1.0 + b)
        return gammaln(total) + inverse_gammas + (a - 1.0) * jnp.log(y) + (b - 1.0) * jnp.log1p(-y)

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return _LOGIT.mean(f)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return _LOGIT.mean(f) * _LOGIT.mean(-f) / (1.0 + self.concentration)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f)
        return special.betainc(a, b, np.clip(y, 0.0, 1.0))

    def cdf_at(self, x: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # from the end that is nearer, where numbers have digits
        upper = np.asarray(x) > 0.0
        sign = np.where(upper, -1.0, 1.0)
        share = special.betainc(*self._shapes(sign * f), special.expit(sign * x))
        return np.where(upper, 1.0 - share, share)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # a share that rounds to 0 or 1 stays inside
        return np.clip(rng.beta(*self._shapes(f)), SMALLEST, _LARGEST)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # a share of 1e-300 asks for a shape far below 1, not for such a mean: f is about −log(concentration · 690)
        return np.clip(special.logit(y), -_NEAR_EDGE, _NEAR_EDGE)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise, mean = noise_variance(y), np.mean(y)
        return {} if noise is None else {"concentration": float(mean * (1.0 - mean) / noise - 1.0)}

    def _shapes(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f = np.asarray(f, dtype=np.float64)
        shapes = [np.maximum(self.concentration * special.expit(g), SMALLEST) for g in (f, -f)]
        return shapes[0], shapes[1]
