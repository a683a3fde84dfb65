"""New observations join a fitted model."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi.graph import build_graph, extend_graph
from npvi.kernels import Matern, Matern12, Matern32, Subset
from npvi.linalg import Noise
from npvi.posteriors import DrawsPosterior
from npvi.priors import NNGP, NotPositiveDefiniteError

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
    np.testing.assert_allclose(ours.latent_var, theirs.latent_var, rtol=1e-2)  # sds are known to half a hundredth
    assert model.elbo_ == pytest.approx(scratch.elbo_, rel=1e-6)


def agree(model, scratch, Z):
    ours, theirs = model.predict_dist(Z), scratch.predict_dist(Z)
    sd = np.sqrt(theirs.latent_var)
    np.testing.assert_allclose(ours.latent_mean / sd, theirs.latent_mean / sd, rtol=0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(ours.latent_var) / sd, 1.0, rtol=0, atol=5e-3)  # as well as they are known


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli", "negative_binomial", "gamma", "gaussian"])
@pytest.mark.parametrize("where", ["everywhere", "one place", "outside", "beside the old"])
def test_wherever_new_points_are(likelihood, where):
    """By a factor; where all are in one place their parents are mostly new themselves."""
    X, y = counts(1800)
    rng = np.random.default_rng(5)
    new = {
        "everywhere": X[1500:],
        "one place": 0.01 * X[1500:] + 0.5,
        "outside": X[1500:] + np.array([1.5, 0.0]),
        "beside the old": X[:300] + 1e-3 * X[1500:],
    }[where]
    X = np.vstack([X[:1500], new])
    if likelihood == "bernoulli":
        y = (y > 1.0).astype(float)
    if likelihood in ("gamma", "gaussian"):
        y = y + rng.uniform(0.5, 1.0, len(y))
    build = npvi.GPClassifier if likelihood == "bernoulli" else partial(npvi.GPRegressor, likelihood)
    scratch = build(**SETTINGS).fit(X, y)
    model = build(**SETTINGS).fit(X[:1500], y[:1500]).update(X[1500:], y[1500:])
    assert model.fit_info_["converged"]
    agree(model, scratch, np.vstack([rng.random((300, 2)), new]))


def test_one_row_after_the_other():
    X, y = counts(1510)
    model = npvi.GPRegressor("poisson", **SETTINGS).fit(X[:1500], y[:1500])
    for i in range(1500, 1510):
        model.update(X[i : i + 1], y[i : i + 1])
    agree(model, npvi.GPRegressor("poisson", **SETTINGS).fit(X, y), X[:300])


def test_a_copy_has_no_factor_and_does_without():
    X, y = counts(1600)
    model = npvi.GPRegressor("poisson", **SETTINGS).fit(X[:1500], y[:1500])
    other = pickle.loads(pickle.dumps(model))
    assert model.posterior_.factor is not None
    assert other.posterior_.factor is None
    model.update(X[1500:], y[1500:])
    other.update(X[1500:], y[1500:])
    agree(model, other, X[:300])


@pytest.mark.parametrize("length", [0.1, 0.3])
def test_few_new_rows_ask_for_few_variances(length, tmp_path):
    """What the fit has found out of its rows' variances is used, by a loaded model too: the answer is a fit's."""
    n, settings = 6000, {**SETTINGS, "kernel": Matern12(length), "nugget": 0.01, "n_neighbors": 20}
    X, y = counts(n)
    model = npvi.GPRegressor("poisson", **settings).fit(X[:-60], y[:-60])
    model.save(tmp_path / "model.npvi")
    scratch = npvi.GPRegressor("poisson", **settings).fit(X, y).predict_dist(X)
    for updated in (model, npvi.load(tmp_path / "model.npvi")):
        updated.update(X[-60:], y[-60:])
        assert updated.fit_info_["marginal_variances"]["compared"] < n / 4
        ours, sd = updated.predict_dist(X), np.sqrt(scratch.latent_var)
        np.testing.assert_allclose((ours.latent_mean - scratch.latent_mean) / sd, 0.0, atol=3e-4)
        np.testing.assert_allclose(np.sqrt(ours.latent_var) / sd, 1.0, rtol=0, atol=1e-3)


def test_neighbours_variances_are_foreseen():
    """What a new observation does to its neighbours, against the dense posterior of both."""
    X, _ = counts(60)
    prior = NNGP(Matern32(0.3), 0.05, X, build_graph(X, 59, order="given"))
    P, w = prior.block(np.arange(60)), np.random.default_rng(0).exponential(1.0, 60)
    V = np.linalg.inv(P[:59, :59] - np.outer(P[:59, 59], P[59, :59]) / P[59, 59] + np.diag(w[:59]))
    n_draws = 200_000
    draws = np.linalg.cholesky(V) @ np.random.default_rng(1).standard_normal((59, n_draws))
    weights = prior.conditional_mean_weights[59:, :59]
    spread = prior.conditional_variance[59:] + np.einsum("ij,jk,ik->i", weights, V, weights)
    before = DrawsPosterior(np.zeros(59), draws.astype(np.float32), np.diag(V), w[:59])
    found = before.variance_beside(np.arange(59, dtype=np.int32)[None], weights, spread, w[59:])
    after = np.diag(np.linalg.inv(P + np.diag(w)))[:59]
    assert (1.0 - after / np.diag(V)).max() > 0.05
    np.testing.assert_allclose(found, after, rtol=0.005)


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
    np.testing.assert_allclose(model.predict(X[:50], exposure=1.0), scratch.predict(X[:50], exposure=1.0), rtol=1e-5)


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


def test_rows_at_a_place_that_is_taken_without_a_nugget():
    X, y = counts(1500)
    model = npvi.GPRegressor("poisson", **{**SETTINGS, "nugget": 0.0}).fit(X, y)
    with pytest.raises(NotPositiveDefiniteError, match="nugget"):
        model.update(X[:2], y[:2])
    assert model.graph_.n_points == 1500


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
    assert ((table["lower"] < table["value"]) & (table["value"] < table["upper"])).all()
    alone = npvi.GPRegressor("poisson", "matern32", hyper="plug-in").fit(X, y)
    assert np.isnan(alone.summary()["standard_error"].iloc[0])
    assert (alone.summary(standard_errors=True)["standard_error"] > 0.0).all()


def test_summary_tells_of_the_model_as_a_whole():
    X, y = counts(150)
    kernel = 2.0 * Subset(Matern(0.3, smoothness=0.5), [0]) + Subset(Matern(0.2), 1)
    model = npvi.GPRegressor("poisson", **{**SETTINGS, "kernel": kernel}).fit(X, y)
    table = model.summary()
    first, second = "kernel__k1__kernel__kernel__", "kernel__k2__kernel__"
    assert table.loc[f"{first}smoothness", "value"] == 0.5
    assert np.isnan(table.loc[f"{first}smoothness", "lower"])
    assert table.loc[f"{second}smoothness", "value"] == 1.5  # what it is where nothing is learned
    assert list(table.columns) == ["value", "standard_error", "lower", "upper"]
    assert table.attrs == {"likelihood": "Poisson()", "rows": 150, "bound": model.elbo_}
    assert repr(table).startswith(f"likelihood Poisson(), rows 150, bound {model.elbo_:,.2f}\n")
    assert "rows 150" in table._repr_html_()
    assert type(table[["value"]]) is pd.DataFrame
    assert pickle.loads(pickle.dumps(table)).equals(table)
    model.update(X[:3], y[:3])
    assert model.summary().attrs["rows"] == 153


def test_standard_errors_have_the_random_numbers_of_the_fit(monkeypatch):
    asked, init = [], Noise.__init__

    def noted(self, rows, seed=0):
        asked.append(np.array(rows))
        init(self, rows, seed)

    model = npvi.GPRegressor("poisson", **{**SETTINGS, "order": "maximin"}).fit(*counts(150))
    monkeypatch.setattr(Noise, "__init__", noted)
    model.summary(standard_errors=True)
    assert asked
    # each row of the data has numbers of its own, whatever its place
    assert all(np.array_equal(rows, model.prior_.graph.order) for rows in asked)


def test_counts_that_were_all_zeros_lose_their_prior():
    """Once there are others, the constant is as free as in a fit from scratch."""
    X, y = counts(120)
    y[:60] = 0.0
    with pytest.warns(UserWarning, match="all counts are 0"):
        model = npvi.GPRegressor("poisson", **SETTINGS).fit(X[:60], y[:60])
    assert model.coefficient_precision_[0] > 0.0
    model.update(X[60:], y[60:])
    assert model.coefficient_precision_[0] == 0.0
    scratch = npvi.GPRegressor("poisson", **SETTINGS).fit(X, y)
    agree(model, scratch, np.random.default_rng(1).random((50, 2)))


def test_models_with_many_inputs_take_new_rows():
    """Neighbours are chosen by what the kernel looks at, and few rows have fewer than they would."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 6))
    y = np.sin(6.0 * X[:, 0])
    near = npvi.kernels.Subset(npvi.kernels.RBF(0.3), [0, 1])
    for kernel, rows in ((near, 60), (npvi.kernels.RBF(1.0), 60), (npvi.kernels.RBF(1.0), 30)):
        model = npvi.GPRegressor(kernel=kernel, learn=False).fit(X[:rows], y[:rows])
        assert model.update(X[:5] + 0.01, y[:5]).graph_.n_points == rows + 5
