"""Two models with a say each: the mixture against its definition, and where a fit makes one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import npvi
from npvi.diagnostics.scores import crps
from npvi.learning.learner import stacking
from npvi.likelihoods import (
    Beta,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    StudentT,
    Tweedie,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from npvi.predictive.base import Predictive
from npvi.predictive.calibration import gaussian_crps
from npvi.predictive.mixture import MixturePredictive

WEIGHT = 0.3


def gaussians():
    m = np.linspace(-2.0, 2.0, 7)
    return Predictive(Gaussian(0.5), m, np.full(7, 0.5)), Predictive(Gaussian(4.0), m + 1.0, np.full(7, 5.0))


def test_density_and_distribution_function_are_weighted_sums():
    y = np.linspace(-6.0, 6.0, 7)
    first, second = gaussians()
    mixed = MixturePredictive([first, second], [1.0 - WEIGHT, WEIGHT])
    one, other = stats.norm(first.latent_mean, 1.0), stats.norm(second.latent_mean, 3.0)
    np.testing.assert_allclose(mixed.log_prob(y), np.log(0.7 * one.pdf(y) + 0.3 * other.pdf(y)), rtol=1e-9)
    np.testing.assert_allclose(mixed.cdf(y), 0.7 * one.cdf(y) + 0.3 * other.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(mixed.mean, 0.7 * one.mean() + 0.3 * other.mean())
    np.testing.assert_allclose(mixed.var, 0.7 + 0.3 * 9.0 + 0.7 * 0.3 * 1.0)


@pytest.mark.parametrize("q", [0.01, 0.25, 0.5, 0.95])
@pytest.mark.parametrize("likelihood", [Gaussian(0.5), Gamma(3.0), Poisson()], ids=lambda one: type(one).__name__)
def test_quantiles_invert_the_distribution_function(likelihood, q):
    m = np.linspace(-1.0, 3.0, 9)
    first = Predictive(likelihood, m, np.full(9, 0.1))
    mixed = MixturePredictive([first, Predictive(likelihood, m - 0.5, np.full(9, 1.5))], [1.0 - WEIGHT, WEIGHT])
    found = mixed.quantile(q)
    if likelihood.support.discrete:
        assert np.all(mixed.cdf(found) >= q)
        assert np.all(mixed.cdf(found - 1.0) < q)
    else:
        np.testing.assert_allclose(mixed.cdf(found), q, atol=1e-7)


@pytest.mark.parametrize("likelihood", [StudentT(0.3), Beta(7.0), Tweedie(), ZeroInflatedPoisson(0.3)], ids=repr)
def test_quantiles_of_nested_mixtures(likelihood):
    m = np.linspace(-1.0, 2.0, 5)
    parts = [Predictive(likelihood, m + shift, np.full(5, v)) for shift, v in ((0.0, 0.1), (-1.0, 1.0), (2.0, 0.0))]
    mixed = MixturePredictive([MixturePredictive(parts[:2], [0.4, 0.6]), parts[2]], [0.9, 0.1])
    for q in (0.0, 0.05, 0.95, 1.0):
        found = mixed.quantile(q)
        if q in (0.0, 1.0):
            np.testing.assert_array_equal(found, likelihood.support.lower if q == 0.0 else likelihood.support.upper)
        elif likelihood.support.discrete:
            assert np.all((mixed.cdf(found) >= q) & (mixed.cdf(found - 1.0) < q))
        else:
            at = mixed.cdf(found)
            np.testing.assert_allclose(np.where(found == likelihood.support.atom, q, at), q, atol=1e-9)


def models_around_one(likelihood, rows=30, parts=20):
    """Means and variances as models around the best one have them, and noise of its own for each where `likelihood`
    makes it; a few parts are far off, next to certain, or next to impossible."""
    rng = np.random.default_rng(4)
    m, v = rng.normal(0.5, 1.0, rows), 10.0 ** rng.uniform(-2.5, 0.3, rows)
    means = m + np.sqrt(v) * rng.normal(0.0, 0.3, (parts, rows))
    variances = v * np.exp(rng.normal(0.0, 0.3, (parts, rows)))
    weights = rng.dirichlet(np.full(parts, 2.0))
    means[1, :5] += 4.0
    variances[2, 5:10], variances[3, 10:15] = 0.0, 1e-9
    variances[4, 15:20] *= 30.0
    weights[5] = 1e-14
    means[5] -= 3.0
    weights[6] = 0.0
    made = [likelihood(scale) for scale in np.exp(rng.normal(0.0, 0.2, parts))]
    each = [Predictive(*one) for one in zip(made, means, variances)]
    return MixturePredictive(each, weights / weights.sum())


OF_MANY = {
    "one Poisson": lambda _: Poisson(),
    "one binomial": lambda _: Binomial("probit"),
    "one exponential": lambda _: Exponential(),
    "counts": lambda scale: NegativeBinomial(1.5 * scale),
    "zeros": lambda scale: ZeroInflatedNegativeBinomial(0.5, 0.3 * scale),
    "zeros beside one Poisson": lambda scale: HurdlePoisson(0.3 * scale, "softplus"),
    "amounts": lambda scale: Gamma(2.0 * scale),
    "shares": lambda scale: Beta(8.0 * scale),
    "errors": lambda scale: StudentT(0.3 * scale, 2.0 + 2.0 * scale),
    "noise": lambda scale: Gaussian(0.1 * scale),
}


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", OF_MANY)
def test_quantiles_of_many_models(name, q):
    mixed = models_around_one(OF_MANY[name])
    found = mixed.quantile(q)
    if mixed.likelihood.support.discrete:
        assert np.all((mixed.cdf(found) >= q - 1e-11) & (mixed.cdf(found - 1.0) < q + 1e-11))
    else:
        ends = (found < 1e-290) | (found > 1.0 - 1e-6) if name == "shares" else np.zeros(len(found), dtype=bool)
        assert ends.sum() < 15  # nearer to 0 and 1 than numbers can be
        np.testing.assert_allclose(mixed.cdf(found)[~ends], q, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", ["amounts", "errors", "noise", "one exponential"])
def test_quantiles_of_many_models_are_scipys_roots(name, q):
    mixed = models_around_one(OF_MANY[name], rows=4)
    low, high = (-200.0, 200.0) if mixed.likelihood.support.lower < 0.0 else (-40.0, 8.0)
    y_of = (lambda x: x) if mixed.likelihood.support.lower < 0.0 else np.exp
    for k, found in enumerate(mixed.quantile(q)):
        root = optimize.brentq(lambda x, k=k: mixed.cdf(np.full(4, y_of(x)))[k] - q, low, high, xtol=1e-13, rtol=1e-13)
        assert found == pytest.approx(y_of(root), rel=1e-6)


def test_rows_are_the_same_in_pieces():
    """Data per row, and more rows than are taken at a time."""
    n = 10_000
    m, exposure = np.linspace(-1.0, 2.0, n), np.linspace(0.5, 5.0, n)
    parts = [Predictive(Poisson(), m + shift, np.full(n, 0.3), {"exposure": exposure}) for shift in (0.0, 0.4)]
    some = [Predictive(Poisson(), m[-7:] + shift, np.full(7, 0.3), {"exposure": exposure[-7:]}) for shift in (0.0, 0.4)]
    whole, few = (MixturePredictive(each, [0.5, 0.5]).quantile(0.9) for each in (parts, some))
    np.testing.assert_array_equal(whole[-7:], few)


def test_draws_come_from_both():
    first, second = gaussians()
    mixed = MixturePredictive([first, second], [1.0 - WEIGHT, WEIGHT])
    y = mixed.sample(40_000, seed=1)
    np.testing.assert_allclose(y.mean(axis=0), mixed.mean, atol=5 * np.sqrt(mixed.var.max() / 40_000))
    np.testing.assert_allclose(y.var(axis=0), mixed.var, rtol=0.06)
    assert stats.kstest(y[:, 3], lambda x: np.array([mixed.cdf(np.full(7, v))[3] for v in x]), N=400).pvalue > 1e-4


def test_the_crps_of_a_mixture_is_not_that_of_one_gaussian():
    narrow, wide = (Predictive(Gaussian(variance), np.zeros(1), np.zeros(1)) for variance in (1e-4, 100.0))
    mixed = MixturePredictive([narrow, wide], [0.5, 0.5])
    line = np.linspace(-60.0, 60.0, 40_001)
    below = 0.5 * stats.norm(0.0, 0.01).cdf(line) + 0.5 * stats.norm(0.0, 10.0).cdf(line)
    exact = np.trapezoid((below - (line >= 0.0)) ** 2, line)
    assert crps(mixed, np.zeros(1), draws=20_000)[0] == pytest.approx(exact, rel=0.05)
    assert gaussian_crps(mixed, np.zeros(1))[0] == pytest.approx(exact, rel=1e-3)


def test_what_cannot_be_mixed_is_refused():
    first, _ = gaussians()
    with pytest.raises(ValueError, match="same rows"):
        MixturePredictive([first, Predictive(Gaussian(), [0.0], [1.0])], [0.5, 0.5])
    for weights in ([1.5, -0.5], [0.5, 0.4], [1.0]):
        with pytest.raises(ValueError, match="2 numbers that sum to 1"):
            MixturePredictive([first, first], weights)


def test_the_weight_is_that_of_the_best_mixture():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(4000) < 0.25, rng.normal(3.0, 1.0, 4000), rng.normal(0.0, 1.0, 4000))
    found = stacking(stats.norm(0.0).logpdf(y), stats.norm(3.0).logpdf(y))
    assert found.weight == pytest.approx(0.25, abs=0.03)
    mixed = np.log(0.75 * stats.norm(0.0).pdf(y) + 0.25 * stats.norm(3.0).pdf(y))
    assert found.gain == pytest.approx(mixed.mean() - stats.norm(0.0).logpdf(y).mean(), abs=1e-3)


@pytest.fixture(scope="module")
def with_errors():
    """A rough surface; one observation in fifty is grossly wrong, which a single Gaussian noise can't say."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(1800, 2))
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))
    f = np.linalg.cholesky(np.exp(-distance / 0.5) + 1e-8 * np.eye(1800)) @ rng.standard_normal(1800)
    y = f + 0.05 * rng.standard_normal(1800)
    return X, y + np.where(rng.random(1800) < 0.02, rng.normal(0.0, 1.0, 1800), 0.0)


@pytest.fixture(scope="module")
def fitted(with_errors):
    X, y = with_errors
    return npvi.GPRegressor(n_neighbors=10).fit(X[:1200], y[:1200])


def test_a_fit_mixes_where_that_predicts_better(fitted, with_errors):
    X, y = with_errors
    assert fitted.companion_ is not None
    assert 0.02 < fitted.companion_weight_ <= 0.5
    assert fitted.companion_.kernel_.smoothness != fitted.kernel_.smoothness
    dist = fitted.predict_dist(X[1200:])
    alone = [part.log_prob(y[1200:]).mean() for part in dist.parts]
    assert dist.log_prob(y[1200:]).mean() > max(alone)
    assert fitted.log_score(X[1200:], y[1200:]) == pytest.approx(dist.log_prob(y[1200:]).mean())


def test_both_parts_are_the_same_whatever_the_order_of_the_rows(fitted, with_errors):
    X, y = with_errors
    p = np.random.default_rng(0).permutation(1200)
    other = npvi.GPRegressor(n_neighbors=10).fit(X[p], y[p])
    assert other.companion_weight_ == fitted.companion_weight_
    for one, again in zip(fitted.predict_dist(X[1200:]).parts, other.predict_dist(X[1200:]).parts):
        np.testing.assert_array_equal(again.latent_mean, one.latent_mean)
        np.testing.assert_array_equal(again.latent_var, one.latent_var)


def test_surfaces_come_from_one_part_each(fitted, with_errors):
    X, _ = with_errors
    dist = fitted.predict_dist(X[1200:])
    f = dist.joint_latent_sample(400, seed=0)
    assert f.shape == (400, 600)
    np.testing.assert_allclose(f.mean(axis=0), dist.latent_mean, atol=6 * np.sqrt(dist.latent_var.max() / 400))
    assert dist.joint_sample(5, seed=0).shape == (5, 600)
    total = dist.total(seed=0)
    assert abs(total.mean - dist.mean.sum()) < 6 * total.std / np.sqrt(500)


def test_a_mixture_is_saved_updated_and_fitted_anew(fitted, with_errors, tmp_path):
    X, y = with_errors
    fitted.save(tmp_path / "both.npvi")
    again = npvi.load(tmp_path / "both.npvi")
    new = X[1200:]
    np.testing.assert_array_equal(again.predict_dist(new).cdf(y[1200:]), fitted.predict_dist(new).cdf(y[1200:]))
    before = again.companion_.graph_.n_points
    again.update(X[1200:1500], y[1200:1500])
    assert again.companion_.graph_.n_points == before + 300 == again.graph_.n_points
    again.set_params(kernel="rbf", hyper="plug-in").fit(X[:300], y[:300])
    assert again.companion_ is None
    assert not isinstance(again.predict_dist(new), MixturePredictive)


def test_where_one_is_right_there_is_one(with_errors):
    X, _ = with_errors
    y = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) + 0.1 * np.random.default_rng(0).standard_normal(len(X))
    assert npvi.GPRegressor(kernel="matern32", n_neighbors=10).fit(X[:800], y[:800]).companion_ is None
