"""Running a loop over the graph's points so that parents come before children (or after), in threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.runtime.parallel import n_threads, over_chunks

__all__ = ["walk"]

#: 2^this many leaves at most: parts are numbered by short integers
_DEEPEST = 10


def walk(
    graph: Graph, loop: Callable[[int, int, NDArray[np.int32]], object], grain: int, reverse: bool = False
) -> None:
    """Call ``loop(start, stop, rows)`` until every position was in some ``rows[start:stop]``.

    A position is visited after its parents (after its children if `reverse`). Each thread has a part of space to
    itself, where it walks in the graph's own order, in which a packed graph has neighbours side by side; what several
    parts depend on comes before them, by fewer threads (see `npvi.graph.Parts`). For 100,000 points in 2-d with
    20 neighbours that is 0.18 of all.

    `grain` is the smallest number of points worth a thread.
    """
    n = graph.n_points
    depth = min(max(1, min(n_threads(), n // grain)) - 1, (1 << _DEEPEST) - 1).bit_length()
    if depth == 0:
        loop(0, n, np.arange(n - 1, -1, -1, dtype=np.int32) if reverse else np.arange(n, dtype=np.int32))
        return
    rows, bounds = graph.parts(depth)
    if reverse:
        rows, bounds = np.ascontiguousarray(rows[::-1]), n - bounds

    def visit(first: int, last: int) -> None:
        for part in range(first, last):
            ends = (bounds[part + 1], bounds[part]) if reverse else (bounds[part], bounds[part + 1])
            loop(*ends, rows)

    for level in range(depth, -1, -1) if reverse else range(depth + 1):
        over_chunks(lambda a, b, first=1 << level: visit(first + a, first + b), 1 << level, grain=1)
