"""The directed graph: an order of the points, and for each the earlier points it depends on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from npvi.checks import LARGEST, as_numbers, check_finite
from npvi.runtime.compiling import compiled

__all__ = ["Children", "Graph", "Parts", "check_parents", "check_permutation", "check_points"]


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


class Parts(NamedTuple):
    """Positions by part. The parts form a binary tree, 1 at its root and 2p, 2p + 1 below p.

    Each leaf belongs to a stretch of the space-filling order. A point is in the lowest part that is above it and all
    that depend on it, so its parents are in its own part or above: parts on one level can be walked at once, the root
    first (or last, for those who come from the children).

    Part p is ``part_order[part_ptr[p]:part_ptr[p + 1]]``, ascending.

    Attributes
    ----------
    part_order : int32 (N,)
    part_ptr : int64 (2 · leaves + 1,)

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> parts = build_graph(np.random.default_rng(0).random((1000, 1)), 2).parts(depth=1)
    >>> np.diff(parts.part_ptr).tolist()  # few points are above both halves
    [0, 11, 496, 493]
    """

    part_order: np.ndarray
    part_ptr: np.ndarray


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

    def relabelled(self, rows: np.ndarray) -> Graph:
        """The same graph for a caller who has row r of this one as row ``rows[r]``.

        >>> from npvi.graph import build_graph
        >>> build_graph([[0.0], [1.0], [2.0]], 1, order="given").relabelled(np.array([5, 3, 4])).order.tolist()
        [5, 3, 4]
        """
        return Graph(rows[self.order], self.parents, self.spatial)

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
        parents = place[self.parents[rows]]
        parents[self.parents[rows] < 0] = -1
        sort_rows(parents)
        return Graph(self.order[rows], parents, place[self.spatial])

    @cached_property
    def children(self) -> Children:
        """Children of each point, found on first use."""
        slots = np.int16 if self.n_neighbors <= np.iinfo(np.int16).max else np.int32
        n, used = self.n_points, self.parents >= 0
        pointer = np.concatenate([[0], np.cumsum(np.count_nonzero(used, axis=1))])
        slot = np.broadcast_to(np.arange(self.n_neighbors, dtype=slots), used.shape)[used]
        by_child = scipy.sparse.csr_array((slot, self.parents[used], pointer), shape=(n, n))
        by_parent = by_child.tocsc()
        pointer, row = by_parent.indptr.astype(np.int64), by_parent.indices.astype(np.int32)
        return Children(pointer, row, by_parent.data)

    @cached_property
    def moral_density(self) -> float:
        """Pairs of points that are parent and child or share a child, per edge; from a sample of 64 points.

        It is how much denser the precision matrix of a process on this graph is than the graph.
        """
        some = np.unique(np.linspace(0, self.n_points - 1, 64).astype(np.int64))
        pairs = sum(len(self._moral_parents(i)) for i in some)
        return pairs / max(int(np.count_nonzero(self.parents[some] >= 0)), 1)

    def _moral_parents(self, i: int) -> np.ndarray:
        """Points that are parents of this one or, before it, of a child of it."""
        pointer, row, slot = self.children
        of_children = slice(pointer[i], pointer[i + 1])
        parents = self.parents[row[of_children]]
        before = np.arange(self.n_neighbors) < slot[of_children, None]
        found = np.append(parents[before], self.parents[i])
        return np.unique(found[found >= 0])

    @cached_property
    def _parts(self) -> dict[int, Parts]:
        return {}

    def parts(self, depth: int) -> Parts:
        """Points by part, 2^depth leaves, found on first use: for threads. They aren't tiles, since who depends on whom
        decides, and a part sees no others around it."""
        if depth not in self._parts:
            part = np.empty(self.n_points, np.int16)  # short numbers are sorted in linear time
            part[self.spatial] = (1 << depth) + ((np.arange(self.n_points) << depth) // self.n_points)
            _rise(self.parents, part)
            counts = np.bincount(part, minlength=2 << depth)
            order = np.argsort(part, kind="stable").astype(np.int32)
            self._parts[depth] = Parts(order, np.concatenate([[0], np.cumsum(counts)]))
        return self._parts[depth]

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
def _rise(parents: np.ndarray, part: np.ndarray) -> None:
    """Move every point up to the lowest part that is above its children."""
    n, k = parents.shape
    for i in range(n - 1, 0, -1):
        for j in range(min(i, k)):
            one, other = part[i], part[parents[i, j]]
            while one != other:
                if one > other:
                    one >>= 1
                else:
                    other >>= 1
            part[parents[i, j]] = one


def sort_rows(parents: np.ndarray) -> None:
    """Each row of an int32 matrix ascending, with its −1 at the end: without a sign they are the largest."""
    parents.view(np.uint32).sort(axis=1)


# -- checks of what a caller hands to the graph -----------------------------------------------------------------------


def check_points(X: ArrayLike, name: str, allow_empty: bool = False) -> np.ndarray:
    """X as a finite float64 matrix with rows in memory order."""
    array = as_numbers(X, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape} but must be two-dimensional, (points, inputs): "
            f"a single input is {name}.reshape(-1, 1), a single point {name}.reshape(1, -1)"
        )
    if array.shape[1] == 0 or (array.shape[0] == 0 and not allow_empty):
        raise ValueError(f"{name} is empty, with shape {array.shape}: give at least one point with at least one input")
    check_finite(array, name, LARGEST)
    return np.ascontiguousarray(array)


def check_permutation(order: ArrayLike, n: int) -> np.ndarray:
    """An array that holds each of 0, …, n-1 once, as int64."""
    try:
        array = np.asarray(order)
    except ValueError:
        raise ValueError("order is no list of numbers: its rows differ in length") from None
    if array.dtype.kind not in "ui":
        raise TypeError(f"order is an array of {array.dtype} but must hold integers: the row at each position")
    if array.shape != (n,):
        raise ValueError(f"order has shape {array.shape} but X has {n} rows: give a permutation of 0, …, {n - 1}")
    array = array.astype(np.int64)
    outside = np.flatnonzero((array < 0) | (array >= n))
    if len(outside):
        raise ValueError(
            f"order holds {array[outside[0]]} at position {outside[0]} ({len(outside)} such entries) "
            f"but must be a permutation of 0, …, {n - 1}"
        )
    repeats = np.bincount(array, minlength=n)
    if repeats.max() > 1:
        row = int(repeats.argmax())
        raise ValueError(
            f"order holds row {row} {repeats[row]} times but must be a permutation of 0, …, {n - 1}: name each row once"
        )
    return array


def check_parents(parents: np.ndarray) -> None:
    """Raise ValueError unless each row has earlier points, as many as there are columns for, ascending, and then −1."""
    n, k = parents.shape
    everyone = np.arange(n)
    used = np.arange(k) < np.minimum(everyone, k)[:, None]
    ascending = np.diff(parents, axis=1) > 0
    earlier = (parents >= 0) & (parents < everyone[:, None])
    if not (np.where(used, earlier, parents == -1).all() and (ascending | ~used[:, 1:]).all()):
        raise ValueError("its parents are not earlier points in ascending order")
