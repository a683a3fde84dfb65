"""Gaussian noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families import scales
from npvi.likelihoods.support import REAL
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp

__all__ = ["Gaussian", "normal_log_density"]


def normal_log_density(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log N(y; mean, variance), in NumPy."""
    return -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)


class Gaussian(Likelihood, name="gaussian", about="numbers"):
    """Gaussian noise, y ~ N(f, variance + noise_variance).

    Parameters
    ----------
    variance : float
        Of the noise, the same for all rows; this is what learning changes.

    Notes
    -----
    Takes `noise_variance` per row (0 by default): the known variance of each measurement, added to `variance`, which
    may then be tiny. Predictions that are given none are of a measurement without error of its own.

    Examples
    --------
    >>> round(float(Gaussian(variance=1.0).log_prob(0.0, 0.0)), 4)  # -log(2 pi)/2
    -0.9189
    >>> round(float(Gaussian(variance=0.25).log_prob(0.0, 0.0, noise_variance=0.75)), 4)
    -0.9189
    """

    support = REAL
    extras = ("noise_variance",)
    log_concave = True
    floors: ClassVar[dict[str, float]] = {"variance": 1e-12}

    def __init__(self, variance: float = 0.01) -> None:
        self.variance = variance

    def log_prob(self, y: jax.Array, f: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array) -> jax.Array:
        total = self.variance + noise_variance
        return -0.5 * (jnp.log(2.0 * jnp.pi * total) + (y - f) ** 2 / total)

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return f

    def conditional_variance(self, f: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array) -> jax.Array:
        return (self.variance + noise_variance) * jnp.ones_like(f)

    def log_prob_slopes(
        self, y: np.ndarray, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        total = self.variance + noise_variance
        return normal_log_density(y, f, total), (y - f) / total, np.broadcast_to(-1.0 / total, np.shape(f))

    def conditional_moments(
        self, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return f, np.broadcast_to(self.variance + noise_variance, np.shape(f))

    def cdf(self, y: np.ndarray, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray) -> np.ndarray:
        return special.ndtr((np.asarray(y) - f) / np.sqrt(self.variance + noise_variance))

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return rng.normal(f, np.sqrt(self.variance + noise_variance))

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return np.array(y, dtype=np.float64)

    def latent_unit(self, y: np.ndarray, **row: np.ndarray) -> float:
        return scales.spread(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = scales.noise_variance(y)
        return {} if noise is None else {"variance": noise}

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, *, noise_variance: Any = 0.0, **row: jax.Array
    ) -> jax.Array | None:
        return self.log_prob(y, m, noise_variance=noise_variance) - 0.5 * v / (self.variance + noise_variance)

    def expected_slopes(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[Any, ...] | None:
        total = self.variance + noise_variance
        return normal_log_density(y, m, total) - 0.5 * v / total, (y - m) / total, -1.0 / total, 0.0, 0.0

    def marginal_log_prob(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return normal_log_density(y, m, v + (self.variance + noise_variance))

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.array(m), v + (self.variance + noise_variance)

    def marginal_cdf(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return special.ndtr((y - m) / np.sqrt(v + (self.variance + noise_variance)))

    def marginal_quantile(
        self, q: float, m: np.ndarray, v: np.ndarray, *, noise_variance: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        return m + np.sqrt(v + (self.variance + noise_variance)) * special.ndtri(q)
