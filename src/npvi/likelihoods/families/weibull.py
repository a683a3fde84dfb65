"""Lifetimes with a hazard that rises or falls."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import SMALLEST, exp_moments, log_variance
from npvi.likelihoods.support import POSITIVE
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["Weibull"]


class Weibull(Likelihood, name="weibull", about="positive numbers"):
    """Weibull responses with mean exp(f): P(y > t) = exp(−(t/scale)^shape), scale = exp(f)/Γ(1 + 1/shape).

    The scale is chosen so that exp(f) is the mean of y, as for the other positive responses, whatever the shape.

    Parameters
    ----------
    shape : float
        Below 1 the hazard falls with time, at 1 it is constant (exponential), above 1 it rises.

    Examples
    --------
    >>> round(float(Weibull(shape=1.0).log_prob(2.0, 0.0)), 4)
    -2.0
    """

    support = POSITIVE
    log_concave = True

    limits: ClassVar[dict[str, tuple[float, float]]] = {"shape": (1e-2, 1e3)}

    def __init__(self, shape: float = 1.0) -> None:
        self.shape = shape

    @property
    def resolution(self) -> float:
        """f enters as shape · f, in an exponential."""
        return 1.0 / float(self.shape)

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        power = self._log_power(y, f)
        return jnp.log(self.shape) + power - jnp.log(y) - jnp.exp(power)

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.exp(f)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        inverse = 1.0 / self.shape
        return jnp.exp(2.0 * f) * jnp.expm1(gammaln(1.0 + 2.0 * inverse) - 2.0 * gammaln(1.0 + inverse))

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        log_scale = np.asarray(f) - special.gammaln(1.0 + 1.0 / self.shape)
        with np.errstate(over="ignore"):
            return -np.expm1(-((np.maximum(y, 0.0) * np.exp(-log_scale)) ** self.shape))

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        scale = np.exp(f) / special.gamma(1.0 + 1.0 / self.shape)
        return np.maximum(scale * rng.weibull(self.shape, np.shape(scale)), SMALLEST)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return np.log(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = log_variance(y)
        return {} if noise is None else {"shape": np.pi / np.sqrt(6.0 * noise)}  # of log y: π²/6 shape²

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array:
        power = self._log_power(y, m)
        return jnp.log(self.shape) + power - jnp.log(y) - jnp.exp(power + 0.5 * self.shape**2 * v)

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inverse = 1.0 / np.asarray(self.shape)
        return exp_moments(m, v, np.expm1(special.gammaln(1.0 + 2.0 * inverse) - 2.0 * special.gammaln(1.0 + inverse)))

    def _log_power(self, y: jax.Array, f: jax.Array) -> jax.Array:
        """log (y/scale)^shape."""
        return self.shape * (jnp.log(y) - f + gammaln(1.0 + 1.0 / self.shape))
