"""New observations join a fitted model."""

from __future__ import annotations

import numpy as np
import pytest

import npvi
from npvi.graph import build_graph, extend_graph
from npvi.kernels import Matern32

SETTINGS = {"order": "given", "kernel": Matern32(0.3), "nugget": 0.05, "learn": False, "n_neighbors": 10}


def counts(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, rng.poisson(np.exp(np.sin(6.0 * X[:, 0]) + X[:, 1])).astype(float)


@pytest.mark.parametrize("method", ["full", "npvi"])
@pytest.mark.parametrize("n", [300, 1500])
def test_same_as_from_scratch_on_the_extended_graph(method, n):
    X, y = counts(n)
    model = npvi.GPRegressor("poisson", method=method, **SETTINGS).fit(X[:-20], y[:-20])
    model.update(X[-20:-5], y[-20:-5]).update(X[-5:], y[-5:])
    scratch = npvi.GPRegressor("poisson", method=method, **SETTINGS).fit(X, y)
    Z = np.random.default_rng(1).random((200, 2))
    ours, theirs = model.predict_dist(Z), scratch.predict_dist(Z)
    np.testing.assert_allclose(ours.latent_mean, theirs.latent_mean, atol=1e-3 * np.sqrt(theirs.latent_var.min()))
    np.testing.assert_allclose(ours.latent_var, theirs.latent_var, rtol=2e-3)
    assert model.elbo_ == pytest.approx(scratch.elbo_, rel=1e-6)


def test_old_points_keep_their_parents_and_new_ones_get_the_nearest():
    X = np.random.default_rng(0).random((400, 3))
    graph = build_graph(X[:350], 6).packed()
    longer = extend_graph(graph, X[:350][graph.order], X[350:])
    np.testing.assert_array_equal(longer.parents[:350], graph.parents)
    np.testing.assert_array_equal(longer.order, np.append(graph.order, np.arange(350, 400)))
    np.testing.assert_array_equal(np.sort(longer.spatial), np.arange(400))
    ordered = X[longer.order]
    for i in range(350, 400):
        nearest = np.argsort(np.linalg.norm(ordered[:i] - ordered[i], axis=1))[:6]
        np.testing.assert_array_equal(longer.parents[i], np.sort(nearest))


def test_extras_and_weights_are_joined():
    X, y = counts(300)
    e, w = np.linspace(0.5, 2.0, 300), np.linspace(0.5, 1.5, 300)
    model = npvi.GPRegressor("poisson", **SETTINGS).fit(X[:280], y[:280], exposure=e[:280], sample_weight=w[:280])
    model.update(X[280:], y[280:], exposure=e[280:], sample_weight=w[280:])
    scratch = npvi.GPRegressor("poisson", **SETTINGS).fit(X, y, exposure=e, sample_weight=w)
    np.testing.assert_allclose(model.predict(X[:50]), scratch.predict(X[:50]), rtol=1e-5)


def test_partial_fit_fits_first():
    X, y = counts(200)
    model = npvi.GPRegressor("poisson", **SETTINGS)
    assert model.partial_fit(X[:150], y[:150]) is model
    assert model.partial_fit(X[150:], y[150:]).graph_.n_points == 200


def test_bad_input_leaves_the_model_as_it_was():
    X, y = counts(200)
    model = npvi.GPRegressor("poisson", **SETTINGS).fit(X, y)
    before = model.predict(X[:5])
    with pytest.raises(ValueError, match="cannot be Poisson"):
        model.update(X[:2], [1.0, -1.0])
    with pytest.raises(ValueError, match="one number per row"):
        model.update(X[:2], [1.0])
    with pytest.raises(ValueError, match="2 features"):
        model.update(X[:2, :1], [1.0, 2.0])
    np.testing.assert_array_equal(model.predict(X[:5]), before)


def test_a_model_of_too_few_points_says_so():
    X, y = counts(30)
    with pytest.warns(UserWarning, match="n_neighbors"):
        model = npvi.GPRegressor("poisson", **{**SETTINGS, "n_neighbors": 29}).fit(X[:20], y[:20])
    with pytest.raises(ValueError, match="fit it anew"):
        model.update(X[20:], y[20:])


def test_summary_names_every_number():
    X, y = counts(400)
    model = npvi.GPRegressor("poisson", "matern32").fit(X, y)
    table = model.summary(standard_errors=True)
    assert list(table.index) == [
        "nugget",
        "kernel__length_scale[0]",
        "kernel__length_scale[1]",
        "kernel__variance",
        "mean__constant",
    ]
    assert (table["standard_error"] > 0.0).all()
    assert np.isnan(model.summary()["standard_error"].iloc[0])
