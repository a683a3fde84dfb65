"""Posteriors for ArviZ: the draws are the model's, and what ArviZ makes of them agrees with the model."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import npvi
from npvi.estimators.leaving_out import left_out
from npvi.likelihoods import Gaussian, NegativeBinomial

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # at its import, of what its next version will be like
    arviz = pytest.importorskip("arviz", reason="arviz isn't installed")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(300, 2))
    f = np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1])
    return X, f, rng


@pytest.mark.parametrize("name", ["gaussian", "poisson", "negative_binomial"])
def test_loo_by_arviz_is_the_models_own(data, name):
    X, f, _ = data
    rng = np.random.default_rng(1)
    likelihood, y = {
        "gaussian": (Gaussian(0.1), f + np.sqrt(0.1) * rng.standard_normal(300)),
        "poisson": ("poisson", rng.poisson(2.0 * np.exp(f)).astype(float)),
        "negative_binomial": (NegativeBinomial(0.5), rng.negative_binomial(2, 1.0 / (1.0 + np.exp(f))).astype(float)),
    }[name]
    model = npvi.GPRegressor(likelihood, npvi.kernels.Matern32(2.0), nugget=0.01, learn=False).fit(X, y)
    own = left_out(model).log_prob(y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter of Pareto")
        found = [arviz.loo(model.to_arviz(2000, seed=seed), pointwise=True) for seed in range(8)]
    elpd = np.stack([one.loo_i.to_numpy() for one in found])
    sure = np.stack([one.pareto_k.to_numpy() for one in found]).max(axis=0) < 0.7
    assert sure.mean() > 0.7
    # of one run: its distance from the model's own, in standard deviations between runs
    error = elpd.std(axis=0, ddof=1)[sure]
    z = (elpd[0] - own)[sure] / error
    assert np.sqrt(np.mean(z**2)) < 1.6
    assert np.median(np.abs(z)) < 1.0
    assert abs((elpd.mean(axis=0) - own)[sure].mean()) < 0.006  # nats per row


def test_draws_are_those_of_the_posterior(data):
    X, f, rng = data
    height = rng.normal(size=300)
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "height": 5.0 + 2.0 * height})
    response = f + 0.8 * height + np.sqrt(0.1) * rng.standard_normal(300)
    model = npvi.GPRegressor(Gaussian(0.1), npvi.kernels.Matern32(2.0), nugget=0.01, coords=["x", "y"], learn=False)
    model.fit(table, response)
    found = model.to_arviz(4000, seed=0)
    draws = found.posterior["f"].to_numpy()[0]
    fitted = model.fitted_
    order = fitted.graph.order
    sd = np.sqrt(fitted.marginal_variance)
    assert np.abs((draws.mean(axis=0)[order] - fitted.posterior.mean) / sd).max() < 5.0 / np.sqrt(4000)
    assert draws.std(axis=0)[order] == pytest.approx(sd, rel=0.08)
    (value, error) = model.fitted_.coefficients()[0]["height"]
    slope = found.posterior["mean__height"].to_numpy()[0]
    assert slope.mean() == pytest.approx(value, abs=5.0 * error / np.sqrt(4000))
    assert slope.std() == pytest.approx(error, rel=0.08)
    # the covariance of the draws, against dense algebra that shares no code with the fit
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)) * np.sqrt(3.0) / 2.0
    K = (1.0 + D) * np.exp(-D) + 0.01 * np.eye(300)
    H = fitted.basis[np.argsort(order)]
    prior = K + H @ np.diag(1.0 / np.maximum(model.coefficient_precision_, 1e-6)) @ H.T
    V = prior - prior @ np.linalg.solve(prior + 0.1 * np.eye(300), prior)
    pairs = rng.integers(0, 300, size=(200, 2))
    scale = np.sqrt(np.diag(V))
    off = (np.cov(draws.T) - V)[pairs[:, 0], pairs[:, 1]] / (scale[pairs[:, 0]] * scale[pairs[:, 1]])
    assert np.abs(off).max() < 0.08
    assert found.observed_data["y"].to_numpy() == pytest.approx(response)
    log = found.log_likelihood["y"].to_numpy()[0]
    np.testing.assert_allclose(log, stats.norm.logpdf(response, draws, np.sqrt(0.1)), rtol=1e-9, atol=1e-12)
    noise = found.posterior_predictive["y"].to_numpy()[0] - draws
    assert noise.std() == pytest.approx(np.sqrt(0.1), rel=0.01)


def test_counts_have_their_exposure(data):
    X, f, rng = data
    hours = rng.uniform(0.2, 5.0, size=300)
    y = rng.poisson(hours * np.exp(f)).astype(float)
    model = npvi.GPRegressor("poisson", npvi.kernels.Matern32(2.0), learn=False).fit(X, y, exposure=hours)
    found = model.to_arviz(50, seed=0)
    draws = found.posterior["f"].to_numpy()[0]
    log = found.log_likelihood["y"].to_numpy()[0]
    rate = hours * model.likelihood_.links[model.likelihood_.link].mean_numpy(draws)
    np.testing.assert_allclose(log, stats.poisson.logpmf(y, rate), rtol=1e-8)


def test_mixtures_have_draws_of_every_model(integrating, data):
    X, f, rng = data
    y = f[:80] + 0.3 * rng.standard_normal(80)
    model = npvi.GPRegressor(kernel=npvi.kernels.Matern32()).fit(X[:80], y)
    shares = model.fitted_.shares()
    assert len(shares) > 3
    scale = model.to_arviz(1000, seed=0).posterior["kernel__variance"].to_numpy()[0]
    values, counts = np.unique(scale, return_counts=True)
    expected = {}
    for one, share in shares:
        key = float(one.model.kernel.variance)
        expected[key] = expected.get(key, 0.0) + share
    for value, count in zip(values, counts):
        assert count / 1000 == pytest.approx(expected[float(value)], abs=0.0035)


def test_what_cannot_be_is_said(data):
    X, f, _ = data
    several = npvi.GPClassifier(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, np.round(f))
    with pytest.raises(ValueError, match="this one has several functions"):
        several.to_arviz()
    summed = npvi.GPRegressor(terms=[npvi.Linear("x0")]).fit(X, f)
    with pytest.raises(ValueError, match="to_arviz is for models of one surface"):
        summed.to_arviz()
    model = npvi.GPRegressor(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, f)
    with pytest.raises(ValueError, match="draws must be at most 894,784 of 300 rows"):
        model.to_arviz(10**9)
    with pytest.raises(ValueError, match="draws must be a whole number of at least 2"):
        model.to_arviz(1)
