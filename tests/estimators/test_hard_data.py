"""Data that have no best model, or only just: separable labels, no events at all, levels that were never seen."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import npvi
from npvi.likelihoods import Bernoulli, Ordinal


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).uniform(size=(1200, 2))


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_labels_that_a_line_separates(X, link):
    y = X[:200, 0] > 0.5
    model = npvi.GPClassifier(Bernoulli(link=link), n_neighbors=10).fit(X[:200], y)
    assert model.fit_info_["converged"]
    assert 1.0 < model.kernel_.variance <= 50.0 + 1e-6
    right = model.predict(X[400:]) == (X[400:, 0] > 0.5)
    assert right.mean() > 0.97
    # at the border nobody knows
    assert 0.2 < model.predict_proba([[0.5, 0.5]])[0, 1] < 0.8


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "zero_inflated_poisson"])
def test_counts_that_are_all_zero(X, likelihood):
    with pytest.warns(UserWarning, match="all counts are 0"):
        model = npvi.GPRegressor(likelihood).fit(X, np.zeros(len(X)))
    assert model.fit_info_["converged"]
    dist = model.predict_dist(X[:5])
    # nearly nothing; where zeros are nine tenths inflation they say the less about the rest
    assert np.all((dist.mean > 0.0) & (dist.mean < 0.1))
    assert np.all(np.isfinite(dist.latent_var))


@pytest.mark.parametrize("estimator", [npvi.GPRegressor("poisson"), npvi.GPClassifier()], ids=["counts", "labels"])
def test_a_single_event(X, estimator):
    y = np.zeros(len(X))
    y[7] = 1.0
    model = estimator.fit(X, y)
    assert model.fit_info_["converged"]
    assert model.predict_dist(X).mean.sum() == pytest.approx(1.0, rel=0.02)


def test_levels_that_were_never_seen(X):
    y = np.digitize(X[:300, 0], [0.3, 0.6])
    model = npvi.GPRegressor(Ordinal(cuts=[-0.5, 0.5]), mean="zero", n_neighbors=10, learn=False).fit(X[:300], y)
    with pytest.raises(ValueError, match="cannot be Ordinal"):
        model.log_score(X[300:302], [1, 3])
    with pytest.raises(ValueError, match="cannot be Ordinal"):
        model.update(X[300:302], [1, 3])
    labels = npvi.GPClassifier(learn=False, n_neighbors=10).fit(X[:300], np.where(y > 0, "wet", "dry"))
    with pytest.raises(ValueError, match=r"weren't in the training data.*'damp'"):
        labels.update(X[300:302], ["wet", "damp"])


@pytest.mark.parametrize("likelihood", ["bernoulli", "binomial", "beta_binomial"])
@pytest.mark.parametrize("trials", [None, 7])
def test_ones_are_the_mirror_image_of_zeros(X, likelihood, trials):
    if likelihood == "bernoulli" and trials:
        return
    row = {} if trials is None else {"trials": np.full(40, trials)}
    some = np.random.default_rng(1).integers(0, (trials or 1) + 1, size=40)
    alike = "all labels are the same" if likelihood == "bernoulli" else "no trial succeeded, or all did"
    for y in (np.zeros(40), some):
        warns = pytest.warns(UserWarning, match=alike) if not y.any() else nullcontext()
        with warns:
            zeros = npvi.GPRegressor(likelihood, learn=False, nugget=0.1).fit(X[:40], y, **row)
        with pytest.warns(UserWarning, match=alike) if not y.any() else nullcontext():
            ones = npvi.GPRegressor(likelihood, learn=False, nugget=0.1).fit(X[:40], (trials or 1) - y, **row)
        new = {} if trials is None else {"trials": trials}
        low, high = zeros.predict_dist(X[40:60], **new), ones.predict_dist(X[40:60], **new)
        np.testing.assert_allclose(low.mean, (trials or 1) - high.mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(low.std, high.std, rtol=1e-6)
        np.testing.assert_allclose(low.latent_mean, -high.latent_mean, rtol=1e-6, atol=1e-6)
        assert zeros.elbo_ == pytest.approx(ones.elbo_, abs=1e-6)


@pytest.mark.parametrize(("likelihood", "alike"), [("tweedie", "responses"), ("hurdle_poisson", "counts")])
def test_amounts_that_are_all_zero(X, likelihood, alike):
    with pytest.warns(UserWarning, match=f"all {alike} are 0: how rare"):
        model = npvi.GPRegressor(likelihood).fit(X[:40], np.zeros(40))
    assert model.fit_info_["converged"]
    dist = model.predict_dist(X[:5])
    assert np.all((dist.mean > 1e-6) & (dist.mean < 0.1))
    assert np.all(dist.std < 1.0)


@pytest.mark.filterwarnings("ignore")
def test_no_posterior_that_predicts_infinity(X):
    y = np.random.default_rng(0).poisson(3, size=40)
    model = npvi.GPRegressor("poisson", learn=False, nugget=1e12)
    with pytest.raises(ValueError, match="no usable posterior"):
        model.fit(X[:40], y)
    assert not hasattr(model, "posterior_")


@pytest.mark.parametrize("likelihood", ["zero_inflated_negative_binomial", "negative_binomial"])
@pytest.mark.parametrize("count", [5.0, 1e6])
def test_one_count_among_zeros(X, likelihood, count):
    """Dispersion and inflation say that next to nothing is known of the mean; it is finite."""
    y = count * (np.arange(40) == 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = npvi.GPRegressor(likelihood, hyper="plug-in").fit(X[:40], y)
    dist = model.predict_dist(X[40:60])
    assert np.isfinite([dist.mean, dist.std]).all()
    assert np.all(dist.quantile(0.5) <= count)
    assert all(warning.category is UserWarning for warning in said)


@pytest.mark.parametrize(
    "likelihood", ["negative_binomial", "zero_inflated_negative_binomial", "zero_inflated_poisson"]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_one_count_is_no_hundred(likelihood, seed):
    """A shape that makes zeros of any rate was as likely as any other, and expected up to 148 where 5 were seen."""
    X, y = np.random.default_rng(seed).uniform(size=(40, 2)), 5.0 * (np.arange(40) == 3)
    assert 2.0 < npvi.GPRegressor(likelihood).fit(X, y).predict(X).sum() < 12.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_counts_of_another_size(X):
    """A fit of a minute and more once: E log p was found in steps that whole counts ask for, and what it was off by in
    its twelfth digit was thousands of nats."""
    for seed in (2, 3):
        y = 1e15 * np.random.default_rng(seed).poisson(3, size=40)
        model = npvi.GPRegressor("negative_binomial").fit(X[:40], y)
        assert model.fit_info_["converged"]
        assert -2000.0 < min(model.fit_info_["learning"]["objective"]) <= model.elbo_ < -1300.0
        assert 0.2 < model.predict(X[40:60]).mean() / y.mean() < 5.0


def test_numbers_without_squares_are_refused(X):
    with pytest.raises(ValueError, match=r"y: 40 of 40 rows are beyond .*divide y"):
        npvi.GPRegressor(learn=False).fit(X[:40], np.full(40, 1e160))
    with pytest.raises(ValueError, match="coefficient_scale must be"):
        npvi.GPRegressor(coords=[0], coefficient_scale=1e-300).fit(X[:40], X[:40, 1])


@pytest.mark.filterwarnings("error")
def test_far_from_zero(X):
    y = np.sin(5.0 * X[:300, 0]) + 0.1 * np.random.default_rng(0).normal(size=300)
    near, far = (npvi.GPRegressor(learn=False, nugget=0.1).fit(X[:300], y + shift) for shift in (0.0, 1e8))
    assert far.fit_info_["converged"]
    np.testing.assert_allclose(far.predict(X[300:]) - 1e8, near.predict(X[300:]), atol=1e-5)


def test_one_large_count_and_few_neighbours(X):
    y = np.zeros(40)
    y[3] = 50.0
    model = npvi.GPRegressor("negative_binomial", n_neighbors=5).fit(X[:40], y)
    assert np.isfinite(model.predict(X[:40])).all()


def test_shares_at_both_ends(X):
    y = np.resize([1e-300, 1.0 - 1e-16, 0.5, 0.3], 40)
    model = npvi.GPRegressor("beta").fit(X[:40], y)
    dist = model.predict_dist(X[40:60])
    assert model.fit_info_["converged"]
    assert np.all((dist.mean > 0.05) & (dist.mean < 0.95))
    # as far as learning begins from, integrals over f take a tenth of the nodes that logit(1e-300) would ask for
    assert np.abs(npvi.likelihoods.Beta().initial_latent(y)).max() < 20.0


def test_limits_on_one_side_only(X):
    y, beyond = np.sin(5.0 * X[:, 0]), np.ones(len(X))
    with pytest.raises(ValueError, match=r"censored is the same in every row.*observed \(censored=0\)"):
        npvi.GPRegressor("censored_gaussian").fit(X, y, censored=beyond)


def test_one_amount_among_forty_limits(X):
    X, y, below = X[:40], np.random.default_rng(1).standard_normal(40), -np.ones(40)
    below[0] = 0.0
    model = npvi.GPRegressor("censored_lognormal", hyper="integrate").fit(X, np.exp(y), censored=below)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("scale", [1e-6, 1e-9])
def test_numbers_that_hardly_vary(X, scale):
    noise = np.random.default_rng(0).standard_normal(40)
    y = 5.0 + scale * noise
    near, plain = (npvi.GPRegressor(random_state=0).fit(X[:40], z) for z in (y, (y - 5.0) / scale))
    assert near.fit_info_["converged"]
    mine, other = near.predict_dist(X[40:60]), plain.predict_dist(X[40:60])
    last_places = 1e-15 / scale  # of 5, in units of y's own
    np.testing.assert_allclose((mine.mean - 5.0) / scale, other.mean, atol=1e-6 + 10.0 * last_places)
    np.testing.assert_allclose(mine.std / scale, other.std, rtol=1e-6 + 10.0 * last_places)
    # a flat prior of the mean has a density, too
    assert near.elbo_ == pytest.approx(plain.elbo_ - 39 * np.log(scale), abs=1e-3)


def test_numbers_that_vary_by_rounding_only(X):
    y = np.full(40, 5.0)
    y[3] = np.nextafter(5.0, 6.0)
    with pytest.warns(UserWarning, match="y is 5 in every row but for rounding"):
        model = npvi.GPRegressor().fit(X[:40], y)
    assert model.fit_info_["converged"]
    assert 0.0 < model.elbo_ < 1e4
    np.testing.assert_allclose(model.predict(X[40:60]), 5.0)


def test_one_number_that_is_far_beyond_the_others(X):
    y = np.random.default_rng(0).standard_normal(40)
    y[0] = 1e12
    model = npvi.GPRegressor("student_t").fit(X[:40], y)
    assert model.fit_info_["converged"]
    assert np.abs(model.predict(X[40:60])).max() < 2.0
    assert model.elbo_ > -300.0


@pytest.mark.parametrize(
    ("likelihood", "parameter"),
    {"gaussian": "variance", "laplace": "scale", "student_t": "scale", "censored_gaussian": "variance"}.items(),
)
def test_rows_that_count_three_times_say_that_there_is_no_noise(X, likelihood, parameter):
    """The bound has no end there; learning goes down to noise that is as good as none, and no further."""
    y = np.sin(5.0 * X[:30, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    row = {"censored": np.zeros(30)} if likelihood == "censored_gaussian" else {}
    model = npvi.GPRegressor(likelihood, nugget=0.05, hyper="plug-in").fit(X[:30], y, np.full(30, 3.0), **row)
    assert model.fit_info_["converged"]
    floor = model.likelihood_.floors[parameter]
    assert floor * 1e-3 < getattr(model.likelihood_, parameter) < 1e-3


def test_numbers_far_beyond_what_a_given_kernel_allows(X):
    """Laplace noise has a kink at f = y, where an iteration that starts there stays."""
    y = 1e4 * (2.0 + np.sin(5.0 * X[:30, 0]))
    kernel = npvi.kernels.Matern32(0.1)
    model = npvi.GPRegressor("laplace", kernel=kernel, nugget=1e-3, learn=False).fit(X[:30], y)
    assert model.fit_info_["converged"]
    # the constant is about the median, and log p of each row about −|y − median|
    assert model.elbo_ == pytest.approx(-np.abs(y - np.median(y)).sum(), rel=0.02)


def test_a_kernel_that_allows_anything(X):
    """Steps go to where derivatives are beyond all numbers; what is said is npvi's, and of the fit."""
    y = np.zeros(60)
    y[3] = 5.0
    model = npvi.GPRegressor("poisson", kernel=npvi.kernels.Matern32(0.3, 1e6), method="npvi", learn=False)
    with pytest.warns(UserWarning, match="did not converge"):  # NumPy's warnings would be errors
        model.fit(X[:60], y)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.predict_dist(X[:60]).quantile(0.5)).all()


def test_few_inducing_points_that_leave_everything_open(X):
    y = np.random.default_rng(0).poisson(3.0, 40)
    model = npvi.GPRegressor("poisson", kernel=npvi.kernels.Linear(100.0), prior="nystrom", n_inducing=1, nugget=0.1)
    with pytest.raises(
        ValueError, match=r"have a mean of inf; .* inducing points leave open, .* too few \(n_inducing\)"
    ):
        model.set_params(learn=False).fit(20.0 * X[:40], y)
    model.set_params(n_inducing=7).fit(20.0 * X[:40], y)
    assert np.isfinite(model.predict(X)).all()


# -- few rows, and rows that are all the same --------------------------------------------------------------------------


def test_few_rows_are_learned_from_and_integrated_over():
    """90 % intervals for new responses, where the model is right: 60 % of them were inside with guesses."""
    inside = []
    for seed in range(24):
        n, rng = 2 + seed % 3, np.random.default_rng(seed // 3)
        X = rng.uniform(size=(n + 20, 1))
        covariance = np.exp(-np.abs(X - X.T) / 0.3) + 1e-8 * np.eye(n + 20)
        y = 3.0 + np.linalg.cholesky(covariance) @ rng.normal(size=n + 20) + 0.5 * rng.normal(size=n + 20)
        model = npvi.GPRegressor(hyper="integrate", n_jobs=1).fit(X[:n], y[:n])
        assert model.fit_info_["hyper"]["done"] == "integrate"
        low, high = model.predict_dist(X[n:]).interval(0.9)
        inside.append(np.mean((y[n:] >= low) & (y[n:] <= high)))
    assert 0.65 < np.mean(inside) < 0.98


@pytest.mark.parametrize("likelihood", ["gaussian", "gamma", "poisson"])
def test_nothing_is_learned_from_one_row_and_that_is_said(likelihood):
    with pytest.warns(UserWarning, match="nothing was learned: one row says too little"):
        model = npvi.GPRegressor(likelihood).fit([[1.0, 2.0]], [2.0])
    assert np.isfinite(model.predict([[1.0, 2.0]])).all()


def test_nothing_is_learned_from_few_rows_without_priors_and_that_is_said():
    with pytest.warns(UserWarning, match="nothing was learned: 4 rows say too little"):
        npvi.GPRegressor(hyperprior=None).fit([[1.0], [2.0], [3.0], [4.0]], [1.0, 3.0, 2.0, 4.0])


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "gamma", "weibull", "lognormal"])
def test_where_all_responses_are_equal_new_ones_are_next_to_them(likelihood):
    """300 rows of 2.0 had means of 2.42, and standard deviations of 2.93, under gamma noise."""
    X = np.random.default_rng(2).uniform(0.0, 10.0, (60, 2))
    with pytest.warns(UserWarning, match="y is 2 in every row: nothing tells how far"):
        model = npvi.GPRegressor(likelihood, n_jobs=1).fit(X, np.full(60, 2.0))
    dist = model.predict_dist(X[:5] + 0.3)
    np.testing.assert_allclose(dist.mean, 2.0, rtol=0.01)
    assert np.all(dist.std < 0.1)
