"""The best Gaussian, against L-BFGS over every mean and covariance; and its estimate by draws."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from npvi import GPRegressor
from npvi.graph import build_graph
from npvi.inference import AllCovariances, full
from npvi.inference.mean_solve import PrecisionSolver
from npvi.kernels import RBF, Matern12, Matern32
from npvi.likelihoods import Bernoulli, Gamma, Gaussian, NegativeBinomial, Poisson, StudentT
from npvi.priors import NNGP

from .problems import in_order

N = 40


def gaussian(rng, f):
    y = f + 0.5 * rng.standard_normal(len(f))
    return Gaussian(0.25), y, oracle.gaussian(y, 0.25)


def poisson(rng, f):
    y = rng.poisson(np.exp(f)).astype(float)
    return Poisson(), y, oracle.poisson_exp(y)


def bernoulli(rng, f):
    y = (f + rng.logistic(size=len(f)) > 1.0).astype(float)
    return Bernoulli(), y, oracle.bernoulli_logit(y)


def negative_binomial(rng, f):
    y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, len(f))).astype(float)
    return NegativeBinomial(2.0), y, oracle.negative_binomial(y, 2.0)


def gamma(rng, f):
    y = rng.gamma(3.0, np.exp(f) / 3.0)
    return Gamma(3.0), y, oracle.gamma(y, 3.0)


def student_t(rng, f):
    y = f + 0.4 * rng.standard_t(5.0, len(f))
    return StudentT(0.4, 5.0), y, oracle.student_t(y, 0.4, 5.0)


CASES = [gaussian, poisson, bernoulli, negative_binomial, gamma, student_t]
KERNEL = {"length_scale": 0.4, "variance": 1.5}
NUGGET = 0.05


def survey(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return rng, X, 1.0 + np.sin(5.0 * X[:, 0]) + X[:, 1]


def model(likelihood, n_neighbors, mean="zero", method="full"):
    settings = {"nugget": NUGGET, "mean": mean, "method": method, "n_neighbors": n_neighbors, "learn": False}
    return GPRegressor(likelihood, Matern32(**KERNEL), tol=1e-9, **settings)


@pytest.mark.parametrize("mean", ["zero", "constant"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_is_the_best_of_all_gaussians(case, mean):
    rng, X, f = survey(N)
    likelihood, y, observations = case(rng, f)
    fitted = model(likelihood, N - 1, mean).fit(X, y)
    order = fitted.graph_.order
    covariance = oracle.matern32(X[order], X[order], **KERNEL) + NUGGET * np.eye(N)
    bound = oracle.Bound(
        np.linalg.inv(covariance),
        np.linalg.slogdet(covariance)[1],
        in_order(observations, order),
        np.tri(N, dtype=bool),  # any covariance has a Cholesky factor
        n_nodes=257,
    )
    if mean == "constant":
        bound.profile_constant()
    best, _ = bound.maximum(np.random.default_rng(1), starts=1, scale=0.1, site_precision=2.0)
    mu, L = bound.best
    assert fitted.fit_info_["converged"]
    assert fitted.elbo_ == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(fitted.posterior_.mean, mu, rtol=0, atol=1e-4 * np.abs(mu).max())
    np.testing.assert_allclose(fitted.posterior_.variance, (L**2).sum(axis=1), rtol=1e-4)
    V = fitted.posterior_.draws @ fitted.posterior_.draws.T / fitted.posterior_.draws.shape[1]
    np.testing.assert_allclose(V, L @ L.T, rtol=0, atol=1e-4 * V.max())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_no_family_has_a_larger_bound(case):
    rng, X, f = survey(150)
    likelihood, y, _ = case(rng, f)
    for n_neighbors in (4, 12):
        whole, paper = (model(likelihood, n_neighbors, method=method).fit(X, y) for method in ("full", "npvi"))
        assert whole.elbo_ > paper.elbo_
        # the paper's factor is too narrow where it can't follow
        assert whole.posterior_.variance.mean() > paper.posterior_.variance.mean()


def test_with_gaussian_noise_the_bound_is_the_likelihood_of_the_nngp():
    rng, X, f = survey(200)
    likelihood, y, _ = gaussian(rng, f)
    fitted = model(likelihood, 6).fit(X, y)
    order = fitted.graph_.order
    covariance = oracle.matern32(X[order], X[order], **KERNEL) + NUGGET * np.eye(200)
    P, _ = oracle.nngp_precision(covariance, fitted.graph_.parents)
    dense = oracle.DenseGP(np.linalg.inv(P), y[order], 0.25)
    assert fitted.elbo_ == pytest.approx(dense.log_marginal_likelihood(), rel=1e-8)
    mu, V = dense.posterior()
    np.testing.assert_allclose(fitted.posterior_.mean, mu, rtol=0, atol=1e-7)
    np.testing.assert_allclose(fitted.posterior_.variance, np.diag(V), rtol=1e-7)


# -- by draws ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def by_draws(monkeypatch):
    monkeypatch.setattr(full, "_DENSE", 0)


def a_prior(kernel, n, n_neighbors, nugget=NUGGET):
    _, X, _ = survey(n)
    graph = build_graph(X, n_neighbors)
    prior = NNGP(kernel, nugget, X[graph.order], graph)
    return prior, np.random.default_rng(1).exponential(2.0, n)


SETTINGS = [(Matern12(0.4), 10), (Matern32(0.3, 2.0), 10), (RBF(0.3), 15), (Matern32(0.3), 299)]


@pytest.mark.parametrize(("kernel", "n_neighbors"), SETTINGS, ids=str)
def test_variances_by_draws_are_within_their_errors(kernel, n_neighbors, by_draws):
    prior, w = a_prior(kernel, 300, n_neighbors)
    n_draws = 256
    found = AllCovariances(prior, draws=n_draws, final_draws=n_draws).covariance(w)
    A = prior.block(np.arange(300)) + np.diag(w)
    V = np.linalg.inv(A)
    v = np.diag(V)
    # what is averaged is the square of a normal number, beyond the conditional variance, which is known
    error = (v - 1.0 / np.diag(A)) * np.sqrt(2.0 / n_draws)
    z = (found.variance - v) / error
    assert np.abs(z).max() < 4.0
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.5
    # the draws themselves: covariances of any two points
    estimate = found.draws.astype(float) @ found.draws.astype(float).T / n_draws
    z = (estimate - V) / np.sqrt((V**2 + np.outer(v, v)) / n_draws)
    assert np.abs(z).max() < 5.5
    assert np.sqrt(np.mean(z**2)) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(("kernel", "n_neighbors"), SETTINGS, ids=str)
def test_the_determinant_is_off_by_what_is_stated(kernel, n_neighbors, by_draws):
    prior, w = a_prior(kernel, 300, n_neighbors)
    exact = -np.linalg.slogdet(prior.block(np.arange(300)) + np.diag(w))[1]
    off = []
    for seed in range(8):
        family = AllCovariances(prior, seed=seed)
        found = family.covariance(w)
        off.append((found.log_determinant - exact) / (family.info()["log_determinant_error"] + 1e-6))
    assert np.abs(off).max() < 4.0


def test_a_fit_by_draws_is_near_the_exact_one(monkeypatch):
    rng, X, f = survey(300)
    likelihood, y, _ = poisson(rng, f)
    exact = model(likelihood, 10).fit(X, y)
    monkeypatch.setattr(full, "_DENSE", 0)
    drawn = model(likelihood, 10).fit(X, y)
    info = drawn.fit_info_
    assert info["draws"] == drawn.posterior_.draws.shape[1]
    assert info["converged"]
    sd = np.sqrt(exact.posterior_.variance)
    assert np.abs((drawn.posterior_.mean - exact.posterior_.mean) / sd).max() < 0.1
    ratio = drawn.posterior_.variance / exact.posterior_.variance
    assert np.abs(ratio - 1.0).max() < 4.0 * np.sqrt(2.0 / info["draws"])
    assert drawn.elbo_ == pytest.approx(exact.elbo_, abs=4.0 * info["log_determinant_error"] + 0.5)
    assert model(likelihood, 10).fit(X, y).elbo_ == drawn.elbo_  # the same random numbers


def test_more_draws_are_pooled_with_those_there_are(by_draws):
    prior, w = a_prior(Matern32(0.3), 300, 10)
    family = AllCovariances(prior, draws=16, final_draws=48)
    few = family.covariance(w, PrecisionSolver(prior, w))
    posterior = family.posterior(np.zeros(300), few)
    assert posterior.draws.shape == (300, 48)
    np.testing.assert_array_equal(posterior.draws[:, :16], few.draws)
    at_once = AllCovariances(prior, draws=48, final_draws=48).covariance(w)
    np.testing.assert_allclose(posterior.variance, at_once.variance, rtol=1e-6)
    np.testing.assert_array_equal(posterior.draws, at_once.draws)
