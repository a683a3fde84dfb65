"""NPVI against L-BFGS on a dense bound, and its own certificate."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import special

from npvi.likelihoods import Bernoulli, Likelihood, Poisson
from tests.support import oracle
from tests.support.problems import (
    Problem,
    bernoulli_case,
    falls,
    fit_and_bound,
    gaussian_case,
    lognormal_case,
    poisson_case,
    probit_case,
    softplus_case,
    solution,
)

PROBLEMS = {
    "gaussian": Problem(gaussian_case, "rbf", n=100, K=8),
    "gaussian, one parent, weights": Problem(gaussian_case, "matern12", n=50, K=1, with_weights=True, mean="constant"),
    "log-normal": Problem(lognormal_case, "matern12", n=90, K=5),
    "log-normal, weights": Problem(lognormal_case, "rational_quadratic", n=60, K=20, with_weights=True),
    "exp": Problem(poisson_case, "matern32", n=200, K=7),
    "exp, exposure": Problem(poisson_case, "matern52", n=70, K=4, with_exposure=True, mean="constant"),
    "exp, exposure, weights": Problem(poisson_case, "rbf", n=60, K=59, with_exposure=True, with_weights=True),
    "softplus": Problem(softplus_case, "rational_quadratic", n=100, K=7, variance=5.0),
    "softplus, exposure, weights": Problem(softplus_case, "rbf", n=80, K=3, with_exposure=True, with_weights=True),
    "softplus, paper's rule": Problem(
        softplus_case, "matern12", n=60, K=6, variance=9.0, settings={"rule": "paper", "order": "random"}
    ),
    "logit": Problem(bernoulli_case, "rbf", n=100, K=6, variance=4.0),
    "logit, weights": Problem(bernoulli_case, "matern32", n=60, K=12, with_weights=True, mean="constant"),
    "probit": Problem(probit_case, "matern52", n=80, K=5, variance=2.0),
    "probit, weights": Problem(probit_case, "matern12", n=60, K=10, with_weights=True),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def fitted(request):
    return PROBLEMS[request.param].fitted()


def test_reaches_what_l_bfgs_reaches(fitted):
    model, bound = fitted
    best, values = bound.maximum(np.random.default_rng(1))
    np.testing.assert_allclose(values, best, rtol=1e-7)  # concave: all five starts end at one value
    assert model.elbo_ >= best - 1e-9 * abs(best)
    assert model.elbo_ == pytest.approx(best, rel=1e-7)


def test_the_bound_is_the_dense_formula(fitted):
    model, bound = fitted
    assert isinstance(model.elbo_, float)
    assert model.elbo_ == pytest.approx(bound.value(*solution(model)), rel=1e-10)
    assert model.elbo_ == model.fit_info_["elbo"][-1]


def test_the_certificate_closes_and_is_true(fitted):
    model, bound = fitted
    check_certificate(model, bound)


def check_certificate(model, bound):
    info = model.fit_info_
    assert info["converged"]
    for residual in (info["mean_residual"][-1], info["covariance_residual"][-1]):
        assert 0.0 <= residual < 1e-6
    # the same two equations once more, by the oracle
    mu, L = solution(model)
    _, in_mu, in_L = bound.gradient(mu, L)
    assert np.abs(in_mu).max() < 1e-6 * np.abs(bound.mean_precision @ mu).max()
    assert np.abs(in_L).max() < 1e-6 * (1.0 / np.diag(L)).max()
    assert "global optimum" in info["guarantee"]


def test_every_step_away_is_downhill(fitted):
    check_downhill(*fitted)


def check_downhill(model, bound, step=1e-3):
    mu, L = solution(model)
    best = bound.value(mu, L)
    rounding = 1e-12 * max(1.0, abs(best))
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(bound.mask)
    size = L.diagonal().min()  # of a step in L, which must stay positive
    for _ in range(30):  # in all directions at once
        d_mu = rng.standard_normal(len(mu)) / np.sqrt(len(mu))
        d_L = np.zeros_like(L)
        d_L[rows, columns] = rng.standard_normal(len(rows)) / np.sqrt(len(rows)) * size
        for sign in (-step, step):
            assert bound.value(mu + sign * d_mu, L) < best
            assert bound.value(mu, L + sign * d_L) < best
            assert bound.value(mu + sign * d_mu, L + sign * d_L) < best
    for i in rng.choice(len(mu), 15, replace=False):  # one coordinate of the mean
        for sign in (-step, step):
            moved = mu.copy()
            moved[i] += sign
            assert bound.value(moved, L) <= best + rounding
    for k in rng.choice(len(rows), 30, replace=False):  # one entry of L
        for sign in (-step, step):
            moved = L.copy()
            moved[rows[k], columns[k]] += sign * size
            assert bound.value(mu, moved) <= best + rounding


def test_the_bound_never_falls(fitted):
    assert falls(fitted[0]) <= 1e-10


# -- hard cases -------------------------------------------------------------------------------------------------------


def points(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(size=(n, 2))


def softplus_under_a_wide_prior(variance):
    rng, X = points(80)
    y = rng.poisson(3.0, 80).astype(float)
    problem = Problem(None, "rbf", K=10, length_scale=0.2, variance=variance, nugget=0.1, n_nodes=None)
    return problem, X, y, Poisson("softplus"), oracle.poisson_softplus(y)


def huge_counts_and_zeros(variance):
    rng, X = points(60)
    y = np.where(rng.random(60) < 0.3, 1e5, 0.0)
    problem = Problem(None, "matern32", K=10, variance=variance, nugget=1e-4, n_nodes=1025)
    return problem, X, y, Poisson(), oracle.poisson_exp(y)


def zeros_under_a_wide_prior(variance):
    _, X = points(1)
    problem = Problem(None, "rbf", K=1, variance=variance, nugget=1e-4, n_nodes=2049)
    return problem, X, np.zeros(1), Poisson(), oracle.poisson_exp(np.zeros(1))


def separable(link, variance):
    _, X = points(60)
    y = (X[:, 0] > 0.5).astype(float)
    make = oracle.bernoulli_logit if link == "logit" else oracle.bernoulli_probit
    problem = Problem(None, "rbf", K=10, variance=variance, nugget=0.01, n_nodes=None)
    return problem, X, y, Bernoulli(link), make(y)


HARD = {
    "softplus, variance 300": lambda: softplus_under_a_wide_prior(300.0),
    "softplus, variance 1000": lambda: softplus_under_a_wide_prior(1000.0),
    "1e5 and 0, variance 1": lambda: huge_counts_and_zeros(1.0),
    "1e5 and 0, variance 10": lambda: huge_counts_and_zeros(10.0),
    "1e5 and 0, variance 100": lambda: huge_counts_and_zeros(100.0),
    "a single 0, variance 10": lambda: zeros_under_a_wide_prior(10.0),
    "a single 0, variance 100": lambda: zeros_under_a_wide_prior(100.0),
    "a single 0, variance 1000": lambda: zeros_under_a_wide_prior(1000.0),
    "separable, logit": lambda: separable("logit", 100.0),
    "separable, probit": lambda: separable("probit", 100.0),
    "separable, logit, variance 1e4": lambda: separable("logit", 1e4),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_cases_never_fall_and_end_at_the_optimum(case):
    model, bound = fit_and_bound(*HARD[case]())
    assert falls(model) <= 1e-10
    assert model.elbo_ == pytest.approx(bound.value(*solution(model)), rel=1e-9)
    check_certificate(model, bound)
    if len(model.posterior_.mean) > 1:
        check_downhill(model, bound)


@pytest.mark.parametrize("variance", [1.0, 10.0, 2000.0])
def test_rows_of_weight_zero_say_nothing(variance):
    """A count without weight may be anything; under a wide prior its expectation may even overflow."""
    rng, X = points(40)
    y = rng.poisson(3.0, 40).astype(float)
    weight = np.ones(40)
    weight[[3, 17]] = 0.0
    y[3] = 1e5
    problem = Problem(None, "rbf", K=10, length_scale=0.05, variance=variance, nugget=0.1)
    observations = oracle.poisson_exp(y, 1.0, weight)
    model, _ = fit_and_bound(problem, X, y, Poisson(), observations, {"sample_weight": weight})
    assert np.isfinite(model.elbo_)
    assert falls(model) <= 1e-10
    assert model.fit_info_["converged"]
    y[3] = 0.0
    other, _ = fit_and_bound(problem, X, y, Poisson(), observations, {"sample_weight": weight})
    np.testing.assert_allclose(model.posterior_.mean, other.posterior_.mean, rtol=0, atol=1e-5)


# -- a likelihood that is not log-concave -----------------------------------------------------------------------------


class StudentT(Likelihood):
    resolution = 0.1  # poles at y ± i·scale·√df, about 0.35

    def __init__(self, scale=0.2, df=3.0):
        self.scale = scale
        self.df = df

    def log_prob(self, y, f):
        half = 0.5 * (self.df + 1.0)
        constant = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * jnp.log(self.df * jnp.pi) - jnp.log(self.scale)
        return constant - half * jnp.log1p(((y - f) / self.scale) ** 2 / self.df)

    def conditional_mean(self, f):
        return f

    def conditional_variance(self, f):
        return self.scale**2 * self.df / (self.df - 2.0) * jnp.ones_like(f)

    def cdf(self, y, f):
        return special.stdtr(self.df, (y - f) / self.scale)

    def sample(self, rng, f):
        return f + self.scale * rng.standard_t(self.df, np.shape(f))

    def initial_latent(self, y):
        return np.array(y)


@pytest.mark.filterwarnings("ignore:the fit did not converge")
@pytest.mark.parametrize("K", [4, 12])
@pytest.mark.parametrize("outliers", [0, 8])
@pytest.mark.parametrize("variance", [1.0, 25.0])
def test_student_t_ends_at_a_stationary_point_without_ever_falling(K, outliers, variance):
    rng, X = points(60, seed=outliers)
    y = np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_t(3.0, 60)
    y[:outliers] += 8.0
    problem = Problem(None, "matern32", K=K, variance=variance, nugget=0.01, n_nodes=801)
    model, bound = fit_and_bound(problem, X, y, StudentT(), oracle.student_t(y, 0.2, 3.0))
    info = model.fit_info_
    assert "not log-concave" in info["guarantee"]
    assert "stationary point" in info["guarantee"]
    assert falls(model) <= 1e-10
    assert model.elbo_ == pytest.approx(bound.value(*solution(model)), rel=1e-8)
    mu, L = solution(model)
    assert np.all(np.isfinite(mu))
    assert np.all(np.diag(L) > 0.0)
    _, in_mu, in_L = bound.gradient(mu, L)
    stationary = (
        np.abs(in_mu).max() < 1e-5 * np.abs(bound.P @ mu).max() and np.abs(in_L).max() < 1e-5 / np.diag(L).min()
    )
    assert stationary == info["converged"]


def test_student_t_without_outliers_does_converge():
    rng, X = points(60)
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    problem = Problem(None, "matern32", K=6, nugget=0.01, n_nodes=801)
    model, bound = fit_and_bound(problem, X, y, StudentT(), oracle.student_t(y, 0.2, 3.0))
    assert model.fit_info_["converged"]
    check_downhill(model, bound, step=1e-2)


# -- what the info says -----------------------------------------------------------------------------------------------


def test_fit_info_has_a_number_per_iteration_and_says_when_it_stopped_early():
    problem = PROBLEMS["exp"]
    model, _ = problem.fitted()
    info = model.fit_info_
    assert len(info["elbo"]) == len(info["mean_residual"]) == len(info["covariance_residual"]) == info["n_iter"] + 1
    assert info["method"] == "npvi"
    assert info["interrupted"] is False
    assert set(info["seconds"]) == {"graph", "prior", "inference"}
    short = Problem(poisson_case, "matern32", n=200, K=7, settings={"max_iter": 1})
    with pytest.warns(UserWarning, match=r"did not converge to tol: max_iter=1 was reached at a residual of"):
        early, _ = short.fitted()
    assert not early.fit_info_["converged"]
    assert early.fit_info_["n_iter"] == 1
    assert early.elbo_ < model.elbo_
