"""P by rows, the column sweep, and the small systems that it solves."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.linalg import Triangular, lower_half
from npvi.linalg.lanes import LANES, solve_last
from npvi.runtime.parallel import threads
from tests.support import oracle
from tests.support.linalg_cases import KERNELS, prior, triangular
from tests.support.oracle import dense_triangular

# -- lanes ------------------------------------------------------------------------------------------------------------


def packed(matrices):
    n = matrices.shape[1]
    rows, columns = np.tril_indices(n)
    return np.ascontiguousarray(matrices[:, rows, columns].T)


def random_spd(rng, n):
    G = rng.standard_normal((LANES, n, n + 2))
    return G @ G.transpose(0, 2, 1) + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", range(1, 61))
def test_eight_systems_at_once(n):
    A = random_spd(np.random.default_rng(n), n)
    group = packed(A)
    solve_last(group, n)
    last = group[n * (n - 1) // 2 :]
    for lane in range(LANES):
        inverse = np.linalg.inv(A[lane])
        assert last[n - 1, lane] == pytest.approx(np.sqrt(inverse[-1, -1]), rel=1e-10)
        expected = np.linalg.solve(A[lane][:-1, :-1], A[lane][:-1, -1])
        np.testing.assert_allclose(last[: n - 1, lane], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 21])
@pytest.mark.parametrize("bad_row", [0, -1])
def test_a_lane_that_is_not_positive_definite_spoils_only_itself(n, bad_row):
    A = random_spd(np.random.default_rng(n), n)
    spoiled = A.copy()
    spoiled[3, bad_row, bad_row] = -1.0
    group, clean = packed(spoiled), packed(A)
    solve_last(group, n)
    solve_last(clean, n)
    assert np.isnan(group[-1, 3])
    others = np.arange(LANES) != 3
    np.testing.assert_array_equal(group[-n:, others], clean[-n:, others])


# -- P by rows --------------------------------------------------------------------------------------------------------


def dense_lower_half(half):
    n = half.graph.n_points
    P = np.zeros((n, n))
    for i in range(n):
        row = slice(half.ends[i] - half.counts[i], half.ends[i])
        columns = half.columns[row]
        assert np.all(np.diff(columns) > 0)
        assert columns[-1] == i
        P[i, columns] = half.values[row]
    return P


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "K"), [(1, 1), (2, 1), (3, 2), (40, 39), (300, 7), (2500, 4)])
def test_lower_half_is_the_dense_product(n, K, n_threads):
    root = triangular(n, K)
    with threads(n_threads):
        half = lower_half(root)
    T = dense_triangular(root)
    np.testing.assert_allclose(dense_lower_half(half), np.tril(T.T @ T), rtol=0, atol=1e-12)


# -- the sweep --------------------------------------------------------------------------------------------------------

SETTINGS = [
    {"n": 1, "K": 1},
    {"n": 2, "K": 1},
    {"n": 3, "K": 2},
    {"n": 50, "K": 49},
    {"n": 300, "K": 1},
    {"n": 300, "K": 8},
    {"n": 400, "K": 12, "order": "random"},  # columns of very different lengths
    {"n": 200, "K": 10, "order": "given", "rule": "paper"},
    {"n": 200, "K": 5, "d": 5},
]


def setting(kernel="matern32", w_seed=0, **settings):
    model = prior(kernel=kernel, **settings)
    n = model.graph.n_points
    rng = np.random.default_rng(w_seed)
    w = rng.exponential(size=n) * 10.0 ** rng.uniform(-3, 3, n)
    w[rng.random(n) < 0.2] = 0.0
    T = dense_triangular(model.root)
    return model, w, T.T @ T + np.diag(w), oracle.pattern(model.graph.parents)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_sweep_is_the_formula_column_by_column(kernel, settings):
    model, w, A, mask = setting(kernel, **settings)
    L = model.lower_half.sweep(w)
    expected = oracle.sweep(A, mask)
    np.testing.assert_allclose(dense_triangular(L), expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_threads_do_not_change_the_sweep():
    model, w, A, mask = setting(n=1500, K=6)
    with threads(1):
        one = model.lower_half.sweep(w)
    with threads(2):
        two = model.lower_half.sweep(w)
    np.testing.assert_allclose(one.diagonal, two.diagonal, rtol=1e-13)
    np.testing.assert_allclose(one.edges, two.edges, rtol=0, atol=1e-13)
    np.testing.assert_allclose(dense_triangular(two), oracle.sweep(A, mask), rtol=1e-7, atol=1e-10)


def test_a_column_longer_than_a_tile():
    """One parent with a thousand children: its block alone outgrows the buffer of a tile."""
    n = 1001
    rng = np.random.default_rng(0)
    g, _ = (triangular(n, 1).graph, None)
    star = type(g)(g.order, np.array([[-1]] + [[0]] * (n - 1), dtype=np.int32), g.spatial)
    root = Triangular(star, rng.uniform(0.5, 2.0, n), np.where(star.parents >= 0, rng.standard_normal((n, 1)), 0.0))
    w = rng.exponential(size=n)
    T = dense_triangular(root)
    L = lower_half(root).sweep(w)
    expected = oracle.sweep(T.T @ T + np.diag(w), oracle.pattern(star.parents))
    np.testing.assert_allclose(dense_triangular(L), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_stationarity_is_the_dense_residual(settings):
    """Zero (to rounding) at the sweep's L, and otherwise what the dense formula says."""
    model, w, A, mask = setting(**settings)
    L = model.lower_half.sweep(w)
    residual, largest = model.lower_half.stationarity(L, w)
    assert residual <= 1e-10 * largest
    rng = np.random.default_rng(1)
    off = Triangular(L.graph, L.diagonal * rng.uniform(0.9, 1.1, len(w)), L.edges * 1.05)
    dense = dense_triangular(off)
    expected = np.abs(A @ dense - np.diag(1.0 / np.diag(dense)))[mask].max()
    terms = np.abs(np.diag(A)[:, None] * dense).max()
    residual, largest = model.lower_half.stationarity(off, w)
    assert residual == pytest.approx(expected, rel=1e-8)
    assert largest == pytest.approx(terms, rel=1e-10)
    assert residual > 1e-3 * largest


def test_stationarity_notices_other_sites():
    model, w, _, _ = setting(n=300, K=8)
    residual, largest = model.lower_half.stationarity(model.lower_half.sweep(w), w + 1.0)
    assert residual > 1e-3 * largest
