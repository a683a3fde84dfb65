"""Triangular matrices on the graph's pattern: products and solves, for one or many right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.linalg import many_columns, single_column
from npvi.linalg.walking import walk
from npvi.runtime.parallel import n_threads, over_chunks

__all__ = ["Triangular", "combined", "products"]

#: numbers of a product or a solution that are worth a thread (about 0.4 ms); eight columns take the time of one
_WORTH = 2**18


@dataclass(frozen=True)
class Triangular:
    """Lower triangular T with row i non-zero at {i} ∪ parents(i).

    ``diagonal`` has shape (N,), ``edges`` shape (N, K): ``edges[i, s]`` stands in column ``graph.parents[i, s]``
    (and is ignored where that is −1). The paper's L is such a matrix; so are D^{−½}(I−B), with which P = TᵀT, and the
    transpose of the zero-fill factor U.
    """

    graph: Graph
    diagonal: NDArray[np.float64]
    edges: NDArray[np.float64]

    def dot(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T x, for x of shape (N,) or (N, R)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        columns = x.reshape(len(x), -1)
        y = np.empty_like(columns)
        over_chunks(many_columns.dot, len(x), *self._flat, columns, columns, y, grain=_grain(columns))
        return y.reshape(x.shape)

    def transpose_dot(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tᵀ x."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        y = np.zeros_like(x)
        if x.ndim == 1:
            single_column.transpose_dot(*self._lists, x, y)
        else:
            _over_columns(lambda a, b: many_columns.transpose_dot(*self._flat, x, y, a, b), x)
        return y

    def gram_dot(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """TᵀT x."""
        if x.ndim > 1:
            return self.transpose_dot(self.dot(x))
        x = np.ascontiguousarray(x, dtype=np.float64)

        def loop(start: int, stop: int) -> NDArray[np.float64]:
            y = np.zeros(len(x))
            single_column.gram_dot(start, stop, *self._lists, x, y)
            return y

        # one pass over T; each thread adds up by itself what it finds, so there should be few
        first, *others = over_chunks(loop, len(x), grain=max(_grain(x), len(x) // 8), per_thread=1)
        for other in others:
            first += other
        return first

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T⁻¹ x."""
        y = np.array(x, dtype=np.float64, order="C")
        if y.ndim == 1:
            walk(self.graph, lambda a, b, rows: single_column.solve(a, b, rows, *self._lists, y), _grain(y))
        elif y.shape[1] < 8 * n_threads():
            walk(
                self.graph, lambda a, b, rows: many_columns.solve(a, b, rows, *self._flat, y, 0, y.shape[1]), _grain(y)
            )
        else:  # threads share out the right-hand sides; each walks the whole matrix
            rows = np.arange(len(y), dtype=np.int32)
            _over_columns(lambda a, b: many_columns.solve(0, len(y), rows, *self._flat, y, a, b), y)
        return y

    def transpose_solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T⁻ᵀ x."""
        y = np.array(x, dtype=np.float64, order="C")
        if y.ndim == 1:
            single_column.transpose_solve(*self._lists, y)
        else:
            _over_columns(lambda a, b: many_columns.transpose_solve(*self._flat, y, a, b), y)
        return y

    def row_norms_squared(self) -> NDArray[np.float64]:
        """Σ_c T_ic² for each row: the diagonal of TTᵀ."""
        return self.diagonal**2 + np.einsum("ik,ik->i", self.edges, self.edges)

    def column_norms_squared(self) -> NDArray[np.float64]:
        """Σ_i T_ic² for each column: the diagonal of TᵀT."""
        used = self.graph.parents >= 0
        squares = np.bincount(self.graph.parents[used], self.edges[used] ** 2, minlength=len(self.diagonal))
        return self.diagonal**2 + squares

    def to_scipy(self) -> scipy.sparse.csr_array:
        """The same matrix as a SciPy CSR array (points in the graph's order)."""
        n = len(self.diagonal)
        row, slot = np.nonzero(self.graph.parents >= 0)
        rows = np.concatenate([row, np.arange(n)])
        columns = np.concatenate([self.graph.parents[row, slot], np.arange(n)])
        values = np.concatenate([self.edges[row, slot], self.diagonal])
        return scipy.sparse.csr_array((values, (rows, columns)), shape=(n, n))

    @property
    def _lists(self) -> tuple[NDArray, ...]:
        return self.graph.parents, self.edges, self.diagonal

    @property
    def _flat(self) -> tuple[NDArray, ...]:
        return self.graph.parents, self.graph.parents.reshape(-1), self.edges.reshape(-1), self.diagonal


def combined(
    own: NDArray[np.float64], parents: NDArray[np.int32], values: NDArray[np.float64], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """own_i + Σ_s values_is x[parents_is] for each row i of both lists, for x of shape (N, R).

    >>> lists = np.array([[1, -1]], np.int32), np.array([[2.0, 0.0]])
    >>> combined(np.array([[0.5, 0.0]]), *lists, np.array([[0.0, 0.0], [1.0, 10.0]]))
    array([[ 2.5, 20. ]])
    """
    y = np.empty_like(own, order="C")
    given = (parents, parents.reshape(-1), values.reshape(-1), np.ones(len(y)), own, x)
    over_chunks(many_columns.dot, len(y), *map(np.ascontiguousarray, given), y, grain=_grain(x))
    return y


def products(parents: NDArray[np.int32], left: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """left_i · x[parents_is] for each entry of the list, where left and x are rows of R numbers.

    >>> products(np.array([[1, -1]], np.int32), np.array([[2.0, 3.0]]), np.array([[0.0, 0.0], [1.0, 10.0]]))
    array([[32.,  0.]])
    """
    values = np.zeros(parents.shape)
    given = map(np.ascontiguousarray, (parents, left, x))
    over_chunks(many_columns.products, len(values), *given, values, grain=_grain(x))
    return values


def _over_columns(loop: Callable[[int, int], None], x: NDArray[np.float64]) -> None:
    """Call ``loop(a, b)`` for stretches of the columns, eight at least.

    Where points add to what their parents have, two that share a parent would be in each other's way: there threads can
    share out columns, but not points.
    """
    n, columns = x.shape
    over_chunks(loop, columns, grain=-(-_WORTH // (64 * max(1, n))) * 8, per_thread=1)


def _grain(x: NDArray[np.float64]) -> int:
    """Rows that are worth a thread."""
    return max(256, _WORTH // max(8, x.size // max(1, len(x))))
