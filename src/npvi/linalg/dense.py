"""Dense positive definite matrices: few numbers, everything exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

__all__ = ["DenseFactor", "dense_factor", "stacked_factor"]

Vector = NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class DenseFactor:
    """A⁻¹ = R Rᵀ of a positive definite matrix A.

    Attributes
    ----------
    inverse_root : R, upper triangular, shape (N, N)
    log_precision : log |A|
    rounding : how far rounded numbers may leave log |A| off, about: what is left of a diagonal entry, once all before
        it is taken from it, has the rounding error of the entry itself
    """

    inverse_root: NDArray[np.float64]
    log_precision: float
    breakdowns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    finite: bool = True
    rounding: float = 0.0

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """A⁻¹ x, for one vector (N,) or many (N, R)."""
        return self.inverse_root @ (self.inverse_root.T @ x)

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rᵀ x."""
        return self.inverse_root.T @ x

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R x."""
        return self.inverse_root @ x

    def inverse_diagonal(self) -> Vector:
        """The diagonal of A⁻¹."""
        return self.variance

    @cached_property
    def variance(self) -> Vector:
        """The diagonal of A⁻¹."""
        inverse = self.inverse_root.T
        return np.einsum("ij,ij->j", inverse, inverse)

    def log_determinant(self) -> float:
        """log |A|."""
        return self.log_precision


def dense_factor(matrix: NDArray[np.float64], diagonal: Vector | float = 0.0) -> DenseFactor | None:
    """Of a matrix with something added to its diagonal; None where that isn't positive definite.

    >>> dense_factor(np.array([[3.0, 1.0], [1.0, 3.0]]), np.array([1.0, 1.0])).variance.round(4)
    array([0.2667, 0.2667])
    >>> dense_factor(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    True
    """
    matrix = np.array(matrix, order="F")
    matrix[np.diag_indices(len(matrix))] += diagonal
    entries = matrix.diagonal().copy()
    C, failed = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    left = np.diag(C).copy()
    log_precision, rounding = 2.0 * float(np.log(left).sum()), _EPSILON * float(np.sum(entries / left**2))
    inverse, _ = lapack.dtrtri(C, lower=1, overwrite_c=1)  # A⁻¹ = C⁻ᵀC⁻¹
    return DenseFactor(inverse.T, log_precision, rounding=rounding)


def stacked_factor(blocks: Iterable[NDArray[np.float64]]) -> DenseFactor | None:
    """Of Σ BᵀB for some blocks B of rows, which is never formed; None where its columns aren't independent.

    Half of the digits of BᵀB are lost where B's singular values are far from each other. Orthogonal transformations of
    B itself keep them.

    >>> near = np.array([[1e8, 1e8], [1.0, 0.0]])  # BᵀB rounded is singular
    >>> factor = stacked_factor([near])
    >>> round(float(factor.log_determinant() / np.log(1e8)), 12), factor.solve(near.T @ np.array([0.0, 1.0])).round(8)
    (2.0, array([ 1., -1.]))
    >>> dense_factor(near.T @ near) is None, stacked_factor([np.ones((3, 2))]) is None
    (True, True)
    """
    held: NDArray[np.float64] | None = None
    for block in blocks:
        held = np.asarray(np.linalg.qr(block if held is None else np.vstack([held, block]), mode="r"))
    if held is None or held.shape[0] < held.shape[1]:
        return None
    diagonal = np.abs(np.diag(held))
    if not (diagonal > len(held) * _EPSILON * np.linalg.norm(held, axis=0)).all():
        return None
    inverse, _ = lapack.dtrtri(held, lower=0)
    return DenseFactor(inverse, 2.0 * float(np.log(diagonal).sum()))
