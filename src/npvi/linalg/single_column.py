"""Loops of `npvi.linalg.triangular` for one vector.

Products with the transpose go through the rows too: each point adds to what its parents have. That reads the matrix in
sequence and waits for nothing; collecting what a parent gets from its children took three times as long.
"""

from __future__ import annotations

import numpy as np

from npvi.linalg.many_columns import count_of
from npvi.runtime.compiling import compiled, inner_reordered

__all__ = ["gram_dot", "solve", "transpose_dot", "transpose_solve"]


@inner_reordered
def _collect(parents, edges, i, x):
    """Σ_s edges[i, s] · x[parents[i, s]]."""
    total = 0.0
    for s in range(count_of(parents, i)):
        total += edges[i, s] * x[np.uintp(parents[i, s])]
    return total


@compiled
def transpose_dot(parents, edges, diagonal, x, y):
    for i in range(len(diagonal)):
        y[i] += diagonal[i] * x[i]
        for s in range(count_of(parents, np.uintp(i))):
            y[np.uintp(parents[i, s])] += edges[i, s] * x[i]


@compiled
def gram_dot(start, stop, parents, edges, diagonal, x, y):
    """Add to y what rows `start` to `stop` of T make of TᵀT x."""
    for i in range(start, stop):
        value = diagonal[i] * x[i] + _collect(parents, edges, np.uintp(i), x)
        y[i] += diagonal[i] * value
        for s in range(count_of(parents, np.uintp(i))):
            y[np.uintp(parents[i, s])] += edges[i, s] * value


@compiled
def solve(start, stop, order, parents, edges, diagonal, x):
    for t in range(start, stop):
        i = order[t]
        x[i] = (x[i] - _collect(parents, edges, np.uintp(i), x)) / diagonal[i]


@compiled
def transpose_solve(parents, edges, diagonal, x):
    for i in range(len(diagonal) - 1, -1, -1):
        value = x[i] / diagonal[i]
        x[i] = value
        for s in range(count_of(parents, np.uintp(i))):
            x[np.uintp(parents[i, s])] -= edges[i, s] * value
