"""The exact maximin order: each point is as far as possible from all before it."""

from __future__ import annotations

import numpy as np
from numba import njit

from npvi.graph.tree import Tree

__all__ = ["maximin_order"]


def maximin_order(tree: Tree, seed: int) -> np.ndarray:
    """Rows in maximin order, from the point nearest the centroid.

    Greedy: ``order[i] = argmax_j min_{c < i} |x_j − x_order[c]|``, ties broken at random. When all that is
    left coincides with points already chosen, the rest follows at random.

    The k-d tree doubles as a tournament: each node knows the largest distance of its points to the chosen
    set, so the next point is the winner at the root, and a new point only changes nodes whose box is nearer
    to it than that distance. About N/i points lie so near the i-th choice: O(N log N) updates in all for a
    fixed dimension.

    >>> from npvi.graph.tree import build_tree
    >>> maximin_order(build_tree(np.arange(5.0)[:, None]), seed=0).tolist()[:1]
    [2]
    """
    n = len(tree.points)
    leaves = 1 << tree.depth
    offset = tree.points - tree.points.mean(axis=0)
    nearest = int(np.argmin(np.einsum("ij,ij->i", offset, offset)))
    # Leaf by leaf in memory, coordinate by coordinate inside: a visit reads one stretch, in vector loads. Leaves
    # differ in size by one; a place without a point counts as chosen.
    starts = (n * np.arange(leaves + 1)) >> tree.depth
    size = int(np.diff(starts).max())
    places = starts[:-1, None] + np.arange(size)
    vacant = places >= starts[1:, None]
    places[vacant] = n - 1
    blocks = np.ascontiguousarray(tree.points[places].transpose(0, 2, 1))
    gaps = np.where(vacant, -1.0, np.inf)
    leaf = int(np.searchsorted(starts, nearest, side="right")) - 1
    start = leaf * size + nearest - int(starts[leaf])
    picked = np.empty(n, np.int32)
    farthest = np.full(2 * leaves, np.inf)
    queue = np.empty(2 * leaves, np.int32)
    count = _tournament(blocks, tree.boxes, start, np.uint64(seed), gaps, farthest, queue, picked)
    order = np.empty(n, np.int64)
    order[:count] = tree.rows[places.ravel()[picked[:count]]]
    rest = tree.rows[places[gaps >= 0.0]]
    order[count:] = np.random.default_rng(seed).permutation(np.sort(rest))
    return order


@njit(cache=True, nogil=True)
def _tournament(
    blocks: np.ndarray,
    boxes: np.ndarray,
    start: int,
    seed: np.uint64,
    gaps: np.ndarray,
    farthest: np.ndarray,
    queue: np.ndarray,
    picked: np.ndarray,
) -> int:
    """Fill `picked` with places (leaf · size + number) and return how many before only duplicates were left.

    `gaps` holds squared distances to the chosen set, and -1 for what is in it.
    """
    leaves, dimension, size = blocks.shape
    point = np.empty(dimension)
    distances = np.empty(size)
    state = np.uint64(2) * seed + np.uint64(1)
    pick = start
    for count in range(len(picked)):
        picked[count] = pick
        gaps[pick // size, pick % size] = -1.0
        for c in range(dimension):
            point[c] = blocks[pick // size, c, pick % size]
        queue[0] = 1
        end = 1
        at = 0
        while at < end:
            node = np.int64(queue[at])
            at += 1
            if node < leaves:
                for child in range(2 * node, 2 * node + 2):
                    distance = 0.0
                    for c in range(dimension):
                        gap = max(max(boxes[child, 0, c] - point[c], point[c] - boxes[child, 1, c]), 0.0)
                        distance += gap * gap
                    if distance < farthest[child]:
                        queue[end] = child
                        end += 1
                continue
            leaf = node - leaves
            distances[:] = 0.0
            for c in range(dimension):
                for k in range(size):
                    gap = blocks[leaf, c, k] - point[c]
                    distances[k] += gap * gap
            widest = -1.0
            for k in range(size):
                distance = min(distances[k], gaps[leaf, k])
                gaps[leaf, k] = distance
                widest = max(widest, distance)
            farthest[node] = widest
        # Parents stand before their children in the queue: backwards, winners travel up.
        for at in range(end - 1, -1, -1):
            node = np.int64(queue[at])
            if node < leaves:
                farthest[node] = max(farthest[2 * node], farthest[2 * node + 1])
        if farthest[1] <= 0.0:
            return count + 1
        node = np.int64(1)
        while node < leaves:
            node *= 2
            if farthest[node + 1] > farthest[node]:
                node += 1
            elif farthest[node + 1] == farthest[node]:
                # On a lattice nearly all distances tie. Taken in sequence, tied points would become each
                # other's parents in long chains; at random the chains stay short.
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                node += np.int64(state >> np.uint64(63))
        leaf = node - leaves
        k = 0
        while gaps[leaf, k] != farthest[node]:
            k += 1
        pick = leaf * size + k
    return len(picked)
