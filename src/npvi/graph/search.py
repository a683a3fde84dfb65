"""Exact nearest points, all of them or only those that come earlier in an order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npvi.graph.tree import Tree
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["Arranged", "arrange", "search"]


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
    n, dimension = tree.points.shape
    position_of_row = np.empty(n, np.int32)
    position_of_row[order] = np.arange(n, dtype=np.int32)
    positions = position_of_row[tree.rows]
    points, blocks = np.empty((n, dimension)), np.empty(n * dimension)
    first = np.empty(2 << tree.depth, np.int32)
    first[0] = 0
    arrays = (tree.points, positions, points, blocks, first)
    over_chunks(_arrange_leaves, 1 << tree.depth, tree.depth, *arrays, grain=128)
    for level in range(tree.depth - 1, -1, -1):
        first[1 << level : 2 << level] = first[2 << level : 4 << level].reshape(-1, 2).min(axis=1)
    return Arranged(points, blocks, positions, first, tree.boxes, tree.depth)


@compiled
def _arrange_leaves(
    start: int,
    stop: int,
    depth: int,
    unsorted: np.ndarray,
    positions: np.ndarray,
    points: np.ndarray,
    blocks: np.ndarray,
    first: np.ndarray,
) -> None:
    """Sort leaves [start, stop) by position (insertion sort: they are short) and copy their coordinates."""
    n, dimension = unsorted.shape
    leaves = 1 << depth
    source = np.empty((n >> depth) + 1, np.int64)
    for leaf in range(start, stop):
        lo, hi = (n * leaf) >> depth, (n * (leaf + 1)) >> depth
        for i in range(lo, hi):
            position = positions[i]
            j = i
            while j > lo and positions[j - 1] > position:
                positions[j] = positions[j - 1]
                source[j - lo] = source[j - 1 - lo]
                j -= 1
            positions[j] = position
            source[j - lo] = i
        for i in range(lo, hi):
            for c in range(dimension):
                x = unsorted[source[i - lo], c]
                points[i, c] = x
                blocks[lo * dimension + c * (hi - lo) + i - lo] = x
        first[leaves + leaf] = positions[lo]


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
