"""Orders against their definitions."""

import numpy as np
import pytest

from npvi.graph import build_graph
from tests.support import graph_brute_force as brute
from tests.support import graph_cases as cases


@pytest.mark.parametrize(
    "X",
    [
        *[cases.scattered(800, d) for d in (1, 2, 3, 8, 20)],
        cases.scattered(2000, 2),
        cases.clustered(600, 2),
        cases.repeated(600, 2),
        cases.lattice(25, 2),
        np.ones((50, 3)),
    ],
)
def test_maximin_is_greedy(X):
    order = build_graph(X, 1, order="maximin").order
    to_centroid = brute.squared_distances(X, X.mean(axis=0)[None])[:, 0]
    assert to_centroid[order[0]] <= to_centroid.min() + 1e-12
    assert brute.maximin_excess(X[order]) <= 1e-12


def test_maximin_leaves_duplicates_for_last():
    X = cases.repeated(500, 2)
    order = build_graph(X, 1, order="maximin").order
    distinct = len(np.unique(X, axis=0))
    assert len(np.unique(X[order[:distinct]], axis=0)) == distinct


def grid_levels(Y: np.ndarray) -> list[int]:
    """Check the definition of the grid order on distinct points; return how many are placed by level."""
    scaled = (Y - Y.min(axis=0)) / (np.ptp(Y, axis=0).max() * (1 + 1e-12))
    placed, ends = 0, []
    for level in range(105):
        cells = np.floor(scaled * 2 ** (level / 2)).astype(int)
        occupied = {tuple(cell) for cell in cells[:placed]}
        empty = {tuple(cell) for cell in cells[placed:]} - occupied
        new = [tuple(cell) for cell in cells[placed : placed + len(empty)]]
        assert set(new) == empty
        placed += len(empty)
        ends.append(placed)
        if placed == len(Y):
            break
    return ends


@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
def test_grid_fills_one_point_per_empty_cell(d):
    X = cases.scattered(500, d)
    ends = grid_levels(X[build_graph(X, 1, order="grid", seed=3).order])
    assert ends[0] == 1
    assert ends[-1] == 500


def test_grid_leaves_duplicates_for_last():
    X = np.concatenate([cases.repeated(300, 2), [[0.0, 0.0], [-0.0, 0.0]]])
    order = build_graph(X, 1, order="grid").order
    distinct = len(np.unique(X + 0.0, axis=0))
    assert len(np.unique(X[order[:distinct]] + 0.0, axis=0)) == distinct
    grid_levels(X[order[:distinct]])


def test_grid_with_points_closer_than_the_finest_cell():
    X = np.array([[0.0], [1.0], [1e-20], [2e-20]])
    assert sorted(build_graph(X, 1, order="grid").order) == [0, 1, 2, 3]


def test_grid_is_nearly_as_spread_as_maximin():
    X = np.random.default_rng(0).random((4000, 2))
    spread = []
    for order in ("maximin", "grid", "random"):
        Y = X[build_graph(X, 1, order=order).order][:400]
        gaps = brute.squared_distances(Y, Y) + np.diag(np.full(400, np.inf))
        spread.append(np.sqrt(gaps.min(axis=1)).mean())
    assert spread[0] > spread[1] > 1.15 * spread[2]


def test_random_and_given():
    X = cases.scattered(100, 2)
    assert np.array_equal(build_graph(X, 1, order="given").order, np.arange(100))
    assert not np.array_equal(build_graph(X, 1, order="random", seed=1).order, np.arange(100))
