"""Kernels that are functions of the scaled distance between two points."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from npvi.kernels.base import Frame, Kernel
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp

__all__ = ["Stationary", "safe_sqrt", "squared_distance"]


def squared_distance(x: jax.Array, z: jax.Array, length_scale: jax.Array | float | Sequence[float]) -> jax.Array:
    """r² = Σ_j (x_j − z_j)² / ℓ_j²."""
    return jnp.sum(((x - z) / jnp.asarray(length_scale)) ** 2)


def safe_sqrt(squared: jax.Array) -> jax.Array:
    """√squared, with derivative 0 instead of ∞ where it is 0.

    The inner ``where`` matters as much as the outer one: the derivative of the branch not taken would still
    be ∞, and 0 · ∞ is not a number.
    """
    positive = squared > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


class Stationary(Kernel):
    """Kernels with one length scale for all inputs, or one per input (ARD), and a variance."""

    amplitude = "variance"
    length_scale: float | Sequence[float]
    variance: float

    def __init__(self, length_scale: float | Sequence[float] = 1.0, variance: float = 1.0) -> None:
        self.length_scale = length_scale
        self.variance = variance

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.variance * self.correlation(squared_distance(x, z, self.length_scale))

    def correlation(self, r2: jax.Array) -> jax.Array:
        """The correlation at squared scaled distance r² = Σ_j (x_j − z_j)² / ℓ_j²."""
        raise NotImplementedError

    def validate(self, n_inputs: int) -> None:
        super().validate(n_inputs)
        self._check_one_per_input("length_scale", n_inputs)

    def start(self, X: np.ndarray) -> dict[str, np.ndarray]:
        # a good part of how far the points are spread
        sd = np.std(X, axis=0)
        return {"length_scale": 0.5 * np.sqrt(X.shape[1]) * np.where(sd > 0.0, sd, 1.0)}

    def limits(self, X: np.ndarray) -> dict[str, tuple[Number, Number]]:
        # beyond, all points are independent, or all are equal
        extent = np.ptp(X, axis=0)
        extent = np.where(extent > 0.0, extent, 1.0)
        extent = extent if np.ndim(self.length_scale) else extent.max()
        return {
            "length_scale": (1e-5 * extent, 1e2 * extent),
            "variance": (1e-6 * self.variance, 1e4 * self.variance),
        }

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        precision = np.asarray(self.length_scale, dtype=np.float64) ** -2
        return {"inputs": Frame(X, np.broadcast_to(precision, X.shape[1:]))}
