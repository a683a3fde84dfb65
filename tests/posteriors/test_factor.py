"""The paper's L: its variances, and the theorem about matching a covariance."""

from __future__ import annotations

import re

import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.posteriors import FactorPosterior, match_covariance
from npvi.runtime.parallel import threads
from tests.support import oracle
from tests.support.linalg_cases import triangular


def posterior_covariance(w, K, n=100, length_scale=0.1, order="maximin", seed=0):
    """V = (Σ⁻¹ + wI)⁻¹ for an RBF prior on random points of the unit square, in the graph's order."""
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    graph = build_graph(X, K, order=order)
    Z = X[graph.order]
    covariance = oracle.rbf(Z, Z, length_scale) + 1e-4 * np.eye(n)
    return graph, np.linalg.inv(np.linalg.inv(covariance) + w * np.eye(n))


settings = pytest.mark.parametrize(
    ("K", "order", "seed"), [(5, "maximin", 0), (10, "maximin", 1), (5, "random", 0), (10, "random", 1)]
)


@settings
def test_strong_data_can_be_matched_on_every_edge(K, order, seed):
    graph, V = posterior_covariance(100.0, K, order=order, seed=seed)
    L = match_covariance(graph, V).toarray()
    mask = oracle.pattern(graph.parents)
    assert np.all(L[~mask] == 0.0)
    assert np.all(np.diag(L) > 0.0)
    matched = L @ L.T
    np.testing.assert_allclose(matched[mask], V[mask], rtol=0, atol=1e-12 * V.max())
    assert np.abs(matched - V).max() > 1e-4 * V.max()  # elsewhere it need not


@settings
def test_weak_data_cannot_and_the_row_is_named(K, order, seed):
    graph, V = posterior_covariance(0.5, K, order=order, seed=seed)
    with pytest.raises(ValueError, match="no L on this graph matches V") as error:
        match_covariance(graph, V)
    found = re.search(r"at position (\d+) \(row (\d+) of the data\) .* would be (-[\d.e+-]+)", str(error.value))
    position, row = int(found[1]), int(found[2])
    assert graph.order[position] == row
    # dense, row by row: the first row whose L_ii² isn't positive is the one that was named
    L = np.zeros_like(V)
    for i in range(len(V)):
        a = graph.parents[i][graph.parents[i] >= 0]
        L[i, a] = np.linalg.solve(L[np.ix_(a, a)], V[a, i])
        rest = V[i, i] - L[i] @ L[i]
        if rest <= 0.0:
            break
        L[i, i] = np.sqrt(rest)
    assert i == position
    assert rest == pytest.approx(float(found[3]), rel=1e-2)


@pytest.mark.parametrize("w", [0.5, 100.0])
def test_on_a_complete_graph_it_is_the_cholesky_factor(w):
    graph, V = posterior_covariance(w, 39, n=40)
    np.testing.assert_allclose(match_covariance(graph, V).toarray(), np.linalg.cholesky(V), rtol=0, atol=1e-9)


def test_shape_and_lists():
    graph = build_graph([[0.0], [1.0]], 1)
    with pytest.raises(ValueError, match=r"V must have shape \(2, 2\), one row per point of the graph; got \(3, 3\)"):
        match_covariance(graph, np.eye(3))
    np.testing.assert_allclose(match_covariance(graph, [[4, 0], [0, 9]]).toarray(), np.diag([2.0, 3.0]))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "K", "used"), [(1, 1, 1), (50, 49, 50), (300, 6, 6), (300, 6, 1)])
def test_projected_variance(n, K, used, n_threads):
    L = triangular(n, K)
    rng = np.random.default_rng(0)
    rows = 3000  # enough for two threads to share
    neighbors = np.argsort(rng.random((rows, n)), axis=1)[:, :used].astype(np.int32)
    weights = rng.standard_normal((rows, used))
    posterior = FactorPosterior(np.zeros(n), L, np.ones(n))
    with threads(n_threads):
        result = posterior.projected_variance(neighbors, weights)
    dense = oracle.dense_triangular(L)
    V = dense @ dense.T
    expected = np.einsum("rj,rjk,rk->r", weights, V[neighbors[:, :, None], neighbors[:, None, :]], weights)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(posterior.variance, np.diag(V), rtol=1e-13)


def test_projected_variance_of_repeated_neighbours():
    """Weights on one point twice add up."""
    L = triangular(20, 3)
    posterior = FactorPosterior(np.zeros(20), L, np.ones(20))
    twice = posterior.projected_variance(np.array([[7, 7]], dtype=np.int32), np.array([[0.5, 1.5]]))
    np.testing.assert_allclose(twice, 4.0 * posterior.variance[7], rtol=1e-12)


def test_draws():
    L = triangular(30, 4)
    mean = np.linspace(-1.0, 1.0, 30)
    draws = FactorPosterior(mean, L, np.ones(30)).sample(7, np.random.default_rng(1))
    expected = mean[:, None] + oracle.dense_triangular(L) @ np.random.default_rng(1).standard_normal((30, 7))
    np.testing.assert_allclose(draws, expected, rtol=0, atol=1e-13)
