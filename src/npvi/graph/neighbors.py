"""Exact nearest points: a k-d tree, and its searches for all points or only those that come earlier in an order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import check_count
from npvi.graph.graph import check_points
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = ["LEAF_SIZE", "Arranged", "NeighborIndex", "Tree", "arrange", "build_tree", "search"]


# -- a k-d tree as flat arrays, for compiled loops --------------------------------------------------------------------

# The tree is a complete binary heap: node 1 is the root, the children of n are 2n and 2n+1, and every leaf is
# on the last level. Node number k of level l holds the points ``[N k >> l, N (k+1) >> l)`` of the tree order,
# so that no pointers or ranges are stored.


# A leaf is scanned by one vectorised loop; larger leaves scan in vain, smaller ones make the tree deeper.
# For Python only: a cached compiled function would not notice a change made in another file.
LEAF_SIZE = 24

# Levels that are split one by one, so that every thread has a node; below, each thread owns whole subtrees.
_SHARED_LEVELS = 5


class Tree(NamedTuple):
    """Points in tree order with the boxes of all nodes.

    Attributes
    ----------
    points : float64 (N, D)
        Coordinates in tree order.
    rows : int32 (N,)
        The caller's row of each point.
    boxes : float64 (2 · leaves, 2, D)
        Smallest and largest coordinates inside each node; entry 0 is unused.
    depth : int
        Level of the leaves.
    """

    points: np.ndarray
    rows: np.ndarray
    boxes: np.ndarray
    depth: int


def build_tree(X: np.ndarray) -> Tree:
    """Split the points at medians of the widest side of their box, down to leaves of at most `LEAF_SIZE`.

    >>> tree = build_tree(np.arange(40.0)[:, None] % 7)
    >>> tree.depth, tree.boxes[1].ravel().tolist()
    (1, [0.0, 6.0])
    """
    n, dimension = X.shape
    depth = 0
    while n > LEAF_SIZE << depth:
        depth += 1
    points = np.array(X, dtype=np.float64, order="C")
    rows = np.arange(n, dtype=np.int32)
    boxes = np.empty((2 << depth, 2, dimension))
    boxes[0] = 0.0
    shared = _SHARED_LEVELS if depth > 2 * _SHARED_LEVELS else 0
    for level in range(shared):
        over_chunks(_split, 1 << level, level, level, depth, points, rows, boxes, grain=1)
    over_chunks(_split, 1 << shared, shared, depth, depth, points, rows, boxes, grain=1)
    return Tree(points, rows, boxes, depth)


@compiled
def _split(
    start: int,
    stop: int,
    level: int,
    last: int,
    depth: int,
    points: np.ndarray,
    rows: np.ndarray,
    boxes: np.ndarray,
) -> None:
    """Box and split nodes [start, stop) of `level` and all below them as far as level `last`."""
    n, dimension = points.shape
    stack = np.empty(2 * depth + 2, np.int64)
    for k in range(start, stop):
        top = 0
        stack[0] = (1 << level) + k
        while top >= 0:
            node = stack[top]
            top -= 1
            at = level
            while node >> (at + 1) > 0:
                at += 1
            place = node - (1 << at)
            lo, hi = (n * place) >> at, (n * (place + 1)) >> at
            widest, width = lo - lo, -1.0
            for c in range(dimension):
                least = points[lo, c]
                most = least
                for i in range(lo + 1, hi):
                    least = min(least, points[i, c])
                    most = max(most, points[i, c])
                boxes[node, 0, c] = least
                boxes[node, 1, c] = most
                if most - least > width:
                    widest, width = c, most - least
            if at == depth:
                continue
            if width > 0.0:
                _select(points, rows, lo, hi, (n * (2 * place + 1)) >> (at + 1), widest)
            if at < last:
                stack[top + 1] = 2 * node + 1
                stack[top + 2] = 2 * node
                top += 2


@inlined
def _select(points: np.ndarray, rows: np.ndarray, lo: int, hi: int, middle: int, c: int) -> None:
    """Reorder [lo, hi) so that no point before `middle` exceeds one from `middle` on in coordinate c."""
    dimension = points.shape[1]
    state = np.uint32(lo + hi)
    first, last = lo, hi - 1
    while first < last:
        # The median of three pseudo-random points: no arrangement of the input is quadratic by design, and
        # the choice depends on the node alone, so that any number of threads builds the same tree.
        size = last - first + 1
        state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        a = points[first + np.int64(state >> np.uint32(4)) % size, c]
        state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        b = points[first + np.int64(state >> np.uint32(4)) % size, c]
        e = points[first + size // 2, c]
        pivot = max(min(a, b), min(max(a, b), e))
        i, j = first, last
        # Both scans stop at points equal to the pivot: ties are then halved like anything else.
        while i <= j:
            while points[i, c] < pivot:
                i += 1
            while points[j, c] > pivot:
                j -= 1
            if i <= j:
                rows[i], rows[j] = rows[j], rows[i]
                for q in range(dimension):
                    points[i, q], points[j, q] = points[j, q], points[i, q]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            break


# -- exact nearest points, all of them or only those that come earlier in an order ------------------------------------


class Arranged(NamedTuple):
    """A tree that knows the position of its points in an order.

    Attributes
    ----------
    points : float64 (N, D)
        Coordinates in tree order, inside a leaf by ascending position: the scan for earlier points ends at
        the first later one.
    blocks : float64 (N · D,)
        The same leaf by leaf, and inside a leaf coordinate by coordinate: a visit reads one stretch of
        memory, in vector loads.
    positions : int32 (N,)
        Position of each point in the order.
    first : int32 (2 · leaves,)
        Smallest position inside each node.
    boxes, depth :
        As in `Tree`.
    """

    points: np.ndarray
    blocks: np.ndarray
    positions: np.ndarray
    first: np.ndarray
    boxes: np.ndarray
    depth: int


def arrange(tree: Tree, order: np.ndarray) -> Arranged:
    """Number the points of the tree by their position in `order` (int64, a permutation of the rows)."""
    (n, dimension), leaves = tree.points.shape, 1 << tree.depth
    position_of_row = np.empty(n, np.int32)
    position_of_row[order] = np.arange(n, dtype=np.int32)
    # leaves differ in size by one: the rest of a row of places is void, and comes last
    starts = (n * np.arange(leaves + 1)) >> tree.depth
    sizes = np.diff(starts)
    places = starts[:-1, None] + np.arange(sizes.max())
    void = places >= starts[1:, None]
    positions = position_of_row[tree.rows[np.where(void, 0, places)]]
    positions[void] = n
    within = np.argsort(positions, axis=1)
    source = np.take_along_axis(places, within, axis=1)[~void]
    points, positions = tree.points[source], position_of_row[tree.rows[source]]
    blocks = np.empty(n * dimension)
    at = np.repeat(starts[:-1] * (dimension - 1), sizes) + np.arange(n)
    for c in range(dimension):
        blocks[at + c * np.repeat(sizes, sizes)] = points[:, c]
    first = np.zeros(2 * leaves, np.int32)
    first[leaves:] = positions[starts[:-1]]
    for level in range(tree.depth - 1, -1, -1):
        first[1 << level : 2 << level] = first[2 << level : 4 << level].reshape(-1, 2).min(axis=1)
    return Arranged(points, blocks, positions, first, tree.boxes, tree.depth)


def search(
    arranged: Arranged,
    queries: np.ndarray,
    homes: np.ndarray,
    limits: np.ndarray,
    targets: np.ndarray,
    found: np.ndarray,
) -> None:
    """Write into ``found[targets[m]]`` the positions of the nearest points to ``queries[m]``, nearest first.

    Only positions below ``limits[m]`` count; where fewer than the columns of `found` exist the rest is -1.
    Neighbouring queries should stand together: they visit the same nodes.

    Parameters
    ----------
    queries : float64 (M, D)
    homes : int32 (M,)
        Where to look first when distances tie: the query's own place in the tree, or any other. What is found depends
        on this and on the query, not on its number m.
    limits, targets : int32 (M,)
    found : int32 (rows, K), written to
    """
    over_chunks(
        _search,
        len(queries),
        queries,
        homes,
        limits,
        targets,
        arranged.blocks,
        arranged.positions,
        arranged.first,
        arranged.boxes,
        arranged.depth,
        found,
        grain=256,
        per_thread=16,
    )


@compiled
def _search(
    start: int,
    stop: int,
    queries: np.ndarray,
    homes: np.ndarray,
    limits: np.ndarray,
    targets: np.ndarray,
    blocks: np.ndarray,
    positions: np.ndarray,
    first: np.ndarray,
    boxes: np.ndarray,
    depth: int,
    found: np.ndarray,
) -> None:
    n, dimension = len(positions), queries.shape[1]
    leaves = 1 << depth
    k = found.shape[1]
    best = np.empty(k + 1)
    who = np.empty(k + 1, np.int32)
    near = np.empty((n >> depth) + 1)
    point = np.empty(dimension)
    waiting = np.empty(64, np.int64)
    waiting_distance = np.empty(64)
    for m in range(start, stop):
        limit = limits[m]
        target = targets[m]
        wanted = min(k, np.int64(limit))
        for j in range(wanted, k):
            found[target, j] = -1
        if wanted == 0:
            continue
        for c in range(dimension):
            point[c] = queries[m, c]
        best[wanted - 1] = np.inf
        worst = np.inf
        count = 0
        home = leaves + ((np.int64(homes[m]) << depth) // n)
        waiting[0] = 1
        waiting_distance[0] = 0.0
        top = 0
        while top >= 0:
            node = waiting[top]
            distance = waiting_distance[top]
            top -= 1
            # Equality prunes too: ties with the worst found so far are worth nothing, and on lattices or
            # among identical points there are very many.
            if distance >= worst:
                continue
            while node < leaves:
                node *= 2
                left, right = 0.0, 0.0
                for c in range(dimension):
                    gap = max(max(boxes[node, 0, c] - point[c], point[c] - boxes[node, 1, c]), 0.0)
                    left += gap * gap
                    gap = max(max(boxes[node + 1, 0, c] - point[c], point[c] - boxes[node + 1, 1, c]), 0.0)
                    right += gap * gap
                if first[node] >= limit:
                    left = np.inf
                if first[node + 1] >= limit:
                    right = np.inf
                swap = right < left
                if right == left:
                    # Among many identical points every choice is right, but were it always the same one, a
                    # few points would become the parents of all others. So each goes for its own leaf, and
                    # from there where a pseudo-random bit says.
                    ancestor = home
                    while ancestor > node + 1:
                        ancestor >>= 1
                    if ancestor >= node:
                        swap = ancestor > node
                    else:
                        mixed = (np.int64(homes[m]) * 0x9E3779B1) ^ (node * 0x85EBCA77)
                        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D
                        swap = ((mixed ^ (mixed >> 13)) >> 20) & 1 == 1
                distance = left
                other, other_distance = node + 1, right
                if swap:
                    distance = right
                    other, other_distance = node, left
                    node += 1
                if other_distance < worst:
                    top += 1
                    waiting[top] = other
                    waiting_distance[top] = other_distance
                if distance >= worst:
                    break
            if distance >= worst:
                continue
            leaf = node - leaves
            lo, hi = (n * leaf) >> depth, (n * (leaf + 1)) >> depth
            stride = hi - lo
            while positions[hi - 1] >= limit:
                hi -= 1
            size = hi - lo
            for j in range(size):
                near[j] = 0.0
            for c in range(dimension):
                x = point[c]
                at = lo * dimension + c * stride
                for j in range(size):
                    gap = blocks[at + j] - x
                    near[j] += gap * gap
            for j in range(size):
                distance = near[j]
                if distance < worst:
                    count = min(count + 1, wanted)
                    i = count - 1
                    while i > 0 and best[i - 1] > distance:
                        best[i] = best[i - 1]
                        who[i] = who[i - 1]
                        i -= 1
                    best[i] = distance
                    who[i] = positions[lo + j]
                    worst = best[wanted - 1]
        for j in range(wanted):
            found[target, j] = who[j]


# -- nearest points to any others, for prediction ---------------------------------------------------------------------


class NeighborIndex:
    """Exact nearest neighbours among a fixed set of points.

    Parameters
    ----------
    X : (N, D) array of numbers
        The points to search.

    Examples
    --------
    >>> index = NeighborIndex([[0.0], [1.0], [5.0]])
    >>> index.query([[0.9], [4.0]], k=2).tolist()
    [[1, 0], [2, 1]]
    """

    def __init__(self, X: ArrayLike) -> None:
        points = check_points(X, "X")
        self._arranged = arrange(build_tree(points), np.arange(len(points)))

    @property
    def n_points(self) -> int:
        """Number of points that can be found."""
        return len(self._arranged.points)

    def query(self, Z: ArrayLike, k: int) -> np.ndarray:
        """Rows of the k nearest points to each row of Z, nearest first.

        Parameters
        ----------
        Z : (M, D) array of numbers
        k : int
            At most the number of points.

        Returns
        -------
        int32 (M, k)

        Examples
        --------
        >>> NeighborIndex([[0.0], [1.0], [5.0]]).query([[2.0]], k=3).tolist()
        [[1, 0, 2]]
        """
        points = check_points(Z, "Z", allow_empty=True)
        dimension = self._arranged.points.shape[1]
        if points.shape[1] != dimension:
            raise ValueError(
                f"Z has {points.shape[1]} columns but the index was built on {dimension}: "
                "give the same inputs in the same order"
            )
        k = check_count(k, "k")
        if k > self.n_points:
            raise ValueError(f"k is {k} but there are {self.n_points} points: choose k between 1 and {self.n_points}")
        found = np.empty((len(points), k), np.int32)
        if len(points):
            # In the order of a tree of their own, queries that follow each other visit the same nodes.
            visit = build_tree(points)
            limits = np.full(len(points), self.n_points, np.int32)
            homes = np.zeros(len(points), np.int32)
            search(self._arranged, visit.points, homes, limits, visit.rows, found)
        return found
