"""Inference, prediction, learning and files under FITC and Nyström, against dense matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi.components import Coefficients, Process, ProcessPrecision, Stack
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.io import archive as model_file
from npvi.kernels import RBF, Matern32
from npvi.learning.objective import BoundObjective, CollapsedObjective, Model
from npvi.likelihoods import Gaussian, Poisson
from npvi.priors import FITC, Nystrom
from npvi.priors.structure import InducingPoints
from tests.inference.test_npvi import check_downhill
from tests.support import oracle
from tests.support.low_rank_oracle import DenseLowRank, best_gaussian_for_counts
from tests.support.problems import in_order, solution

KERNEL = {"length_scale": 0.4, "variance": 1.5}
NUGGET, NOISE = 0.05, 0.1
both = pytest.mark.parametrize("prior", ["fitc", "nystrom"])
KINDS = {"fitc": FITC, "nystrom": Nystrom}


def dense_kernel(A, B, length_scale=0.4, variance=1.5):
    return oracle.matern32(A / length_scale, B / length_scale, 1.0, variance)


def places(n, seed=0):
    rng = np.random.default_rng([n, seed])
    X = rng.uniform(size=(n, 2))
    return rng, X, np.sin(5.0 * X[:, 0]) + X[:, 1] - 0.3


def counts(n, seed=0):
    rng, X, f = places(n, seed)
    return X, rng.poisson(np.exp(f)).astype(float)


def numbers(n, seed=0):
    rng, X, f = places(n, seed)
    return X, f + np.sqrt(NOISE) * rng.standard_normal(n)


def model(likelihood, prior, **settings):
    defaults = {"kernel": Matern32(**KERNEL), "nugget": NUGGET, "mean": "zero", "n_neighbors": 6, "n_inducing": 12}
    defaults |= {"tol": 1e-10, "learn": False}
    return npvi.GPRegressor(likelihood, prior=prior, **{**defaults, **settings})


def dense(fitted):
    """The model's own points and inducing points, by dense matrices."""
    points = fitted.structure_.points
    return DenseLowRank(dense_kernel, fitted.prior_.X, points, fitted.nugget_, fitted.prior == "fitc")


def assert_close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# -- solves -----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("with_constant", [False, True])
def test_mean_solves_are_woodburys(prior, with_constant):
    rng, X, _ = places(50)
    graph = build_graph(X, 4)
    made = KINDS[prior](Matern32(**KERNEL), NUGGET, X[graph.order], graph, X[:9])
    P = DenseLowRank(dense_kernel, made.X, X[:9], NUGGET, prior == "fitc").precision
    basis = np.ones((50, int(with_constant)))
    if with_constant:
        P = P - np.outer(P.sum(axis=0), P.sum(axis=0)) / P.sum()
    w, rhs = rng.exponential(size=50), rng.standard_normal(50)
    solver = ProcessPrecision(made, w)
    assert_close(
        Stack(Process(made), Coefficients(basis)).solve(solver, rhs), np.linalg.solve(P + np.diag(w), rhs), 1e-8
    )
    assert solver.log.iterations[0] <= 3
    assert solver.log.fallbacks == []
    # a factor for other sites helps, and the tolerance is reached all the same
    nearby = ProcessPrecision(made, 1.1 * w, nearby=made.factor(w))
    assert_close(nearby.solve(rhs), np.linalg.solve(made.block(np.arange(50)) + np.diag(1.1 * w), rhs), 1e-8)


# -- every point an inducing point ------------------------------------------------------------------------------------


def dense_process(likelihood, covariance, y):
    """Mean and covariance of the best Gaussian under the Gaussian process itself."""
    if likelihood == "gaussian":
        return oracle.DenseGP(covariance, y, NOISE).posterior()
    return best_gaussian_for_counts(np.linalg.inv(covariance), y)[:2]


@both
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
@pytest.mark.parametrize("inducing", ["random", "given"])
def test_with_all_points_it_is_the_gaussian_process(prior, likelihood, inducing):
    X, y = (numbers if likelihood == "gaussian" else counts)(60)
    X[20:23] = X[20]
    how = {"inducing": X} if inducing == "given" else {"inducing": "random", "n_inducing": 60}
    fitted = model(Gaussian(NOISE) if likelihood == "gaussian" else Poisson(), prior, **how).fit(X, y)
    order = fitted.graph_.order
    covariance = dense_kernel(X, X) + NUGGET * np.eye(60)
    mean, V = dense_process(likelihood, covariance, y)
    assert_close(fitted.posterior_.mean, mean[order])
    assert_close(fitted.posterior_.variance, np.diag(V)[order])
    Z = np.vstack([np.random.default_rng(1).uniform(size=(20, 2)), [[9.0, 9.0]]])
    weights = np.linalg.solve(covariance, dense_kernel(X, Z)).T
    spread = KERNEL["variance"] - np.sum(weights * dense_kernel(Z, X), axis=1)
    found = fitted.predict_dist(Z)
    assert_close(found.latent_mean, weights @ mean)
    assert_close(found.latent_var, spread + np.einsum("ij,jk,ik->i", weights, V, weights))


# -- fewer ------------------------------------------------------------------------------------------------------------


@both
def test_full_is_the_best_gaussian_and_predicts_by_the_dense_formulas(prior):
    X, y = counts(70)
    fitted = model("poisson", prior).fit(X, y)
    reference = dense(fitted)
    P = reference.precision
    mean, V, w = best_gaussian_for_counts(P, y[fitted.graph_.order])
    assert_close(fitted.posterior_.mean, mean)
    assert_close(fitted.posterior_.variance, np.diag(V))
    assert_close(fitted.posterior_.site_precision, w)
    observations = in_order(oracle.poisson_exp(y), fitted.graph_.order)
    bound = oracle.Bound(P, np.linalg.slogdet(reference.covariance)[1], observations, np.tri(70, dtype=bool), 257)
    assert fitted.elbo_ == pytest.approx(bound.value(mean, np.linalg.cholesky(V)), rel=1e-8)
    Z = np.vstack([np.random.default_rng(1).uniform(size=(30, 2)), X[:3], [[9.0, 9.0]]])
    expected = reference.predict(Z, mean, V)
    found = fitted.predict_dist(Z)
    assert_close(found.latent_mean, expected[0])
    assert_close(found.latent_var, expected[1] - NUGGET)


@both
@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_the_papers_optimum_is_one(prior, mean):
    """Both equations of the optimum hold densely, and no step away from it raises the dense bound."""
    X, y = counts(60)
    fitted = model("poisson", prior, method="npvi", mean=mean).fit(X, y)
    reference = dense(fitted)
    logdet = np.linalg.slogdet(reference.covariance)[1]
    observations = in_order(oracle.poisson_exp(y), fitted.graph_.order)
    bound = oracle.Bound(reference.precision, logdet, observations, oracle.pattern(fitted.graph_.parents), 257)
    if mean == "constant":
        bound.with_constant()
    mu, L = solution(fitted)
    value, in_mu, in_L = bound.gradient(mu, L)
    assert fitted.elbo_ == pytest.approx(value, rel=1e-9)
    assert np.abs(in_mu).max() < 1e-6 * np.abs(bound.mean_precision @ mu).max()
    assert np.abs(in_L).max() < 1e-6 * (1.0 / np.diag(L)).max()
    check_downhill(fitted, bound)
    if mean == "zero":
        Z = np.random.default_rng(1).uniform(size=(30, 2))
        expected = reference.predict(Z, mu, L @ L.T)
        found = fitted.predict_dist(Z)
        assert_close(found.latent_mean, expected[0])
        assert_close(found.latent_var, expected[1] - NUGGET)


@both
def test_gaussian_noise_and_a_constant_are_ordinary_kriging(prior):
    X, y = numbers(80)
    fitted = model(Gaussian(NOISE), prior, mean="constant").fit(X, y)
    reference, sorted_ = dense(fitted), y[fitted.graph_.order]
    process = oracle.DenseGP(reference.covariance, sorted_, NOISE).with_best_constant()
    assert fitted.elbo_ == pytest.approx(process.log_evidence_of_any_constant(), rel=1e-9)
    mean, V = process.posterior()
    assert_close(fitted.posterior_.mean, mean)
    assert_close(fitted.posterior_.variance, np.diag(V))
    Z = np.vstack([np.random.default_rng(1).uniform(size=(30, 2)), [[9.0, 9.0]]])
    cross = reference.through(Z, reference.X)
    expected = process.predict(cross, KERNEL["variance"])
    found = fitted.predict_dist(Z)
    assert_close(found.latent_mean, expected[0], 1e-5)  # of a constant that an optimiser found
    assert_close(found.latent_var, expected[1] + process.what_the_constant_adds(cross))


@both
@pytest.mark.parametrize("method", ["full", "npvi"])
def test_joint_draws_and_totals(prior, method):
    X, y = numbers(60)
    fitted = model(Gaussian(NOISE), prior, method=method).fit(X, y)
    reference = dense(fitted)
    V = np.linalg.inv(reference.precision + np.eye(60) / NOISE)
    if method == "npvi":
        L = solution(fitted)[1]
        V = L @ L.T
    Z = np.random.default_rng(1).uniform(size=(5, 2))
    weights, spread = reference.conditional(Z)
    covariance = spread + weights @ V @ weights.T + NOISE * np.eye(5)
    draws = fitted.predict_dist(Z).joint_sample(40_000, seed=0)
    error = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / len(draws))
    assert np.abs((np.cov(draws.T) - covariance) / error).max() < 5.0
    assert np.abs((draws.mean(axis=0) - weights @ fitted.posterior_.mean) / np.sqrt(np.diag(covariance))).max() < 0.03
    total = fitted.predict_dist(Z).total(n=4000, seed=0)
    assert total.std == pytest.approx(np.sqrt(covariance.sum()), rel=0.06)


def test_many_points_are_exact_too():
    """Where nearest neighbours go over to draws, the closed form does not."""
    X, y = counts(1200)
    fitted = model("poisson", "fitc", tol=1e-8).fit(X, y)
    assert fitted.fit_info_["converged"]
    P, mean, v = dense(fitted).precision, fitted.posterior_.mean, fitted.posterior_.variance
    w = np.exp(mean + 0.5 * v)
    assert_close(v, np.diag(np.linalg.inv(P + np.diag(w))))
    assert_close(P @ mean, y[fitted.graph_.order] - w)


def test_negative_site_precisions_are_no_trouble():
    rng, X, f = places(80)
    y = f + 0.2 * rng.standard_t(3.0, 80)
    y[:6] += 8.0
    likelihood = npvi.likelihoods.StudentT(scale=0.2, df=3.0)
    for method in ("full", "npvi"):
        fitted = model(likelihood, "fitc", method=method, tol=1e-7).fit(X, y)
        assert fitted.fit_info_["converged"]
        assert fitted.posterior_.site_precision.min() < 0.0
        P = dense(fitted).precision
        observations = in_order(oracle.student_t(y, 0.2, 3.0), fitted.graph_.order)
        in_mean = observations.expectations(fitted.posterior_.mean, fitted.posterior_.variance, 801)[1]
        pull = P @ fitted.posterior_.mean
        assert np.abs(in_mean - pull).max() < 1e-5 * np.abs(pull).max()


# -- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "method", "n_labels"),
    [("fitc", "full", 2), ("fitc", "full", 3), ("nystrom", "full", 3), ("fitc", "npvi", 3)],
)
def test_labels_of_any_number(prior, method, n_labels):
    X = np.random.default_rng(0).uniform(size=(120, 2))
    y = np.array(["a", "b", "c"])[np.minimum((X[:, 0] * n_labels).astype(int), n_labels - 1)]
    settings = {"kernel": RBF(0.3, 9.0), "nugget": 0.05, "n_inducing": 119, "inducing": "random", "learn": False}
    fitted = npvi.GPClassifier(prior=prior, method=method, **settings).fit(X, y)
    assert fitted.fit_info_["converged"]
    assert (fitted.predict(X) == y).mean() > 0.95
    probabilities = fitted.predict_proba(X[:9])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert fitted.predict_dist(X[:9]).joint_sample(4, seed=0).shape == (4, 9)
    if method == "full":  # nearly all points are inducing points: nearly the Gaussian process itself
        near = npvi.GPClassifier(**{**settings, "n_neighbors": 119}).fit(X, y)
        np.testing.assert_allclose(fitted.predict_proba(X), near.predict_proba(X), atol=2e-3)


def test_learning_from_three_labels_says_what_to_do():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    y = (3.0 * X[:, 0]).astype(int)
    with pytest.raises(ValueError, match=r"three or more labels: pass learn=False .* learn='grid', or prior='nngp'"):
        npvi.GPClassifier(prior="fitc").fit(X, y)


# -- more data, files -------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("method", ["full", "npvi"])
def test_update_is_a_fit_from_scratch(prior, method):
    X, y = counts(150)
    settings = {"order": "given", "inducing": X[:20], "method": method, "mean": "constant"}
    updated = model("poisson", prior, **settings).fit(X[:120], y[:120])
    updated.partial_fit(X[120:140], y[120:140]).update(X[140:], y[140:])
    scratch = model("poisson", prior, **settings).fit(X, y)
    Z = np.random.default_rng(1).random((50, 2))
    ours, theirs = updated.predict_dist(Z), scratch.predict_dist(Z)
    np.testing.assert_allclose(ours.latent_mean, theirs.latent_mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.latent_var, theirs.latent_var, rtol=1e-6)
    assert updated.elbo_ == pytest.approx(scratch.elbo_, rel=1e-9)


@both
@pytest.mark.parametrize("method", ["full", "npvi"])
def test_saved_and_loaded(prior, method, tmp_path):
    X, y = counts(80)
    fitted = model("poisson", prior, method=method, inducing=X[:12], mean="constant").fit(X, y)
    path = tmp_path / "model.npvi"
    fitted.save(path)
    again = npvi.load(path)
    np.testing.assert_array_equal(again.structure_.points, fitted.structure_.points)
    np.testing.assert_array_equal(again.inducing, X[:12])
    assert type(again.prior_) is KINDS[prior]
    Z = np.random.default_rng(1).random((20, 2))
    for name in ("latent_mean", "latent_var"):
        ours, theirs = (getattr(one.predict_dist(Z), name) for one in (fitted, again))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    again.update(X[:3] + 0.01, y[:3]).save(path)
    assert npvi.load(path).graph_.n_points == 83


def test_labels_saved_and_loaded(tmp_path):
    X = np.random.default_rng(0).uniform(size=(60, 2))
    settings = {"kernel": RBF(0.3), "nugget": 0.05, "n_inducing": 15, "learn": False}
    fitted = npvi.GPClassifier(prior="fitc", **settings).fit(X, (3.0 * X[:, 0]).astype(int))
    fitted.save(tmp_path / "model.npvi")
    again = npvi.load(tmp_path / "model.npvi")
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), rtol=1e-9)


def test_files_without_inducing_points(tmp_path):
    """Older files have no word about the prior; those that promise inducing points must have them."""
    X, y = counts(40)
    path = tmp_path / "model.npvi"
    plain = model("poisson", "nngp").fit(X, y)
    plain.save(path)
    metadata, arrays = model_file.read(path)
    del metadata["prior"]
    for name in ("inducing", "n_inducing"):
        del metadata["parameters"][name]
    model_file.write(path, metadata, arrays)
    np.testing.assert_array_equal(npvi.load(path).predict(X), plain.predict(X))
    model("poisson", "fitc").fit(X, y).save(path)
    for change, message in [
        (lambda m, a: a.pop("inducing"), "it has no 'inducing'"),
        (lambda m, a: a.update(inducing=a["inducing"][:, :1]), "its inducing is not a finite float64 array"),
        (lambda m, a: a.update(site_precision=a["site_precision"] - 1e9), "its site_precision makes no posterior"),
        (lambda m, a: m.update(prior="nngp"), "it holds a posterior 'low_rank'"),
    ]:
        metadata, arrays = model_file.read(path)
        change(metadata, arrays)
        model_file.write(tmp_path / "broken.npvi", metadata, arrays)
        with pytest.raises(model_file.ModelFileError, match=message):
            npvi.load(tmp_path / "broken.npvi")


# -- learning ---------------------------------------------------------------------------------------------------------


def problem(prior, likelihood):
    X, y = (numbers if isinstance(likelihood, Gaussian) else counts)(60)
    graph = build_graph(X, 5)
    structure = InducingPoints(prior, np.random.default_rng(2).uniform(size=(10, 2)))
    start = Model(Matern32([0.4, 0.6], 1.5), NUGGET, likelihood, structure)
    return X[graph.order], y[graph.order], graph, start


def slopes_by_difference(value, start, step=1e-4):
    """∂value/∂ log of every number of a model, by name."""
    found = {}
    for name, number in start.named().items():
        slopes = np.empty(np.shape(number))
        for entry in np.ndindex(slopes.shape):
            ends = []
            for sign in (step, -step):
                moved = {key: np.array(number, dtype=float) for key, number in start.named().items()}
                moved[name][entry] *= np.exp(sign)
                ends.append(value(start.at({key: number.tolist() for key, number in moved.items()})))
            slopes[entry] = (ends[0] - ends[1]) / (2.0 * step)
        found[name] = slopes
    return found


@both
def test_the_bounds_gradient_against_differences_of_the_dense_bound(prior):
    X, y, graph, start = problem(prior, Poisson())
    objective = BoundObjective(X, Data(Poisson(), y), np.ones((60, 1)), graph, careful=True)
    value, gradient = objective(start)

    def best_bound(changed):
        scales = np.asarray(changed.kernel.length_scale)
        reference = DenseLowRank(
            lambda A, B: dense_kernel(A, B, scales, changed.kernel.variance),
            X,
            start.structure.points,
            changed.nugget,
            prior == "fitc",
        )
        P, logdet = reference.precision, np.linalg.slogdet(reference.covariance)[1]
        bound = oracle.Bound(P, logdet, oracle.poisson_exp(y), np.tri(60, dtype=bool), 257)
        bound.with_constant()
        return bound.maximum(np.random.default_rng(0), starts=1, scale=0.1)[0]

    assert value == pytest.approx(best_bound(start), rel=1e-7)
    for name, expected in slopes_by_difference(best_bound, start).items():
        numbers = np.asarray(start.named()[name])
        np.testing.assert_allclose(np.asarray(gradient[name]) * numbers, expected, rtol=1e-4, atol=1e-4, err_msg=name)


@both
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_likelihoods_gradient_against_differences_of_the_dense_one(prior, share):
    X, y, graph, start = problem(prior, Gaussian(NOISE))
    rows = graph.spatial[: int(share * 60)]
    objective = CollapsedObjective(X, Data(Gaussian(NOISE), y), np.ones((60, 1)), graph, rows)
    value, gradient = objective(start)

    def likelihood(changed):
        scales = np.asarray(changed.kernel.length_scale)
        reference = DenseLowRank(
            lambda A, B: dense_kernel(A, B, scales, changed.kernel.variance),
            X[rows],
            start.structure.points,
            changed.nugget,
            prior == "fitc",
        )
        noise = float(changed.likelihood.variance)
        dense = oracle.DenseGP(reference.covariance, y[rows], noise).with_best_constant()
        information = np.linalg.solve(dense.covariance + noise * np.eye(len(rows)), np.ones(len(rows))).sum() / share
        return dense.log_marginal_likelihood() / share + 0.5 * np.log(2.0 * np.pi / information)

    assert value == pytest.approx(likelihood(start), rel=1e-8)
    for name, expected in slopes_by_difference(likelihood, start, 1e-3).items():
        numbers = np.asarray(start.named()[name])
        np.testing.assert_allclose(np.asarray(gradient[name]) * numbers, expected, rtol=1e-3, atol=1e-4, err_msg=name)
    # each observation given all others: what is left of the joint density without those of the others
    reference = DenseLowRank(
        lambda A, B: dense_kernel(A, B, np.array([0.4, 0.6])), X[rows], start.structure.points, NUGGET, prior == "fitc"
    )
    process = oracle.DenseGP(reference.covariance, y[rows], NOISE).with_best_constant()
    scores = objective.leave_one_out(start)
    for i in range(0, len(rows), 7):
        others = np.arange(len(rows)) != i
        fewer = oracle.DenseGP(
            reference.covariance[np.ix_(others, others)], y[rows][others], NOISE, process.constant
        ).log_marginal_likelihood()
        assert scores[rows[i]] == pytest.approx(process.log_marginal_likelihood() - fewer, rel=1e-5)


@pytest.mark.parametrize(("prior", "likelihood"), [("fitc", "poisson"), ("nystrom", "gaussian")])
def test_learning_climbs_to_where_the_gradient_vanishes(prior, likelihood):
    X, y = (numbers if likelihood == "gaussian" else counts)(250)
    learned = npvi.GPRegressor(likelihood, "matern32", prior=prior, n_inducing=25).fit(X, y)
    assert learned.fit_info_["converged"]
    start = npvi.GPRegressor(likelihood, Matern32(0.5, 0.5), nugget=0.1, prior=prior, n_inducing=25, learn=False)
    assert learned.elbo_ > start.fit(X, y).elbo_ + 1.0
    # nats per unit of a logarithm: next to nothing is to be had
    assert np.abs(learned.fit_info_["learning"]["gradient"]).max() < 2.0
    assert len(learned.structure_.points) == 25
    assert np.isfinite(learned.summary(standard_errors=likelihood == "gaussian")["value"]).all()


def test_smoothness_is_chosen_and_a_companion_keeps_the_inducing_points(tmp_path):
    X, y = numbers(300)
    fitted = npvi.GPRegressor(prior="fitc", n_inducing=20).fit(X, y)
    assert fitted.kernel_.smoothness in (0.5, 1.5, 2.5)
    if fitted.companion_ is not None:
        np.testing.assert_array_equal(fitted.companion_.structure_.points, fitted.structure_.points)
    fitted.save(tmp_path / "model.npvi")
    np.testing.assert_allclose(npvi.load(tmp_path / "model.npvi").predict(X), fitted.predict(X), rtol=1e-8)


def test_the_papers_grid():
    X, y = counts(200)
    fitted = npvi.GPRegressor("poisson", "rbf", nugget=0.1, prior="fitc", n_inducing=20, learn="grid").fit(X, y)
    assert len(fitted.fit_info_["grid"]["nlpd"]) == 7
    assert type(fitted.prior_) is FITC


# -- what a user may get wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "svgp"}, "prior must be one of 'nngp', 'fitc', 'nystrom'; got 'svgp'"),
        ({"prior": "nystrom", "nugget": 0.0}, "prior='nystrom' needs a positive nugget"),
        ({"prior": "fitc", "nugget": 0.0}, "a low-rank prior needs a nugget"),
        ({"prior": "fitc", "method": "npvi-nn"}, "prior='fitc' goes with method='full' or 'npvi'"),
        ({"prior": "fitc", "n_inducing": 0}, "n_inducing must be a whole number of at least 1, got 0"),
        ({"prior": "fitc", "n_inducing": 2.5}, "n_inducing must be a whole number"),
        ({"prior": "fitc", "inducing": "grid"}, "inducing must be one of 'kmeans', 'random', or an array"),
        ({"prior": "fitc", "inducing": np.ones((4, 3))}, r"inducing has shape \(4, 3\), but .* 2 columns"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    X, y = counts(40)
    with pytest.raises(ValueError, match=message):
        model("poisson", **settings).fit(X, y)


def test_more_inducing_points_than_rows_are_all_of_them():
    X, y = counts(40)
    with pytest.warns(UserWarning, match="n_inducing is 200 but there are only 40 points: using all of them"):
        fitted = model("poisson", "fitc", n_inducing=200).fit(X, y)
    assert len(fitted.structure_.points) == 40


def test_the_process_sees_its_own_columns_only():
    X, y = counts(80)
    wide = np.column_stack([X, np.random.default_rng(0).standard_normal(80)])
    fitted = model("poisson", "fitc", coords=[0, 1]).fit(wide, y)
    assert fitted.structure_.points.shape == (12, 2)
    assert np.isfinite(fitted.predict(wide)).all()


def test_a_kernel_of_the_wrong_scale_is_noticed():
    X, y = counts(60)
    with pytest.warns(npvi.estimators.validation.ScaleWarning, match="nearly all points independent"):
        model("poisson", "nystrom", kernel=Matern32(1e-4), inducing="random").fit(X, y)


def test_from_the_shell(tmp_path, capsys):
    from typer.testing import CliRunner

    from npvi.cli import app

    X, y = counts(80)
    pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "n": y}).to_csv(tmp_path / "table.csv", index=False)
    arguments = ["fit", str(tmp_path / "table.csv"), "--target", "n", "--inputs", "x,z", "--likelihood", "poisson"]
    arguments += ["--no-learn", "--prior", "fitc", "--inducing", "15"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "15 (fitc)" in result.output
    wrong = CliRunner().invoke(app, [*arguments[:-4], "--prior", "svgp"])
    assert wrong.exit_code == 2
    assert "--prior cannot be" in wrong.output


@pytest.mark.parametrize("prior", ["fitc", "nystrom"])
def test_the_closed_form_beats_stochastic_gradients(prior):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 2))
    y = rng.poisson(2.0, 150)
    settings = {"kernel": Matern32(0.3), "nugget": 0.1, "prior": prior, "n_inducing": 20, "learn": False}
    settings["n_neighbors"] = 6
    closed = npvi.GPRegressor("poisson", method="npvi", **settings).fit(X, y)
    sgd = npvi.GPRegressor("poisson", method="npvi", optimizer=npvi.SGD("adam", epochs=40), **settings)
    with pytest.warns(UserWarning, match="stochastic gradients ended"):
        sgd.fit(X, y)
    assert sgd.elbo_ < closed.elbo_ < sgd.elbo_ + 0.5 * 150
