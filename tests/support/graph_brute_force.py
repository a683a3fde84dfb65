"""The definitions, written out in plain NumPy: no code shared with the library."""

from __future__ import annotations

import numpy as np


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    total = np.zeros((len(A), len(B)))
    for c in range(A.shape[1]):
        total += (A[:, c, None] - B[None, :, c]) ** 2
    return total


def nearest_earlier(Y: np.ndarray, k: int) -> list[np.ndarray]:
    """For each row of Y (already in order) the k nearest earlier rows, nearest first."""
    gaps = squared_distances(Y, Y)
    return [np.argsort(gaps[i, :i], kind="stable")[:k] for i in range(len(Y))]


def paper_rule(Y: np.ndarray, k: int) -> list[list[int]]:
    """The paper's three steps, literally; valid where no two distances tie."""
    n = len(Y)
    gaps = squared_distances(Y, Y)
    np.fill_diagonal(gaps, np.inf)
    near = np.argsort(gaps, axis=1, kind="stable")[:, :k]
    edge = np.zeros((n, n), bool)
    for i in range(n):
        edge[i, near[i]] = True
    edge |= edge.T
    result = []
    for i in range(n):
        chosen = [int(j) for j in np.flatnonzero(edge[i, :i])][:k]
        for j in np.argsort(gaps[i, :i], kind="stable"):
            if len(chosen) == min(k, i):
                break
            if int(j) not in chosen:
                chosen.append(int(j))
        result.append(sorted(chosen))
    return result


def maximin_excess(Y: np.ndarray) -> float:
    """How far, at worst, a point of Y (already in order) falls short of the greedy choice."""
    gap = np.full(len(Y), np.inf)
    worst = 0.0
    for i in range(1, len(Y)):
        gap = np.minimum(gap, squared_distances(Y, Y[i - 1 : i])[:, 0])
        worst = max(worst, np.sqrt(gap[i:].max()) - np.sqrt(gap[i]))
    return worst
