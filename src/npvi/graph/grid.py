"""A cheap coarse-to-fine order: one point per empty cell of a shrinking grid."""

from __future__ import annotations

import numpy as np

from npvi.runtime.compiling import compiled

__all__ = ["grid_order"]

# Cells shrink by √2 a level. After 104 levels they are 2⁻⁵² of the widest side, as fine as the coordinates.
_LEVELS = 104


def grid_order(X: np.ndarray, seed: int) -> np.ndarray:
    """Rows from coarse to fine: at each level one point from every cell that has none yet, in random order.

    Repeated points come last, in random order.

    >>> grid_order(np.array([[0.0], [0.01], [1.0], [1.0]]), seed=3).tolist()
    [3, 1, 0, 2]
    """
    shuffled = np.random.default_rng(seed).permutation(len(X))
    low = X.min(axis=0)
    side = float(np.max(X.max(axis=0) - low)) or 1.0
    # The largest scaled coordinate stays below 1: the coarsest grid has one cell. Adding 0 turns -0 into 0.
    scaled = (X[shuffled] - low) / (side * (1.0 + 1e-12)) + 0.0
    return shuffled[_coarse_to_fine(scaled, scaled.view(np.uint64), _LEVELS)]


@compiled
def _slot(table: np.ndarray, key: np.uint64) -> np.int64:
    """Where `key` is, or belongs, in an open-addressing table (its size a power of two, 0 is empty)."""
    mask = np.uint64(len(table) - 1)
    at = (key ^ (key >> np.uint64(32))) & mask
    while table[at] != np.uint64(0) and table[at] != key:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@compiled
def _mix(key: np.uint64, value: np.uint64) -> np.uint64:
    """Fold one integer into a 64-bit hash. A collision only makes a point wait for a later level."""
    key = (key ^ value) * np.uint64(0x9E3779B97F4A7C15)
    return (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) | np.uint64(1)


@compiled
def _coarse_to_fine(points: np.ndarray, bits: np.ndarray, levels: int) -> np.ndarray:
    """Order points in [0, 1)^D, given in random order; `bits` are the same coordinates as integers."""
    n, dimension = points.shape
    size = 2
    while size < 2 * n:
        size *= 2
    table = np.zeros(size, np.uint64)
    owner = np.empty(size, np.int64)
    order = np.empty(n, np.int64)
    pending = np.empty(n, np.int64)
    place = np.empty(n, np.int64)
    # Repeated points never get a cell of their own: they are set aside, or every level would look at them.
    left, repeated = 0, 0
    for i in range(n):
        key = np.uint64(1)
        for c in range(dimension):
            key = _mix(key, bits[i, c])
        at = _slot(table, key)
        if table[at] == np.uint64(0):
            table[at] = key
            pending[left] = i
            left += 1
        else:
            repeated += 1
            order[n - repeated] = i
    placed = 0
    for level in range(levels + 1):
        if left == 0:
            break
        cells = 2.0 ** (0.5 * level)
        while size > 4 * left and size > 2:
            size //= 2
        used = table[:size]
        used[:] = np.uint64(0)
        for j in range(left):
            key = np.uint64(1)
            for c in range(dimension):
                key = _mix(key, np.uint64(points[pending[j], c] * cells))
            at = _slot(used, key)
            place[j] = at
            if used[at] == np.uint64(0):
                used[at] = key
                owner[at] = pending[j]
        for j in range(placed):
            key = np.uint64(1)
            for c in range(dimension):
                key = _mix(key, np.uint64(points[order[j], c] * cells))
            at = _slot(used, key)
            if used[at] == key:
                owner[at] = -1
        waiting = left
        left = 0
        for j in range(waiting):
            if owner[place[j]] == pending[j]:
                order[placed] = pending[j]
                placed += 1
            else:
                pending[left] = pending[j]
                left += 1
    for j in range(left):
        order[placed + j] = pending[j]
    return order
