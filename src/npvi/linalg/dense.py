"""Dense positive definite matrices: few numbers, everything exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

__all__ = ["DenseFactor", "dense_factor"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class DenseFactor:
    """A⁻¹ = R Rᵀ of a positive definite matrix A.

    Attributes
    ----------
    inverse_root : R, upper triangular, shape (N, N)
    log_precision : log |A|
    """

    inverse_root: NDArray[np.float64]
    log_precision: float
    breakdowns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    finite: bool = True

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
    C, failed = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    log_precision = 2.0 * float(np.log(np.diag(C)).sum())
    inverse, _ = lapack.dtrtri(C, lower=1, overwrite_c=1)  # A⁻¹ = C⁻ᵀC⁻¹
    return DenseFactor(inverse.T, log_precision)
