"""The same matrix on a wider pattern, for a zero-fill factor that loses less."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph, sort_ascending
from npvi.linalg.sweep import LowerHalf
from npvi.linalg.triangular import Triangular
from npvi.linalg.zero_fill import scratch
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = ["narrowed", "widened"]


def widened(root: Triangular, precision: LowerHalf) -> Triangular:
    """T on a pattern of min(2K, i) entries in row i: its own, and the largest entries of P = TᵀT outside them.

    Where P is large between two points without an edge (they share a child), the factor on the graph's own pattern
    drops it; those are the entries to make room for. Rows that run out of such points are filled with any earlier ones.
    """
    graph = root.graph
    n, K = graph.parents.shape
    width = min(2 * K, n - 1)
    parents = np.full((n, width), -1, dtype=np.int32)
    edges = np.zeros((n, width))
    diagonal = precision.values[precision.ends - 1]
    largest = int(precision.counts.max())

    def loop(start, stop):
        lists = (precision.counts, precision.ends, precision.columns, precision.values, diagonal)
        room = np.empty(largest), np.empty(largest, dtype=np.int32)
        _widen(start, stop, graph.parents, root.edges, *lists, parents, edges, scratch(n), *room)

    over_chunks(loop, n)
    return Triangular(Graph(graph.order, parents, graph.spatial), root.diagonal, edges)


def narrowed(edges: NDArray[np.float64], wide: Graph, graph: Graph) -> NDArray[np.float64]:
    """Of entries on a wider pattern those on the graph's own, shape (N, K).

    >>> from npvi.graph import build_graph
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> wide, graph = build_graph(X, 2, order="given"), build_graph(X, 1, order="given")
    >>> narrowed(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 3.0]]), wide, graph).ravel()
    array([0., 1., 3.])
    """
    found = np.empty(graph.parents.shape)
    for own, parent in zip(found.T, graph.parents.T):
        slot = np.argmax(wide.parents == parent[:, None], axis=1)
        own[:] = np.where(parent >= 0, np.take_along_axis(edges, slot[:, None], axis=1)[:, 0], 0.0)
    return found


@compiled
def _widen(
    start, stop, old, old_edges, counts, ends, columns, values, diagonal, parents, edges, position, importance, places
):
    K, width = old.shape[1], parents.shape[1]
    for i in range(start, stop):
        room = min(width, i)
        count = min(K, i)
        for s in range(count):
            parents[i, s] = old[i, s]
            position[old[i, s]] = s
        a, b = ends[i] - counts[i], ends[i] - 1
        found = np.int64(0)
        for p in range(a, b):
            size = values[p] ** 2 / diagonal[columns[p]]
            if position[columns[p]] < 0 and size != 0.0:
                importance[found] = size
                places[found] = p
                found += 1
        _sort_by_importance(importance, places, found)
        for q in range(min(found, room - count)):
            j = columns[places[q]]
            parents[i, count] = j
            position[j] = count
            count += 1
        j = i - 1
        while count < room:
            if position[j] < 0:
                parents[i, count] = j
                position[j] = count
                count += 1
            j -= 1
        sort_ascending(parents[i], count)
        for s in range(count):
            old_slot = position[parents[i, s]]
            if old_slot < min(K, i):
                edges[i, s] = old_edges[i, old_slot]
            position[parents[i, s]] = -1


@inlined
def _sort_by_importance(importance, places, n):
    """Both by falling importance, what is equal by place (Shell's sort: numba's own takes two seconds to compile)."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, n):
            size, place = importance[i], places[i]
            j = i
            while j >= gap and (
                importance[j - gap] < size or (importance[j - gap] == size and places[j - gap] > place)
            ):
                importance[j] = importance[j - gap]
                places[j] = places[j - gap]
                j -= gap
            importance[j] = size
            places[j] = place
