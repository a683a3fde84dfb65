"""More points at the end of a graph."""

from __future__ import annotations

import numpy as np

from npvi.graph.checks import check_points
from npvi.graph.graph import Graph
from npvi.graph.parents import sort_rows
from npvi.graph.search import arrange, search
from npvi.graph.tree import build_tree
from npvi.runtime.parallel import over_chunks

__all__ = ["extend_graph"]


def extend_graph(graph: Graph, points: np.ndarray, new: np.ndarray) -> Graph:
    """The graph with M more points last, each with its K nearest points before it as parents.

    Only the new points are searched for; the old ones keep their places and their parents.

    Parameters
    ----------
    graph : of N > K points.
    points : (N, D) coordinates of its points, in its order.
    new : (M, D) coordinates of the new ones, rows N, N + 1, … of the caller.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0], [5.0]], 1, order="given")
    >>> extend_graph(graph, np.array([[0.0], [1.0], [5.0]]), np.array([[4.0], [4.5]])).parents.ravel().tolist()
    [-1, 0, 1, 2, 2]
    """
    points, new = check_points(points, "points"), check_points(new, "new")
    n, k = graph.parents.shape
    m = len(new)
    arranged = arrange(build_tree(np.vstack([points, new])), np.arange(n + m))
    places = np.flatnonzero(arranged.positions >= n).astype(np.int32)
    positions = arranged.positions[places]
    found = np.empty((m, k), np.int32)
    search(arranged, arranged.points[places], places, positions, positions - np.int32(n), found)
    parents = np.concatenate([graph.parents, found])
    over_chunks(lambda start, stop: sort_rows(n + start, n + stop, parents), m)
    return Graph(np.concatenate([graph.order, np.arange(n, n + m)]), parents, arranged.positions)
