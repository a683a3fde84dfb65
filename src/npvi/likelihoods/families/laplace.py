"""Noise whose log-density is −|y − f|: the median rather than the mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import robust_noise_variance, spread, without_outliers
from npvi.likelihoods.support import REAL
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import erf, jax, jnp

__all__ = ["Laplace"]


class Laplace(Likelihood, name="laplace", about="numbers with outliers"):
    """Laplace noise, p(y | f) = exp(−|y − f|/scale)/(2 scale): f is the median of y.

    Log-concave, but with a kink at f = y: the second derivative is 0 wherever there is one. What inference needs
    comes from the closed form of E|y − f|, which is smooth.

    Parameters
    ----------
    scale : float
        The mean of |y − f|; the variance is 2 scale².

    Examples
    --------
    >>> round(float(Laplace(scale=0.5).log_prob(0.0, 1.0)), 4)
    -2.0
    """

    support = REAL
    log_concave = True
    floors: ClassVar[dict[str, float]] = {"scale": 1e-3}

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @property
    def resolution(self) -> float:
        """A rule for smooth functions needs many nodes to get across a kink; the closed forms need none."""
        return 0.1 * float(self.scale)

    @property
    def start_sd(self) -> Number:
        return self.scale

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2.0 * self.scale)

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return f

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return 2.0 * self.scale**2 * jnp.ones_like(f)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        z = (np.asarray(y) - f) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def shared(self, **row: np.ndarray) -> None:  # a kink
        return None

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return rng.laplace(f, self.scale)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return without_outliers(y)

    def latent_unit(self, y: np.ndarray, **row: np.ndarray) -> float:
        return spread(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = robust_noise_variance(y)
        return {} if noise is None else {"scale": float(np.sqrt(0.5 * noise))}

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array:
        # E|f − y| = d (2Φ(d/s) − 1) + 2s φ(d/s)
        sd, d = jnp.sqrt(v), m - y
        z = d / sd
        distance = d * erf(z / jnp.sqrt(2.0)) + sd * jnp.sqrt(2.0 / jnp.pi) * jnp.exp(-0.5 * z**2)
        return -distance / self.scale - jnp.log(2.0 * self.scale)

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        d, v = y - m, self._not_zero(v)
        return np.logaddexp(self._log_side(d, v), self._log_side(-d, v)) - np.log(4.0 * self.scale)

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array(m), v + 2.0 * self.scale**2

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        d, v = y - m, self._not_zero(v)
        sides = np.exp(self._log_side(-d, v)) - np.exp(self._log_side(d, v))
        return np.clip(special.ndtr(d / np.sqrt(v)) + 0.25 * sides, 0.0, 1.0)

    def _not_zero(self, v: np.ndarray) -> np.ndarray:
        return np.maximum(v, 1e-24 * self.scale**2)

    def _log_side(self, d: np.ndarray, v: np.ndarray) -> np.ndarray:
        """log of exp(v/2b² − d/b) erfc(u), u = (s/b − d/s)/√2: twice the part of the density with f < y, times b.

        For u > 0 the exponential is huge and erfc(u) tiny; their product is exp(−d²/2v) erfcx(u).
        """
        s, b = np.sqrt(v), self.scale
        u = (s / b - d / s) / np.sqrt(2.0)
        right = -0.5 * d**2 / v + np.log(special.erfcx(np.maximum(u, 0.0)))
        return np.where(u > 0.0, right, 0.5 * v / b**2 - d / b + np.log(special.erfc(np.minimum(u, 0.0))))
