"""Kernels that know no distance: a random constant and a random plane."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from npvi.kernels.base import Frame, Kernel
from npvi.runtime.lazy import jax, jnp

__all__ = ["Constant", "Linear"]


class Constant(Kernel, name="constant", about="one level"):
    """Constant kernel, k(x, z) = variance: one unknown number added to the whole function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(Constant(variance=4.0)(jnp.zeros(2), jnp.ones(2)))
    4.0
    """

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return jnp.asarray(self.variance) * jnp.ones((), x.dtype)

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        return {}


class Linear(Kernel, name="linear", about="straight"):
    """Linear kernel, k(x, z) = variance · xᵀz: planes through the origin. Add `Constant` for an intercept.

    Its correlation does not fall with distance, so it has no say in which points are neighbours.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(Linear(variance=0.5)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])))
    5.5
    """

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.variance * jnp.sum(x * z)

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        return {}
