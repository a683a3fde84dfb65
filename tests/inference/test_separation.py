"""Covariates that tell where nothing occurs: their coefficients are far away, wide, and strongly tied to the sites."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from npvi import GPRegressor
from npvi.inference.data import Data
from npvi.inference.shared_spread import SharedSpread
from npvi.kernels import Matern32
from npvi.learning import learner
from npvi.learning.links import compare
from npvi.likelihoods import Bernoulli, Poisson
from tests.support import oracle

LENGTH, VARIANCE, NUGGET = 0.3, 0.5, 0.05
RATES = {"poisson": np.exp, "bernoulli": special.expit}
LIKELIHOODS = {"poisson": Poisson(), "bernoulli": Bernoulli()}


def ramp(noise, n, rate, seed=0):
    """Places, a covariate that is 0 or, for a fifth of them, where nothing occurs, positive; and responses."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    above = np.arange(n) % 5 == 0
    c = above * np.abs(rng.standard_normal(n))
    p = RATES[noise](rate + np.sin(5.0 * X[:, 0]))
    y = rng.poisson(p) if noise == "poisson" else rng.binomial(1, p)
    return np.column_stack([X, c]), np.where(above, 0.0, y)


def fitted(noise, X, y, scale, method="full", n_neighbors=10):
    model = GPRegressor(
        LIKELIHOODS[noise],
        Matern32(LENGTH, VARIANCE),
        nugget=NUGGET,
        coords=[0, 1],
        method=method,
        coefficient_scale=scale,
        n_neighbors=n_neighbors,
        learn=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(X, y)


@pytest.mark.parametrize("scale", ["weak", None])
@pytest.mark.parametrize("noise", ["poisson", "bernoulli"])
def test_it_is_the_best_of_all_gaussians(noise, scale):
    n = 40
    X, y = ramp(noise, n, 0.0)
    model = fitted(noise, X, y, scale, n_neighbors=n - 1)
    order = model.graph_.order
    covariance = oracle.matern32(X[order, :2], X[order, :2], LENGTH, VARIANCE) + NUGGET * np.eye(n)
    observations = {"poisson": oracle.poisson_exp, "bernoulli": oracle.bernoulli_logit}[noise](y[order])
    bound = oracle.Bound(
        np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1], observations, np.tri(n, dtype=bool)
    )
    bound.with_columns(model.basis_, model.coefficient_precision_)
    best, _ = bound.maximum(np.random.default_rng(1), starts=1, scale=0.1, site_precision=2.0)
    mu, L = bound.best
    assert model.elbo_ == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(model.trend_.coefficients, mu[:2], rtol=1e-3)
    np.testing.assert_allclose(model.trend_.covariance, (L @ L.T)[:2, :2], rtol=5e-3)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scale", ["weak", None, 100.0])
@pytest.mark.parametrize("method", ["full", "npvi"])
@pytest.mark.parametrize("noise", ["poisson", "bernoulli"])
def test_a_ramp_takes_a_few_iterations(noise, method, scale, seed):
    X, y = ramp(noise, 1200, -3.0, seed)
    model = fitted(noise, X, y, scale, method)
    assert model.fit_info_["converged"]
    assert model.fit_info_["n_iter"] < 25
    means = model.predict(X) if noise == "poisson" else model.predict_dist(X).mean
    assert means.sum() == pytest.approx(y.sum(), rel=0.05)
    assert means[X[:, 2] > 0.0].sum() < 2.0


@pytest.mark.parametrize("noise", ["poisson", "bernoulli"])
def test_the_shared_spread_is_where_its_equation_holds(noise):
    """S⁻¹ = A + Σ w r rᵀ with w at v = own + r S rᵀ, from far away on both sides."""
    rng = np.random.default_rng(0)
    n, A = 200, np.array([[0.3, 0.1], [0.1, 0.5]])
    r, own, mean = 1.5 * rng.standard_normal((n, 2)), rng.uniform(0.1, 0.5, n), rng.normal(-6.0, 1.0, n)
    data = Data(LIKELIHOODS[noise], np.zeros(n))
    found = []
    for factor in (0.01, 10.0):
        spread = SharedSpread(factor * r, factor**2 * A).best(data, mean, own)
        found.append(spread.variance)
        w = data.expectations(mean, own + spread.variance).precision
        held = spread.precision + spread.rows.T @ (w[:, None] * spread.rows)
        np.testing.assert_allclose(held, np.eye(2), atol=1e-7)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("scale", ["weak", None])
def test_what_is_expected_on_a_ramp_is_what_the_prior_allows(scale):
    """A slope that ends all events at once would have to be infinite; against quadrature over constant and slope."""
    X, _ = ramp("bernoulli", 1200, -1.0)
    c, rng = X[:, 2], np.random.default_rng(2)
    above = c > 0.0
    y = np.where(above, 0.0, rng.binomial(1, 0.3, 1200))
    model = GPRegressor(
        Bernoulli(), Matern32(LENGTH, 1e-4), nugget=1e-6, coords=[0, 1], coefficient_scale=scale, learn=False
    ).fit(X, y)
    seen, rows, sd = y.sum(), np.sum(~above), {"weak": 5.0, None: 10.0}[scale]
    constant = special.logit(seen / rows) + np.linspace(-0.5, 0.5, 81)[:, None]
    slope = np.linspace(-12.0 * sd, 0.0, 600)  # per standard deviation of c
    f = constant[..., None] + slope[:, None] * (c[above] / c.std())
    log_density = seen * constant - rows * np.logaddexp(0.0, constant) - 0.5 * (slope / sd) ** 2
    log_density = log_density - np.logaddexp(0.0, f).sum(axis=-1)
    density = np.exp(log_density - log_density.max())
    expected = np.sum(density * special.expit(f).sum(axis=-1)) / density.sum()
    assert model.predict_dist(X).mean[above].sum() == pytest.approx(expected, rel=0.1)


def test_covariates_are_standardised_by_the_rows_that_count():
    """A row without weight says nothing, whatever its covariate is."""
    X, y = ramp("poisson", 100, 0.0)
    weight = np.ones(100)
    weight[7] = 0.0
    found = []
    for value in (0.0, 1e4):
        X[7, 2] = value
        model = GPRegressor(Poisson(), Matern32(LENGTH, VARIANCE), nugget=NUGGET, coords=[0, 1], learn=False)
        found.append(model.fit(X, y, sample_weight=weight))
    np.testing.assert_allclose(*(model.mean_coefficients_ for model in found), rtol=1e-4)
    rest = np.delete(X, 7, axis=0)
    np.testing.assert_allclose(*(model.predict(rest) for model in found), rtol=1e-4)


def test_the_weak_prior_is_in_the_units_of_the_link_that_won(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(200, 2)), rng.standard_normal(200)])
    y = rng.poisson(np.where(X[:, 0] > 0.9, 60.0, 1.0)).astype(float)
    monkeypatch.setattr(learner, "compare", lambda *both: replace(compare(*both), second=True))
    for scale, in_units in (("weak", True), (2.0, False)):
        model = GPRegressor("poisson", "matern32", coords=[0, 1], coefficient_scale=scale).fit(X, y)
        assert model.likelihood_.link == "softplus"
        unit = model.data_.latent_unit
        assert unit > 1.2
        sd = 5.0 * unit if in_units else 2.0 * X[:, 2].std()
        assert model.coefficient_precision_[1] == pytest.approx(sd**-2)


def test_a_shared_spread_is_found_in_few_steps(monkeypatch):
    """Under Student t's outliers steps for it shrink only by a factor: each time it took 74 evaluations."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    y = 1000.0 * rng.standard_normal(60)
    count, whole = [], Data.curvatures
    monkeypatch.setattr(Data, "curvatures", lambda self, *at: count.append(1) or whole(self, *at))
    model = GPRegressor("student_t", Matern32(0.3), nugget=1e-3, n_neighbors=5, learn=False).fit(X, y)
    assert model.fit_info_["converged"]
    assert len(count) < 45 * max(1, model.n_iter_)
