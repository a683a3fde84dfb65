"""Three or more labels: the model, its optimum, its predictions, and everything around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from scipy.linalg import block_diag

import npvi
from npvi import GPClassifier
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.inference.families import full as full_family
from npvi.inference.softmax import fit_softmax
from npvi.kernels import Matern32
from npvi.learning import softmax as learning
from npvi.learning.objective import Model
from npvi.likelihoods.families.softmax import Softmax
from npvi.runtime.parallel import threads
from tests.support.mcmc import sample
from tests.support.oracle import matern32
from tests.support.softmax_oracle import best_bound

LABELS = np.array(["ash", "oak", "pine"])
FIXED = {"kernel": Matern32(0.4, 2.0), "nugget": 0.05, "learn": False, "n_neighbors": 10}


def forest(n, seed=0):
    """Places, species, and the probability of each."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    f = 2.5 * np.column_stack([np.sin(6.0 * X[:, 0]), np.cos(5.0 * X[:, 1]), np.sin(4.0 * X.sum(axis=1))])
    p = special.softmax(f, axis=1)
    return X, LABELS[(p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)], p


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = forest(300)
    return GPClassifier(**FIXED).fit(X, y)


# -- the optimum ------------------------------------------------------------------------------------------------------


def test_the_optimum_is_that_of_a_dense_maximisation():
    X, y, _ = forest(8, seed=3)
    y[0], y[1], y[2] = LABELS
    weight = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 0.25, 1.0, 1.5])
    settings = {**FIXED, "mean": "zero", "n_neighbors": 7}
    model = GPClassifier(**settings).fit(X, y, sample_weight=weight)
    K = matern32(X, X, 0.4, 2.0) + 0.05 * np.eye(8)
    with threads(1):
        elbo, mean, variance = best_bound(K, np.searchsorted(LABELS, y), weight)
    assert model.elbo_ == pytest.approx(elbo, abs=1e-7)
    back = np.argsort(model.graph_.order)
    np.testing.assert_allclose(model.posterior_.mean[back], mean, atol=1e-6)
    np.testing.assert_allclose(model.posterior_.variance[back], variance, rtol=1e-6)


def test_means_are_those_of_mcmc():
    n = 40
    X, y, _ = forest(n, seed=4)
    model = GPClassifier(**{**FIXED, "mean": "zero", "n_neighbors": n - 1}).fit(X, y)
    order, posterior = model.graph_.order, model.posterior_
    X, seen = X[order], np.eye(3)[np.searchsorted(LABELS, y[order])].T
    P = np.linalg.inv(matern32(X, X, 0.4, 2.0) + 0.05 * np.eye(n))
    covariance = block_diag(*(np.linalg.inv(P + np.diag(part.site_precision)) for part in posterior.parts))

    def log_likelihood(f):  # the classes one below the other, a chain in each column
        classes = f.reshape(3, n, -1)
        return np.einsum("cn,cnk->k", seen, classes) - special.logsumexp(classes, axis=0).sum(axis=0)

    with threads(1):
        found = sample(
            log_likelihood,
            block_diag(P, P, P),
            posterior.mean.T.ravel(),
            covariance,
            np.random.default_rng(0),
        )
    assert np.abs(found.drift).max() < 5.0
    assert (found.error / found.sd).max() < 0.02
    assert (np.abs(posterior.mean.T.ravel() - found.mean) / found.sd).max() < 0.1


@pytest.mark.parametrize("method", ["full", "npvi"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_the_bound_never_falls_and_the_equations_hold(method, mean):
    X, y, _ = forest(250)
    X[200:] = X[:50]  # places that occur twice
    model = GPClassifier(method=method, mean=mean, **FIXED).fit(X, y)
    info = model.fit_info_
    assert np.all(np.diff(info["elbo"]) >= -1e-9)
    assert info["converged"]
    assert info["n_iter"] <= 15
    assert info["mean_residual"][-1] < 1e-7
    assert info["covariance_residual"][-1] < 1e-7
    np.testing.assert_allclose(model.posterior_.mean.sum(axis=1), 0.0, atol=1e-9)


def test_by_draws_as_by_dense_matrices(monkeypatch):
    X, y, _ = forest(600)
    exact = GPClassifier(**FIXED).fit(X, y)
    monkeypatch.setattr(full_family, "DENSE", 100)
    drawn = GPClassifier(**FIXED).fit(X, y)
    assert drawn.fit_info_["converged"]
    assert drawn.elbo_ == pytest.approx(exact.elbo_, abs=2.0)
    Z = forest(200, seed=1)[0]
    np.testing.assert_allclose(drawn.predict_proba(Z), exact.predict_proba(Z), atol=0.03)


# -- learning ---------------------------------------------------------------------------------------------------------


def test_the_gradient_of_the_bound(monkeypatch):
    X, y, _ = forest(150)
    tight = lambda *a, **k: fit_softmax(*a[:4], tolerance=1e-7)  # noqa: E731
    monkeypatch.setattr(learning, "fit_softmax", tight)
    graph = build_graph(X, 10).packed()
    data = Data(Softmax(3), np.searchsorted(LABELS, y).astype(float)).take(graph.order)
    objective = learning.SoftmaxObjective(X[graph.order], data, np.ones((150, 1)), graph)

    def at(length=0.4, variance=2.0, nugget=0.1):
        return objective(Model(Matern32(length, variance), nugget, Softmax(3)))

    step = 1e-4
    with threads(1):
        gradient = at()[1]
        for name, key in [("length", "kernel__length_scale"), ("variance", "kernel__variance"), ("nugget", "nugget")]:
            here = {"length": 0.4, "variance": 2.0, "nugget": 0.1}[name]
            slope = (at(**{name: here + step})[0] - at(**{name: here - step})[0]) / (2.0 * step)
            assert gradient[key] == pytest.approx(slope, rel=1e-4)


def test_draws_for_the_gradient_have_the_mean_covariance_of_the_classes(fitted, monkeypatch):
    data = fitted.data_
    graph = replace(fitted.prior_.graph, order=np.arange(len(data.y)))
    objective = learning.SoftmaxObjective(fitted.prior_.X, data, np.ones((len(data.y), 1)), graph)
    exact = fitted.posterior_
    root = objective._draws(exact)
    np.testing.assert_allclose((root**2).mean(axis=1), exact.variance.mean(axis=1), rtol=1e-9)
    monkeypatch.setattr("npvi.inference.families.full.DENSE", 10)
    model = fitted.fitted_.model
    objective(model)
    prior = model.prior(fitted.prior_.X, graph)
    fit = learning.fit_softmax(
        learning.AllCovariances(prior, strict=True), data, model.stack(prior, np.ones((len(data.y), 1)))
    )
    draws = objective._draws(fit.posterior)
    assert draws.shape == (len(data.y), 3 * 16)
    np.testing.assert_allclose((draws**2).mean(), fit.posterior.variance.mean(), rtol=0.2)


def test_learned_by_default():
    X, y, p = forest(900)
    X, Z, y, unseen, truth = X[:600], X[600:], y[:600], y[600:], p[600:]
    model = GPClassifier(n_neighbors=10).fit(X, y)
    assert model.kernel_.smoothness in (0.5, 1.5, 2.5)
    assert model.fit_info_["learning"]["evaluations"] > 5
    best = np.log(truth[np.arange(300), np.searchsorted(LABELS, unseen)]).mean()
    assert model.log_score(Z, unseen) > best - 0.1
    assert np.abs(model.predict_proba(Z) - truth).mean() < 0.1
    assert model.score(Z, unseen) > 0.6
    summary = model.summary()
    assert {"mean__constant[ash]", "mean__constant[oak]", "mean__constant[pine]"} < set(summary.index)
    assert model.mean_coefficients_.shape == (3, 1)


# -- predictions ------------------------------------------------------------------------------------------------------


def test_probabilities_are_those_of_monte_carlo(fitted):
    Z = forest(20, seed=5)[0]
    dist = fitted.predict_dist(Z)
    rng = np.random.default_rng(0)
    f = dist.latent_mean + np.sqrt(dist.latent_var + dist.nugget) * rng.standard_normal((100_000, 20, 3))
    np.testing.assert_allclose(dist.probabilities, special.softmax(f, axis=2).mean(axis=0), atol=4e-3)
    np.testing.assert_allclose(dist.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fitted.predict_proba(Z), dist.probabilities)
    np.testing.assert_array_equal(fitted.predict(Z), dist.mode)
    labels = np.repeat(LABELS, 7)[:20]
    expected = np.log(dist.probabilities[np.arange(20), np.searchsorted(LABELS, labels)])
    np.testing.assert_allclose(dist.log_prob(labels), expected)
    assert fitted.log_score(Z, labels) == pytest.approx(expected.mean())
    assert len(dist) == 20
    assert repr(dist) == "CategoricalPredictive(3 classes, 20 rows)"


def test_samples(fitted):
    Z = np.array([[0.2, 0.2], [0.2001, 0.2], [0.9, 0.8]])
    dist = fitted.predict_dist(Z)
    for draws in (dist.sample(4000, seed=0), dist.joint_sample(4000, seed=0)):
        shares = (draws[:, :, None] == LABELS).mean(axis=0)
        np.testing.assert_allclose(shares, dist.probabilities, atol=0.05)
    np.testing.assert_array_equal(dist.joint_sample(5, seed=1), dist.joint_sample(5, seed=1))
    with pytest.raises(ValueError, match="joint draws need `joint`"):
        npvi.categorical.CategoricalPredictive(LABELS, dist.latent_mean, dist.latent_var).joint_sample()


def test_neighbours_are_drawn_together():
    X, y, _ = forest(60)
    dist = GPClassifier(kernel=Matern32(0.4, 20.0), nugget=1e-4, learn=False, mean="zero").fit(X, y).predict_dist
    draws = dist([[3.0, 3.0], [3.001, 3.0]]).joint_sample(1000, seed=0)  # far from all data, near each other
    alone = dist([[3.0, 3.0], [3.001, 3.0]]).sample(1000, seed=0)
    assert (draws[:, 0] == draws[:, 1]).mean() > (alone[:, 0] == alone[:, 1]).mean() + 0.2


def test_covariates_have_coefficients_of_their_own():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((400, 2)), rng.normal(size=400)])
    f = np.column_stack([np.zeros(400), 2.0 * X[:, 2], -2.0 * X[:, 2]])
    y = (special.softmax(f, axis=1).cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    model = GPClassifier(coords=[0, 1], **FIXED).fit(X, y)
    slopes = model.mean_coefficients_[:, 1]
    assert 1.0 < slopes[1] - slopes[0] < 3.0
    assert -3.0 < slopes[2] - slopes[0] < -1.0


# -- labels and weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [[3, 1, 2], [7.0, 8.0, 9.0], np.array(["a", "b", "c"], dtype=object)], ids=["int", "float", "object"]
)
def test_labels_of_any_kind(labels):
    X, y, _ = forest(90)
    y = np.asarray(labels)[np.searchsorted(LABELS, y)]
    model = GPClassifier(**FIXED).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(X)) <= set(labels)


def test_weights_count_and_rows_of_weight_zero_do_not():
    X, y, _ = forest(120)
    weight = np.ones(120)
    weight[90:] = 0.0
    changed = y.copy()
    changed[90:] = "oak"
    Z = forest(50, seed=1)[0]
    one = GPClassifier(**FIXED).fit(X, y, sample_weight=weight).predict_proba(Z)
    other = GPClassifier(**FIXED).fit(X, changed, sample_weight=weight).predict_proba(Z)
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(one - GPClassifier(**FIXED).fit(X, y, sample_weight=3.0 * weight).predict_proba(Z)).max() > 0.05


def test_a_label_that_only_has_weight_zero():
    X, y, _ = forest(60)
    model = GPClassifier(**FIXED).fit(X, y, sample_weight=(y != "pine").astype(float))
    assert model.linear_part_.names == ()  # a mean of its own would be minus infinity
    assert 0.0 < model.predict_proba(X)[:, 2].max() < 0.5


def test_a_label_with_one_row():
    X, y, _ = forest(100)
    y[17] = "yew"
    model = GPClassifier(n_neighbors=10).fit(X, y)
    assert model.predict_proba(X).shape == (100, 4)
    assert np.isfinite(model.log_score(X, y))


def test_a_hundred_labels():
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    model = GPClassifier(**FIXED).fit(X, np.arange(200) % 100)
    assert model.predict_proba(X[:5]).shape == (5, 100)
    assert model.fit_info_["converged"]


def test_unknown_and_missing_labels(fitted):
    X, y, _ = forest(10)
    strange = ["elm"] * 10
    for call in (
        lambda: fitted.log_score(X, strange),
        lambda: fitted.update(X, strange),
        lambda: fitted.predict_dist(X).log_prob(strange),
    ):
        with pytest.raises(ValueError, match=r"labels that weren't in the training data, such as .*elm"):
            call()
    missing = y.astype(object)
    missing[3] = np.nan
    with pytest.raises(ValueError, match="contains NaN or infinity in 1 of 10 rows"):
        GPClassifier().fit(X, missing)
    with pytest.raises(ValueError, match="NaN"):
        GPClassifier().fit(X, np.array([0.0, 1.0, 2.0, np.nan] * 2 + [0.0, 1.0]))


def test_the_likelihood_may_be_named():
    X, y, _ = forest(60)
    model = GPClassifier("softmax", **FIXED).fit(X, y)
    assert model.likelihood_.n_classes == 3
    two = GPClassifier("softmax", **FIXED).fit(X, y == "oak")
    np.testing.assert_array_equal(two.predict_proba(X), GPClassifier(**FIXED).fit(X, y == "oak").predict_proba(X))
    with pytest.raises(ValueError, match="the probit link is for two labels, and there are 3"):
        GPClassifier(npvi.likelihoods.Bernoulli(link="probit"), **FIXED).fit(X, y)
    with pytest.raises(ValueError, match="Softmax takes no exposure"):
        GPClassifier(**FIXED).fit(X, y, exposure=np.ones(60))


# -- more data, files, selection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["full", "npvi"])
def test_update_is_a_fit_from_scratch_on_the_extended_graph(method):
    X, y, _ = forest(200)
    settings = {**FIXED, "order": "given", "method": method}
    model = GPClassifier(**settings).fit(X[:170], y[:170]).update(X[170:], y[170:])
    scratch = GPClassifier(**settings).fit(X, y)
    assert model.elbo_ == pytest.approx(scratch.elbo_, abs=1e-5)
    Z = forest(50, seed=1)[0]
    np.testing.assert_allclose(model.predict_proba(Z), scratch.predict_proba(Z), atol=1e-5)


def test_partial_fit_with_labels_to_come():
    X, y, _ = forest(120)
    few = np.flatnonzero(y != "pine")[:40]
    model = GPClassifier(**FIXED).partial_fit(X[few], y[few], classes=LABELS)
    assert model.classes_.tolist() == LABELS.tolist()
    assert model.predict_proba(X)[:, 2].max() < 0.5
    rest = np.setdiff1d(np.arange(120), few)
    model.partial_fit(X[rest], y[rest])
    assert "pine" in model.predict(X)


@pytest.mark.parametrize("method", ["full", "npvi"])
def test_saved_and_loaded(method, tmp_path):
    X, y, _ = forest(80)
    model = GPClassifier(method=method, **FIXED).fit(X, y, sample_weight=np.linspace(0.5, 1.0, 80))
    model.save(tmp_path / "trees.npvi")
    again = npvi.load(tmp_path / "trees.npvi")
    Z = forest(30, seed=1)[0]
    np.testing.assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
    np.testing.assert_array_equal(
        again.predict_dist(Z).joint_sample(3, seed=0), model.predict_dist(Z).joint_sample(3, seed=0)
    )
    assert again.summary().equals(model.summary())
    more = forest(20, seed=2)
    np.testing.assert_allclose(
        again.update(*more[:2]).predict_proba(Z), model.update(*more[:2]).predict_proba(Z), atol=1e-8
    )
    again.save(tmp_path / "again.npvi")


def test_a_grid_search_may_hold_out_a_label():
    X, y, _ = forest(60)
    y[:] = np.where(y == "pine", "oak", y)
    y[7] = "yew"
    for seed in range(3):
        found = npvi.grid_search(GPClassifier(random_state=seed, n_neighbors=10), X, y, {"length_scale": [0.2, 0.5]})
        assert found.best_model.classes_.tolist() == ["ash", "oak", "yew"]


def test_diagnose_says_that_it_is_not_for_this(fitted):
    X, y, _ = forest(20)
    with pytest.raises(ValueError, match="this one has 3 labels: score it with log_score and score"):
        npvi.diagnose(fitted, X, y)
