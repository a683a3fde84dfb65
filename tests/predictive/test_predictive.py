"""The object that users get back from a prediction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from npvi import GPRegressor, kernels
from npvi.likelihoods import Bernoulli, Gaussian, LogNormal, Poisson
from npvi.predictive.base import Predictive, Total

LIKELIHOODS = [
    Gaussian(0.3),
    LogNormal(0.2),
    Poisson(),
    Poisson("softplus"),
    Bernoulli(),
    Bernoulli("probit"),
]
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


def predictive(likelihood, n=5):
    row = {"exposure": np.linspace(0.5, 2.0, n)} if "exposure" in likelihood.extras else None
    return Predictive(likelihood, np.linspace(-1.0, 1.0, n), np.linspace(0.1, 0.6, n), row)


@every_likelihood
def test_shapes(likelihood):
    p = predictive(likelihood)
    assert len(p) == 5
    for array in (p.mean, p.var, p.std, p.latent_mean, p.latent_var, p.quantile(0.5), p.log_prob(np.ones(5))):
        assert array.shape == (5,)
        assert array.dtype == np.float64
    assert p.quantile([0.1, 0.9]).shape == (2, 5)
    assert p.quantile([]).shape == (0, 5)
    assert p.sample(7, seed=1).shape == (7, 5)
    lower, upper = p.interval(0.8)
    np.testing.assert_array_equal([lower, upper], p.quantile([0.1, 0.9]))
    assert p.mean is p.mean  # computed once
    np.testing.assert_allclose(p.std**2, p.var)


@every_likelihood
def test_samples_agree_with_everything_else(likelihood):
    p = predictive(likelihood)
    draws = p.sample(40_000, seed=0)
    error = p.std / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - p.mean) < 5 * error)
    np.testing.assert_allclose(draws.var(0), p.var, rtol=0.15)
    for y in (0.0, 1.0, 3.0):
        np.testing.assert_allclose((draws <= y).mean(0), p.cdf(np.full(5, y)), atol=0.015)
    lower, upper = p.interval(0.9)
    assert np.all(((draws >= lower) & (draws <= upper)).mean(0) > 0.89)


@every_likelihood
def test_samples_repeat_with_a_seed(likelihood):
    p = predictive(likelihood)
    np.testing.assert_array_equal(p.sample(3, seed=5), p.sample(3, seed=5))
    np.testing.assert_array_equal(p.sample(3, seed=np.random.default_rng(5)), p.sample(3, seed=5))


def test_log_prob_of_lognormal_is_a_density_of_y():
    p = Predictive(LogNormal(0.2), [0.3], [0.5])
    np.testing.assert_allclose(p.log_prob([2.0]), stats.lognorm(np.sqrt(0.7), scale=np.exp(0.3)).logpdf(2.0))


def test_exposure_multiplies_the_mean():
    one, many = Predictive(Poisson(), [0.2], [0.1]), Predictive(Poisson(), [0.2], [0.1], {"exposure": 5.0})
    np.testing.assert_allclose(many.mean, 5.0 * one.mean)


def with_joint(likelihood, n=5):
    """Rows that share one standard normal, each with a shift of its own."""
    p = predictive(likelihood, n)
    shared = lambda draws, rng: p.latent_mean[:, None] + rng.standard_normal((1, draws))  # noqa: E731
    return Predictive(likelihood, p.latent_mean, np.ones(n), p.row, shared)


@every_likelihood
def test_joint_draws(likelihood, monkeypatch):
    p = with_joint(likelihood)
    f, y = p.joint_latent_sample(300, seed=3), p.joint_sample(300, seed=3)
    assert f.shape == y.shape == (300, 5)
    np.testing.assert_allclose(np.diff(f, axis=1), np.broadcast_to(np.diff(p.latent_mean), (300, 4)), atol=1e-12)
    np.testing.assert_array_equal(y, p.joint_sample(300, seed=np.random.default_rng(3)))
    weights = np.arange(5.0)
    np.testing.assert_allclose(p.total(weights, n=300, seed=3).draws, y @ weights, rtol=1e-12)
    np.testing.assert_allclose(p.total(n=300, seed=3).draws, y.sum(axis=1), rtol=1e-12)
    # a few draws and a few rows at a time
    monkeypatch.setattr("npvi.predictive.base._LATENT", 5 * 7)
    monkeypatch.setattr("npvi.predictive.base._RESPONSES", 7 * 2)
    many = p.joint_sample(20_000, seed=3)
    np.testing.assert_allclose(many.mean(axis=0), p.mean, atol=5.0 * p.std.max() / np.sqrt(20_000))
    np.testing.assert_allclose(p.total(weights, n=50, seed=3).draws, p.joint_sample(50, seed=3) @ weights, rtol=1e-12)


def test_total():
    total = with_joint(Gaussian(0.3)).total(np.full(5, 0.2), level=0.8, n=20_000, seed=0)  # N(0, 1 + 0.3/5)
    assert total.mean == pytest.approx(0.0, abs=0.04)
    assert total.std == pytest.approx(np.sqrt(1.06), rel=0.03)
    np.testing.assert_allclose(total.interval(), stats.norm(0.0, np.sqrt(1.06)).ppf([0.1, 0.9]), atol=0.06)
    assert total.interval(0.5) == (total.quantile(0.25), total.quantile(0.75))
    assert total.quantile([0.1, 0.9]).tolist() == list(total.interval())
    assert "80 % from" in repr(total)
    counts = with_joint(Poisson()).total(n=100, seed=0)
    assert all(end == round(end) for end in counts.interval())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.quantile(1.5), "q must be a number from 0 to 1.*1.5"),
        (lambda p: p.quantile([0.1, np.nan]), "q must be"),
        (lambda p: p.quantile(np.ones((2, 2))), "q must be"),
        (lambda p: p.interval(90), "level must be between 0 and 1, got 90"),
        (lambda p: p.log_prob([1.0, 2.0]), r"y must have one number per row, 5 in all; got shape \(2,\)"),
        (lambda p: p.log_prob([1, 2, 3, 4, 0.5]), "1 of 5 rows cannot be Poisson .*row 4: 0.5"),
        (lambda p: p.cdf(np.ones((5, 1))), "one number per row"),
        (lambda p: p.joint_sample(), "joint draws need `joint`.*predict_dist"),
        (lambda p: p.joint_latent_sample(), "joint draws need `joint`"),
        (lambda p: p.total(), "joint draws need `joint`"),
        (lambda p: p.joint_sample(0), "n must be a whole number of at least 1, got 0"),
        (
            lambda p: p.total(weights=np.ones(4)),
            r"weights must be one finite number per row, 5 in all; got shape \(4,\)",
        ),
        (lambda p: p.total(weights=[1, 2, 3, 4, np.nan]), "weights must be one finite number.*got NaN"),
        (lambda p: p.total(level=90), "level must be between 0 and 1, got 90"),
        (lambda p: Total(np.ones(3)).interval(90), "level must be between 0 and 1, got 90"),
        (lambda p: Predictive(Poisson(), np.ones(2), np.ones(3)), "must have one number per row"),
        (lambda p: Predictive(Gaussian(), np.ones(2), np.ones(2), {"exposure": 1.0}), "takes no exposure"),
        (lambda p: Predictive(Gaussian(), np.ones(2), -np.ones(2)), "latent_var must not be negative"),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call(predictive(Poisson()))


def test_many_rows():
    n = 2**15
    p = Predictive(Bernoulli(), np.linspace(-3, 3, n), np.full(n, 0.5))
    assert p.log_prob(np.ones(n)).shape == (n,)
    np.testing.assert_allclose(np.exp(p.log_prob(np.ones(n))), p.mean, rtol=1e-8)
    assert repr(p) == "Predictive(Bernoulli(), 32768 rows)"


def test_means_beyond_all_numbers_are_said():
    model = GPRegressor("gamma", kernel=kernels.Matern32(0.3, 1e8), learn=False, nugget=0.1)
    X, y = np.random.default_rng(0).uniform(size=(20, 2)), np.arange(1.0, 21.0)
    with pytest.warns(UserWarning, match="expects a sum"):
        dist = model.fit(X, y).predict_dist(X[:3] + 5.0)
    with pytest.warns(UserWarning, match="beyond all numbers in 3 of 3 rows .*smaller variance"):
        assert np.isinf(dist.mean).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(dist.quantile(0.5)).all()
        assert not np.isnan(dist.sample(5, seed=0)).any()


@pytest.mark.filterwarnings("error")
def test_the_whole_line_holds_a_mixture_of_normals():
    from npvi.predictive import MixturePredictive

    mixed = MixturePredictive([Predictive(Gaussian(0.1), [0.0], [v]) for v in (1.0, 2.0)], [0.5, 0.5])
    lower, upper = mixed.latent_interval(1.0)
    assert lower[0] == -np.inf
    assert upper[0] == np.inf
