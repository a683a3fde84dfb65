"""Climbs on many rows, where what is next to nothing for each of them adds up."""

from __future__ import annotations

import numpy as np
import pytest

from npvi import GPRegressor, kernels
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import AllCovariances, Data, fit_posterior
from npvi.learning import BoundObjective, Model, learner, objective
from npvi.likelihoods import Poisson
from npvi.priors import NNGP

ROWS = 30_000


@pytest.fixture(scope="module")
def counts():
    """Counts of a smooth function: many rows within a length scale."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 2))
    waves, phases = rng.normal(size=(2, 60)) / 0.15, rng.uniform(0.0, 2.0 * np.pi, 60)
    return X, rng.poisson(np.exp(np.sqrt(2.0 / 60.0) * np.cos(X @ waves + phases).sum(axis=1)))


def test_the_first_bound_of_a_climb_is_that_of_the_best_posterior(counts):
    X, y = counts
    graph = build_graph(X, 15)
    X, y = X[graph.order], y[graph.order].astype(float)
    model = Model(kernels.Matern32(0.2), 1e-3, Poisson(), coefficient_precision=np.zeros(1))
    basis = np.ones((ROWS, 1))
    bound, gradient = BoundObjective(X, Data(Poisson(), y), basis, graph)(model)
    prior = NNGP(model.kernel, model.nugget, X, graph)
    stack = Stack(Process(prior), Coefficients(basis, np.zeros(1)))
    best = fit_posterior(AllCovariances(prior, strict=True), Data(Poisson(), y), stack)
    assert bound == pytest.approx(best.elbo, abs=0.3)
    _, exact = BoundObjective(X, Data(Poisson(), y), basis, graph, careful=True)(model)
    # of a slope that is known to some tenths: half of a standard error is √(information) / 2
    assert 0.2 * gradient["kernel__length_scale"] == pytest.approx(0.2 * exact["kernel__length_scale"], abs=3.0)


def test_a_climb_on_many_rows_knows_how_the_bound_bends_there(counts, monkeypatch):
    X, y = counts
    ended = []
    taken = learner.Learner.taken

    def seen(self, table, found):
        ended.append((self, table, found))
        return taken(self, table, found)

    monkeypatch.setattr(learner.Learner, "taken", seen)
    GPRegressor("poisson", kernels.Matern32(0.2), hyper="plug-in").fit(X, y)
    [(own, table, found)] = ended
    at_end = own.objective(table, found.graph, found.start, careful=True)
    bends = objective.information(at_end, found.model, own.space(table, found.model), 0.1)
    # in units of what was thought: where nothing is wrong, the identity
    values, vectors = np.linalg.eigh(found.curvature)
    root = vectors * np.sqrt(np.maximum(values, 1e-12))
    share = np.linalg.eigvalsh(root.T @ bends @ root)
    # a direction that was thought to be better known than it is ends a climb too early
    assert share.min() > 0.5
