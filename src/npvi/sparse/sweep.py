"""One sweep of NPVI: the best L on the graph's pattern for given site precisions, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.parallel import over_chunks
from npvi.sparse.factor import scratch
from npvi.sparse.lanes import LANES, solve_last
from npvi.sparse.triangular import Triangular

__all__ = ["LowerHalf", "lower_half"]


@dataclass(frozen=True)
class LowerHalf:
    """The lower half of P = TᵀT by rows: columns ascending, the diagonal last.

    Laid out for gathering blocks: an entry of P[S_c, S_c] in row i lies between c and the end of row i.
    """

    graph: Graph
    pointers: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]

    @cached_property
    def _by_size(self) -> NDArray[np.int32]:
        """Columns by the number of their children, largest first, near ones together: groups of eight fit one size."""
        spatial = self.graph.spatial
        sizes = np.diff(self.graph.children.child_ptr)[spatial]
        return spatial[np.argsort(-sizes, kind="stable")].astype(np.int32)

    def sweep(self, site_precision: NDArray[np.float64]) -> Triangular:
        """L with L[S_c, c] = ℓ/√ℓ_c, ℓ = (P+W)[S_c, S_c]⁻¹ e_c, S_c = {c} ∪ children(c), for every column c."""
        graph = self.graph
        n = graph.n_points
        diagonal, edges = np.empty(n), np.zeros(graph.parents.shape)
        lists = (*graph.children, self.pointers, self.columns, self.values)

        def loop(start, stop):
            _sweep(start, stop, self._by_size, *lists, site_precision, diagonal, edges, scratch(n))

        over_chunks(loop, -(-n // LANES), grain=16, per_thread=16)
        return Triangular(graph, diagonal, edges)

    def stationarity(self, L: Triangular, site_precision: NDArray[np.float64]) -> tuple[float, float]:
        """Largest entry of ((P+W)L)_ic − δ_ic/L_cc on the pattern, and the largest of the terms it is made of."""
        graph = self.graph
        n = graph.n_points
        lists = (*graph.children, self.pointers, self.columns, self.values)

        def loop(start, stop):
            return _stationarity(
                start, stop, graph.spatial, *lists, site_precision, L.diagonal, L.edges, scratch(n)
            )

        residuals, terms = zip(*over_chunks(loop, n, grain=512))
        return max(residuals), max(terms)


def lower_half(root: Triangular) -> LowerHalf:
    """P = TᵀT, its lower half by rows."""
    graph = root.graph
    n = graph.n_points
    lists = (graph.parents, *graph.children)

    def loop(start, stop):
        return _multiply(start, stop, *lists, root.diagonal, root.edges, scratch(n))

    counts, columns, values = zip(*over_chunks(loop, n))
    pointers = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.concatenate(counts), out=pointers[1:])
    return LowerHalf(graph, pointers, np.concatenate(columns), np.concatenate(values))


@njit(cache=True, nogil=True)
def _multiply(start, stop, parents, child_ptr, child_row, child_slot, diagonal, edges, position):
    K = parents.shape[1]
    bound = 0
    for i in range(start, stop):
        bound += K + 1
        for e in range(child_ptr[i], child_ptr[i + 1]):
            bound += child_slot[e]
    counts = np.empty(stop - start, dtype=np.int64)
    columns = np.empty(bound, dtype=np.int32)
    values = np.empty(bound, dtype=np.float64)
    filled = 0
    for i in range(start, stop):
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
        columns[first:filled].sort()
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
        counts[i - start] = filled - first
    return counts, columns[:filled].copy(), values[:filled].copy()


@njit(cache=True, nogil=True)
def _sweep(
    start,
    stop,
    by_size,
    child_ptr,
    child_row,
    child_slot,
    pointers,
    columns,
    values,
    site_precision,
    diagonal,
    edges,
    position,
):
    n_points = len(by_size)
    largest = 0
    for t in range(start * LANES, min(stop * LANES, n_points)):
        c = by_size[t]
        largest = max(largest, child_ptr[c + 1] - child_ptr[c] + 1)
    spare = largest * (largest + 1) // 2
    A = np.empty((spare + 1, LANES))
    for group in range(start, stop):
        n = 1
        for t in range(group * LANES, min((group + 1) * LANES, n_points)):
            c = by_size[t]
            n = max(n, child_ptr[c + 1] - child_ptr[c] + 1)
        last = n * (n - 1) // 2
        A[: last + n] = 0.0
        for lane in range(LANES):
            t = group * LANES + lane
            size = 1
            if t < n_points:
                c = by_size[t]
                a, b = child_ptr[c], child_ptr[c + 1]
                size = b - a + 1
                shift = n - size - a  # children stand after the padding, c itself last
                for e in range(a, b):
                    position[child_row[e]] = shift + e
                for e in range(a, b):
                    i = child_row[e]
                    r = shift + e
                    row = r * (r + 1) // 2
                    p = pointers[i + 1] - 1
                    A[row + r, lane] = values[p] + site_precision[i]
                    p -= 1
                    while columns[p] > c:  # c is a parent of i, so the row does hold it
                        q = position[columns[p]]
                        # entries outside the block go to a spare row: a store costs less than a mispredicted branch
                        A[row + q if q >= 0 else spare, lane] = values[p]
                        p -= 1
                    A[last + r, lane] = values[p]
                for e in range(a, b):
                    position[child_row[e]] = -1
                A[last + n - 1, lane] = values[pointers[c + 1] - 1] + site_precision[c]
            else:
                A[last + n - 1, lane] = 1.0
            for r in range(n - size):  # padding: an identity that touches nothing
                A[r * (r + 1) // 2 + r, lane] = 1.0
        solve_last(A, n)
        for lane in range(min(LANES, n_points - group * LANES)):
            c = by_size[group * LANES + lane]
            a, b = child_ptr[c], child_ptr[c + 1]
            root = A[last + n - 1, lane]
            diagonal[c] = root
            for e in range(a, b):
                edges[child_row[e], child_slot[e]] = -root * A[last + n - 1 - (b - e), lane]


@njit(cache=True, nogil=True)
def _stationarity(
    start,
    stop,
    order,
    child_ptr,
    child_row,
    child_slot,
    pointers,
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
            p = pointers[i + 1] - 1
            product[r] += (values[p] + site_precision[i]) * x
            largest = max(largest, abs((values[p] + site_precision[i]) * x))
            p -= 1
            while p >= pointers[i] and columns[p] >= c:
                q = position[columns[p]]
                if q >= 0:
                    y = diagonal[c] if q == 0 else edges[columns[p], child_slot[a + q - 1]]
                    product[r] += values[p] * y
                    product[q] += values[p] * x
                p -= 1
        product[0] -= 1.0 / diagonal[c]
        for r in range(size):
            worst = max(worst, abs(product[r]))
        position[c] = -1
        for e in range(a, b):
            position[child_row[e]] = -1
    return worst, largest
