"""What a component of the linear predictor answers: the same questions, whatever its prior is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["Component", "ComponentFactor", "Rows"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """A with one number in each row: row i of the data sees weight_i z[at_i].

    Attributes
    ----------
    size : of z.
    at : which number of z each row sees, shape (rows,); None where row i sees number i.
    weight : what it is multiplied with, shape (rows,); None for 1.

    Examples
    --------
    >>> rows = Rows(2, np.array([0, 1, 1]), np.array([1.0, 1.0, 2.0]))
    >>> rows.times(np.array([10.0, 20.0]))
    array([10., 20., 40.])
    >>> rows.transpose_times(np.ones(3)), rows.information(np.ones(3))
    (array([1., 3.]), array([1., 5.]))
    """

    size: int
    at: NDArray[np.intp] | None = None
    weight: Vector | None = None

    def __len__(self) -> int:
        return self.size if self.at is None else len(self.at)

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z, for one vector (size,) or many (size, R)."""
        seen = z if self.at is None else np.take(z, self.at, axis=0)
        return seen if self.weight is None else (self.weight * seen.T).T

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        given = x if self.weight is None else (self.weight * x.T).T
        if self.at is None:
            return given
        if self._row is not None:
            return np.take(given, self._row, axis=0)
        if given.ndim == 1:
            return np.asarray(np.bincount(self.at, given, minlength=self.size), dtype=np.float64)
        return np.asarray(self._gathered @ given)

    @property
    def positions(self) -> NDArray[np.intp]:
        """The number that each row sees, shape (rows,)."""
        return np.arange(self.size) if self.at is None else self.at

    @cached_property
    def _row(self) -> NDArray[np.intp] | None:
        """The one row that sees each number, where there is one."""
        if self.at is None or len(self.at) != self.size or (np.bincount(self.at, minlength=self.size) != 1).any():
            return None
        return np.argsort(self.at)

    @cached_property
    def _gathered(self) -> scipy.sparse.csr_array[np.float64, tuple[int, int]]:
        """Aᵀ without weights."""
        assert self.at is not None
        n = len(self.at)
        return scipy.sparse.csc_array((np.ones(n), self.at, np.arange(n + 1)), shape=(self.size, n)).tocsr()

    def matrix(self) -> scipy.sparse.csr_array[np.float64, tuple[int, int]]:
        """A itself."""
        n = len(self)
        at = np.arange(n) if self.at is None else self.at
        weight = np.ones(n) if self.weight is None else self.weight
        return scipy.sparse.csr_array((weight, (np.arange(n), at)), shape=(n, self.size))

    def information(self, site_precision: Vector) -> Vector:
        """The diagonal of AᵀWA, which has nothing beside it, shape (size,)."""
        return self.transpose_times(site_precision if self.weight is None else self.weight * site_precision)


class ComponentFactor(Protocol):
    """R with R Rᵀ = P + AᵀWA, exactly or nearly so."""

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻¹ x, for one vector (size,) or many (size, R)."""
        ...

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻ᵀ x."""
        ...

    def log_determinant(self) -> float:
        """log |P + AᵀWA|."""
        ...

    def inverse_diagonal(self) -> Vector:
        """The diagonal of (P + AᵀWA)⁻¹, shape (size,)."""
        ...


Factor = TypeVar("Factor", bound=ComponentFactor)


class Component(Protocol[Factor]):
    """z ~ N(0, P⁻¹), of which the linear predictor has A z."""

    few: ClassVar[bool]
    """Whether P + AᵀWA is dense: then there are few numbers."""

    @property
    def size(self) -> int:
        """Of z."""
        ...

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z at the rows of the data, for one vector (size,) or many (size, R)."""
        ...

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        ...

    def of_rows(self, rows: NDArray[np.intp]) -> Component[Factor]:
        """The same z, seen by some of the rows."""
        ...

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P z, for one vector (size,) or many (size, R)."""
        ...

    def quadratic(self, z: Vector) -> float:
        """zᵀ P z."""
        ...

    @property
    def logdet(self) -> float:
        """log |P⁻¹|; less 2π for each flat direction, which has a density of 1 all over."""
        ...

    def row_variance(self, widest: float) -> Vector:
        """Prior variances of A z, shape (rows,); a flat direction counts as one with the variance `widest`."""
        ...

    def precision_noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Random vectors with covariance P, shape (size, n)."""
        ...

    def factor(self, site_precision: Vector) -> Factor | None:
        """Of P + AᵀWA; None where w < 0 leaves none."""
        ...

    def within_rows(self, factor: Factor) -> Vector:
        """The diagonal of A (P + AᵀWA)⁻¹ Aᵀ, shape (rows,), by a factor."""
        ...

    def matrix(self) -> scipy.sparse.csr_array[np.float64, tuple[int, int]]:
        """A, a sparse matrix."""
        ...

    def precision_matrix(self) -> NDArray[np.float64]:
        """P, dense: of few numbers."""
        ...

    def precision_root(self) -> NDArray[np.float64]:
        """T with P = TᵀT, dense: of few numbers."""
        ...
