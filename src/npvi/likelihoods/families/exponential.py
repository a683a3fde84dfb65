"""Waiting times."""

from __future__ import annotations

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import SMALLEST, exp_moments
from npvi.likelihoods.support import POSITIVE
from npvi.runtime.lazy import jax, jnp

__all__ = ["Exponential"]


class Exponential(Likelihood, name="exponential", about="positive numbers"):
    """Exponential responses with mean exp(f): waiting times at the rate exp(−f).

    Examples
    --------
    >>> round(float(Exponential().log_prob(2.0, 0.0)), 4)
    -2.0
    """

    support = POSITIVE
    log_concave = True

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        return -f - jnp.exp(jnp.log(y) - f)

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.exp(f)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.exp(2.0 * f)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return -np.expm1(-np.maximum(y, 0.0) * np.exp(-np.asarray(f)))

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.maximum(rng.exponential(np.exp(f)), SMALLEST)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return np.log(y)

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array:
        return -m - jnp.exp(jnp.log(y) - m + 0.5 * v)

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exp_moments(m, v, 1.0)
