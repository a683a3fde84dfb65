"""Kernels on arrays: compiled once per kind of kernel, in bounded memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npvi.kernels.base import Kernel
from npvi.kernels.stationary import Stationary
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit

__all__ = ["diagonal", "evaluate", "evaluate_distances", "matrix"]

_LARGEST = 2**17


@jit(static_argnums=0)
def _pairs(structure: Any, leaves: list, X: jax.Array, Z: jax.Array) -> tuple[jax.Array]:
    kernel = jax.tree.unflatten(structure, leaves)
    return (jax.vmap(lambda x, z: kernel(x, z))(X, Z),)  # JAX prints what it is given: of a kernel, all of it


def evaluate(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """k(X[i], Z[i]) for every row i.

    Pairs are handled in chunks padded to a power of two, and parameters are arguments of the compiled
    function: neither a new number of pairs nor new parameter values compile anything.

    Parameters
    ----------
    kernel : Kernel
    X, Z : array of shape (M, d)

    Returns
    -------
    array of shape (M,)

    Examples
    --------
    >>> from npvi.kernels import Linear
    >>> evaluate(Linear(), np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2)))
    array([3., 7.])
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    # The kernel is taken apart here, not by jit, so that it happens once and not once per chunk.
    leaves, structure = jax.tree.flatten(kernel)
    return map_rows(partial(_pairs, structure, leaves), (X, Z), largest=_LARGEST)[0]


@jit(static_argnums=0)
def _distances(structure: Any, leaves: list, r2: jax.Array) -> tuple[jax.Array]:
    kernel = jax.tree.unflatten(structure, leaves)
    return (kernel.variance * kernel.correlation(r2),)


def evaluate_distances(kernel: Stationary, r2: np.ndarray) -> np.ndarray:
    """The covariance at each squared scaled distance r² = Σ_j (x_j − z_j)²/ℓ_j²; shape (M,).

    For many pairs of points in many dimensions, far fewer bytes than `evaluate` has to read.

    >>> from npvi.kernels import RBF
    >>> evaluate_distances(RBF(length_scale=3.0), np.array([0.0, 2.0])).round(4)
    array([1.    , 0.3679])
    """
    leaves, structure = jax.tree.flatten(kernel)
    return map_rows(partial(_distances, structure, leaves), (r2,), largest=_LARGEST)[0]


def diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """k(X[i], X[i]) for every row i: the prior variances, of shape (N,).

    >>> from npvi.kernels import RBF
    >>> diagonal(RBF(variance=2.0), np.zeros((3, 1)))
    array([2., 2., 2.])
    """
    return evaluate(kernel, X, X)


def matrix(kernel: Kernel, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    """The dense matrix of k(X[i], Z[j]), of shape (N, M); Z is X where not given.

    >>> from npvi.kernels import RBF
    >>> matrix(RBF(), np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """
    X = np.asarray(X, dtype=np.float64)
    Z = X if Z is None else np.asarray(Z, dtype=np.float64)
    out = np.empty((len(X), len(Z)))
    step = max(1, _LARGEST // max(1, len(Z)))
    for start in range(0, len(X), step):
        block = X[start : start + step]
        values = evaluate(kernel, np.repeat(block, len(Z), axis=0), np.tile(Z, (len(block), 1)))
        out[start : start + step] = values.reshape(len(block), len(Z))
    return out
