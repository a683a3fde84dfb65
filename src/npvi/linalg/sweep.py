"""One sweep of NPVI: the best L on the graph's pattern for given site precisions, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.linalg.lanes import LANES, solve_last
from npvi.linalg.triangular import Triangular
from npvi.linalg.zero_fill import scratch
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = ["LowerHalf", "lower_half", "lower_half_of"]

#: numbers in the blocks that are gathered before they are solved: about what a core's own cache holds
_TILE = 2**18
#: rows of a product that are held at a time
_ROWS = 1024


@dataclass(frozen=True)
class LowerHalf:
    """The lower half of P = TᵀT by rows: columns ascending, the diagonal last.

    Laid out for gathering blocks: an entry of P[S_c, S_c] in row i lies between c and the end of row i, and rows lie in
    memory as their points lie in space. Row i is ``columns[ends[i] - counts[i] : ends[i]]``.
    """

    graph: Graph
    counts: NDArray[np.int64]
    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]

    def sweep(self, site_precision: NDArray[np.float64]) -> Triangular:
        """L with L[S_c, c] = ℓ/√ℓ_c, ℓ = (P+W)[S_c, S_c]⁻¹ e_c, S_c = {c} ∪ children(c), for every column c."""
        graph = self.graph
        n = graph.n_points
        diagonal, edges = np.empty(n), np.zeros(graph.parents.shape)
        lists = (*graph.children, self.ends, self.columns, self.values)

        def loop(start, stop):
            _sweep(start, stop, graph.spatial, *self._tiles, *lists, site_precision, diagonal, edges, scratch(n))

        over_chunks(loop, len(self._tiles[0]) - 1, grain=1, per_thread=8)
        return Triangular(graph, diagonal, edges)

    @cached_property
    def _tiles(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Columns in spatial order, cut into tiles whose blocks fit a core's own cache.

        Returns where each tile starts, where in its tile the block of each column starts, and the columns of each tile
        by size, largest first: in a tile columns share the rows they read, and groups of eight of them nearly a size.
        """
        sizes = np.diff(self.graph.children.child_ptr)[self.graph.spatial] + 1
        needed = sizes * (sizes + 3) // 2
        ends = np.cumsum(needed)
        tile = (ends - needed) // _TILE
        starts = np.flatnonzero(np.diff(tile, prepend=-1))
        offsets = ends - needed - np.repeat((ends - needed)[starts], np.diff(starts, append=len(sizes)))
        return np.append(starts, len(sizes)), offsets, np.lexsort((-sizes, tile))

    def stationarity(self, L: Triangular, site_precision: NDArray[np.float64]) -> tuple[float, float]:
        """Largest entry of ((P+W)L)_ic − δ_ic/L_cc on the pattern, and the largest of the terms it is made of."""
        graph = self.graph
        n = graph.n_points
        lists = (*graph.children, self.ends, self.columns, self.values)

        def loop(start, stop):
            return _stationarity(start, stop, graph.spatial, *lists, site_precision, L.diagonal, L.edges, scratch(n))

        residuals, terms = zip(*over_chunks(loop, n, grain=512))
        return max(residuals), max(terms)


def lower_half(root: Triangular) -> LowerHalf:
    """P = TᵀT, its lower half by rows."""
    graph = root.graph
    n = graph.n_points
    lists = (graph.parents, *graph.children)

    def loop(start, stop):
        given = (graph.spatial, *lists, root.diagonal, root.edges, scratch(n))
        counts, columns, values = _multiply(start, stop, *given)
        filled = counts.sum()  # of what there was room for
        return counts, columns[:filled], values[:filled]

    parts = zip(*over_chunks(loop, n))
    counts_in_space, columns, values = (np.concatenate(part) for part in parts)
    counts, ends = np.empty_like(counts_in_space), np.empty_like(counts_in_space)
    counts[graph.spatial], ends[graph.spatial] = counts_in_space, np.cumsum(counts_in_space)
    return LowerHalf(graph, counts, ends, columns, values)


def lower_half_of(root: scipy.sparse.csr_array, graph: Graph) -> LowerHalf:
    """The lower half of A = SᵀS for a sparse S, with all of the graph's pattern, whether there is anything or not.

    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0], [2.0]], 2, order="given")
    >>> S = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 3.0]])
    >>> L = lower_half_of(scipy.sparse.csr_array(S), graph).sweep(np.zeros(3)).to_scipy().toarray()
    >>> np.allclose(L @ L.T, np.linalg.inv(S.T @ S))
    True
    """
    n, columns_of = graph.n_points, root.T.tocsr()
    counts, columns, values = [], [], []
    for start in range(0, n, _ROWS):
        rows = graph.spatial[start : start + _ROWS]
        product = (columns_of[rows] @ root).tocoo()
        lower = product.col <= rows[product.row]
        row, slot = np.nonzero(graph.parents[rows] >= 0)
        pattern = np.concatenate([graph.parents[rows[row], slot], rows])
        where = np.concatenate([product.row[lower], row, np.arange(len(rows))])
        entries = np.concatenate([product.data[lower], np.zeros(len(pattern))])
        block = scipy.sparse.coo_array(
            (entries, (where, np.concatenate([product.col[lower], pattern]))), shape=(len(rows), n)
        ).tocsr()
        block.sort_indices()
        counts.append(np.diff(block.indptr).astype(np.int64))
        columns.append(block.indices.astype(np.int32))
        values.append(block.data)
    in_space = np.concatenate(counts)
    counts_of, ends = np.empty_like(in_space), np.empty_like(in_space)
    counts_of[graph.spatial], ends[graph.spatial] = in_space, np.cumsum(in_space)
    return LowerHalf(graph, counts_of, ends, np.concatenate(columns), np.concatenate(values))


@inlined
def _sort(values, start, stop):
    """Sort values[start:stop] (Shell's method: for a hundred numbers as fast as NumPy's, and compiled in no time)."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(start + gap, stop):
            value = values[i]
            j = i
            while j >= start + gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


@compiled
def _multiply(start, stop, order, parents, child_ptr, child_row, child_slot, diagonal, edges, position):
    K = parents.shape[1]
    bound = 0
    for t in range(start, stop):
        i = order[t]
        bound += K + 1
        for e in range(child_ptr[i], child_ptr[i + 1]):
            bound += child_slot[e]
    counts = np.empty(stop - start, dtype=np.int64)
    columns = np.empty(bound, dtype=np.int32)
    values = np.empty(bound, dtype=np.float64)
    filled = np.int64(0)  # a plain 0 would compile `_sort` for 0 by itself
    for t in range(start, stop):
        i = order[t]
        first = filled
        for s in range(K):
            j = parents[i, s]
            if j < 0:
                break
            columns[filled] = j
            position[j] = 0
            filled += 1
        for e in range(child_ptr[i], child_ptr[i + 1]):
            k = child_row[e]
            for s in range(child_slot[e]):
                j = parents[k, s]
                if position[j] < 0:
                    columns[filled] = j
                    position[j] = 0
                    filled += 1
        _sort(columns, first, filled)
        for p in range(first, filled):
            position[columns[p]] = p
            values[p] = 0.0
        for s in range(K):
            j = parents[i, s]
            if j < 0:
                break
            values[position[j]] = diagonal[i] * edges[i, s]
        own = diagonal[i] * diagonal[i]
        for e in range(child_ptr[i], child_ptr[i + 1]):
            k, slot = child_row[e], child_slot[e]
            weight = edges[k, slot]
            own += weight * weight
            for s in range(slot):
                values[position[parents[k, s]]] += weight * edges[k, s]
        for p in range(first, filled):
            position[columns[p]] = -1
        columns[filled] = i
        values[filled] = own
        filled += 1
        counts[t - start] = filled - first
    return counts, columns, values


@compiled
def _sweep(
    start,
    stop,
    order,
    tile_starts,
    offsets,
    by_size,
    child_ptr,
    child_row,
    child_slot,
    ends,
    columns,
    values,
    site_precision,
    diagonal,
    edges,
    position,
):
    blocks = np.empty(0)
    A = np.empty((0, LANES))
    for tile in range(start, stop):
        first, following = tile_starts[tile], tile_starts[tile + 1]
        last_size = child_ptr[order[following - 1] + 1] - child_ptr[order[following - 1]] + 1
        needed = offsets[following - 1] + last_size * (last_size + 3) // 2
        if needed > len(blocks):
            blocks = np.empty(needed)
        # gather in spatial order …
        for t in range(first, following):
            _gather(order[t], child_ptr, child_row, ends, columns, values, site_precision, position, blocks, offsets[t])
        # … then solve by size, eight at a time
        for group in range(first, following, LANES):
            c = order[by_size[group]]
            n = child_ptr[c + 1] - child_ptr[c] + 1
            last = n * (n - 1) // 2
            if last + n > len(A):
                A = np.empty((last + n, LANES))
            for lane in range(LANES):
                t = by_size[min(group + lane, following - 1)]
                size = child_ptr[order[t] + 1] - child_ptr[order[t]] + 1
                _interleave(A, n, lane, size, blocks, offsets[t])
            solve_last(A, n)
            for lane in range(min(LANES, following - group)):
                c = order[by_size[group + lane]]
                a, b = child_ptr[c], child_ptr[c + 1]
                root = A[last + n - 1, lane]
                diagonal[c] = root
                for e in range(a, b):
                    edges[child_row[e], child_slot[e]] = -root * A[last + n - 1 - (b - e), lane]


@inlined
def _gather(c, child_ptr, child_row, ends, columns, values, site_precision, position, blocks, start):
    """The lower triangle of (P+W)[S_c, S_c] from `start` on, children in ascending order, c itself last.

    Each row has a spare place in front, where entries outside the block go (their position is −1): a store costs less
    than the mispredicted branch that would avoid it.
    """
    a, b = child_ptr[c], child_ptr[c + 1]
    size = b - a + 1
    last = start + (size - 1) * (size + 2) // 2 + 1
    blocks[start : last + size] = 0.0
    for e in range(a, b):
        position[child_row[e]] = e - a
    for e in range(a, b):
        i = child_row[e]
        row = start + (e - a) * (e - a + 3) // 2 + 1
        p = ends[i] - 1
        blocks[row + e - a] = values[p] + site_precision[i]
        p -= 1
        while columns[p] > c:  # c is a parent of i, so the row does hold it
            blocks[row + position[columns[p]]] = values[p]
            p -= 1
        blocks[last + e - a] = values[p]
    for e in range(a, b):
        position[child_row[e]] = -1
    blocks[last + size - 1] = values[ends[c] - 1] + site_precision[c]


@inlined
def _interleave(A, n, lane, size, blocks, source):
    """Put a block of `size` into one lane of A, of size n, behind an identity that touches nothing."""
    padding = n - size
    for r in range(padding):
        row = r * (r + 1) // 2
        for q in range(r):
            A[row + q, lane] = 0.0
        A[row + r, lane] = 1.0
    for r in range(padding, n):
        row = r * (r + 1) // 2
        for q in range(padding):
            A[row + q, lane] = 0.0
        source += 1
        for q in range(padding, r + 1):
            A[row + q, lane] = blocks[source]
            source += 1


@compiled
def _stationarity(
    start,
    stop,
    order,
    child_ptr,
    child_row,
    child_slot,
    ends,
    columns,
    values,
    site_precision,
    diagonal,
    edges,
    position,
):
    worst, largest = 0.0, 0.0
    product = np.zeros(1)
    for t in range(start, stop):
        c = order[t]
        a, b = child_ptr[c], child_ptr[c + 1]
        size = b - a + 1
        if len(product) < size:
            product = np.zeros(2 * size)
        product[:size] = 0.0
        position[c] = 0
        for e in range(a, b):
            position[child_row[e]] = e - a + 1
        for r in range(size):
            i = c if r == 0 else child_row[a + r - 1]
            x = diagonal[c] if r == 0 else edges[i, child_slot[a + r - 1]]
            p = ends[i] - 1
            own = (values[p] + site_precision[i]) * x
            product[r] += own
            largest = max(largest, abs(own))
            while i > c and columns[p] > c:  # c is a parent of i, so the row does hold it
                p -= 1
                q = position[columns[p]]
                if q >= 0:
                    y = diagonal[c] if q == 0 else edges[columns[p], child_slot[a + q - 1]]
                    product[r] += values[p] * y
                    product[q] += values[p] * x
        product[0] -= 1.0 / diagonal[c]
        for r in range(size):
            worst = max(worst, abs(product[r]))
        position[c] = -1
        for e in range(a, b):
            position[child_row[e]] = -1
    return worst, largest
