"""From points to a graph: order them, then give each its parents; more points at its end."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import check_choice, check_count, check_seed
from npvi.graph.graph import Graph, check_permutation, check_points, sort_rows
from npvi.graph.grid import grid_order
from npvi.graph.maximin import maximin_order
from npvi.graph.neighbors import Arranged, Tree, arrange, build_tree, search
from npvi.graph.tiles import nested_order
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = [
    "ORDERS",
    "RULES",
    "Order",
    "Rule",
    "build_graph",
    "extend_graph",
    "nearest_parents",
    "paper_parents",
]


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
    sort_rows(found)
    parents = np.concatenate([graph.parents, found])
    return Graph(np.concatenate([graph.order, np.arange(n, n + m)]), parents, arranged.positions)


# -- the two rules that give each point its parents -------------------------------------------------------------------


def nearest_parents(arranged: Arranged, k: int) -> np.ndarray:
    """The k nearest earlier points of every point, ascending, padded with -1 (int32, N × k)."""
    queries = arranged.points
    parents = np.empty((len(queries), k), np.int32)
    homes = np.arange(len(queries), dtype=np.int32)
    search(arranged, queries, homes, arranged.positions, arranged.positions, parents)
    sort_rows(parents)
    return parents


def paper_parents(arranged: Arranged, k: int) -> np.ndarray:
    """The paper's rule (int32, N × k, ascending, padded with -1).

    An edge joins two points where either is among the other's k nearest; it points from the earlier to the
    later. A point with more than k parents keeps the earliest; one with fewer also gets the nearest earlier
    points that are not yet its parents.
    """
    queries = arranged.points
    positions = arranged.positions
    n = len(queries)
    # One more than k, since a point is its own nearest; among many identical points it may be missing.
    near = np.empty((n, k + 1), np.int32)
    homes = np.arange(n, dtype=np.int32)
    search(arranged, queries, homes, np.full(n, n, np.int32), positions, near)
    over_chunks(_drop_self, n, near)
    pointer = np.zeros(n + 1, np.int64)
    source = np.empty(n * k, np.int32)
    _reverse_edges(near, pointer, source)
    parents = np.full((n, k), -1, np.int32)
    counts = np.empty(n, np.int32)
    over_chunks(_trim, n, near, pointer, source, parents, counts)

    short = counts[positions] < np.minimum(positions, k)
    if short.any():
        points = positions[short]
        earlier = np.empty((len(points), k), np.int32)
        search(arranged, queries[short], homes[short], points, homes[: len(points)], earlier)
        over_chunks(_top_up, len(points), points, earlier, counts, parents)
    return parents


@inlined
def sort_ascending(row: np.ndarray, size: int) -> None:
    """Insertion sort: rows are short."""
    for i in range(1, size):
        value = row[i]
        j = i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@compiled
def _drop_self(start: int, stop: int, near: np.ndarray) -> None:
    """Take each point out of its own row, or the last entry where it is missing; the last column is void."""
    last = near.shape[1] - 1
    for i in range(start, stop):
        j = 0
        while j < last and near[i, j] != i:
            j += 1
        for following in range(j, last):
            near[i, following] = near[i, following + 1]


@compiled
def _reverse_edges(near: np.ndarray, pointer: np.ndarray, source: np.ndarray) -> None:
    """For each point the earlier points that count it among their k nearest, ascending (CSR)."""
    n, k = near.shape[0], near.shape[1] - 1
    for i in range(n):
        for j in range(k):
            if near[i, j] > i:
                pointer[near[i, j] + 1] += 1
    for i in range(n):
        pointer[i + 1] += pointer[i]
    for i in range(n):
        for j in range(k):
            if near[i, j] > i:
                source[pointer[near[i, j]]] = i
                pointer[near[i, j]] += 1
    # Each pointer has run to the end of its list, which is where the next one starts.
    for i in range(n, 0, -1):
        pointer[i] = pointer[i - 1]
    pointer[0] = 0


@compiled
def _trim(
    start: int,
    stop: int,
    near: np.ndarray,
    pointer: np.ndarray,
    source: np.ndarray,
    parents: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Merge a point's own earlier neighbours with those that claim it, and keep the k earliest."""
    k = parents.shape[1]
    own = np.empty(k, np.int32)
    for i in range(start, stop):
        size = 0
        for j in range(k):
            if near[i, j] < i:
                own[size] = near[i, j]
                size += 1
        sort_ascending(own, size)
        a, b, count = 0, pointer[i], 0
        while count < k and (a < size or b < pointer[i + 1]):
            if b == pointer[i + 1] or (a < size and own[a] <= source[b]):
                if b < pointer[i + 1] and own[a] == source[b]:
                    b += 1
                parents[i, count] = own[a]
                a += 1
            else:
                parents[i, count] = source[b]
                b += 1
            count += 1
        counts[i] = count


@compiled
def _top_up(
    start: int, stop: int, points: np.ndarray, earlier: np.ndarray, counts: np.ndarray, parents: np.ndarray
) -> None:
    """Add the nearest earlier points that are no parents yet; of the k nearest enough are free."""
    k = parents.shape[1]
    for m in range(start, stop):
        i = points[m]
        count = counts[i]
        wanted = min(k, np.int64(i))
        chosen = count
        for j in range(wanted):
            if chosen == wanted:
                break
            known = False
            for q in range(count):
                known = known or parents[i, q] == earlier[m, j]
            if not known:
                parents[i, chosen] = earlier[m, j]
                chosen += 1
        sort_ascending(parents[i], wanted)
