"""GPRegressor and GPClassifier as a user of scikit-learn meets them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import npvi
from npvi import GPClassifier, GPRegressor
from npvi.kernels import RBF, Matern12, Matern32
from npvi.likelihoods import Bernoulli, Gaussian, LogNormal, Poisson
from npvi.runtime import progress
from tests.support import oracle
from tests.support.models import paper_classifier, paper_regressor

# -- scikit-learn's own checks ----------------------------------------------------------------------------------------

WEIGHTS = "with a nugget per row a weight is not a repeated row"


def expected_to_fail(estimator):
    names = (
        "check_sample_weight_equivalence",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    )
    return dict.fromkeys(names, WEIGHTS)


@pytest.mark.filterwarnings("ignore:n_neighbors is")
@pytest.mark.filterwarnings("ignore:input column")
@pytest.mark.filterwarnings("ignore:the kernel makes")
@pytest.mark.filterwarnings("ignore:all labels are the same")
@parametrize_with_checks([GPRegressor(), GPClassifier()], expected_failed_checks=expected_to_fail)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- data -------------------------------------------------------------------------------------------------------------


def counts(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = rng.poisson(np.exp(1.0 + np.sin(6.0 * X[:, 0])))
    return X, y


def poisson(**settings):
    """Nothing is learned."""
    return paper_regressor(
        "poisson", **{"kernel": Matern32(0.3), "nugget": 0.05, "n_neighbors": 10, "random_state": 0, **settings}
    )


def new_points(n=25, seed=9):
    return np.random.default_rng(seed).uniform(size=(n, 2))


# -- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_reach_into_the_kernel_and_the_likelihood():
    model = GPRegressor(Poisson("softplus"), kernel=RBF(0.5), learn=False)
    params = model.get_params()
    assert params["kernel__length_scale"] == 0.5
    assert params["likelihood__link"] == "softplus"
    assert params["nugget"] is None
    model.set_params(kernel__length_scale=0.25, likelihood__link="exp", n_neighbors=7)
    assert model.kernel.length_scale == 0.25
    assert model.likelihood.link == "exp"
    X, y = counts()
    model.fit(X, y)
    assert model.kernel_.length_scale == 0.25
    assert model.graph_.n_neighbors == 7
    with pytest.raises(ValueError, match="Invalid parameter 'length_scales'"):
        model.set_params(kernel__length_scales=1.0)


def test_fitting_keeps_its_own_copies():
    X, y = counts()
    model = poisson().fit(X, y)
    before = model.predict(new_points())
    model.kernel.length_scale = 100.0
    assert model.kernel_.length_scale == 0.3
    np.testing.assert_array_equal(model.predict(new_points()), before)


def test_clone_is_unfitted_and_equal():
    X, y = counts(60)
    model = GPRegressor("poisson").fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "posterior_")
    assert repr(copy) == repr(model)
    np.testing.assert_array_equal(copy.fit(X, y).predict(X), model.predict(X))


def test_pickle():
    X, y = counts(60)
    models = [(poisson(), y), (GPRegressor("poisson"), y), (GPClassifier(), y > 3)]
    for model, response in models:
        model.fit(X, response)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(new_points()), model.predict(new_points()))
        assert copy.elbo_ == model.elbo_
        assert copy.fit(X, response).elbo_ == model.elbo_


def test_grid_search_finds_the_length_scale():
    X, y = counts(200)
    search = GridSearchCV(poisson(), {"kernel__length_scale": [0.002, 0.3, 30.0]}, scoring=npvi.log_score_scorer, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the candidates include foolish ones
        search.fit(X, y)
    assert search.best_params_ == {"kernel__length_scale": 0.3}
    best = search.best_estimator_
    assert npvi.log_score_scorer(best, X, y) == best.log_score(X, y)
    scores = cross_val_score(best, X, y, scoring=npvi.log_score_scorer, cv=3)
    assert search.best_score_ == pytest.approx(scores.mean(), rel=1e-9)


def test_in_a_pipeline():
    X, y = counts()
    pipeline = make_pipeline(StandardScaler(), poisson(kernel=Matern32(1.0)))
    pipeline.set_params(gpregressor__kernel__variance=2.0).fit(X, y)
    scaled = poisson(kernel=Matern32(1.0, variance=2.0)).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(pipeline.predict(X), scaled.predict(StandardScaler().fit_transform(X)))


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_tables_keep_their_names(table):
    X, y = counts(60)
    frame = table({"lon": X[:, 0], "lat": X[:, 1].astype(np.float32)})
    model = GPRegressor("poisson").fit(frame, y)
    assert model.feature_names_in_.tolist() == ["lon", "lat"]
    assert model.n_features_in_ == 2
    plain = GPRegressor("poisson").fit(np.column_stack([X[:, 0], X[:, 1].astype(np.float32)]), y)
    assert not hasattr(plain, "feature_names_in_")
    np.testing.assert_allclose(model.predict(frame), plain.predict(np.asarray(frame.to_numpy(), dtype=float)))


def test_responses_may_come_as_series_and_inputs_as_mixed_numbers():
    X, y = counts()
    frame = pd.DataFrame({"lon": X[:, 0], "year": np.arange(len(y)) % 3, "wet": X[:, 1] > 0.5})
    series = pd.Series(y, index=np.arange(len(y))[::-1])  # rows go by position, not by index
    model = poisson(kernel=Matern32(0.5)).fit(frame, series)
    plain = poisson(kernel=Matern32(0.5)).fit(frame.to_numpy(dtype=float), y)
    assert model.elbo_ == plain.elbo_
    assert poisson(kernel=Matern32(0.5)).fit(frame, pl.Series(y)).elbo_ == plain.elbo_


# -- prediction -------------------------------------------------------------------------------------------------------


def test_predict_and_its_standard_deviation():
    X, y = counts()
    model = poisson().fit(X, y)
    Z = new_points()
    mean, std = model.predict(Z, return_std=True)
    dist = model.predict_dist(Z)
    np.testing.assert_array_equal(mean, model.predict(Z))
    m, v = dist.latent_mean, dist.latent_var + 0.05  # of a response: the nugget as well
    rate = np.exp(m + 0.5 * v)
    np.testing.assert_allclose(mean, rate, rtol=1e-10)
    np.testing.assert_allclose(std**2, rate + rate**2 * np.expm1(v), rtol=1e-10)
    expected = np.mean(dist.log_prob(np.ones(len(Z))))
    assert model.log_score(Z, np.ones(len(Z))) == pytest.approx(expected, rel=1e-12)


def test_prediction_with_few_neighbours_is_its_formula():
    """m* = bᵀμ and v* = d + bᵀ L Lᵀ b, with b and d from the nearest training points, and what the constant adds; d is
    without the nugget of a new row."""
    X, y = counts()
    model = poisson(mean="constant", n_neighbors=6).fit(X, y)
    Z = new_points()
    dist = model.predict_dist(Z)
    points, mu = X[model.graph_.order], model.posterior_.mean
    L = oracle.dense_triangular(model.posterior_.factor)
    constant = model.mean_coefficients_[0]
    prior = oracle.matern32(points, points, 0.3) + 0.05 * np.eye(len(y))
    P, _ = oracle.nngp_precision(prior, model.graph_.parents)
    answer = np.linalg.solve(P + np.diag(model.posterior_.site_precision), P.sum(axis=1))  # of E f to the constant
    constant_variance = 1.0 / (P.sum() - P.sum(axis=1) @ answer)
    for i, z in enumerate(Z):
        near = np.argsort(oracle.distances(z[None], points)[0])[:6]
        cross = oracle.matern32(z[None], points[near], 0.3)[0]
        covariance = oracle.matern32(points[near], points[near], 0.3) + 0.05 * np.eye(6)
        b = np.linalg.solve(covariance, cross)
        assert dist.latent_mean[i] == pytest.approx(constant + b @ (mu[near] - constant), rel=1e-9)
        spread = 1.0 - b @ cross + b @ (L @ L.T)[np.ix_(near, near)] @ b
        spread += constant_variance * (1.0 + b @ (answer[near] - 1.0)) ** 2
        assert dist.latent_var[i] == pytest.approx(spread, rel=1e-9)


def test_more_new_rows_than_are_handled_at_a_time():
    X, y = counts()
    model = poisson().fit(X, y)
    Z = new_points(2**16 + 300)
    exposure = np.linspace(1.0, 2.0, len(Z))
    whole = model.predict(Z, exposure=exposure)
    assert whole.shape == (len(Z),)
    for rows in (slice(0, 200), slice(2**16 - 100, 2**16 + 100), slice(-200, None)):
        np.testing.assert_allclose(model.predict(Z[rows], exposure=exposure[rows]), whole[rows], rtol=1e-12)


@pytest.mark.parametrize("link", ["exp", "softplus"])
def test_exposure_multiplies_the_mean(link):
    X, y = counts()
    exposure = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = paper_regressor(Poisson(link), kernel=Matern32(0.3), nugget=0.05, n_neighbors=10).fit(
        X, y, exposure=exposure
    )
    Z = new_points()
    once, e = model.predict(Z, exposure=1.0), np.linspace(0.5, 3.0, len(Z))
    np.testing.assert_allclose(model.predict(Z, exposure=np.full(len(Z), 2.0)), 2.0 * once, rtol=1e-10)
    np.testing.assert_allclose(model.predict(Z, exposure=2.0), 2.0 * once, rtol=1e-10)
    np.testing.assert_allclose(model.predict_dist(Z, exposure=e).mean, e * once, rtol=1e-10)
    dist, y_new = model.predict_dist(Z, exposure=e), np.arange(len(Z)) % 7
    assert model.log_score(Z, y_new, exposure=e) == pytest.approx(np.mean(dist.log_prob(y_new)), rel=1e-12)
    assert model.log_score(Z, y_new, exposure=e) != pytest.approx(model.log_score(Z, y_new, exposure=1.0), abs=1e-3)


def test_exposure_shifts_the_latent_function():
    """For the exp link, exposure c everywhere and a constant mean are f shifted by log c."""
    X, y = counts()
    one = poisson(mean="constant").fit(X, y)
    ten = poisson(mean="constant").fit(X, y, exposure=np.full(len(y), 10.0))
    assert ten.mean_coefficients_[0] == pytest.approx(one.mean_coefficients_[0] - np.log(10.0), abs=1e-6)
    assert ten.elbo_ == pytest.approx(one.elbo_, rel=1e-9)
    np.testing.assert_allclose(ten.predict(X, exposure=10.0), one.predict(X), rtol=1e-6)


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Poisson(), Poisson("softplus"), Bernoulli()], ids=repr)
def test_weight_zero_removes_what_a_row_says(likelihood):
    """With all points as neighbours the prior marginalises: the rest is as if the row had never been there."""
    X, y = counts(50)
    y = (y > 3).astype(float) if isinstance(likelihood, Bernoulli) else y.astype(float)
    weight = np.ones(50)
    weight[[4, 20, 33]] = 0.0
    kept = weight > 0.0

    def model(n_neighbors):
        return paper_regressor(likelihood, kernel=Matern12(0.5), nugget=0.05, n_neighbors=n_neighbors, tol=1e-10)

    whole, part = model(49).fit(X, y, sample_weight=weight), model(46).fit(X[kept], y[kept])
    assert whole.elbo_ == pytest.approx(part.elbo_, rel=1e-9)
    Z = np.vstack([new_points(), X])
    a, b = whole.predict_dist(Z), part.predict_dist(Z)
    np.testing.assert_allclose(a.latent_mean, b.latent_mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(a.latent_var, b.latent_var, rtol=1e-6)
    # and the row's own f is a new row's, nugget included
    order = whole.graph_.order
    unseen = np.flatnonzero(~kept[order])
    dist = part.predict_dist(X[order[unseen]])
    np.testing.assert_allclose(whole.posterior_.mean[unseen], dist.latent_mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(whole.posterior_.variance[unseen], dist.latent_var + dist.nugget, rtol=1e-6)


def test_a_weight_multiplies_the_log_likelihood():
    """Gaussian noise: weight c is noise variance / c, but for the normalising constant."""
    X, y = counts(60)
    y = np.log1p(y)
    kernel = Matern32(0.4)
    weighted = paper_regressor(Gaussian(0.4), kernel=kernel, n_neighbors=8).fit(X, y, sample_weight=np.full(60, 4.0))
    sharper = paper_regressor(Gaussian(0.1), kernel=kernel, n_neighbors=8).fit(X, y)
    np.testing.assert_allclose(weighted.posterior_.mean, sharper.posterior_.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(weighted.posterior_.variance, sharper.posterior_.variance, rtol=1e-8)
    ones = paper_regressor(Gaussian(0.1), kernel=kernel, n_neighbors=8).fit(X, y, sample_weight=np.ones(60))
    assert ones.elbo_ == sharper.elbo_


# -- the same result again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["maximin", "random", "grid"])
def test_same_seed_same_result(order):
    X, y = counts()
    first, second = (poisson(order=order, random_state=3).fit(X, y) for _ in range(2))
    assert first.elbo_ == second.elbo_
    np.testing.assert_array_equal(first.graph_.order, second.graph_.order)
    np.testing.assert_array_equal(first.predict(new_points()), second.predict(new_points()))
    if order == "random":
        other = poisson(order=order, random_state=4).fit(X, y)
        assert not np.array_equal(first.graph_.order, other.graph_.order)


def test_threads_do_not_change_the_result():
    X, y = counts(6000)
    Z = new_points(3000)
    one, two = (poisson(n_jobs=n_jobs, kernel=Matern32(0.1)).fit(X, y) for n_jobs in (1, 2))
    assert one.elbo_ == pytest.approx(two.elbo_, rel=1e-10)
    np.testing.assert_allclose(one.posterior_.mean, two.posterior_.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.posterior_.variance, two.posterior_.variance, rtol=1e-10)
    np.testing.assert_allclose(one.predict(Z), two.predict(Z), rtol=1e-10)


@pytest.mark.parametrize("n_jobs", [None, 1, -1])
def test_n_jobs(n_jobs):
    X, y = counts(40)
    assert np.isfinite(poisson(n_jobs=n_jobs).fit(X, y).elbo_)


def test_permuting_the_rows_permutes_nothing_but_rows():
    X, y = counts(60)
    shuffle = np.random.default_rng(0).permutation(60)
    straight = poisson(n_neighbors=59, tol=1e-10).fit(X, y)
    shuffled = poisson(n_neighbors=59, tol=1e-10).fit(X[shuffle], y[shuffle])
    assert straight.elbo_ == pytest.approx(shuffled.elbo_, rel=1e-10)
    np.testing.assert_allclose(shuffled.predict(X[shuffle]), straight.predict(X)[shuffle], rtol=1e-8)
    np.testing.assert_array_equal(straight.predict(X[shuffle]), straight.predict(X)[shuffle])


# -- graphs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["nearest", "paper"])
@pytest.mark.parametrize("order", ["maximin", "given", "random", "grid", np.arange(60)[::-1]], ids=str)
def test_orders_and_rules(order, rule):
    """Whatever the order, with all points as neighbours the answer is one."""
    X, y = counts(60)
    model = poisson(order=order, rule=rule, n_neighbors=59).fit(X, y)
    reference = poisson(n_neighbors=59).fit(X, y)
    np.testing.assert_allclose(model.predict(new_points()), reference.predict(new_points()), rtol=1e-6)
    assert model.elbo_ == pytest.approx(reference.elbo_, rel=1e-8)
    if isinstance(order, np.ndarray):
        np.testing.assert_array_equal(model.graph_.order, order)
    elif order == "given":
        np.testing.assert_array_equal(model.graph_.order, np.arange(60))
    few = poisson(order=order, rule=rule, n_neighbors=5).fit(X, y)
    assert few.graph_.parents.shape == (60, 5)
    assert few.elbo_ < reference.elbo_ + 1.0
    clone(model).fit(X, y)  # an array as a parameter survives cloning


# -- classification ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["bernoulli", Bernoulli("probit")], ids=str)
@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (False, True), (2.0, 7.0)], ids=str)
def test_labels_of_any_kind(labels, likelihood):
    X, y = counts(100)
    codes = (y > np.median(y)).astype(int)
    model = paper_classifier(likelihood, kernel=RBF(0.3, 4.0), n_neighbors=10).fit(X, np.array(labels)[codes])
    assert model.classes_.tolist() == list(labels)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    predicted = model.predict(X)
    assert set(predicted.tolist()) <= set(labels)
    np.testing.assert_array_equal(predicted, np.array(labels)[(probabilities[:, 1] > 0.5).astype(int)])
    assert np.mean(predicted == np.array(labels)[codes]) > 0.8
    regressor = paper_regressor(likelihood, kernel=RBF(0.3, 4.0), n_neighbors=10).fit(X, codes)
    assert model.elbo_ == pytest.approx(regressor.elbo_, rel=1e-12)
    np.testing.assert_allclose(probabilities[:, 1], regressor.predict(X), rtol=1e-12)
    score = np.mean(np.log(probabilities[np.arange(100), codes]))
    assert model.log_score(X, np.array(labels)[codes]) == pytest.approx(score, rel=1e-8)
    with pytest.raises(ValueError, match="labels that weren't in the training data"):
        model.log_score(X, np.full(100, 99))


def test_probit_probability_is_the_closed_form():
    X, y = counts(60)
    model = paper_classifier(Bernoulli("probit"), n_neighbors=10).fit(X, y > 3)
    dist = model.predict_dist(new_points())
    expected = special.ndtr(dist.latent_mean / np.sqrt(1.0 + dist.latent_var + dist.nugget))
    np.testing.assert_allclose(model.predict_proba(new_points())[:, 1], expected, rtol=1e-10)


def test_labels_that_are_yet_to_come():
    X, y = counts(60)
    y = np.where(y > 3, "many", "few")
    first = np.flatnonzero(y == "few")[:25]
    model = paper_classifier(n_neighbors=10).partial_fit(X[first], y[first], classes=["few", "many"])
    assert model.classes_.tolist() == ["few", "many"]
    assert model.predict_proba(X).shape == (60, 2)
    rest = np.setdiff1d(np.arange(60), first)
    model.partial_fit(X[rest], y[rest])
    assert set(model.predict(X)) == {"few", "many"}
    with pytest.raises(ValueError, match=r"labels that weren't in the training data, such as .*some"):
        paper_classifier().partial_fit(X, np.append(y[1:], "some"), classes=["few", "many"])
    assert clone(model).fit(X[first], y[first]).classes_.tolist() == ["few"]


def test_a_single_class_is_all_that_is_ever_predicted():
    X, _ = counts(30)
    with pytest.warns(UserWarning, match="all labels are the same"):
        model = GPClassifier().fit(X, ["only"] * 30)
    assert model.predict(new_points()).tolist() == ["only"] * 25
    np.testing.assert_array_equal(model.predict_proba(new_points()), np.ones((25, 1)))
    assert model.predict_dist(new_points()).mean.max() < 1.0 / 30.0  # of any other


# -- means ------------------------------------------------------------------------------------------------------------


def test_a_constant_mean_is_what_remains_far_away():
    X, y = counts()
    model = poisson(mean="constant").fit(X, y)
    far = model.predict_dist([[50.0, 50.0]])
    assert far.latent_mean[0] == pytest.approx(model.mean_coefficients_[0], abs=1e-12)
    assert far.latent_var[0] == pytest.approx(1.0 + model.trend_.covariance[0, 0], rel=1e-9)
    zero = poisson().fit(X, y)
    nothing = zero.predict_dist([[50.0, 50.0]])
    assert nothing.latent_mean[0] == pytest.approx(0.0, abs=1e-12)
    assert nothing.latent_var[0] == pytest.approx(1.0, rel=1e-9)
    assert model.elbo_ > zero.elbo_


def test_a_constant_mean_follows_the_data():
    """y + c moves the constant by c and nothing else."""
    X, y = counts(80)
    y = np.sin(y / 3.0)
    settings = {"kernel": Matern32(0.4), "mean": "constant", "n_neighbors": 8}
    model, moved = (paper_regressor(Gaussian(0.05), **settings).fit(X, y + c) for c in (0.0, 100.0))
    assert moved.mean_coefficients_[0] == pytest.approx(model.mean_coefficients_[0] + 100.0, rel=1e-9)
    assert moved.elbo_ == pytest.approx(model.elbo_, rel=1e-7)
    np.testing.assert_allclose(moved.predict(new_points()), model.predict(new_points()) + 100.0, rtol=1e-9)


# -- odd data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["zero", "constant"])
@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Poisson(), Poisson("softplus")], ids=repr)
def test_one_row(likelihood, mean):
    model = paper_regressor(likelihood, kernel=RBF(1.0, 2.0), nugget=0.5, mean=mean).fit([[1.0, 2.0]], [3.0])
    dist = model.predict_dist([[1.0, 2.0], [80.0, 0.0]])
    # the constant is known from one f, itself known up to 1/w, and f follows it by 1/(1 + 2.5 w)
    w = model.posterior_.site_precision[0]
    c = 2.5 + 1.0 / w if mean == "constant" else 0.0
    assert dist.latent_var[1] == pytest.approx(2.0 + c, rel=1e-9)
    # g(new) = b f(old) + noise, b = 2/2.5, with g for f without its nugget
    v = model.posterior_.variance[0]
    follows = 1.0 - 0.8 * (1.0 - 1.0 / (1.0 + 2.5 * w))
    assert dist.latent_var[0] == pytest.approx(2.0 - 0.8 * 2.0 + 0.64 * v + c * follows**2, rel=1e-9)
    if isinstance(likelihood, Gaussian) and mean == "zero":
        assert dist.latent_mean[0] == pytest.approx(0.8 * 3.0 * 2.5 / 2.6, rel=1e-9)
        assert model.elbo_ == pytest.approx(-0.5 * (np.log(2.0 * np.pi * 2.6) + 9.0 / 2.6), rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 7.0])
@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Poisson(), Poisson("softplus")], ids=repr)
def test_all_responses_equal(likelihood, value):
    X, _ = counts(60)
    model = paper_regressor(likelihood, kernel=RBF(0.5, 50.0), n_neighbors=10).fit(X, np.full(60, value))
    assert model.fit_info_["converged"]
    assert np.all(np.abs(model.predict(X) - value) < 1.5)
    if isinstance(likelihood, Gaussian):
        whole = clone(model).set_params(n_neighbors=59).fit(X, np.full(60, value))
        cross = oracle.rbf(X, X, 0.5, 50.0)
        dense = oracle.DenseGP(cross + 1e-4 * np.eye(60), np.full(60, value), 0.1)
        assert whole.elbo_ == pytest.approx(dense.log_marginal_likelihood(), rel=1e-8)
        np.testing.assert_allclose(whole.predict(X), dense.predict(cross, 50.0001)[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize("likelihood", [Gaussian(0.1), LogNormal(0.1)], ids=repr)
@pytest.mark.parametrize("value", [1.0, 0.1, 7.0])
def test_all_responses_equal_to_their_constant_mean(likelihood, value):
    """Nothing is left to explain: both sides of the mean's equation are zero, which is an optimum all the same."""
    X, _ = counts(60)
    model = paper_regressor(likelihood, kernel=RBF(0.5), mean="constant", n_neighbors=10).fit(X, np.full(60, value))
    assert model.fit_info_["converged"]
    assert np.ptp(model.predict_dist(new_points()).latent_mean) < 1e-6


def test_a_single_yes_with_a_constant_that_wants_to_be_infinite():
    with pytest.warns(UserWarning, match="all labels are the same"):
        model = paper_regressor("bernoulli", mean="constant").fit([[0.0, 1.0]], [1.0])
    assert model.fit_info_["converged"]
    assert model.predict([[0.0, 1.0]])[0] > 0.6


def test_a_constant_that_wants_to_be_infinite():
    """All counts zero: under a flat prior the constant would fall for ever. Say so, and predict little."""
    X, _ = counts(40)
    with pytest.warns(UserWarning, match="all counts are 0"):
        model = poisson(mean="constant").fit(X, np.zeros(40))
    assert model.fit_info_["converged"]
    assert np.all(np.isfinite(model.predict_dist(new_points()).latent_mean))
    assert np.all(model.predict(new_points()) < 0.1)


@pytest.mark.filterwarnings("ignore:input column 0, 1 is constant")
@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_twenty_thousand_rows_at_one_place(mean):
    y = np.random.default_rng(0).poisson(3.0, 20_000)
    model = poisson(nugget=0.1, mean=mean).fit(np.zeros((20_000, 2)), y)
    assert model.fit_info_["converged"]
    assert model.predict([[0.0, 0.0]])[0] == pytest.approx(3.0, rel=0.1)


def test_rows_that_repeat_a_place():
    """Each row has a nugget of its own: two rows at one place are as the dense model has them."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(size=(15, 2)), 4, axis=0)
    y = rng.standard_normal(60)
    model = paper_regressor(Gaussian(0.2), kernel=Matern32(0.3), nugget=0.1, n_neighbors=59).fit(X, y)
    dense = oracle.DenseGP(oracle.matern32(X, X, 0.3) + 0.1 * np.eye(60), y, 0.2)
    assert model.elbo_ == pytest.approx(dense.log_marginal_likelihood(), rel=1e-8)
    mean, variance = dense.predict(oracle.matern32(X, X, 0.3), 1.0)
    np.testing.assert_allclose(model.predict_dist(X).latent_mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.predict_dist(X).latent_var, variance, rtol=1e-8)
    np.testing.assert_allclose(model.predict_dist(X).var, variance + 0.1 + 0.2, rtol=1e-8)


def test_refitting_forgets():
    X, y = counts()
    model = poisson().fit(X, y)
    fresh = poisson().fit(X[:50], y[:50])
    model.fit(X[:50], y[:50])
    assert model.elbo_ == fresh.elbo_
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))


# -- progress and interruption ----------------------------------------------------------------------------------------


def interrupting(at):
    seen = []

    def reporter(stage, numbers):
        if stage == "iteration":
            seen.append(dict(numbers))
            if len(seen) == at:
                raise KeyboardInterrupt

    return reporter, seen


def test_ctrl_c_leaves_a_model_that_can_predict():
    X, y = counts(200)
    model = paper_regressor(Poisson("softplus"), kernel=RBF(0.2, 300.0), nugget=0.1, n_neighbors=10)
    reporter, seen = interrupting(at=3)  # the starting point, then two iterations
    with progress.reporting(reporter), pytest.raises(KeyboardInterrupt) as stopped:
        model.fit(X, y)
    assert "fit interrupted after 2 iterations" in str(stopped.value)
    assert "hasn't converged" in str(stopped.value)
    info = model.fit_info_
    assert info["interrupted"] is True
    assert info["converged"] is False
    assert info["n_iter"] == 2
    assert model.elbo_ == info["elbo"][-1] == seen[-1]["elbo"]
    assert np.all(np.isfinite(model.predict(new_points())))
    whole = clone(model).fit(X, y)
    assert whole.fit_info_["n_iter"] > 2
    assert whole.elbo_ > model.elbo_


def test_ctrl_c_in_the_middle_of_a_step_keeps_the_last_good_state(monkeypatch):
    X, y = counts(200)
    model = paper_regressor(Poisson("softplus"), kernel=RBF(0.2, 300.0), nugget=0.1, n_neighbors=10)
    from npvi.linalg import LowerHalf

    calls, real = [], LowerHalf.sweep

    def sweep(self, w):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, w)

    monkeypatch.setattr(LowerHalf, "sweep", sweep)
    with pytest.raises(KeyboardInterrupt, match="last good state"):
        model.fit(X, y)
    assert np.isfinite(model.elbo_)
    assert np.all(np.isfinite(model.predict(new_points())))


def test_verbose_prints_a_line_per_step(capsys):
    X, y = counts(50)
    model = poisson(verbose=1).fit(X, y)
    err = capsys.readouterr().err
    assert err.count("npvi: iteration") == model.fit_info_["n_iter"] + 1
    assert "elbo" in err
    poisson().fit(X, y)
    assert capsys.readouterr().err == ""
