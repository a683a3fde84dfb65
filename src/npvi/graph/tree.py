"""A k-d tree as flat arrays, for compiled loops.

The tree is a complete binary heap: node 1 is the root, the children of n are 2n and 2n+1, and every leaf is
on the last level. Node number k of level l holds the points ``[N k >> l, N (k+1) >> l)`` of the tree order,
so that no pointers or ranges are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npvi.runtime.compiling import compiled, inner
from npvi.runtime.parallel import over_chunks

__all__ = ["LEAF_SIZE", "Tree", "build_tree"]

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


@inner
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
