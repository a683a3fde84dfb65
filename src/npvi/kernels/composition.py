"""Kernels made of kernels: sums, products, multiples."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from npvi.kernels.base import Frame, Kernel, Part
from npvi.runtime.lazy import jax

__all__ = ["Product", "Scaled", "Sum"]


class _Pair(Kernel):
    """Two kernels on the same inputs."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2

    def parts(self, X: np.ndarray, name: str = "") -> Iterator[Part]:
        yield from self.k1.parts(X, f"{name}k1__")
        for part in self.k2.parts(X, f"{name}k2__"):
            yield part._replace(factor=part.factor or isinstance(self, Product))

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        # Squared distances add, as they do in a product of RBFs; parts that see the same points share their
        # columns.
        merged = dict(self.k1.frames(X))
        for key, frame in self.k2.frames(X).items():
            shared = merged.get(key)
            merged[key] = frame if shared is None else Frame(shared.points, shared.precision + frame.precision)
        return merged


class Sum(_Pair):
    """k(x, z) = k1(x, z) + k2(x, z), written ``k1 + k2``: the sum of two independent functions.

    Examples
    --------
    >>> from npvi.kernels import RBF, Linear
    >>> RBF(length_scale=2.0) + Linear()
    Sum(k1=RBF(length_scale=2.0), k2=Linear())
    """

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.k1(x, z) + self.k2(x, z)


class Product(_Pair):
    """k(x, z) = k1(x, z) · k2(x, z), written ``k1 * k2``: points correlate only where both parts say so.

    Examples
    --------
    >>> from npvi.kernels import Matern12, Matern32, Subset
    >>> Subset(Matern32(length_scale=50.0), [0, 1]) * Subset(Matern12(length_scale=7.0), [2])  # space × time
    Product(k1=Subset(columns=(0, 1), kernel=Matern32(length_scale=50.0)),
            k2=Subset(columns=(2,), kernel=Matern12(length_scale=7.0)))
    """

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.k1(x, z) * self.k2(x, z)


class Scaled(Kernel):
    """k(x, z) = factor · kernel(x, z), written ``2.0 * kernel``.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> 2.0 * RBF()
    Scaled(factor=2.0, kernel=RBF())
    """

    def __init__(self, kernel: Kernel, factor: float = 1.0) -> None:
        self.kernel = kernel
        self.factor = factor

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.factor * self.kernel(x, z)

    def parts(self, X: np.ndarray, name: str = "") -> Iterator[Part]:
        for part in self.kernel.parts(X, f"{name}kernel__"):
            yield part._replace(factor=True)

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        return self.kernel.frames(X)
