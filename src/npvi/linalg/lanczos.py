"""Functions of a matrix that is nearly the identity, by Lanczos' method, for many vectors at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rooted", "inverse_root"]

Columns = NDArray[np.float64]

#: an element beside the diagonal that is small
_NEAR = 0.1


class Rooted(NamedTuple):
    """What `inverse_root` found, column by column."""

    root: Columns
    """M^{−½} x."""
    logarithm: NDArray[np.float64]
    """xᵀ log(M) x."""
    departure: NDArray[np.float64]
    """‖M x − x‖ / ‖x‖: how far M is from the identity, as x sees it."""
    steps: int
    """Products with M."""


def inverse_root(
    matvec: Callable[[Columns], Columns],
    x: Columns,
    tolerance: float = 1e-2,
    max_steps: int = 30,
    rooted: bool = True,
    left: bool = False,
) -> Rooted:
    """M^{−½} x and xᵀ log(M) x for every column of x, M symmetric positive definite and near the identity.

    Each step is one product with M. It stops when the last step changed no column of M^{−½} x by more than `tolerance`
    of its size; with `left`, when what it leaves out, about that change times the departure, is no more. Without the
    root, which has no columns then, no more than two vectors for each are held.

    >>> M = np.diag([0.5, 1.0, 2.0])
    >>> found = inverse_root(M.dot, np.ones((3, 1)), tolerance=1e-12)
    >>> found.root.ravel().round(4), found.logarithm.round(12) + 0.0
    (array([1.4142, 1.    , 0.7071]), array([0.]))
    """
    size = np.linalg.norm(x, axis=0)
    basis = [x / size]
    diagonals: list[NDArray] = []
    below: list[NDArray] = []
    before = np.zeros((1, x.shape[1]))
    departure = np.zeros(x.shape[1])
    # a Krylov space can't be larger than the space itself
    for step in range(1, min(max_steps, len(x)) + 1):
        product = matvec(basis[-1])
        diagonals.append(np.einsum("ij,ij->j", basis[-1], product))
        product = product - diagonals[-1] * basis[-1]
        if below:
            product -= below[-1] * basis[-2]
        norm = np.linalg.norm(product, axis=0)
        if not np.isfinite(norm).all():  # M is beyond all bounds
            return Rooted(np.full_like(x, np.nan), np.full(len(size), np.nan), np.full(len(size), np.inf), step)
        if step == 1:
            departure = np.hypot(diagonals[0] - 1.0, norm)
        root, logarithm = _tridiagonal(np.array(diagonals), np.array(below).reshape(step - 1, x.shape[1]), norm)
        change = np.linalg.norm(
            root - np.concatenate([before, np.zeros((len(root) - len(before), root.shape[1]))]), axis=0
        )
        exhausted = np.all(norm <= 1e-12)
        # the first step has nothing to compare with: there the departure itself says how far off it is
        off = departure if step == 1 else change / np.linalg.norm(root, axis=0) * (departure if left else 1.0)
        done = off.max() <= tolerance
        if done or exhausted or step == min(max_steps, len(x)):
            break
        before = root
        below.append(norm)
        basis.append(product / np.where(norm > 0.0, norm, 1.0))
        if not rooted:
            del basis[:-2]
    if not rooted:
        return Rooted(x[:, :0], logarithm * size**2, departure, step)
    total = sum(coefficient * vector for coefficient, vector in zip(root, basis))
    return Rooted(np.asarray(total) * size, logarithm * size**2, departure, step)


def _tridiagonal(diagonals: NDArray, below: NDArray, next_below: NDArray) -> tuple[NDArray, NDArray]:
    """T^{−½} e₁ (steps, columns) and e₁ᵀ log(T) e₁ (columns) for one tridiagonal matrix T per column.

    The logarithm is that of T with the row which the next step would add, whose diagonal is nearly 1: a sum over all
    rows, of which half the square of what is left out is many nats.
    """
    steps, columns = diagonals.shape
    T = np.zeros((columns, steps + 1, steps + 1))
    at = np.arange(steps)
    T[:, at, at] = diagonals.T
    T[:, at[1:], at[:-1]] = below.T
    root = _first_column(T[:, :steps, :steps], lambda values: 1.0 / np.sqrt(values))
    T[:, steps, steps] = 1.0
    T[:, steps, steps - 1] = np.where(next_below < _NEAR, next_below, 0.0)  # of others the next diagonal isn't known
    return root.T, _first_column(T, np.log)[:, 0]


def _first_column(T: NDArray, function: Callable[[NDArray], NDArray]) -> NDArray:
    """That of a function of each matrix, (columns, steps)."""
    values, vectors = np.linalg.eigh(T)  # reads the lower triangle
    return np.einsum("cij,cj->ci", vectors, vectors[:, 0, :] * function(np.maximum(values, 1e-12)))
