"""Components of few numbers: a dense precision, and a matrix A of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.linalg import DenseFactor, dense_factor, stacked_factor

__all__ = ["Dense"]

Vector = NDArray[np.float64]

#: eigenvalues of a precision that count as none, relative to the largest
_NONE = 1e-10
#: rows of A that are held at a time, in units of its columns
_AT_A_TIME = 4
#: nats that rounding may leave a determinant off by
_ROUNDED = 1e-7


class Dense:
    """z ~ N(0, P⁻¹) with a dense P, of which rows of the data see A z.

    Parameters
    ----------
    seen : A, shape (rows, size), dense or sparse.
    precision : P, shape (size, size); directions that it says nothing of have a flat prior.

    Examples
    --------
    >>> part = Dense(np.array([[1.0, 0.0], [1.0, 1.0]]), np.diag([0.0, 4.0]))
    >>> part.times(np.array([1.0, 2.0])), part.quadratic(np.array([5.0, 1.0])), part.row_variance(100.0)
    (array([1., 3.]), 4.0, array([100.  , 100.25]))
    """

    few: ClassVar[bool] = True

    def __init__(self, seen: Any, precision: NDArray[np.float64]) -> None:
        self.seen, self.precision = seen, np.asarray(precision, dtype=np.float64)

    @property
    def size(self) -> int:
        """Of z."""
        return len(self.precision)

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z, for one vector (size,) or many (size, R)."""
        return self.seen @ z

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        return self.seen.T @ x

    def of_rows(self, rows: NDArray[np.intp]) -> Dense:
        """The same z, seen by some of the rows."""
        return Dense(self.seen[rows], self.precision)

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P z."""
        return self.precision @ z

    def quadratic(self, z: Vector) -> float:
        """zᵀ P z."""
        return float(z @ self.precision @ z)

    @property
    def logdet(self) -> float:
        """log |P⁻¹|; less 2π for each flat direction, which has a density of 1 all over."""
        values, _ = self._spectrum
        flat = values == 0.0
        return -float(np.log(values[~flat]).sum() + np.log(2.0 * np.pi) * flat.sum())

    def row_variance(self, widest: float) -> Vector:
        """Prior variances of A z, shape (rows,); a flat direction counts as one with the variance `widest`."""
        values, vectors = self._spectrum
        variance = np.minimum(1.0 / np.maximum(values, 1.0 / widest), widest)
        return np.asarray((self.seen @ vectors) ** 2 @ variance)

    def precision_noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Random vectors with covariance P, shape (size, n)."""
        values, vectors = self._spectrum
        return vectors @ (np.sqrt(values)[:, None] * rng.standard_normal((self.size, n)))

    def gradient(
        self, slope: NDArray[np.float64], functions: NDArray[np.float64], factor: DenseFactor | None = None
    ) -> float:
        """∂/∂θ of E log p(z), `slope` being ∂P/∂θ: for E zzᵀ = `factor`⁻¹ + functions functionsᵀ."""
        values, vectors = self._spectrum
        proper = vectors[:, values > 0.0] / np.sqrt(values[values > 0.0])
        found = np.sum(proper * (slope @ proper)) - np.sum(functions * (slope @ functions))
        if factor is not None:
            found -= np.sum(factor.inverse_root * (slope @ factor.inverse_root))
        return 0.5 * float(found)

    def factor(self, site_precision: Vector) -> DenseFactor | None:
        """Of P + AᵀWA; None where w < 0 leaves none, or nothing is known of a direction.

        Where data are strong and several parts see the same, what the sum of these matrices is in directions that data
        don't see may be lost to rounding: then by their roots.
        """
        found = dense_factor(self.precision + self.information(site_precision))
        if site_precision.min(initial=0.0) < 0.0 or (found is not None and found.rounding <= _ROUNDED):
            return found
        return stacked_factor(self._roots(site_precision))

    def _roots(self, site_precision: Vector) -> Iterator[NDArray[np.float64]]:
        """Matrices of which the sum of all BᵀB is P + AᵀWA, the largest rows, which rounding is relative to, first."""
        strongest = np.argsort(-site_precision, kind="stable")
        strongest = strongest[site_precision[strongest] > 0.0]
        for some in np.array_split(strongest, max(1, len(strongest) // (_AT_A_TIME * max(self.size, 1)))):
            yield (self.matrix()[some].multiply(np.sqrt(site_precision[some])[:, None])).toarray()
        yield self.precision_root()

    def information(self, site_precision: Vector) -> NDArray[np.float64]:
        """AᵀWA, dense."""
        weighted = self.matrix().multiply(site_precision[:, None])
        return np.asarray((self.matrix().T @ weighted).toarray())

    def within_rows(self, factor: DenseFactor) -> Vector:
        """The diagonal of A (P + AᵀWA)⁻¹ Aᵀ, shape (rows,)."""
        return np.sum(np.asarray(self.seen @ factor.inverse_root) ** 2, axis=1)

    def matrix(self) -> scipy.sparse.csr_array:
        """A, a sparse matrix."""
        return self._sparse

    def precision_matrix(self) -> NDArray[np.float64]:
        """P."""
        return self.precision

    def precision_root(self) -> NDArray[np.float64]:
        """T with P = TᵀT."""
        values, vectors = self._spectrum
        return np.asarray(np.sqrt(values)[:, None] * vectors.T)

    @cached_property
    def _sparse(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.seen)

    @cached_property
    def _spectrum(self) -> tuple[Vector, NDArray[np.float64]]:
        values, vectors = np.linalg.eigh(self.precision)
        return np.where(values > _NONE * values.max(initial=0.0), values, 0.0), vectors
