"""What third derivatives say of f that a Gaussian posterior doesn't."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import npvi
from npvi.kernels import Matern32
from npvi.likelihoods import Gaussian, Poisson
from npvi.predictive import MixturePredictive, Predictive
from npvi.predictive.skewed import normal_score, skewed_score


@pytest.mark.parametrize("skewness", [-1.0, -0.3, 0.0, 1e-9, 0.7])
def test_scores_have_mean_variance_and_skewness_and_grow(skewness):
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    weight /= weight.sum()
    x = skewed_score(z, np.full(len(z), skewness))
    assert np.all(np.diff(x) > 0.0)
    moments = [0.0, 1.0 + 0.5 * skewness**2, skewness]
    np.testing.assert_allclose([weight @ x, weight @ x**2, weight @ x**3], moments, atol=1e-8)
    some = np.abs(z) < 6.0
    np.testing.assert_allclose(normal_score(x, np.full(len(z), skewness))[some], z[some], atol=1e-9)


def test_beyond_the_end_of_a_skewed_distribution_there_is_nothing():
    assert normal_score(np.array([9.0]), np.array([-1.0])) == np.inf
    assert normal_score(np.array([-9.0]), np.array([1.0])) == -np.inf


@pytest.mark.parametrize(
    ("likelihood", "y"), [("poisson", 0.0), ("poisson", 3.0), ("exponential", 0.2), ("bernoulli", 1.0)]
)
@pytest.mark.parametrize("variance", [0.3, 1.0, 3.0])
def test_intervals_of_one_observation_beside_quadrature(likelihood, y, variance):
    """One row under a wide kernel: what is known of f there follows from an integral."""
    kernel = Matern32(1.0, variance)
    model = npvi.GPRegressor(likelihood, kernel, nugget=1e-9, mean="zero", learn=False).fit([[0.0]], [y])
    dist = model.predict_dist([[0.0]])
    f = np.linspace(-12.0, 12.0, 200_001)
    log = np.asarray(model.likelihood_.log_prob(np.full(len(f), y), f)) - 0.5 * f**2 / variance
    share = np.cumsum(np.exp(log - log.max()))
    exact = np.interp([0.05, 0.95], share / share[-1], f)
    sd = float(np.sqrt(dist.latent_var[0]))
    plain = dist.latent_mean[0] + sd * special.ndtri([0.05, 0.95])
    ours = np.ravel(dist.latent_interval(0.9))
    assert np.abs(ours - exact).max() < max(0.3 * np.abs(plain - exact).max(), 0.01 * sd)


def test_gaussian_noise_has_none():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    dist = npvi.GPRegressor(Gaussian(0.1), Matern32(0.3), learn=False).fit(X, np.sin(6.0 * X[:, 0])).predict_dist(X)
    np.testing.assert_array_equal(dist.latent_skewness, 0.0)


def test_mixtures_mix_skewed_parts():
    parts = [
        Predictive(Poisson(), [m], [v], skewness=lambda s=s: np.array([s]))
        for m, v, s in [(0.0, 1.0, -0.8), (1.0, 0.5, 0.4)]
    ]
    mixed = MixturePredictive(parts, [0.4, 0.6])
    z = np.random.default_rng(0).standard_normal((2, 400_000))
    draws = [
        part.latent_mean + np.sqrt(part.latent_var) * skewed_score(z[k], part.latent_skewness)
        for k, part in enumerate(parts)
    ]
    x = np.concatenate([draws[0][:160_000], draws[1][:240_000]])
    np.testing.assert_allclose(np.ravel(mixed.latent_interval(0.9)), np.quantile(x, [0.05, 0.95]), atol=0.02)
    third = mixed.latent_skewness[0] * mixed.latent_var[0] ** 1.5
    assert third == pytest.approx(np.mean((x - x.mean()) ** 3), abs=0.03)
