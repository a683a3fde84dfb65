"""Visiting points after their parents, or after their children, in threads."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.parallel import threads
from npvi.sparse.levels import over_levels

from .cases import graph


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n_threads", [1, 4, 5])
@pytest.mark.parametrize("wide", [4, 30, 10_000])
def test_every_point_once_and_in_an_order_that_can_be_trusted(wide, n_threads, reverse):
    """Chunks of one wide level may run at once, so a chunk must not need anything from itself or its neighbours."""
    g, _ = graph(500, 4)
    calls = []
    with threads(n_threads):
        over_levels(g, lambda start, stop, rows: calls.append(rows[start:stop].copy()), wide=wide, reverse=reverse)
    visits = np.concatenate(calls)
    np.testing.assert_array_equal(np.sort(visits), np.arange(500))
    place = np.empty(500, dtype=int)
    place[visits] = np.arange(500)
    for i in range(500):
        for parent in g.parents[i][g.parents[i] >= 0]:
            assert (place[parent] < place[i]) != reverse
    if n_threads >= 4 and wide == 4:
        assert len(calls) > 10  # threads did share the work


@pytest.mark.parametrize("reverse", [False, True])
def test_chunks_that_run_at_once_do_not_depend_on_each_other(monkeypatch, reverse):
    g, _ = graph(500, 4)
    at_once, inside = [], []

    def over_chunks(loop, n, **options):
        inside.append(True)
        loop(0, n)
        inside.pop()

    def loop(start, stop, rows):
        if inside:
            at_once.append(rows[start:stop].tolist())

    monkeypatch.setattr("npvi.sparse.levels.over_chunks", over_chunks)
    with threads(4):
        over_levels(g, loop, wide=4, reverse=reverse)
    assert len(at_once) > 10
    for members in at_once:
        assert len(members) >= 4
        assert not set(np.ravel(g.parents[members])) & set(members)
