"""A walk in time whose steps are independent."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from npvi.kernels.base import Frame, Kernel
from npvi.runtime.lazy import jax, jnp

__all__ = ["RandomWalk"]


class RandomWalk(Kernel):
    """k(t, t') = variance · (1 + min(t, t') − origin), of one input, from `origin` on: each unit of time adds a
    variance.

    Parameters
    ----------
    variance : float
        Of the first value, and of what a unit of time adds.
    origin : float
        The first time.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(RandomWalk(2.0, origin=10.0)(jnp.array([12.0]), jnp.array([11.0])))
    4.0
    """

    static = ("origin",)
    amplitude = "variance"

    def __init__(self, variance: float = 1.0, origin: float = 0.0) -> None:
        self.variance = variance
        self.origin = origin

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.variance * (1.0 + jnp.minimum(x, z)[0] - self.origin)

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        # two times are about as near as the share of the later one's variance that is new
        middle = 1.0 + float(np.median(X)) - self.origin if len(X) else 1.0
        return {"inputs": Frame(X, np.full(X.shape[1], 1.0 / middle))}
