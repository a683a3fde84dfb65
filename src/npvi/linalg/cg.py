"""Preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution", "conjugate_gradients", "solve_columns"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: iterations without progress after which to give up
_PATIENCE = 200
#: how much less than allowed an error must be by the preconditioner alone, which may think too little of it
_SURELY = 0.01


@dataclass(frozen=True)
class Solution:
    """Of A x = b: `x`, iterations taken, ‖b − A x‖/‖b‖ as the recursion has it, and whether that met the tolerance."""

    x: Vector
    iterations: int
    residual: float
    converged: bool


def conjugate_gradients(
    matvec: Callable[[Vector], Vector],
    rhs: Vector,
    precondition: Callable[[Vector], Vector],
    tolerance: float = 1e-10,
    max_iterations: int = 500,
    probation: int = 0,
) -> Solution:
    """Solve A x = rhs for a symmetric positive definite A, to ‖rhs − A x‖ ≤ tolerance·‖rhs‖.

    After `probation` iterations it goes on only if at this rate `max_iterations` will do.

    >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(A.dot, np.array([1.0, 2.0]), lambda r: r).x.round(4)
    array([0.0909, 0.6364])
    """
    x = np.zeros_like(rhs)
    residual = rhs.copy()
    goal = float(np.linalg.norm(rhs))
    if goal == 0.0:
        return Solution(x, 0, 0.0, True)
    z = precondition(residual)
    direction = z.copy()
    rz = residual @ z
    norm = 1.0
    lowest, lowest_at = norm, 0
    for iteration in range(1, max_iterations + 1):
        product = matvec(direction)
        curvature = direction @ product
        if not curvature > 0.0:  # rounding at the end of the road, or a preconditioner that isn't positive definite
            return Solution(x, iteration, norm, False)
        step = rz / curvature
        x += step * direction
        residual -= step * product
        norm = float(np.linalg.norm(residual)) / goal
        if norm <= tolerance:
            return Solution(x, iteration, norm, True)
        if iteration == probation and norm ** (max_iterations / probation) > tolerance:
            return Solution(x, iteration, norm, False)
        if norm < 0.9 * lowest:
            lowest, lowest_at = norm, iteration
        elif iteration - lowest_at > _PATIENCE:  # rounding is reached
            return Solution(x, iteration, norm, False)
        z = precondition(residual)
        rz, rz_before = residual @ z, rz
        direction = z + (rz / rz_before) * direction
    return Solution(x, max_iterations, norm, False)


def solve_columns(
    matvec: Callable[[Columns], Columns],
    rhs: Columns,
    precondition: Callable[[Columns], Columns],
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    start: Columns | None = None,
    unit: Callable[[Vector], Vector | float] | None = None,
) -> Columns | None:
    """A⁻¹ rhs for many columns at once, each with its own conjugate gradients; None where some don't converge.

    They begin at `start`, by default at 0, and end as those of `conjugate_gradients` do. A residual that is small
    beside the right-hand side says nothing of directions that A hardly holds, though. With a `unit` they end where the
    error in xᵀAx, as the last two steps tell it, is less than tolerance² times that: 1 for draws of N(0, A⁻¹), which
    then are off by no more than `tolerance` standard deviations whatever the direction; it may follow from the xᵀAx
    so far.

    >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> solve_columns(A.dot, np.array([[1.0, 0.0], [2.0, 0.0]]), lambda r: r).round(4)
    array([[0.0909, 0.    ],
           [0.6364, 0.    ]])
    """
    x = np.zeros_like(rhs) if start is None else start.copy()
    residual = rhs.copy() if start is None else rhs - matvec(x)
    goal, energy = np.linalg.norm(rhs, axis=0), np.einsum("ij,ij->j", x, rhs + residual)
    z = precondition(residual)
    direction, rz = z.copy(), np.einsum("ij,ij->j", residual, z)
    gain = before = np.full(len(goal), np.inf)
    for _ in range(max_iterations):
        if unit is None:
            open_ = np.linalg.norm(residual, axis=0) > tolerance * goal
        else:
            allowed = tolerance**2 * unit(energy)
            open_ = (gain + before > allowed) & (rz > _SURELY * allowed)
        if not open_.any():
            return x
        product = matvec(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        if not np.all(curvature[open_] > 0.0):
            return None
        step = np.where(open_, rz / np.where(open_, curvature, 1.0), 0.0)
        gain, before = np.where(open_, step * rz, gain), np.where(open_, gain, before)
        energy += np.where(open_, gain, 0.0)
        x += step * direction
        residual -= step * product
        z = precondition(residual)
        rz, rz_before = np.einsum("ij,ij->j", residual, z), rz
        direction = z + np.where(open_, rz / np.where(open_, rz_before, 1.0), 0.0) * direction
    return None
