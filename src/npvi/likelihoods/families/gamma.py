"""Positive responses with a gamma distribution."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import SMALLEST, exp_moments, log_variance
from npvi.likelihoods.families.thresholds import Threshold
from npvi.likelihoods.support import POSITIVE
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["Gamma"]


class Gamma(Likelihood, name="gamma", about="positive numbers"):
    """Gamma responses with mean exp(f): y ~ Gamma(shape, scale = exp(f)/shape).

    Errors are in proportion to the mean: the standard deviation is exp(f)/√shape.

    Parameters
    ----------
    shape : float
        1 is the exponential distribution; the larger, the nearer y is to its mean.

    Examples
    --------
    >>> round(float(Gamma(shape=1.0).log_prob(2.0, 0.0)), 4)
    -2.0
    """

    support = POSITIVE
    log_concave = True

    limits: ClassVar[dict[str, tuple[float, float]]] = {"shape": (1e-2, 1e4)}

    def __init__(self, shape: float = 1.0) -> None:
        self.shape = shape

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        return self._formula(y, f, jnp.exp(jnp.log(y) - f))

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.exp(f)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.exp(2.0 * f) / self.shape

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return special.gammainc(self.shape, self.shape * np.maximum(y, 0.0) * np.exp(-np.asarray(f)))

    def threshold(self, y: np.ndarray, **row: np.ndarray) -> Threshold:
        shape = np.full(len(y), float(self.shape))
        log_y = np.log(shape * y)
        return Threshold(shape, None, lambda u, rows: log_y[rows, None] - u)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.maximum(rng.gamma(self.shape, np.exp(f) / self.shape), SMALLEST)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return np.log(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = log_variance(y)
        return {} if noise is None else {"shape": 1.0 / noise + 0.5}  # of log y: about 1/(shape − ½)

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array:
        return self._formula(y, m, jnp.exp(jnp.log(y) - m + 0.5 * v))

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exp_moments(m, v, 1.0 / self.shape)

    def _formula(self, y: jax.Array, f: jax.Array, ratio: jax.Array) -> jax.Array:
        """The log-density, linear in f and in `ratio`, which is y e^−f or its expectation."""
        a = self.shape
        return a * (jnp.log(a) - f - ratio) + (a - 1.0) * jnp.log(y) - gammaln(a)
