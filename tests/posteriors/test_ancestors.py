"""Variances from the ancestors of what is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.kernels import Matern12, Matern52
from npvi.linalg import scratch
from npvi.posteriors import PrecisionPosterior, ancestors
from npvi.priors import NNGP

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(1500, 2))
GRAPH = build_graph(X, 12)


def posterior_of(kernel, modes=0):
    prior = NNGP(kernel, 1e-2, X[GRAPH.order], GRAPH)
    w = RNG.uniform(0.5, 2.0, len(X))
    factor = prior.factor(w, "zero-fill")
    S = RNG.standard_normal((len(X), modes)).astype(np.float32)
    return PrecisionPosterior(np.zeros(len(X)), factor.transpose, np.ones(len(X)), w, S, 1e-3 * np.ones(modes))


def rows_of(count):
    neighbors = RNG.integers(0, len(X), (count, 30)).astype(np.int32)
    near = np.argsort(((X[GRAPH.order][:, None] - RNG.uniform(size=(count, 2))[None]) ** 2).sum(axis=2), axis=0)
    neighbors[:, :20] = near[:20].T
    return neighbors, RNG.standard_normal(neighbors.shape) * 0.1


@pytest.mark.parametrize("kernel", [Matern12(0.1), Matern52(0.3)])
def test_variances_are_those_of_the_factor(kernel):
    q = posterior_of(kernel)
    neighbors, weights = rows_of(100)
    B = np.zeros((len(X), len(neighbors)))
    np.add.at(B, (neighbors, np.arange(len(neighbors))[:, None]), weights)
    exact = np.sum(q.transpose.transpose_solve(B) ** 2, axis=0)
    np.testing.assert_allclose(np.sqrt(q.projected_variance(neighbors, weights) / exact), 1.0, atol=0.01)


@pytest.mark.parametrize("modes", [0, 3])
def test_a_row_is_the_same_alone_and_among_others(modes):
    q = posterior_of(Matern52(0.2), modes)
    neighbors, weights = rows_of(70)
    together = q.projected_variance(neighbors, weights)
    for some in (slice(0, 1), slice(5, 21), slice(69, 70)):
        np.testing.assert_array_equal(q.projected_variance(neighbors[some], weights[some]), together[some])
    mixed = RNG.permutation(70)
    np.testing.assert_array_equal(q.projected_variance(neighbors[mixed], weights[mixed]), together[mixed])


@pytest.mark.parametrize("kernel", [Matern12(0.1), Matern52(0.2)])
def test_third_cumulants_are_those_of_all_covariances(kernel):
    q = posterior_of(kernel)
    neighbors = rows_of(40)[0][:, :20]  # which are near each other, as in predictions
    weights, third = np.full(neighbors.shape, 0.05), RNG.uniform(-1.0, 0.0, len(X))
    B = np.zeros((len(X), len(neighbors)))
    np.add.at(B, (neighbors, np.arange(len(neighbors))[:, None]), weights)
    exact = third @ q.covariance_times(B) ** 3
    found = q.third_cumulants(neighbors, weights, third)
    np.testing.assert_allclose(found, exact, rtol=0.1)
    np.testing.assert_array_equal(q.third_cumulants(neighbors[7:8], weights[7:8], third), found[7:8])


def test_more_ancestors_than_room(monkeypatch):
    q = posterior_of(Matern52(0.2))
    neighbors, weights = rows_of(200)
    third = RNG.uniform(-1.0, 0.0, len(X))
    asked = [
        lambda: q.projected_variance(neighbors, weights),
        lambda: q.third_cumulants(neighbors, weights, third),
        lambda: q.work(np.arange(200, dtype=np.int32)),
    ]
    expected = [ask() for ask in asked]
    monkeypatch.setattr(ancestors, "_ROOM", 3)
    for ask, found in zip(asked, expected):
        np.testing.assert_array_equal(ask(), found)
    assert (scratch(len(X)) == -1).all()
