"""Loops of `npvi.linalg.triangular` over columns a to b of arrays (N, R), eight side by side in vector registers.

`rows` and `values` are the parents and edges of all points in a row.
"""

from __future__ import annotations

import numpy as np

from npvi.linalg.lanes import combine_8, spread_8
from npvi.runtime.compiling import compiled, inlined, inner

__all__ = ["count_of", "dot", "ends_of", "products", "solve", "transpose_dot", "transpose_solve"]


@inlined
def _combine(values, rows, start, stop, x, a, b, total):
    """total[:b−a] = Σ values[e] · x[rows[e], a:b] over start ≤ e < stop."""
    r = a
    while r + 8 <= b:
        combine_8(values, rows, start, stop, x, r, total[r - a :])  # type: ignore[call-arg]
        r += 8
    while r < b:
        total[r - a] = 0.0
        for e in range(start, stop):
            total[r - a] += values[e] * x[np.uintp(rows[e]), r]
        r += 1


@inlined
def _add(values, rows, start, stop, what, x, a, b):
    """x[rows[e], a:b] += values[e] · what[:b−a] for start ≤ e < stop."""
    r = a
    while r + 8 <= b:
        spread_8(values, rows, start, stop, what[r - a :], x, r)  # type: ignore[call-arg]
        r += 8
    while r < b:
        for e in range(start, stop):
            x[np.uintp(rows[e]), r] += values[e] * what[r - a]
        r += 1


@inner
def count_of(parents, i):
    """How many parents i has."""
    k = parents.shape[1]
    while k > 0 and parents[i, k - 1] < 0:
        k -= 1
    return k


@inner
def ends_of(parents, i):
    """Where the parents of i begin and end among those of all points in a row, as numbers without a sign."""
    first = i * np.uintp(parents.shape[1])
    return first, first + np.uintp(count_of(parents, i))


@compiled
def dot(start, stop, parents, rows, values, diagonal, own, x, y):
    """y_i = diagonal_i own_i + Σ_s values_is x[parents_is]."""
    total = np.empty(x.shape[1])
    for i in range(start, stop):
        first, last = ends_of(parents, np.uintp(i))
        _combine(values, rows, first, last, x, np.int64(0), len(total), total)
        for r in range(len(total)):
            y[i, r] = diagonal[i] * own[i, r] + total[r]


@compiled
def transpose_dot(parents, rows, values, diagonal, x, y, a, b):
    for i in range(len(diagonal)):
        first, last = ends_of(parents, np.uintp(i))
        for r in range(a, b):
            y[i, r] += diagonal[i] * x[i, r]
        _add(values, rows, first, last, x[i, a:b], y, a, b)


@compiled
def solve(start, stop, order, parents, rows, values, diagonal, x, a, b):
    total = np.empty(b - a)
    for t in range(start, stop):
        i = order[t]
        first, last = ends_of(parents, np.uintp(i))
        _combine(values, rows, first, last, x, a, b, total)
        for r in range(a, b):
            x[i, r] = (x[i, r] - total[r - a]) / diagonal[i]


@compiled
def transpose_solve(parents, rows, values, diagonal, y, a, b):
    less = np.empty(b - a)
    for i in range(len(diagonal) - 1, -1, -1):
        first, last = ends_of(parents, np.uintp(i))
        for r in range(a, b):
            y[i, r] /= diagonal[i]
            less[r - a] = -y[i, r]
        _add(values, rows, first, last, less, y, a, b)


@compiled
def products(start, stop, parents, left, x, values):
    for i in range(start, stop):
        for s in range(count_of(parents, np.uintp(i))):
            j = np.uintp(parents[i, s])
            total = 0.0
            for r in range(x.shape[1]):
                total += left[i, r] * x[j, r]
            values[i, s] = total
