"""Components of few numbers: a dense precision, and a matrix A of any kind."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.linalg import DenseFactor, dense_factor

__all__ = ["Dense"]

Vector = NDArray[np.float64]

#: eigenvalues of a precision that count as none, relative to the largest
_NONE = 1e-10


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
        """Of P + AᵀWA; None where w < 0 leaves none, or nothing is known of a direction."""
        return dense_factor(self.precision + self.information(site_precision))

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

    @cached_property
    def _sparse(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.seen)

    @cached_property
    def _spectrum(self) -> tuple[Vector, NDArray[np.float64]]:
        values, vectors = np.linalg.eigh(self.precision)
        return np.where(values > _NONE * values.max(initial=0.0), values, 0.0), vectors
