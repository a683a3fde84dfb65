"""Which link counts by name get, and the knee of softplus."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import npvi
from npvi.kernels import Matern32
from npvi.learning.links import Foretold, compare
from npvi.likelihoods import (
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    expectations,
)
from npvi.likelihoods.families.rates import typical_count

RATES = [Poisson, NegativeBinomial, ZeroInflatedPoisson, ZeroInflatedNegativeBinomial, HurdlePoisson]


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize("knee", [0.1, 1.0, 40.0])
def test_the_knee_is_a_shift_and_an_exposure(kind, knee):
    """knee · log(1 + exp(f)/knee): softplus of f − log knee, times the knee."""
    y, f = np.array([0.0, 1.0, 7.0, 90.0]), np.array([-3.0, 0.4, 2.0, 30.0])
    here, plain = kind(link="softplus", knee=knee), kind(link="softplus")
    row = {"exposure": np.full(4, 2.0)}
    shifted = {"exposure": 2.0 * knee * np.ones(4)}
    v = np.array([0.1, 1.0, 4.0, 25.0])
    one, other = expectations(here, y, f, v, row), expectations(plain, y, f - np.log(knee), v, shifted)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(here.cdf(y, f, **row), plain.cdf(y, f - np.log(knee), **shifted), rtol=1e-12)
    np.testing.assert_allclose(here.rate_numpy(here.latent_of(y + 0.5), 1.0), y + 0.5, rtol=1e-9)


def test_far_below_the_knee_it_is_exp_and_far_above_a_line():
    likelihood = Poisson("softplus", knee=20.0)
    assert likelihood.rate_numpy(-3.0, 1.0) == pytest.approx(np.exp(-3.0), rel=2e-3)
    low, high = likelihood.rate_numpy(np.array([50.0, 60.0]), 1.0)
    assert high - low == pytest.approx(20.0 * 10.0)


def test_expectations_with_a_knee_against_quadrature():
    likelihood, m, s, y = NegativeBinomial(1.5, "softplus", 12.0), 1.0, 3.0, 6.0

    def integrand(f):
        rate = 12.0 * np.logaddexp(0.0, f - np.log(12.0))
        return stats.norm.pdf(f, m, s) * stats.nbinom.logpmf(y, 1.5, 1.5 / (1.5 + rate))

    expected = integrate.quad(integrand, m - 12.0 * s, m + 12.0 * s, limit=500, points=[np.log(12.0)])[0]
    found = expectations(likelihood, np.array([y]), np.array([m]), np.array([s**2]))
    assert found.value[0] == pytest.approx(expected, rel=1e-8)


def test_a_knee_is_not_learned():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 2))
    model = npvi.GPRegressor(Poisson("softplus", knee=7.0)).fit(X, rng.poisson(3.0, 150))
    assert model.likelihood_.knee == 7.0
    assert "likelihood__knee" not in model.summary().index


def clumped(seed, n_places=250, visits=4):
    """Counts that are absent from most of a region and many elsewhere, with places visited again and again."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(n_places, 2))
    abundance = 25.0 * np.maximum(0.0, np.sin(7.0 * places[:, 0]) * np.cos(5.0 * places[:, 1])) ** 2
    X, rate = np.repeat(places, visits, axis=0), np.repeat(abundance, visits)
    return X, rng.negative_binomial(2.0, 2.0 / (2.0 + rate + 1e-9)).astype(float)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_counts_that_are_absent_here_and_many_there_get_means_that_can_be_used(name):
    X, y = clumped(0)
    new, seen = clumped(1)
    model = npvi.GPRegressor(name).fit(X, y)
    assert model.likelihood_.link == "softplus"
    assert model.likelihood_.knee == pytest.approx(typical_count(y, 1.0))
    found = model.fit_info_["learning"]["link"]
    assert found["second"]
    mean = model.predict(new)
    assert 0.8 < mean.sum() / seen.sum() < 1.2
    assert np.sqrt(np.mean((mean - seen) ** 2)) < seen.std()


def test_counts_of_an_exp_link_keep_it():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(700, 2))
    y = rng.poisson(np.exp(0.5 + 1.2 * np.sin(7.0 * X[:, 0]) + np.cos(5.0 * X[:, 1])))
    model = npvi.GPRegressor("poisson").fit(X, y)
    assert model.likelihood_.link == "exp"


def test_a_link_that_is_given_is_held():
    X, y = clumped(0, n_places=60)
    model = npvi.GPRegressor(Poisson(link="exp")).fit(X, y)
    assert model.likelihood_.link == "exp"
    assert model.fit_info_["learning"]["link"] is None


def foretold(log_density, mean):
    return Foretold(np.array([0.0, 2.0, 4.0]), np.arange(3), np.array(log_density), np.array(mean))


@pytest.mark.parametrize(
    ("gain", "means", "second"),
    [
        (0.2, ([0.5, 2.0, 3.0], [0.5, 2.0, 3.0]), True),  # by density alone
        (-0.2, ([0.5, 2.0, 3.0], [0.5, 2.0, 3.0]), False),
        (-0.02, ([9.0, 2.0, 40.0], [0.5, 2.0, 3.0]), True),  # usable means may cost a little
        (-0.2, ([9.0, 2.0, 40.0], [0.5, 2.0, 3.0]), False),  # but not anything
        (0.02, ([0.5, 2.0, 3.0], [9.0, 2.0, 40.0]), False),
    ],
)
def test_density_and_means_choose_together(gain, means, second):
    first, other = foretold([0.0, 0.0, 0.0], means[0]), foretold([gain] * 3, means[1])
    assert compare(first, other).second is second


def test_squared_errors_tell_where_densities_cannot():
    wider, closer = foretold([0.0, 0.0, 0.0], [0.5, 2.3, 3.0]), foretold([0.3, -0.3, 0.02], [0.5, 2.1, 3.1])
    assert compare(wider, closer).second is True  # though its sum is .95 of what was seen, the other's .97
    assert compare(closer, wider).second is False


def test_a_sum_where_nothing_was_seen():
    nothing = Foretold(np.zeros(2), np.arange(2), np.zeros(2), np.full(2, 1e10))
    assert nothing.sum_ratio == np.inf


def test_a_sum_that_chance_explains_is_no_reason():
    y = np.array([0.0] * 7 + [8.0])  # one place has it all
    whole, low = (Foretold(y, np.arange(8), np.zeros(8), mean * np.ones(8)) for mean in (1.0, 0.7))
    assert low.sum_ratio == pytest.approx(0.7)
    assert compare(whole, Foretold(y, low.place, np.full(8, 0.02), low.mean)).second


def test_rows_without_weight_have_no_say():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (80, 1))
    y = rng.poisson(40.0 * np.maximum(np.sin(X[:, 0]) + 1.02, 0.01)).astype(float)
    alone = npvi.GPRegressor("poisson", hyper="plug-in").fit(X, y)
    weight = np.append(np.ones(80), 0.0)
    beside = npvi.GPRegressor("poisson", hyper="plug-in")
    beside.fit(np.vstack([X, [[5.0]]]), np.append(y, 1e5), sample_weight=weight)
    assert repr(beside.likelihood_) == repr(alone.likelihood_)
    np.testing.assert_allclose(beside.predict(X), alone.predict(X), rtol=0.02)


@pytest.mark.parametrize("name", ["negative_binomial", "zero_inflated_poisson"])
def test_a_few_counts_among_zeros(name):
    """Zeros that may have other reasons say little of a large rate: nothing but a proper prior holds it."""
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.uniform(0.0, 10.0, (100, 2)), rng.normal(size=100)])
    y = np.zeros(100)
    y[:4] = rng.poisson(2.0, 4) + 1.0
    mean = npvi.GPRegressor(name, coords=[0, 1]).fit(table, y).predict(table)
    assert mean.sum() < 20.0 * y.sum()


@pytest.mark.parametrize("variance", [1.0, 25.0, 400.0])
def test_zero_inflated_counts_end_in_one_place_from_anywhere(variance):
    """Not log-concave, and with softplus a rate that zeros don't hold: from another posterior as from the data."""
    X, y = clumped(2, n_places=60, visits=2)
    first, noise = (
        ZeroInflatedNegativeBinomial(inflation, dispersion, "softplus", 12.0)
        for inflation, dispersion in ((0.3, 1.0), (0.05, 5.0))
    )
    settings = {"nugget": 0.1, "learn": False}
    lent = npvi.GPRegressor(first, Matern32(0.2, 1.0), **settings).fit(X, y)
    cold = npvi.GPRegressor(noise, Matern32(0.2, variance), **settings).fit(X, y)
    warm = npvi.GPRegressor(noise, Matern32(0.2, variance), **settings)._fit(X, y, None, {}, previous=lent.fitted_)
    assert warm.elbo_ == pytest.approx(cold.elbo_, abs=0.1)
    assert 0.7 < warm.predict(X).sum() / y.sum() < 1.3
    np.testing.assert_allclose(warm.predict(X), cold.predict(X), rtol=0.05, atol=0.05)


def test_counts_beyond_what_a_link_can_say():
    # exp leads to rates beyond all numbers, from where softplus can't begin; nor does a warning of NumPy say so
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 2)), rng.poisson(3.0, 40) * 1e15
    model = npvi.GPRegressor("negative_binomial").fit(X, y)
    assert model.fit_info_["converged"]
    np.testing.assert_array_less(0.2 * y.mean(), model.predict(X))


def test_links_that_rule_out_what_was_seen():
    """Of densities that are 0 the one that isn't is better, and where both are nothing is said: no NumPy warning."""
    y, place = np.array([0.0, 2.0]), np.arange(2)
    lost, fine = (Foretold(y, place, np.array([-1.0, last]), y + 0.1) for last in (-np.inf, -1.0))
    assert compare(lost, fine).second
    assert not compare(fine, lost).second
    assert not compare(lost, lost).second
