"""How far predictions are from the data, and that the nugget of a new row is no part of f."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import special
from scipy.spatial.distance import cdist

import npvi
from npvi import kernels
from npvi.kernels import RBF, Constant, Linear, Matern12, Matern32, Periodic, Sphere, Subset
from npvi.likelihoods import Gaussian, Poisson
from npvi.predictive.base import Predictive
from npvi.predictive.categorical import CategoricalPredictive
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.reach import Reach
from npvi.predictive.varying_noise import VaryingNoisePredictive
from tests.support import oracle

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 2))
Y = np.sin(5.0 * X[:, 0]) + 0.3 * RNG.standard_normal(60)
Z = np.vstack([RNG.uniform(-0.2, 1.2, size=(25, 2)), X[:3], [[40.0, 40.0]]])
NUGGET, NOISE = 0.3, 0.1


def gaussian(prior="nngp", **settings):
    given = {"kernel": Matern32(0.4, 1.5), "nugget": NUGGET, "mean": "zero", "learn": False, "n_neighbors": 59}
    return npvi.GPRegressor(Gaussian(NOISE), prior=prior, **(given | settings)).fit(X, Y)


# -- the nugget -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["nngp", "fitc", "nystrom"])
def test_f_is_without_the_nugget_and_the_response_with_it(prior):
    """Against dense algebra: y = g + e + noise, g(new) given y."""
    how = {} if prior == "nngp" else {"inducing": X, "n_inducing": 60}
    dist = gaussian(prior, **how).predict_dist(Z)
    cross = oracle.matern32(Z, X, 0.4, 1.5)
    K = oracle.matern32(X, X, 0.4, 1.5) + (NUGGET + NOISE) * np.eye(60)
    variance = 1.5 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    np.testing.assert_allclose(dist.latent_mean, cross @ np.linalg.solve(K, Y), rtol=0, atol=1e-6)
    np.testing.assert_allclose(dist.latent_var, variance, rtol=1e-6)
    np.testing.assert_allclose(dist.var, variance + NUGGET + NOISE, rtol=1e-6)
    np.testing.assert_allclose(dist.reach.prior_share, variance / 1.5, rtol=1e-6)
    f, y = dist.joint_latent_sample(3000, seed=0), dist.joint_sample(3000, seed=0)
    np.testing.assert_allclose(f.var(axis=0), variance, rtol=0.15)
    np.testing.assert_allclose((y - f).var(axis=0), NUGGET + NOISE, rtol=0.15)
    nearby = gaussian(prior, **how).predict_dist(np.repeat(Z[:1], 4, axis=0) + 1e-9 * np.arange(4)[:, None])
    f = nearby.joint_latent_sample(50, seed=0)
    if prior == "nngp":  # a surface: rows at one place have one f (given inducing points rows are independent)
        assert np.abs(f - f[:, :1]).max() < 0.02
        total = nearby.total(n=4000, seed=0)
        assert total.std**2 == pytest.approx(16 * nearby.latent_var[0] + 4 * (NUGGET + NOISE), rel=0.1)


def test_the_nugget_of_a_predictive_counts_for_responses_only():
    m, v, nugget = np.array([0.3, -1.0, 2.0]), np.array([0.2, 0.0, 1.0]), np.array([0.5, 0.3, 0.0])
    apart, both = Predictive(Poisson(), m, v, nugget=nugget), Predictive(Poisson(), m, v + nugget)
    np.testing.assert_array_equal(apart.latent_var, v)
    y = np.array([1.0, 0.0, 9.0])
    for name in ("mean", "var", "std"):
        np.testing.assert_allclose(getattr(apart, name), getattr(both, name), rtol=1e-14)
    np.testing.assert_allclose(apart.log_prob(y), both.log_prob(y), rtol=1e-12)
    np.testing.assert_allclose(apart.cdf(y), both.cdf(y), rtol=1e-12)
    np.testing.assert_array_equal(apart.quantile([0.1, 0.9]), both.quantile([0.1, 0.9]))
    np.testing.assert_array_equal(apart.sample(5, seed=0), both.sample(5, seed=0))
    for wrong in (-1.0, np.nan, np.ones(2)):
        with pytest.raises(ValueError, match="nugget must be a number or one per row"):
            Predictive(Poisson(), m, v, nugget=wrong)


def test_a_mixture_has_the_mean_of_the_nuggets():
    parts = [Predictive(Gaussian(0.1), [m], [v], nugget=n) for m, v, n in ((0.0, 1.0, 0.2), (1.0, 2.0, 0.6))]
    mixed = MixturePredictive(parts, [0.25, 0.75])
    assert mixed.nugget == pytest.approx(0.5)
    assert mixed.latent_var[0] == pytest.approx(1.75 + 0.25 * 0.75)
    assert mixed.var[0] == pytest.approx(1.75 + 0.25 * 0.75 + 0.5 + 0.1)


def test_labels_and_varying_noise():
    nugget, m, v = 0.7, np.array([[0.0, 1.0, -1.0]]), np.array([[0.3, 0.1, 0.5]])
    dist = CategoricalPredictive(np.arange(3), m, v, lambda n, rng: np.zeros((1, n, 3)) + m[:, None], nugget)
    f = m + np.sqrt(v + nugget) * np.random.default_rng(0).standard_normal((200_000, 3))
    np.testing.assert_allclose(dist.probabilities[0], special.softmax(f, axis=1).mean(axis=0), atol=4e-3)
    known = m + np.sqrt(nugget) * np.random.default_rng(0).standard_normal((200_000, 3))
    shares = np.bincount(dist.joint_sample(40_000, seed=0)[:, 0], minlength=3) / 40_000
    np.testing.assert_allclose(shares, special.softmax(known, axis=1).mean(axis=0), atol=0.012)
    with pytest.raises(ValueError, match="nugget must be"):
        CategoricalPredictive(np.arange(3), m, v, nugget=-1.0)
    of_g = ([np.log(3.0)], [0.0])
    varying = VaryingNoisePredictive(Gaussian(1e-9), [0.0], [1.0], *of_g, nugget=0.5)
    assert varying.latent_var[0] == pytest.approx(1.0)
    assert varying.var[0] == pytest.approx(4.5)
    whole = VaryingNoisePredictive(Gaussian(1e-9), [0.0], [1.5], *of_g)
    assert varying.quantile(0.9)[0] == pytest.approx(whole.quantile(0.9)[0], rel=1e-9)
    assert varying.sample(40_000, seed=0).var() == pytest.approx(4.5, rel=0.03)


# -- reach ------------------------------------------------------------------------------------------------------------


def sphere(points):
    longitude, latitude = np.deg2rad(points).T
    flat = np.cos(latitude)
    return 6371.0088 * np.column_stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)])


def circles(points):
    angle = 2.0 * np.pi * points / 0.7
    return np.hstack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize(
    ("kernel", "scaled"),
    [
        (RBF(0.2), lambda p: p / 0.2),
        (Matern32([0.2, 3.0]), lambda p: p / [0.2, 3.0]),
        (2.0 * Subset(Matern12(0.5), [1]), lambda p: p[:, 1:] / 0.5),
        (Sphere(Matern32(50.0)), lambda p: sphere(p) / 50.0),
        (Subset(RBF(0.3), [0]) * Subset(RBF(2.0), [1]), lambda p: p / [0.3, 2.0]),
        (RBF(1.0) + RBF(0.5), lambda p: p * np.sqrt(1.0 + 4.0)),
        (Periodic(length_scale=0.4, period=0.7), lambda p: circles(p) / 0.4),
        (Constant(1.0) + Linear(), lambda p: p),
        (kernels.Custom(lambda x, z: 1.0 / (1.0 + ((x - z) ** 2).sum())), lambda p: p),
    ],
    ids=lambda value: type(value).__name__,
)
def test_distances_are_in_length_scales(kernel, scaled):
    dist = gaussian(kernel=kernel).predict_dist(Z)
    assert "reach" not in vars(dist)  # not before it is asked for
    np.testing.assert_allclose(dist.reach.distance, cdist(scaled(Z), scaled(X)).min(axis=1), rtol=1e-7, atol=1e-9)
    assert np.all((dist.reach.prior_share >= 0.0) & (dist.reach.prior_share <= 1.0))
    assert dist.reach is dist.reach


def test_far_away_is_the_prior():
    for prior in ("nngp", "fitc", "nystrom"):
        reach = gaussian(prior, n_inducing=20).predict_dist(Z).reach
        assert reach.beyond.tolist() == [False] * 28 + [True]
        np.testing.assert_array_equal(reach.mask(np.arange(29.0))[:-1], np.arange(28.0))
        assert np.isnan(reach.mask(np.arange(29.0))[-1])
        assert reach.distance[25:28].tolist() == [0.0, 0.0, 0.0]
    # where covariates are far outside of those that were seen, f is not known either, though the place is
    table = np.column_stack([X, RNG.standard_normal(60)])
    model = npvi.GPRegressor(Gaussian(NOISE), Matern32(0.4), nugget=NUGGET, coords=[0, 1], learn=False)
    reach = model.fit(table, Y).predict_dist([[0.5, 0.5, 0.0], [0.5, 0.5, 500.0]]).reach
    assert reach.prior_share[0] < 0.95
    assert reach.prior_share[1] == 1.0
    assert not reach.beyond.any()


def test_rows_that_were_seen_are_not_beyond_the_data_however_little_they_say():
    rng = np.random.default_rng(3)
    places = rng.uniform(0.0, 10.0, (300, 2))
    model = npvi.GPRegressor().fit(places, rng.normal(size=300))
    assert not model.predict_dist(places).reach.beyond.any()


def test_a_process_without_variance_leaves_nothing_open():
    """A plane through the origin is known there."""
    reach = gaussian(kernel=Linear()).predict_dist([[0.0, 0.0], [1.0, 1.0]]).reach
    assert reach.prior_share[0] == 0.0
    assert 0.0 < reach.prior_share[1] < 0.2


def test_reach_of_a_mixture_of_labels_and_of_varying_noise():
    parts = [
        Predictive(Poisson(), [0.0, 0.0], [1.0, 1.0], reach=lambda d=d, s=s: Reach(np.full(2, d), np.array(s)))
        for d, s in ((1.0, [0.2, 1.0]), (9.0, [0.6, 1.0]))
    ]
    mixed = MixturePredictive(parts, [0.25, 0.75]).reach
    np.testing.assert_allclose(mixed.distance, [1.0, 1.0])
    np.testing.assert_allclose(mixed.prior_share, [0.5, 1.0])
    labels = npvi.GPClassifier(kernel=RBF(0.3, 2.0), nugget=0.1, mean="zero", learn=False).fit(X, np.arange(60) % 3)
    dist = labels.predict_dist(Z)
    np.testing.assert_allclose(dist.reach.prior_share, dist.latent_var.mean(axis=1) / 2.0, rtol=1e-12)
    assert dist.reach.beyond[-1]
    varying = VaryingNoisePredictive(Gaussian(1e-9), [0.0], [1.0], [0.0], [0.1], reach=lambda: "asked")
    assert varying.reach == "asked"


def test_reach_needs_a_model():
    for dist in (
        Predictive(Poisson(), [0.0], [1.0]),
        CategoricalPredictive(np.arange(3), np.zeros((1, 3)), np.ones((1, 3))),
    ):
        with pytest.raises(ValueError, match="reach needs the training rows"):
            _ = dist.reach


def test_predictions_are_the_same_after_saving(tmp_path):
    model = gaussian(n_neighbors=10)
    model.save(tmp_path / "model.npvi")
    dist, again = model.predict_dist(Z), npvi.load(tmp_path / "model.npvi").predict_dist(Z)
    assert again.nugget == NUGGET
    np.testing.assert_array_equal(again.latent_var, dist.latent_var)
    np.testing.assert_array_equal(again.reach.distance, dist.reach.distance)
    copied = pickle.loads(pickle.dumps(model.predict_dist(Z)))
    np.testing.assert_array_equal(copied.reach.prior_share, dist.reach.prior_share)
