"""Triangular matrices on the graph's pattern: products and solves, for one or many right-hand sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.compiling import compiled
from npvi.graph import Graph
from npvi.parallel import n_threads, over_chunks
from npvi.sparse.lanes import combine_1, combine_4, combine_8
from npvi.sparse.walking import walk

__all__ = ["Triangular", "ends_of"]

#: numbers of a product or a solution that are worth a thread (about 0.3 ms); eight columns take the time of one
_WORTH = 2**16


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
        y = np.empty_like(x)
        lists = (self.graph.parents, self.edges, self.diagonal)
        over_chunks(_dot, len(x), *lists, _columns(x), _columns(y), grain=_grain(x))
        return y

    def transpose_dot(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tᵀ x."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        y = np.empty_like(x)
        pointer, rows, _ = self.graph.children
        lists = (pointer, rows, self._by_parent, self.diagonal)
        over_chunks(_transpose_dot, len(x), *lists, _columns(x), _columns(y), grain=_grain(x))
        return y

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T⁻¹ x."""
        return self._substitute(x, _forward, (self.graph.parents, self.edges, self.diagonal), reverse=False)

    def transpose_solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T⁻ᵀ x."""
        pointer, rows, _ = self.graph.children
        lists = (pointer, rows, self._by_parent, self.diagonal)
        return self._substitute(x, _backward, lists, reverse=True)

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

    @cached_property
    def _by_parent(self) -> NDArray[np.float64]:
        """The edges in the order of the graph's child lists, so that products with Tᵀ read memory in sequence."""
        _, rows, slots = self.graph.children
        values = np.empty(len(rows))
        over_chunks(_pick, len(rows), rows, slots, self.edges, values, grain=2**17)
        return values

    def _substitute(self, x, loop, lists, reverse):
        y = np.array(x, dtype=np.float64, order="C")
        columns = _columns(y)
        n, right_hand_sides = columns.shape
        if right_hand_sides >= 8 * n_threads():  # threads share out the right-hand sides; each walks the whole matrix
            over_chunks(
                lambda a, b: loop(0, n, _natural(n, reverse), *lists, columns, a, b),
                right_hand_sides,
                grain=-(-_WORTH // (8 * n)) * 8,
                per_thread=1,
            )
        else:
            walk(self.graph, lambda a, b, rows: loop(a, b, rows, *lists, columns, 0, right_hand_sides), _grain(y), reverse)
        return y


def _columns(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x.reshape(len(x), -1)


def _grain(x: NDArray[np.float64]) -> int:
    """Rows that are worth a thread."""
    return max(256, _WORTH // max(8, x.size // max(1, len(x))))


def _natural(n: int, reverse: bool) -> NDArray[np.int32]:
    return np.arange(n - 1, -1, -1, dtype=np.int32) if reverse else np.arange(n, dtype=np.int32)


@compiled
def _pick(start, stop, rows, slots, edges, values):
    for e in range(start, stop):
        values[e] = edges[rows[e], slots[e]]


@compiled
def _combine(values, rows, start, stop, x, a, b, total):
    """total[:b−a] = Σ values[e] · x[rows[e], a:b] over start ≤ e < stop."""
    r = a
    while r + 8 <= b:
        combine_8(values, rows, start, stop, x, r, total[r - a :])  # type: ignore[call-arg]
        r += 8
    if r + 4 <= b:
        combine_4(values, rows, start, stop, x, r, total[r - a :])  # type: ignore[call-arg]
        r += 4
    while r < b:
        combine_1(values, rows, start, stop, x, r, total[r - a :])  # type: ignore[call-arg]
        r += 1


@compiled
def ends_of(parents, i):
    """Where the parents of i begin and end among those of all points in a row."""
    K = parents.shape[1]
    stop = (i + 1) * K
    while stop > i * K and parents[i, stop - i * K - 1] < 0:
        stop -= 1
    return i * K, stop


@compiled
def _dot(start, stop, parents, edges, diagonal, x, y):
    total = np.empty(x.shape[1])
    rows, values = parents.reshape(parents.size), edges.reshape(edges.size)
    for i in range(start, stop):
        first, last = ends_of(parents, i)
        _combine(values, rows, first, last, x, 0, len(total), total)
        for r in range(len(total)):
            y[i, r] = diagonal[i] * x[i, r] + total[r]


@compiled
def _transpose_dot(start, stop, child_ptr, child_row, by_parent, diagonal, x, y):
    total = np.empty(x.shape[1])
    for j in range(start, stop):
        _combine(by_parent, child_row, child_ptr[j], child_ptr[j + 1], x, 0, len(total), total)
        for r in range(len(total)):
            y[j, r] = diagonal[j] * x[j, r] + total[r]


@compiled
def _forward(start, stop, order, parents, edges, diagonal, x, a, b):
    total = np.empty(b - a)
    rows, values = parents.reshape(parents.size), edges.reshape(edges.size)
    for t in range(start, stop):
        i = order[t]
        first, last = ends_of(parents, i)
        _combine(values, rows, first, last, x, a, b, total)
        for r in range(a, b):
            x[i, r] = (x[i, r] - total[r - a]) / diagonal[i]


@compiled
def _backward(start, stop, order, child_ptr, child_row, by_parent, diagonal, x, a, b):
    total = np.empty(b - a)
    for t in range(start, stop):
        j = order[t]
        _combine(by_parent, child_row, child_ptr[j], child_ptr[j + 1], x, a, b, total)
        for r in range(a, b):
            x[j, r] = (x[j, r] - total[r - a]) / diagonal[j]
