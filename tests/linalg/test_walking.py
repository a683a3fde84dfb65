"""Visiting points after their parents, or after their children, in threads."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.linalg.walking import walk
from npvi.runtime.parallel import threads
from tests.support.linalg_cases import graph


def visits_of(g, n_threads, grain, reverse):
    calls = []
    with threads(n_threads):
        walk(g, lambda start, stop, rows: calls.append(rows[start:stop].copy()), grain, reverse)
    return calls


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2, 5, 100])
@pytest.mark.parametrize("grain", [1, 100, 10_000])
@pytest.mark.parametrize("packed", [False, True])
def test_every_point_once_and_in_an_order_that_can_be_trusted(grain, n_threads, reverse, packed):
    g, _ = graph(500, 4)
    g = g.packed() if packed else g
    at = {}  # calls may come in any order inside a level, but levels are waited for

    def loop(start, stop, rows):
        for i in rows[start:stop]:
            needed = np.flatnonzero((g.parents == i).any(axis=1)) if reverse else g.parents[i][g.parents[i] >= 0]
            assert all(j in at for j in needed)
            at[i] = at.get(i, 0) + 1

    with threads(n_threads):
        walk(g, loop, grain, reverse)
    assert at == dict.fromkeys(range(500), 1)


@pytest.mark.parametrize("depth", [1, 3])
def test_parts_of_one_level_do_not_depend_on_each_other(depth):
    g, _ = graph(2000, 4)
    order, bounds = g.parts(depth)
    part = np.empty(2000, dtype=int)
    for p in range(2 << depth):
        members = order[bounds[p] : bounds[p + 1]]
        assert (np.diff(members) > 0).all()
        part[members] = p
    for i in range(1, 2000):
        for parent in g.parents[i][g.parents[i] >= 0]:
            above = part[i]
            while above > part[parent]:
                above >>= 1
            assert above == part[parent]
    sizes = np.diff(bounds)
    assert sizes[0] == 0
    assert sizes[1] < 600  # most can be walked at once
    assert sizes[1 << depth :].min() > 0


def test_threads_share_the_points():
    g, _ = graph(2000, 4)
    assert len(visits_of(g, 2, 100, reverse=True)) == 3
    assert len(visits_of(g, 4, 100, reverse=True)) == 7
    assert len(visits_of(g, 4, 1500, reverse=True)) == 1
