"""From points to a graph: order them, then give each its parents; more points at its end."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import check_choice, check_count, check_seed
from npvi.graph.checks import check_permutation, check_points
from npvi.graph.graph import Graph
from npvi.graph.grid import grid_order
from npvi.graph.maximin import maximin_order
from npvi.graph.parents import nearest_parents, paper_parents, sort_rows
from npvi.graph.search import arrange, search
from npvi.graph.tiles import nested_order
from npvi.graph.tree import Tree, build_tree
from npvi.runtime.parallel import over_chunks

__all__ = ["ORDERS", "RULES", "Order", "Rule", "build_graph", "extend_graph"]

Rule = Literal["paper", "nearest"]
Order = Literal["maximin", "grid", "nested", "random", "given"]

RULES: tuple[str, ...] = ("paper", "nearest")
ORDERS: tuple[str, ...] = ("maximin", "grid", "nested", "random", "given")


def build_graph(
    X: ArrayLike,
    n_neighbors: int,
    rule: Rule = "nearest",
    order: Order | ArrayLike = "maximin",
    seed: int | None = None,
) -> Graph:
    """Order the points and give each at most `n_neighbors` earlier points as parents.

    Parameters
    ----------
    X : (N, D) array of numbers
        The points. Distances are Euclidean: scale the inputs first. Repeated points are fine.
    n_neighbors : int
        K, the number of parents; N-1 where it is larger. The point at position i has min(K, i).
    rule : {"nearest", "paper"}
        "nearest": the K nearest earlier points.
        "paper": the points joined by an edge where either is among the other's K nearest; of these the K that
        come first in the order, or if they are fewer, also the nearest earlier points.
    order : {"maximin", "grid", "nested", "random", "given"} or array of int
        "maximin": from the point nearest the centroid, always the point farthest from all before it (exact).
        "grid": coarse to fine by one point per empty cell of a shrinking grid.
        "nested": coarse to fine by the first point in each cell of nested grids, as tiles have it.
        "random": a random permutation.
        "given": the rows as they are.
        An array is a permutation: the row at each position.
    seed : int, optional
        For what is random: "random", "grid", and ties in "maximin". None is the same as 0: a graph depends on
        the arguments only, and not on the number of threads.

    Returns
    -------
    Graph

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> graph = build_graph(rng.random((100, 2)), n_neighbors=5)
    >>> graph.parents.shape, graph.parents[:3].tolist()
    ((100, 5), [[-1, -1, -1, -1, -1], [0, -1, -1, -1, -1], [0, 1, -1, -1, -1]])
    """
    points = check_points(X, "X")
    k = min(check_count(n_neighbors, "n_neighbors"), len(points) - 1)
    check_choice(rule, "rule", RULES)
    seed = check_seed(seed)
    named = isinstance(order, str) or not np.iterable(order)
    if named:
        check_choice(order, "order", ORDERS, ", or an array with the row at each position")
    else:
        rows = check_permutation(order, len(points))

    tree = build_tree(points)
    if named:
        rows = _ordered(points, tree, str(order), seed)
    arranged = arrange(tree, rows)
    parents = (nearest_parents if rule == "nearest" else paper_parents)(arranged, k)
    return Graph(rows, parents, arranged.positions)


def _ordered(points: np.ndarray, tree: Tree, order: str, seed: int) -> np.ndarray:
    if order == "maximin":
        return maximin_order(tree, seed)
    if order == "grid":
        return grid_order(points, seed)
    if order == "nested":
        return nested_order(points)
    if order == "random":
        return np.random.default_rng(seed).permutation(len(points))
    return np.arange(len(points))


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
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be what build_graph or extend_graph returned, got {graph!r}")
    points, new = check_points(points, "points"), check_points(new, "new")
    n, k = graph.parents.shape
    if len(points) != n or new.shape[1] != points.shape[1]:
        raise ValueError(
            f"points must be the {n} of the graph, and new have as many inputs; got shapes {points.shape}, {new.shape}"
        )
    m = len(new)
    arranged = arrange(build_tree(np.vstack([points, new])), np.arange(n + m))
    places = np.flatnonzero(arranged.positions >= n).astype(np.int32)
    positions = arranged.positions[places]
    found = np.empty((m, k), np.int32)
    search(arranged, arranged.points[places], places, positions, positions - np.int32(n), found)
    parents = np.concatenate([graph.parents, found])
    over_chunks(lambda start, stop: sort_rows(n + start, n + stop, parents), m)
    return Graph(np.concatenate([graph.order, np.arange(n, n + m)]), parents, arranged.positions)
