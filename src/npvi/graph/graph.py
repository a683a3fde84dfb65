"""The directed graph: an order of the points, and for each the earlier points it depends on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from npvi.compiling import compiled
from npvi.parallel import over_chunks

__all__ = ["Children", "Graph", "Levels"]


class Children(NamedTuple):
    """The graph by parent (compressed rows).

    The children of p are ``child_row[child_ptr[p]:child_ptr[p + 1]]``, ascending, and p stands in column
    ``child_slot`` of their parents: ``parents[child_row[e], child_slot[e]] == p`` for each entry e of p.

    Attributes
    ----------
    child_ptr : int64 (N + 1,)
    child_row : int32 (edges,)
    child_slot : int16 (edges,), int32 where rows are longer than int16 can count

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> child_ptr, child_row, child_slot = build_graph([[0.0], [1.0], [2.0]], 1, order="given").children
    >>> child_ptr.tolist(), child_row.tolist(), child_slot.tolist()
    ([0, 1, 2, 2], [1, 2], [0, 0])
    """

    child_ptr: np.ndarray
    child_row: np.ndarray
    child_slot: np.ndarray


class Levels(NamedTuple):
    """Positions by level; points of one level do not depend on each other.

    Level l is ``level_order[level_ptr[l]:level_ptr[l + 1]]``, in spatial order.

    Attributes
    ----------
    level_order : int32 (N,)
    level_ptr : int64 (levels + 1,)

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> levels = build_graph([[0.0], [1.0], [-1.0]], 1, order="given").levels
    >>> levels.level_order[: levels.level_ptr[1]].tolist(), levels.level_ptr.tolist()
    ([0], [0, 1, 3])
    """

    level_order: np.ndarray
    level_ptr: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An order of N points and the parents of each, by position in that order.

    Attributes
    ----------
    order : int64 (N,)
        The caller's row at each position.
    parents : int32 (N, K)
        Positions of the parents, ascending, all smaller than the row's own; padded at the end with -1.
        The point at position i has exactly min(K, i) of them.
    spatial : int32 (N,)
        All positions in a space-filling order: loops that follow it find neighbours in the cache.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0], [2.0], [3.0]], n_neighbors=2, order="given")
    >>> graph
    Graph(n_points=4, n_neighbors=2)
    >>> graph.parents.tolist()
    [[-1, -1], [0, -1], [0, 1], [1, 2]]
    >>> graph.children.child_row.tolist()
    [1, 2, 2, 3, 3]
    >>> graph.levels.level_ptr.tolist()
    [0, 1, 2, 3, 4]
    """

    order: np.ndarray
    parents: np.ndarray
    spatial: np.ndarray

    @property
    def n_points(self) -> int:
        """Number of points N."""
        return self.parents.shape[0]

    @property
    def n_neighbors(self) -> int:
        """Largest number of parents K."""
        return self.parents.shape[1]

    def packed(self) -> Graph:
        """The same parents, the points renumbered so that neighbours in space are neighbours in memory.

        Points follow the space-filling order, each after the parents that are not placed yet. Whatever only depends
        on who is whose parent (the prior, its factor, the posterior) stays the same; loops over all points read
        memory almost in sequence. The first K + 1 points keep their places.

        >>> from npvi.graph import build_graph
        >>> graph = build_graph(np.random.default_rng(0).random((50, 2)), 3)
        >>> packed = graph.packed()
        >>> joined = lambda g: {(g.order[i], g.order[p]) for i, row in enumerate(g.parents) for p in row if p >= 0}
        >>> joined(packed) == joined(graph)
        True
        """
        place = np.full(self.n_points, -1, np.int32)
        rows = np.empty(self.n_points, np.int32)
        _pack(self.parents, self.spatial, place, rows, np.zeros_like(rows), np.empty_like(rows))
        parents = np.empty_like(self.parents)
        over_chunks(_renumber, self.n_points, rows, place, self.parents, parents)
        return Graph(self.order[rows], parents, place[self.spatial])

    @cached_property
    def children(self) -> Children:
        """Children of each point, found on first use."""
        slots = np.int16 if self.n_neighbors <= np.iinfo(np.int16).max else np.int32
        n, k = self.parents.shape
        # Every row but the first k is full.
        edges = n * k - k * (k + 1) // 2
        children = Children(np.zeros(n + 1, np.int64), np.empty(edges, np.int32), np.empty(edges, slots))
        _transpose(self.parents, *children)
        return children

    @cached_property
    def moral_density(self) -> float:
        """Pairs of points that are parent and child or share a child, per edge; from a sample of 64 points.

        It is how much denser the precision matrix of a process on this graph is than the graph.
        """
        pointer, rows, slots = self.children
        pairs = edges = 0
        for i in np.unique(np.linspace(0, self.n_points - 1, 64).astype(np.int64)):
            own = self.parents[i][self.parents[i] >= 0]
            earlier = [self.parents[rows[e], : slots[e]] for e in range(pointer[i], pointer[i + 1])]
            pairs += len(np.unique(np.concatenate([own, *earlier])))
            edges += len(own)
        return pairs / max(edges, 1)

    @cached_property
    def levels(self) -> Levels:
        """Points by level (1 + the highest level of the parents, 0 without any), found on first use."""
        level = np.zeros(self.n_points, np.int32)
        _find_levels(self.parents, level)
        order = self.spatial[np.argsort(level[self.spatial], kind="stable")]
        return Levels(order, np.concatenate([[0], np.cumsum(np.bincount(level))]))

    def __repr__(self) -> str:
        return f"Graph(n_points={self.n_points}, n_neighbors={self.n_neighbors})"

    def __getstate__(self) -> dict[str, Any]:
        # What can be found again is not worth its place in a file.
        return {field.name: getattr(self, field.name) for field in fields(self)}


@compiled
def _pack(
    parents: np.ndarray,
    spatial: np.ndarray,
    place: np.ndarray,
    rows: np.ndarray,
    next_parent: np.ndarray,
    stack: np.ndarray,
) -> None:
    """`place`, −1 to begin with: where each point goes; `rows`: which point is at each place.

    `next_parent`, 0 to begin with, and `stack` are room to work in.
    """
    n, k = parents.shape
    placed = min(n, k + 1)
    for i in range(placed):
        place[i] = rows[i] = i
    for s in spatial:
        if place[s] >= 0:
            continue
        stack[0] = s
        top = 0
        while top >= 0:
            i = stack[top]
            j = next_parent[i]
            while j < k and place[parents[i, j]] >= 0:
                j += 1
            next_parent[i] = j
            if j < k:
                top += 1
                stack[top] = parents[i, j]
            else:
                place[i] = placed
                rows[placed] = i
                placed += 1
                top -= 1


@compiled
def _renumber(
    start: int, stop: int, rows: np.ndarray, place: np.ndarray, parents: np.ndarray, renumbered: np.ndarray
) -> None:
    k = parents.shape[1]
    for i in range(start, stop):
        count = min(i, k)
        for j in range(count):
            p = place[parents[rows[i], j]]
            at = j
            while at > 0 and renumbered[i, at - 1] > p:
                renumbered[i, at] = renumbered[i, at - 1]
                at -= 1
            renumbered[i, at] = p
        renumbered[i, count:] = -1


@compiled
def _transpose(parents: np.ndarray, pointer: np.ndarray, row: np.ndarray, slot: np.ndarray) -> None:
    n, k = parents.shape
    for i in range(n):
        for j in range(min(i, k)):
            pointer[parents[i, j] + 1] += 1
    for i in range(n):
        pointer[i + 1] += pointer[i]
    for i in range(n):
        for j in range(min(i, k)):
            at = pointer[parents[i, j]]
            row[at] = i
            slot[at] = j
            pointer[parents[i, j]] = at + 1
    # Each pointer has run to the end of its list, which is where the next one starts.
    for i in range(n, 0, -1):
        pointer[i] = pointer[i - 1]
    pointer[0] = 0


@compiled
def _find_levels(parents: np.ndarray, level: np.ndarray) -> None:
    n, k = parents.shape
    for i in range(1, n):
        highest = level[parents[i, 0]]
        for j in range(1, min(i, k)):
            highest = max(highest, level[parents[i, j]])
        level[i] = highest + 1
