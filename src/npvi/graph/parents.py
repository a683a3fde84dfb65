"""The two rules that give each point its parents."""

from __future__ import annotations

import numpy as np

from npvi.graph.search import Arranged, search
from npvi.runtime.compiling import compiled, inner
from npvi.runtime.parallel import over_chunks

__all__ = ["nearest_parents", "paper_parents", "sort_rows"]


def nearest_parents(arranged: Arranged, k: int) -> np.ndarray:
    """The k nearest earlier points of every point, ascending, padded with -1 (int32, N × k)."""
    queries = arranged.points
    parents = np.empty((len(queries), k), np.int32)
    homes = np.arange(len(queries), dtype=np.int32)
    search(arranged, queries, homes, arranged.positions, arranged.positions, parents)
    over_chunks(sort_rows, len(parents), parents)
    return parents


def paper_parents(arranged: Arranged, k: int) -> np.ndarray:
    """The paper's rule (int32, N × k, ascending, padded with -1).

    An edge joins two points where either is among the other's k nearest; it points from the earlier to the
    later. A point with more than k parents keeps the earliest; one with fewer also gets the nearest earlier
    points that are not yet its parents.
    """
    queries = arranged.points
    positions = arranged.positions
    n = len(queries)
    # One more than k, since a point is its own nearest; among many identical points it may be missing.
    near = np.empty((n, k + 1), np.int32)
    homes = np.arange(n, dtype=np.int32)
    search(arranged, queries, homes, np.full(n, n, np.int32), positions, near)
    over_chunks(_drop_self, n, near)
    pointer = np.zeros(n + 1, np.int64)
    source = np.empty(n * k, np.int32)
    _reverse_edges(near, pointer, source)
    parents = np.full((n, k), -1, np.int32)
    counts = np.empty(n, np.int32)
    over_chunks(_trim, n, near, pointer, source, parents, counts)

    short = counts[positions] < np.minimum(positions, k)
    if short.any():
        points = positions[short]
        earlier = np.empty((len(points), k), np.int32)
        search(arranged, queries[short], homes[short], points, homes[: len(points)], earlier)
        over_chunks(_top_up, len(points), points, earlier, counts, parents)
    return parents


@inner
def sort_ascending(row: np.ndarray, size: int) -> None:
    """Insertion sort: rows are short."""
    for i in range(1, size):
        value = row[i]
        j = i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@compiled
def sort_rows(start: int, stop: int, parents: np.ndarray) -> None:
    for i in range(start, stop):
        sort_ascending(parents[i], min(i, parents.shape[1]))


@compiled
def _drop_self(start: int, stop: int, near: np.ndarray) -> None:
    """Take each point out of its own row, or the last entry where it is missing; the last column is void."""
    last = near.shape[1] - 1
    for i in range(start, stop):
        j = 0
        while j < last and near[i, j] != i:
            j += 1
        for following in range(j, last):
            near[i, following] = near[i, following + 1]


@compiled
def _reverse_edges(near: np.ndarray, pointer: np.ndarray, source: np.ndarray) -> None:
    """For each point the earlier points that count it among their k nearest, ascending (CSR)."""
    n, k = near.shape[0], near.shape[1] - 1
    for i in range(n):
        for j in range(k):
            if near[i, j] > i:
                pointer[near[i, j] + 1] += 1
    for i in range(n):
        pointer[i + 1] += pointer[i]
    for i in range(n):
        for j in range(k):
            if near[i, j] > i:
                source[pointer[near[i, j]]] = i
                pointer[near[i, j]] += 1
    # Each pointer has run to the end of its list, which is where the next one starts.
    for i in range(n, 0, -1):
        pointer[i] = pointer[i - 1]
    pointer[0] = 0


@compiled
def _trim(
    start: int,
    stop: int,
    near: np.ndarray,
    pointer: np.ndarray,
    source: np.ndarray,
    parents: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Merge a point's own earlier neighbours with those that claim it, and keep the k earliest."""
    k = parents.shape[1]
    own = np.empty(k, np.int32)
    for i in range(start, stop):
        size = 0
        for j in range(k):
            if near[i, j] < i:
                own[size] = near[i, j]
                size += 1
        sort_ascending(own, size)
        a, b, count = 0, pointer[i], 0
        while count < k and (a < size or b < pointer[i + 1]):
            if b == pointer[i + 1] or (a < size and own[a] <= source[b]):
                if b < pointer[i + 1] and own[a] == source[b]:
                    b += 1
                parents[i, count] = own[a]
                a += 1
            else:
                parents[i, count] = source[b]
                b += 1
            count += 1
        counts[i] = count


@compiled
def _top_up(
    start: int, stop: int, points: np.ndarray, earlier: np.ndarray, counts: np.ndarray, parents: np.ndarray
) -> None:
    """Add the nearest earlier points that are no parents yet; of the k nearest enough are free."""
    k = parents.shape[1]
    for m in range(start, stop):
        i = points[m]
        count = counts[i]
        wanted = min(k, np.int64(i))
        chosen = count
        for j in range(wanted):
            if chosen == wanted:
                break
            known = False
            for q in range(count):
                known = known or parents[i, q] == earlier[m, j]
            if not known:
                parents[i, chosen] = earlier[m, j]
                chosen += 1
        sort_ascending(parents[i], wanted)
