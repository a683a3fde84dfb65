"""The best Gaussian under every likelihood: against L-BFGS over every mean and covariance, against Markov chains, and
its estimate by draws.

All of it is in one module, for one process: compiling a likelihood takes longer than all that is done with it here.
"""

from __future__ import annotations

import numpy as np
import pytest

from npvi import GPRegressor
from npvi.components import Process, Stack
from npvi.graph import build_graph
from npvi.inference import AllCovariances, Data
from npvi.inference.families import full
from npvi.inference.newton import Problem
from npvi.kernels import RBF, Matern12, Matern32
from npvi.likelihoods import Custom, Gaussian
from npvi.likelihoods.registry import LIKELIHOODS
from npvi.linalg import Noise
from npvi.priors import NNGP
from tests.support import oracle
from tests.support.mcmc import sample
from tests.support.noises import NOISES
from tests.support.problems import with_coefficients

N = 40
KERNEL = {"length_scale": 0.4, "variance": 1.5}
NUGGET = 0.05
every_likelihood = pytest.mark.parametrize("name", NOISES)


def survey(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return rng, X, np.sin(5.0 * X[:, 0]) + X[:, 1] - 0.7


def survey_of(name, n):
    """Places, responses and extras."""
    rng, X, f = survey(n)
    return X, *NOISES[name].data(rng, NOISES[name].level + f)


def model(likelihood, n_neighbors, mean="zero", method="full"):
    settings = {"nugget": NUGGET, "mean": mean, "method": method, "n_neighbors": n_neighbors, "learn": False}
    return GPRegressor(likelihood, Matern32(**KERNEL), tol=1e-9, **settings)


def prior_covariance(X):
    return oracle.matern32(X, X, **KERNEL) + NUGGET * np.eye(len(X))


def covariance_of(posterior):
    return posterior.draws @ posterior.draws.T / posterior.draws.shape[1]


def in_order(fitted, y, row):
    """Responses and extras as the fitted model sorts them."""
    order = fitted.graph_.order
    return y[order], {extra: values[order] for extra, values in row.items()}


def test_no_likelihood_is_left_out():
    tried = [noise.likelihood for noise in NOISES.values()]
    assert {type(likelihood) for likelihood in tried} == {*LIKELIHOODS.values(), Custom}
    links = {link for kind in LIKELIHOODS.values() for link in kind.links}
    assert {likelihood.link for likelihood in tried if likelihood.links} == links


@pytest.mark.parametrize(
    ("with_slope", "name", "y"),
    [
        (lambda y: oracle.lognormal(y, 0.3 + 1.0), "lognormal", [0.1, 1.0, 20.0]),
        (lambda y: oracle.student_t(y, 0.4, 5.0), "student-t", [-3.0, 0.1, 1.0]),
        (lambda y: oracle.gamma(y, 3.0), "gamma", [0.1, 1.0, 20.0]),
        (lambda y: oracle.bernoulli_probit(y), "bernoulli-probit", [0.0, 1.0, 1.0]),
        (lambda y: oracle.negative_binomial(y, 2.0), "negative-binomial", [0.0, 1.0, 30.0]),
    ],
)
def test_the_oracle_needs_no_derivatives(with_slope, name, y):
    y, m, v = np.array(y), np.array([-0.3, 0.2, 1.1]), np.array([0.02, 0.3, 1.5])
    row = {extra: np.ones(3) for extra in NOISES[name].likelihood.extras}
    found = NOISES[name].observations(y, row).expectations(m, v)
    np.testing.assert_allclose(found, with_slope(y).expectations(m, v), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mean", ["zero", "constant"])
@every_likelihood
def test_it_is_the_best_of_all_gaussians(name, mean):
    X, y, row = survey_of(name, N)
    fitted = model(NOISES[name].likelihood, N - 1, mean).fit(X, y, **row)
    covariance = prior_covariance(X[fitted.graph_.order])
    bound = oracle.Bound(
        np.linalg.inv(covariance),
        np.linalg.slogdet(covariance)[1],
        NOISES[name].observations(*in_order(fitted, y, row)),
        np.tri(N, dtype=bool),  # any covariance has a Cholesky factor
    )
    if mean == "constant":
        bound.with_constant(fitted.coefficient_precision_[0])
    best, _ = bound.maximum(np.random.default_rng(1), starts=1, scale=0.1, site_precision=2.0)
    mu, L = bound.best
    assert fitted.fit_info_["converged"]
    assert fitted.elbo_ == pytest.approx(best, rel=1e-7)
    means, root = with_coefficients(fitted, np.linalg.cholesky(covariance_of(fitted.posterior_)))
    np.testing.assert_allclose(means, mu, rtol=0, atol=1e-4 * np.abs(mu).max())
    f = L[bound.coefficients :]
    np.testing.assert_allclose(fitted.fitted_.marginal_variance, (f**2).sum(axis=1), rtol=1e-4)
    V = root @ root.T
    np.testing.assert_allclose(V, L @ L.T, rtol=0, atol=1e-4 * V.max())


@every_likelihood
def test_its_mean_is_the_posterior_mean(name):
    # Data of ordinary strength: counts of 6, one yes or no per place; the prior standard deviation of f is 1.2, that of
    # the posterior 0.2 to 0.9. Means differ by 0.03 at most; what is seen beyond that is the error of the chains.
    X, y, row = survey_of(name, 60)
    fitted = model(NOISES[name].likelihood, 59).fit(X, y, **row)
    log_prob = NOISES[name].of(*in_order(fitted, y, row))
    posterior = fitted.posterior_
    found = sample(
        lambda f: log_prob(f).sum(axis=0),
        np.linalg.inv(prior_covariance(X[fitted.graph_.order])),
        posterior.mean,
        covariance_of(posterior),
        np.random.default_rng(2),
    )
    assert (found.error / found.sd).max() < 0.02
    assert np.abs(found.drift).max() < 5.0
    assert np.abs((posterior.mean - found.mean) / found.sd).max() < 0.1


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli", "negative-binomial", "gamma", "student-t"])
def test_no_family_has_a_larger_bound(name):
    X, y, row = survey_of(name, 150)
    likelihood = NOISES[name].likelihood
    for n_neighbors in (4, 12):
        whole, paper = (model(likelihood, n_neighbors, method=method).fit(X, y, **row) for method in ("full", "npvi"))
        assert whole.elbo_ > paper.elbo_
        # the paper's factor is too narrow where it can't follow
        assert whole.posterior_.variance.mean() > paper.posterior_.variance.mean()


def test_with_gaussian_noise_the_bound_is_the_likelihood_of_the_nngp():
    rng, X, f = survey(200)
    y = f + 0.5 * rng.standard_normal(200)
    fitted = model(Gaussian(0.25), 6).fit(X, y)
    order = fitted.graph_.order
    P, _ = oracle.nngp_precision(prior_covariance(X[order]), fitted.graph_.parents)
    dense = oracle.DenseGP(np.linalg.inv(P), y[order], 0.25)
    assert fitted.elbo_ == pytest.approx(dense.log_marginal_likelihood(), rel=1e-8)
    mu, V = dense.posterior()
    np.testing.assert_allclose(fitted.posterior_.mean, mu, rtol=0, atol=1e-7)
    np.testing.assert_allclose(fitted.posterior_.variance, np.diag(V), rtol=1e-7)


# -- by draws ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def by_factor(monkeypatch):
    monkeypatch.setattr(full, "DENSE", 0)


def a_prior(kernel, n, n_neighbors, nugget=NUGGET):
    _, X, _ = survey(n)
    graph = build_graph(X, n_neighbors)
    prior = NNGP(kernel, nugget, X[graph.order], graph)
    return prior, np.random.default_rng(1).exponential(2.0, n)


SETTINGS = [(Matern12(0.4), 10), (Matern32(0.3, 2.0), 10), (RBF(0.3), 15), (Matern32(0.3), 299)]


@pytest.mark.parametrize(("kernel", "n_neighbors"), SETTINGS, ids=str)
def test_variances_by_a_factor_are_near_the_exact_ones(kernel, n_neighbors, by_factor):
    prior, w = a_prior(kernel, 300, n_neighbors)
    family = AllCovariances(prior)
    found = family.covariance(w)
    V = np.linalg.inv(prior.block(np.arange(300)) + np.diag(w))
    np.testing.assert_allclose(np.sqrt(found.variance / np.diag(V)), 1.0, atol=1e-9 if n_neighbors == 299 else 0.03)
    posterior = family.posterior(np.zeros(300), found)
    given = prior.conditional(np.random.default_rng(2).uniform(size=(100, 2)), 3)
    exact = [b @ V[np.ix_(at, at)] @ b for at, b in zip(given.neighbors, given.weights)]
    sd = np.sqrt(posterior.projected_variance(given.neighbors, given.weights) / exact)
    np.testing.assert_allclose(sd, 1.0, atol=0.02)
    assert np.sqrt(np.mean((sd - 1.0) ** 2)) < 0.01
    assert family.info()["variance_error"] < 0.01


@pytest.mark.parametrize(("kernel", "n_neighbors"), SETTINGS, ids=str)
def test_the_determinant_is_off_by_what_is_stated(kernel, n_neighbors, by_factor):
    prior, w = a_prior(kernel, 300, n_neighbors)
    exact = -np.linalg.slogdet(prior.block(np.arange(300)) + np.diag(w))[1]
    off = []
    for seed in range(8):
        family = AllCovariances(prior, Noise(prior.graph.order, seed))
        found = family.covariance(w)
        off.append((found.log_determinant - exact) / (family.info()["log_determinant_error"] + 1e-6))
    assert np.abs(off).max() < 4.0


def assert_stationary(fitted, precision, observations):
    """P m = ∂E/∂m and V (P + W) = I."""
    m, v = fitted.posterior_.mean, fitted.posterior_.variance
    _, in_mean, in_variance = observations.expectations(m, v)
    np.testing.assert_allclose(precision @ m, in_mean, rtol=0, atol=1e-5 * np.abs(in_mean).max())
    product = covariance_of(fitted.posterior_) @ (precision - 2.0 * np.diag(in_variance))
    np.testing.assert_allclose(product, np.eye(len(m)), rtol=0, atol=1e-5)


@every_likelihood
def test_a_fit_by_a_factor_is_near_the_exact_one(name, monkeypatch):
    X, y, row = survey_of(name, 120)
    exact = model(NOISES[name].likelihood, 10).fit(X, y, **row)
    observations = NOISES[name].observations(*in_order(exact, y, row))
    precision, _ = oracle.nngp_precision(prior_covariance(X[exact.graph_.order]), exact.graph_.parents)
    assert_stationary(exact, precision, observations)
    monkeypatch.setattr(full, "DENSE", 0)
    near = model(NOISES[name].likelihood, 10).fit(X, y, **row)
    assert near.fit_info_["converged"]
    sd = np.sqrt(exact.posterior_.variance)
    np.testing.assert_allclose(near.posterior_.mean / sd, exact.posterior_.mean / sd, rtol=0, atol=0.02)
    np.testing.assert_allclose(np.sqrt(near.posterior_.variance) / sd, 1.0, rtol=0, atol=0.02)


def test_the_bound_by_a_factor_is_near_the_exact_one(monkeypatch):
    X, y, row = survey_of("poisson", 300)
    likelihood = NOISES["poisson"].likelihood
    exact = model(likelihood, 10).fit(X, y, **row)
    monkeypatch.setattr(full, "DENSE", 0)
    drawn = model(likelihood, 10).fit(X, y, **row)
    assert drawn.elbo_ == pytest.approx(exact.elbo_, abs=4.0 * drawn.fit_info_["log_determinant_error"] + 0.5)
    assert model(likelihood, 10).fit(X, y, **row).elbo_ == drawn.elbo_  # the same random numbers


def test_marginal_variances_follow_the_posterior_where_that_is_cheap_else_what_is_left_is_said(by_factor, monkeypatch):
    X, y, row = survey_of("poisson", 300)
    fits = {}
    monkeypatch.setattr(full, "_SOME", 100)
    for share in (0.0, np.inf):
        monkeypatch.setattr(full, "_SHARE", share)
        settings = {"nugget": 1e-3, "mean": "zero", "n_neighbors": 8, "learn": False}
        fits[share] = GPRegressor(NOISES["poisson"].likelihood, RBF(0.3), **settings).fit(X, y, **row)
    for share, fitted in fits.items():
        posterior, said = fitted.posterior_, fitted.fit_info_["marginal_variances"]
        V = np.linalg.inv(fitted.prior_.block(np.arange(300)) + np.diag(posterior.site_precision))
        off = np.sqrt(np.mean((np.sqrt(posterior.variance / np.diag(V)) - 1.0) ** 2))
        assert said["compared"] == (100 if share == 0.0 else 300)
        assert said["off"] > full._FINE
        if share == 0.0:
            assert 0.5 * said["left"] < off < 2.0 * said["left"]
        else:
            assert said["left"] == 0.0
            assert off < 0.3 * said["off"]


def test_a_dense_covariance_is_that_of_its_sites():
    prior, w = a_prior(Matern32(0.3), 50, 10)
    V = np.linalg.inv(prior.block(np.arange(50)) + np.diag(w))
    found = AllCovariances(prior).covariance(w)
    np.testing.assert_allclose(found.variance, np.diag(V), rtol=1e-9)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-9)
    root = found.precision_factor.inverse_root
    np.testing.assert_allclose(root @ root.T, V, atol=1e-9)
    assert AllCovariances(prior).covariance(np.full(50, -1e6)) is None


def test_a_long_step_is_held_to_what_agrees_with_itself():
    """A zero count far down: the step of v goes so far that w comes out as it was, though neither is right."""
    X = np.zeros((1, 2))
    prior = NNGP(Matern12(1.0), 1.0, X, build_graph(X, 1))
    data = Data(NOISES["poisson"].likelihood, np.zeros(1))
    problem = Problem(AllCovariances(prior), data, Stack(Process(prior)), (0.0, 0.0))
    mean, before, after, others = np.array([-12.29]), np.array([12.48]), np.array([18.49]), np.array([0.0326])
    proposed = data.expectations(mean, after).precision
    was = 1.0 / before - others
    assert abs(proposed - was) * before < 0.01  # so that nothing would change
    problem._hold(proposed, mean, before, after, others, np.zeros(1))
    np.testing.assert_allclose(proposed, np.exp(mean + 0.5 / (others + proposed)), rtol=0.05)
    short = data.expectations(mean, before).precision
    same = short.copy()
    problem._hold(same, mean, before, 1.01 * before, others, np.zeros(1))
    assert same == short
