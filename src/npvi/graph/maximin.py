"""The exact maximin order: each point is as far as possible from all before it."""

from __future__ import annotations

import numpy as np

from npvi.graph.neighbors import Tree
from npvi.runtime.compiling import compiled_without_nan, inner_without_nan

__all__ = ["maximin_order"]

# Up to this dimension few leaves lie near a new point, and each takes note of it at once; beyond, dozens do, and
# a leaf waits for this many new points, or until it might win, before it is read.
_EAGER = 4
_PATIENCE = 8


def maximin_order(tree: Tree, seed: int) -> np.ndarray:
    """Rows in maximin order, from the point nearest the centroid.

    Greedy: ``order[i] = argmax_j min_{c < i} |x_j − x_order[c]|``, ties broken at random. When all that is
    left coincides with points already chosen, the rest follows at random.

    The k-d tree doubles as a tournament: each node knows (a bound on) the largest distance of its points to the
    chosen set, so the next point is the winner at the root, and a new point only concerns nodes whose box is
    nearer to it than that distance. About N/i points lie so near the i-th choice: O(N log N) updates in all for
    a fixed dimension. Three levels of the tree are tested at once, eight boxes in vector instructions.

    >>> from npvi.graph.neighbors import build_tree
    >>> maximin_order(build_tree(np.arange(5.0)[:, None]), seed=0).tolist()[:1]
    [2]
    """
    n, dimension = tree.points.shape
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
    boxes, farthest, offsets = _eight_by_eight(tree)
    picked = np.empty(n, np.int32)
    chosen = np.empty((n, dimension))
    waiting = np.empty((leaves, 1 if dimension <= _EAGER else _PATIENCE), np.int32)
    scratch = (
        np.zeros(leaves, np.int32),
        np.empty(len(boxes), np.int32),
        np.zeros(len(offsets) + 1, np.int64),
        np.empty(8),
        np.empty(size),
    )
    count = _tournament(
        blocks, gaps, boxes, farthest, offsets, waiting, start, np.uint64(seed), picked, chosen, *scratch
    )
    order = np.empty(n, np.int64)
    order[:count] = tree.rows[places.ravel()[picked[:count]]]
    rest = tree.rows[places[gaps >= 0.0]]
    order[count:] = np.random.default_rng(seed).permutation(np.sort(rest))
    return order


def _eight_by_eight(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every third level of the tree, from the leaves up, in groups of eight siblings.

    Returns boxes (groups, 2, D, 8), the tournament's numbers (groups, 8), ∞ to begin with, and the group with which
    each level starts. Node m of a level is in group m // 8, and its children are group m of the next level. The
    first level may have fewer than eight nodes: those missing have −1, which never wins.
    """
    n_levels = max(1, -(-tree.depth // 3))
    boxes, farthest = [], []
    for level in range(1 - n_levels, 1):
        nodes = 1 << (tree.depth + 3 * level)
        missing = -nodes % 8
        here = np.concatenate([tree.boxes[nodes : 2 * nodes], np.zeros((missing, *tree.boxes.shape[1:]))])
        boxes.append(here.reshape(-1, 8, *here.shape[1:]).transpose(0, 2, 3, 1))
        farthest.append(np.append(np.full(nodes, np.inf), np.full(missing, -1.0)).reshape(-1, 8))
    sizes = [len(part) for part in farthest]
    # half the bytes in single precision, rounded outward
    exact = np.concatenate(boxes)
    rounded = np.ascontiguousarray(exact, dtype=np.float32)
    for side, outward in ((0, np.float32(-np.inf)), (1, np.float32(np.inf))):
        rounded[:, side] = np.nextafter(rounded[:, side], outward)
    return rounded, np.concatenate(farthest), np.cumsum([0, *sizes[:-1]])


@compiled_without_nan
def _tournament(
    blocks: np.ndarray,
    gaps: np.ndarray,
    boxes: np.ndarray,
    farthest: np.ndarray,
    offsets: np.ndarray,
    waiting: np.ndarray,
    start: int,
    seed: np.uint64,
    picked: np.ndarray,
    chosen: np.ndarray,
    n_waiting: np.ndarray,
    queue: np.ndarray,
    begin: np.ndarray,
    near: np.ndarray,
    distances: np.ndarray,
) -> int:
    """Fill `picked` with places (leaf · size + number) and return how many before only duplicates were left.

    `gaps` holds squared distances to the chosen set, and -1 for what is in it; `waiting` the chosen points that a leaf
    has not taken note of yet, by their number, so that its entry in `farthest` is a bound from above. The last five
    arguments are room to work in: allocating here would take longer to compile.
    """
    _, dimension, size = blocks.shape
    levels = len(offsets)
    lanes = boxes.shape[3]  # eight; written out, the loops below would be unrolled, and not vectorised
    patience = waiting.shape[1]
    state = np.uint64(2) * seed + np.uint64(1)
    pick = start
    for count in range(len(picked)):
        picked[count] = pick
        gaps[pick // size, pick % size] = -1.0
        for c in range(dimension):
            chosen[count, c] = blocks[pick // size, c, pick % size]
        queue[0] = 0
        end = 1
        for level in range(levels):
            begin[level + 1] = end
            for at in range(begin[level], begin[level + 1]):
                node = np.int64(queue[at])
                group = offsets[level] + node
                for j in range(lanes):
                    near[j] = 0.0
                for c in range(dimension):
                    x = chosen[count, c]
                    for j in range(lanes):
                        below, above = boxes[group, 0, c, j] - x, x - boxes[group, 1, c, j]
                        gap = below if below > above else above
                        gap = gap if gap > 0.0 else 0.0
                        near[j] += gap * gap
                for j in range(lanes):
                    if near[j] >= farthest[group, j]:
                        continue
                    child = 8 * node + j
                    if level < levels - 1:
                        queue[end] = child
                        end += 1
                        continue
                    waiting[child, n_waiting[child]] = count
                    n_waiting[child] += 1
                    if n_waiting[child] == patience:
                        farthest[group, j] = _take_note(child, blocks, gaps, chosen, waiting, n_waiting, distances)
        for level in range(levels - 1, 0, -1):
            for at in range(begin[level], begin[level + 1]):
                node = np.int64(queue[at])
                farthest[offsets[level - 1] + (node >> 3), node & 7] = _largest(farthest, offsets[level] + node)
        while True:
            leaf = np.int64(0)
            for level in range(levels):
                group = offsets[level] + leaf
                widest, slot, ties = -1.0, 0, 0
                for j in range(lanes):
                    here = farthest[group, j]
                    if here > widest:
                        widest, slot, ties = here, j, 1
                    elif here == widest:
                        # On a lattice nearly all distances tie. Taken in sequence, tied points would become each
                        # other's parents in long chains; at random the chains stay short.
                        ties += 1
                        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                        if (state >> np.uint64(33)) % np.uint64(ties) == 0:
                            slot = j
                if widest <= 0.0:
                    return count + 1
                leaf = 8 * leaf + slot
            if n_waiting[leaf] == 0:
                break
            widest = _take_note(leaf, blocks, gaps, chosen, waiting, n_waiting, distances)
            node = leaf
            for level in range(levels - 1, -1, -1):
                group = offsets[level] + (node >> 3)
                farthest[group, node & 7] = widest
                widest = _largest(farthest, group)
                node >>= 3
        k = 0
        while gaps[leaf, k] != widest:
            k += 1
        pick = leaf * size + k
    return len(picked)


@inner_without_nan
def _take_note(
    leaf: np.int64,
    blocks: np.ndarray,
    gaps: np.ndarray,
    chosen: np.ndarray,
    waiting: np.ndarray,
    n_waiting: np.ndarray,
    distances: np.ndarray,
) -> float:
    """Bring a leaf's gaps up to date with the chosen points that wait there; return the largest."""
    _, dimension, size = blocks.shape
    for w in range(n_waiting[leaf]):
        number = waiting[leaf, w]
        for k in range(size):
            distances[k] = 0.0
        for c in range(dimension):
            x = chosen[number, c]
            for k in range(size):
                gap = blocks[leaf, c, k] - x
                distances[k] += gap * gap
        for k in range(size):
            gaps[leaf, k] = distances[k] if distances[k] < gaps[leaf, k] else gaps[leaf, k]
    n_waiting[leaf] = 0
    return _largest(gaps, leaf)


@inner_without_nan
def _largest(values: np.ndarray, row: np.int64) -> float:
    largest = -1.0
    for k in range(values.shape[1]):
        largest = values[row, k] if values[row, k] > largest else largest
    return largest
