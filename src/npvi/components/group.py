"""Independent effects of the levels of a group: intercepts, and slopes correlated with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["BlockFactor", "Group"]

Vector = NDArray[np.float64]
#: shape (levels, d, d)
Blocks = NDArray[np.float64]


@dataclass(frozen=True)
class BlockFactor:
    """R of a block-diagonal matrix R Rᵀ.

    Attributes
    ----------
    inverse_root : R⁻¹, triangular blocks, shape (levels, d, d).
    """

    inverse_root: Blocks

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻¹ x, for one vector (levels · d,) or many (levels · d, R)."""
        return _by_blocks("ljk,lk...->lj...", self.inverse_root, x)

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻ᵀ x."""
        return _by_blocks("lkj,lk...->lj...", self.inverse_root, x)

    def log_determinant(self) -> float:
        """log |R Rᵀ|."""
        return -2.0 * float(np.log(np.einsum("ljj->lj", self.inverse_root)).sum())

    def inverse_diagonal(self) -> Vector:
        """The diagonal of (R Rᵀ)⁻¹, shape (levels · d,)."""
        return np.einsum("lkj,lkj->lj", self.inverse_root, self.inverse_root).ravel()

    @cached_property
    def inverse(self) -> Blocks:
        """(R Rᵀ)⁻¹, shape (levels, d, d)."""
        return np.einsum("lki,lkj->lij", self.inverse_root, self.inverse_root)


class Group:
    """z_l ~ N(0, Q⁻¹) for each level l, of which row i of the data sees a_iᵀz at its own level.

    With d = 1 and a = 1 these are intercepts. A slope in x beside an intercept is d = 2, a_i = (1, x_i).

    Parameters
    ----------
    levels : how many there are.
    at : the level of each row, shape (rows,).
    covariance : Q⁻¹, shape (d, d), or a variance.
    weight : a, shape (rows, d) or (rows,); None for 1.

    Examples
    --------
    >>> group = Group(2, np.array([0, 1, 1]), 4.0)
    >>> group.times(np.array([1.0, -1.0])), group.row_variance()
    (array([ 1., -1., -1.]), array([4., 4., 4.]))
    >>> factor = group.factor(np.ones(3))
    >>> factor.inverse_diagonal().round(4)  # 1/(1/4 + 1), 1/(1/4 + 2)
    array([0.8   , 0.4444])
    """

    few: ClassVar[bool] = False

    def __init__(
        self,
        levels: int,
        at: NDArray[np.intp],
        covariance: NDArray[np.float64] | float,
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        self.levels, self.at = levels, at
        self.covariance = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
        self.precision = np.linalg.inv(self.covariance)
        self._root = np.linalg.cholesky(self.precision)
        self.weight = np.ones((len(at), 1)) if weight is None else weight.reshape(len(at), -1)

    @property
    def width(self) -> int:
        """d, numbers of each level."""
        return len(self.covariance)

    @property
    def size(self) -> int:
        """Numbers of all levels."""
        return self.levels * self.width

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z, for one vector (size,) or many (size, R)."""
        return self.matrix() @ z

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        return self._transpose @ x

    def of_rows(self, rows: NDArray[np.intp]) -> Group:
        """The same z, seen by some of the rows."""
        return Group(self.levels, self.at[rows], self.covariance, self.weight[rows])

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P z."""
        return _by_blocks("jk,lk...->lj...", self.precision, z, self.width)

    def quadratic(self, z: Vector) -> float:
        """zᵀ P z."""
        return float(z @ self.matvec(z))

    @property
    def logdet(self) -> float:
        """log |P⁻¹|."""
        return -2.0 * self.levels * float(np.log(np.diag(self._root)).sum())

    def row_variance(self, widest: float = np.inf) -> Vector:
        """Prior variances of A z, shape (rows,)."""
        return np.einsum("ij,jk,ik->i", self.weight, self.covariance, self.weight)

    def precision_noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Random vectors with covariance P, shape (size, n)."""
        return _by_blocks("jk,lk...->lj...", self._root, rng.standard_normal((self.size, n)), self.width)

    def information(self, site_precision: Vector) -> Blocks:
        """The blocks of AᵀWA, which has nothing beside them, shape (levels, d, d)."""
        d, blocks = self.width, np.empty((self.levels, self.width, self.width))
        for j in range(d):
            for k in range(j + 1):
                product = site_precision * self.weight[:, j] * self.weight[:, k]
                blocks[:, j, k] = blocks[:, k, j] = np.bincount(self.at, product, minlength=self.levels)
        return blocks

    def factor(self, site_precision: Vector) -> BlockFactor | None:
        """Of P + AᵀWA; None where w < 0 leaves none."""
        try:
            root = np.linalg.cholesky(self.precision + self.information(site_precision))
        except np.linalg.LinAlgError:
            return None
        return BlockFactor(np.linalg.inv(root))

    def within_rows(self, factor: BlockFactor) -> Vector:
        """The diagonal of A (P + AᵀWA)⁻¹ Aᵀ, shape (rows,)."""
        return np.einsum("ij,ijk,ik->i", self.weight, factor.inverse[self.at], self.weight)

    def gradient(self, functions: NDArray[np.float64], factor: BlockFactor | None = None) -> NDArray[np.float64]:
        """∂/∂Q⁻¹ of E log p(z), shape (d, d), each entry by itself: for E zzᵀ = `factor`⁻¹ + functions functionsᵀ."""
        by_level = functions.reshape(self.levels, self.width, functions.shape[1])
        moment = np.einsum("ljr,lkr->jk", by_level, by_level)
        if factor is not None:
            moment += factor.inverse.sum(axis=0)
        return 0.5 * (self.precision @ moment @ self.precision - self.levels * self.precision)

    def covariances(self, factor: BlockFactor) -> Blocks:
        """The blocks of (P + AᵀWA)⁻¹."""
        return factor.inverse

    def matrix(self) -> scipy.sparse.csr_array:
        """A, a sparse matrix."""
        return self._matrix

    def precision_matrix(self) -> NDArray[np.float64]:
        """P, dense."""
        return np.kron(np.eye(self.levels), self.precision)

    def precision_root(self) -> NDArray[np.float64]:
        """T with P = TᵀT, dense."""
        return np.asarray(np.kron(np.eye(self.levels), self._root.T), dtype=np.float64)

    @cached_property
    def _matrix(self) -> scipy.sparse.csr_array:
        n, d = self.weight.shape
        columns = (self.at[:, None] * d + np.arange(d)).ravel()
        return scipy.sparse.csr_array((self.weight.ravel(), columns, np.arange(n + 1) * d), shape=(n, self.size))

    @cached_property
    def _transpose(self) -> scipy.sparse.csr_array:
        return self._matrix.T.tocsr()


def _by_blocks(sum_over: str, blocks: NDArray, x: NDArray[np.float64], width: int | None = None) -> NDArray[np.float64]:
    """Blocks times what belongs to their levels."""
    d = blocks.shape[-1] if width is None else width
    return np.einsum(sum_over, blocks, x.reshape(-1, d, *x.shape[1:])).reshape(x.shape)
