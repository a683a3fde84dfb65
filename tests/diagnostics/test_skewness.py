"""How skewed f is, against quadrature: by its own observation, and by its neighbours'."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import npvi
from npvi import GPRegressor, likelihoods
from npvi.diagnostics import advice
from npvi.diagnostics.skewness import Skewness, skewness_of
from npvi.kernels import Matern32
from npvi.runtime.precision import float64


def fitted(likelihood, X, y, variance, length_scale=1.0, **settings):
    settings = {"nugget": 1e-8, "learn": False, "mean": "zero", "n_neighbors": len(X) - 1, **settings}
    return GPRegressor(likelihood, Matern32(length_scale, variance), **settings).fit(X, y)


def log_prob(likelihood, y, f):
    with float64():
        return np.asarray(likelihood.log_prob(y, jnp.asarray(f)))


@pytest.mark.parametrize("variance", [0.1, 0.5])
@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (likelihoods.Poisson(), 0.0),
        (likelihoods.Poisson(), 3.0),
        (likelihoods.Bernoulli(), 1.0),
        (likelihoods.Gamma(1.0), 0.2),
        (likelihoods.Gaussian(0.3), 2.0),
    ],
    ids=repr,
)
def test_one_observation(likelihood, y, variance):
    # two places so far apart that each is alone
    found = skewness_of(fitted(likelihood, np.array([[0.0], [500.0]]), np.array([y, y]), variance).fitted_)
    f = np.linspace(-12.0, 12.0, 20_001)
    log_density = log_prob(likelihood, y, f) - 0.5 * f**2 / variance
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    z = f - density @ f
    exact = density @ z**3 / (density @ z**2) ** 1.5
    np.testing.assert_allclose(found.skewness, exact, rtol=0.15, atol=1e-6)
    # the quantiles of the true marginal against the stated ones
    m, s = density @ f, np.sqrt(density @ z**2)
    ends = np.interp([0.05, 0.95], np.cumsum(density), f)
    shifts = (ends - m + np.array([1.0, -1.0]) * 1.6449 * s) / s
    assert abs(shifts.mean() - found.shift[0]) < 0.02


def test_neighbours_count():
    """Three counts of 0 close together: on a grid of all three f."""
    likelihood, X, y = likelihoods.Poisson(), np.array([[0.0], [0.3], [0.7]]), np.array([0.0, 2.0, 0.0])
    model = fitted(likelihood, X, y, 0.6)
    found = skewness_of(model.fitted_)
    assert found.together
    line = np.linspace(-6.0, 4.0, 121)
    f = np.stack(np.meshgrid(line, line, line, indexing="ij"))
    r = np.sqrt(3.0) * np.abs(X - X.T)
    precision = np.linalg.inv(0.6 * (1.0 + r) * np.exp(-r) + 1e-8 * np.eye(3))
    log_density = -0.5 * np.einsum("iabc,ij,jabc->abc", f, precision, f)
    log_density += sum(log_prob(likelihood, y[i], f[i]) for i in range(3))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    for i in range(3):
        z = f[i] - np.sum(density * f[i])
        exact = np.sum(density * z**3) / np.sum(density * z**2) ** 1.5
        assert found.skewness[i] == pytest.approx(exact, rel=0.15)
        # the own observation alone says less
        v = model.posterior_.variance[np.flatnonzero(model.graph_.order == i)[0]]
        own = v**1.5 * -np.exp(model.posterior_.mean[np.flatnonzero(model.graph_.order == i)[0]] + 0.5 * v)
        assert abs(own) < abs(found.skewness[i])


def test_many_rows_by_their_own_observations():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 2))
    model = GPRegressor("poisson", Matern32(0.3), nugget=0.01, learn=False).fit(X, rng.poisson(0.3, size=1500))
    found = skewness_of(model.fitted_)
    assert not found.together
    v, m = model.posterior_.variance, model.posterior_.mean
    np.testing.assert_allclose(found.skewness[model.graph_.order], -(v**1.5) * np.exp(m + 0.5 * v), rtol=1e-5)


def test_only_rows_where_it_matters_are_named():
    assert advice.about_skewness(Skewness(np.full(5, 0.3), True)) is None
    sentence = advice.about_skewness(Skewness(np.array([0.0, 0.5, 0.0]), False))
    assert "at 1 of 3 training rows (most at row 1: skewness 0.50)" in sentence
    assert "up to 0.14 sd higher than those of a Gaussian" in sentence
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(200, 1))
    sparse = fitted(likelihoods.Poisson(), X[:60], np.zeros(60), 2.0, nugget=1e-3)
    found = npvi.diagnose(sparse, X[60:], rng.poisson(0.1, size=140))
    assert any("the posterior of f is skewed at" in sentence for sentence in found.warnings)
    assert np.all(found.skewness.skewness < 0.0)
