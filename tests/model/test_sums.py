"""Whether a model expects what was seen in its own training rows, and says so where it doesn't."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

import npvi
from npvi import likelihoods
from npvi.kernels import Matern32
from npvi.model import warn_about_sums

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(150, 2))
F = np.sin(5.0 * X[:, 0])


def fitted(likelihood, y, **row):
    model = npvi.GPRegressor(likelihood, Matern32(0.5), nugget=0.1, learn=False, n_neighbors=10)
    return model.fit(X, y, **row)


def by_quadrature(model, mean_at):
    """E over f ~ N(m, v) with the trend's part added densely, row by row."""
    along = model.basis_ + model.trend_.sensitivity
    v = model.posterior_.variance + np.diag(along @ model.trend_.covariance @ along.T)

    def one(m, s, i):
        return integrate.quad(lambda z: mean_at(m + s * z, i) * stats.norm.pdf(z), -9.0, 9.0, epsabs=1e-10)[0]

    return np.array([one(m, s, i) for i, (m, s) in enumerate(zip(model.posterior_.mean, np.sqrt(v)))])


def test_counts_with_exposure_and_weights():
    exposure, weight = RNG.uniform(0.5, 3.0, 150), RNG.integers(0, 3, 150).astype(float)
    y = RNG.poisson(exposure * np.exp(F)).astype(float)
    model = fitted(likelihoods.Poisson("softplus"), y, exposure=exposure, sample_weight=weight)
    order = model.graph_.order
    info = model.fit_info_
    assert info["sum_seen"] == pytest.approx(weight @ y)
    means = by_quadrature(model, lambda f, i: exposure[order][i] * np.logaddexp(0.0, f))
    assert info["sum_expected"] == pytest.approx(weight[order] @ means, rel=1e-6)
    rate = exposure[order] * np.logaddexp(0.0, model.posterior_.mean)
    noise = np.maximum.reduce([rate, (y[order] - rate) ** 2, means])
    assert info["sum_error"] == pytest.approx(np.sqrt(weight[order] ** 2 @ noise), rel=1e-6)
    assert info["sum_expected"] == pytest.approx(info["sum_seen"], rel=0.05)


def test_trials_and_labels():
    trials = RNG.integers(1, 9, 150).astype(float)
    y = RNG.binomial(trials.astype(int), special.expit(F)).astype(float)
    model = fitted("binomial", y, trials=trials)
    means = by_quadrature(model, lambda f, i: trials[model.graph_.order][i] * special.expit(f))
    assert model.fit_info_["sum_seen"] == y.sum()
    assert model.fit_info_["sum_expected"] == pytest.approx(means.sum(), rel=1e-6)
    labels = np.digitize(F + 0.5 * RNG.standard_normal(150), [-0.5, 0.5])
    info = npvi.GPClassifier(kernel=Matern32(0.5), nugget=0.1, learn=False, n_neighbors=10).fit(X, labels).fit_info_
    assert info["sum_seen"] == np.bincount(labels).tolist()
    np.testing.assert_allclose(info["sum_expected"], info["sum_seen"], rtol=0.1)
    assert np.sum(info["sum_expected"]) == pytest.approx(150.0)


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("gaussian", F + 3.0),
        ("student_t", F + 3.0 + 0.1 * RNG.standard_t(5.0, 150)),
        ("laplace", F + 3.0 + 0.1 * RNG.laplace(size=150)),
        ("lognormal", np.exp(F + 0.3 * RNG.standard_normal(150))),
        ("gamma", np.exp(F) * RNG.gamma(3.0, 1 / 3.0, 150)),
        ("exponential", np.exp(F) * RNG.exponential(size=150)),
        ("weibull", np.exp(F) * RNG.weibull(2.0, 150)),
        ("poisson", RNG.poisson(np.exp(F)).astype(float)),
        ("negative_binomial", RNG.poisson(np.exp(F) * RNG.gamma(2.0, 0.5, 150)).astype(float)),
        ("zero_inflated_poisson", RNG.poisson(np.exp(F + 1.0)) * RNG.binomial(1, 0.7, 150).astype(float)),
        ("tweedie", RNG.poisson(np.exp(F)) * RNG.gamma(2.0, 0.5, 150)),
        ("bernoulli", RNG.binomial(1, special.expit(F)).astype(float)),
        ("beta", RNG.beta(5.0 * special.expit(F), 5.0 * special.expit(-F)).clip(1e-3, 1 - 1e-3)),
    ],
)
def test_learned_fits_expect_what_was_seen(name, y):
    info = npvi.GPRegressor(name, n_neighbors=10).fit(X, y).fit_info_  # without a warning
    assert info["sum_seen"] == pytest.approx(y.sum())
    assert abs(info["sum_expected"] - y.sum()) < max(0.15 * y.sum(), 4.0 * info["sum_error"])


def test_censored_rows_are_left_out():
    y, censored = F + 3.0, (F > 0.8).astype(float)
    model = fitted(likelihoods.CensoredGaussian(0.1), np.minimum(y, 3.8), censored=censored)
    assert model.fit_info_["sum_seen"] == pytest.approx(y[censored == 0.0].sum())
    model = npvi.GPRegressor(likelihoods.CensoredGaussian(0.1), Matern32(0.5), mean="zero", learn=False, n_neighbors=10)
    assert "sum_seen" not in model.fit(X, y, censored=np.ones(150)).fit_info_


def test_warns_where_the_sum_is_off():
    """A process without the variance to follow the data, and no constant."""
    settings = {"mean": "zero", "learn": False, "n_neighbors": 10}
    model = npvi.GPRegressor(likelihoods.Gaussian(0.1), Matern32(0.5, 1e-4), nugget=1e-6, **settings)
    expected = r"expects a sum of .* over its own training rows, where .* was seen \(standard error 36\): means and"
    with pytest.warns(UserWarning, match=expected):
        model.fit(X, F + 3.0)
    with pytest.warns(UserWarning, match="expects a sum of"):
        model.update(X[:1] + 0.01, F[:1] + 3.0)
    info = dict(model.fit_info_)
    assert info["sum_expected"] < 0.85 * info["sum_seen"]
    model.fit_info_["converged"] = False  # of which another warning has told
    warn_about_sums(model.fitted_)
    near = {"sum_expected": 1.1 * info["sum_seen"], "sum_error": 0.0}
    unsure = {"sum_expected": 2.0 * info["sum_seen"], "sum_error": info["sum_seen"]}
    for fine in (near, unsure, {"sum_expected": np.inf, "sum_error": np.inf}, {"sum_expected": np.nan}):
        warn_about_sums(replace(model.fitted_, info=info | fine))
    labels = npvi.GPClassifier(kernel=Matern32(0.5), learn=False, n_neighbors=10).fit(
        X, np.array(list("abc"))[np.arange(150) % 3]
    )
    labels.fit_info_["sum_expected"][1] = 100.0
    with pytest.warns(UserWarning, match="sum of 100 over its own training rows, where 50 was seen of label b "):
        warn_about_sums(labels.fitted_, labels.classes_)


def test_outliers_are_no_reason_to_warn():
    y = F + 3.0
    y[::30] -= 200.0
    info = fitted(likelihoods.StudentT(4.0), y).fit_info_
    assert info["sum_seen"] < 0.0 < 400.0 < info["sum_expected"]


def test_warns_where_one_mean_explodes():
    """All rows as they should be but one, whose f is as good as unknown."""
    model = fitted("poisson", RNG.poisson(np.exp(F)).astype(float))
    model.posterior_.variance[3] = 30.0
    model.posterior_.mean[3] = 1.0
    model.fit_info_.update(model.fitted_.sums())
    with pytest.warns(UserWarning, match="expects a sum of"):
        warn_about_sums(model.fitted_)


def test_saved_with_the_model(tmp_path):
    model = fitted("poisson", RNG.poisson(np.exp(F)).astype(float))
    model.save(tmp_path / "m.npvi")
    again = npvi.load(tmp_path / "m.npvi")
    assert again.fit_info_["sum_expected"] == model.fit_info_["sum_expected"]
    assert again.fitted_.sums()["sum_expected"] == pytest.approx(model.fit_info_["sum_expected"])
