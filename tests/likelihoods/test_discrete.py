"""What the battery does not ask of counts, categories and amounts: limits, parameters, extremes, checks."""

from __future__ import annotations

import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

from npvi.config import from_config, to_config
from npvi.likelihoods import (
    Beta,
    BetaBinomial,
    Binomial,
    HurdlePoisson,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Tweedie,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    as_likelihood,
    expectations,
    predictive_quantile,
)
from npvi.likelihoods.families.tweedie import compound_cdf
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.expectations import rules
from npvi.likelihoods.integrals.grid import Grid
from npvi.likelihoods.integrals.log_gamma import log_binomial, log_rising, stirling_remainder
from npvi.likelihoods.integrals.quadrature import trapezoid
from npvi.runtime.precision import float64

NEW = {
    "negative_binomial": NegativeBinomial(0.4),
    "zero_inflated_poisson": ZeroInflatedPoisson(0.3),
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial(0.3, 2.0),
    "hurdle_poisson": HurdlePoisson(0.2),
    "binomial": Binomial("probit"),
    "beta_binomial": BetaBinomial(4.0),
    "ordinal": Ordinal([-0.5, 0.3, 1.1]),
    "tweedie": Tweedie(1.4, 0.7),
}
every_new = pytest.mark.parametrize("name", NEW)


def log_prob(likelihood, y, f, **row):
    with float64():
        return np.array([float(likelihood.log_prob(y, each, **row)) for each in np.atleast_1d(f)])


def row_of(likelihood, n):
    return {"trials": np.full(n, 9.0)} if "trials" in likelihood.extras else {}


@every_new
def test_by_name_and_as_json(name):
    assert type(as_likelihood(name)) is type(NEW[name])
    as_likelihood(name).validate()
    assert repr(from_config(to_config(NEW[name]))) == repr(NEW[name])


@every_new
def test_extreme_latents(name):
    likelihood = NEW[name]
    f = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    row = row_of(likelihood, len(f))
    draws = likelihood.sample(np.random.default_rng(0), f, **row)
    assert np.all(np.isfinite(draws))
    for y in (-1.0, 0.0, 1.0, 3.0, 1e6):
        cdf = likelihood.cdf(np.full(len(f), y), f, **row)
        assert np.all((cdf >= 0.0) & (cdf <= 1.0))
        assert np.all(np.diff(cdf) <= 0.0)


@every_new
def test_cdf_never_increases_with_f(name):
    likelihood = NEW[name]
    f = np.linspace(-6.0, 12.0, 2001)
    for y in (0.0, 1.0, 3.0, 40.0):
        assert np.all(np.diff(likelihood.cdf(y, f, **row_of(likelihood, len(f)))) <= 1e-14)


@every_new
def test_initial_parameters(name):
    likelihood = NEW[name]
    rng = np.random.default_rng(1)
    row = row_of(likelihood, 4000)
    y = likelihood.sample(rng, np.full(4000, 0.8), **row)
    start = likelihood.initial_parameters(y, **row)
    assert set(start) <= set(likelihood.get_params())
    likelihood.replace(**start).validate()
    # without variation of f, the half that is left to f is known to be missing
    expected = {
        "dispersion": 2.0 if name == "negative_binomial" else 0.5,
        "inflation": 0.6,
        "concentration": 2.0,
        "zero": 1.0,
    }
    for parameter, value in start.items():
        if parameter == "cuts":
            np.testing.assert_allclose(value, np.array(likelihood.cuts) - 0.8, atol=0.1)
        elif name != "zero_inflated_negative_binomial":
            assert value == pytest.approx(expected[parameter] * getattr(likelihood, parameter), rel=0.3)


@every_new
def test_initial_parameters_of_hardly_any_data(name):
    likelihood = NEW[name]
    for y in (np.zeros(3), np.ones(3), np.zeros(1)):
        likelihood.replace(**likelihood.initial_parameters(y, **row_of(likelihood, len(y)))).validate()


def test_nothing_to_start_from():
    assert Poisson().initial_parameters(np.ones(3)) == {}
    assert BetaBinomial().initial_parameters(np.array([0.0, 1.0])) == {}


PARAMETERS = [
    (NegativeBinomial(0.4), "dispersion"),
    (ZeroInflatedPoisson(0.3), "inflation"),
    (ZeroInflatedNegativeBinomial(0.3, 20.0), "dispersion"),
    (HurdlePoisson(0.2), "zero"),
    (BetaBinomial(4.0), "concentration"),
    (Ordinal([-0.5, 0.3, 1.1]), "cuts"),
    (Tweedie(1.4, 0.7), "power"),
    (Tweedie(1.4, 0.7), "dispersion"),
    (Tweedie(1.7, 0.001), "power"),
    (Tweedie(1.7, 0.001), "dispersion"),
]


@pytest.mark.parametrize(("likelihood", "name"), PARAMETERS)
def test_derivatives_in_the_parameters(likelihood, name):
    row = {key: value[0] for key, value in row_of(likelihood, 1).items()}

    def value(parameter, y):
        return likelihood.replace(**{name: parameter}).log_prob(y, 0.6, **row)

    at = np.asarray(getattr(likelihood, name), dtype=np.float64)
    for y in (0.0, 1.0, 3.0):
        with float64():
            got = np.atleast_1d(jax.grad(value)(at, y))
            for i, direction in enumerate(np.eye(at.size)):
                h = 1e-6 * np.max(np.abs(at)) * direction.reshape(at.shape)
                slope = (float(value(at + h, y)) - float(value(at - h, y))) / (2.0 * h.sum())
                assert got[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_log_gamma_keeps_its_digits():
    x = 10.0 ** np.linspace(-6.0, 2.0, 50)
    np.testing.assert_allclose(
        stirling_remainder(x, np) + (x - 0.5) * np.log(x) - x + 0.5 * np.log(2.0 * np.pi),
        special.gammaln(x),
        atol=1e-12,
    )
    # log[x (x + 1) (x + 2)] beside a log Γ of 1e13
    np.testing.assert_allclose(log_rising(1e12, 3.0, np), 3.0 * np.log(1e12) + 3e-12, rtol=1e-15)
    np.testing.assert_allclose(log_binomial(1e10, 2.0, np), np.log(1e10 * (1e10 - 1.0) / 2.0), rtol=1e-14)


def test_limits_are_the_simpler_likelihoods():
    f = np.array([-2.0, 0.0, 3.0])
    for y in (0.0, 2.0, 30.0):
        near = log_prob(NegativeBinomial(1e10), y, f, exposure=2.0)
        np.testing.assert_allclose(near, log_prob(Poisson(), y, f, exposure=2.0), atol=1e-6)
    for y in (0.0, 2.0, 9.0):
        near = log_prob(BetaBinomial(1e10), y, f, trials=9.0)
        np.testing.assert_allclose(near, log_prob(Binomial(), y, f, trials=9.0), atol=1e-6)


@pytest.mark.parametrize("exposure", [0.05, 0.5, 3.0, 100.0])
def test_hurdle_is_log_concave_at_any_exposure(exposure):
    f = np.linspace(-15.0, 30.0, 901)
    for link in ("exp", "softplus"):
        likelihood = HurdlePoisson(0.5, link)
        for y in (1.0, 2.0, 20.0):
            with float64():
                bend = jax.vmap(jax.grad(jax.grad(lambda f: likelihood.log_prob(y, f, exposure=exposure))))(f)  # noqa: B023
            assert np.asarray(bend).max() <= 1e-12


def test_narrow_and_remote_categories():
    likelihood = Ordinal([0.0, 1e-4])
    f = np.array([-60.0, -5.0, 0.0, 5.0, 60.0])
    middle = stats.norm.logpdf(f - 0.5e-4) + np.log(1e-4)
    np.testing.assert_allclose(log_prob(likelihood, 1.0, f), middle, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        likelihood.marginal_log_prob(np.ones(5), f, np.zeros(5)), log_prob(likelihood, 1.0, f), rtol=1e-9
    )
    assert likelihood.support.upper == 2.0
    with pytest.raises(
        ValueError, match=r"1 of 2 rows cannot be Ordinal \(row 1: 3.0\); allowed: whole numbers from 0 to 2"
    ):
        likelihood.check_response([2, 3])


SERIES = [(1.05, 0.5), (1.2, 0.3), (1.5, 1e-3), (1.8, 2.0), (1.95, 1.0)]


@pytest.mark.parametrize(("power", "dispersion"), SERIES)
def test_tweedie_is_a_sum_of_gamma_amounts(power, dispersion):
    likelihood, shape = Tweedie(power, dispersion), (2.0 - power) / (power - 1.0)
    n = np.arange(1.0, 20_000.0)
    for f in (-1.0, 0.0, 2.0):
        amounts, scale = np.exp((2 - power) * f) / (dispersion * (2 - power)), dispersion * (power - 1)
        scale *= np.exp((power - 1) * f)
        how_many = stats.poisson.logpmf(n, amounts)
        for y in np.exp(f) * np.array([0.2, 0.9, 1.0, 1.1, 3.0]):
            density = special.logsumexp(how_many + stats.gamma.logpdf(y, n * shape, scale=scale))
            np.testing.assert_allclose(log_prob(likelihood, y, f), density, rtol=1e-10, atol=1e-10)
            share = np.exp(-amounts) + np.exp(how_many) @ stats.gamma.cdf(y, n * shape, scale=scale)
            np.testing.assert_allclose(likelihood.cdf(y, f), share, atol=1e-11)


def test_tweedie_probabilities_sum_to_one():
    likelihood = Tweedie(1.3, 0.5)
    density = integrate.quad(lambda y: np.exp(log_prob(likelihood, y, 0.5)[0]), 0.0, 30.0, points=[0.5, 1.5], limit=200)
    assert density[0] + np.exp(log_prob(likelihood, 0.0, 0.5)[0]) == pytest.approx(1.0, abs=1e-7)


def test_tweedie_quantiles_at_the_atom():
    likelihood = Tweedie(1.5, 2.0)  # e^−1 of the mass is at 0 where the mean is 1
    at = np.zeros(1)
    assert predictive_quantile(likelihood, 0.3, at, at)[0] == 0.0
    assert predictive_quantile(likelihood, 0.4, at, at)[0] > 0.0
    assert predictive_quantile(likelihood, 0.0, at, at)[0] == 0.0


def test_tweedie_with_very_many_amounts_is_normal():
    amounts = np.array([1e4, 1e7, 1e11])
    size = amounts + np.sqrt(2.0 * amounts)  # one standard deviation: α = 1
    np.testing.assert_allclose(compound_cdf(1.0, amounts, size), stats.norm.cdf(1.0), atol=2e-3)
    np.testing.assert_allclose(compound_cdf(1.0, amounts, 2.0 * amounts), 1.0, atol=1e-15)


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (NegativeBinomial(0.0), "NegativeBinomial: dispersion must be positive and finite, got 0.0"),
        (ZeroInflatedPoisson(1.0), "ZeroInflatedPoisson: inflation must be a finite number between 0 and 1, got 1.0"),
        (HurdlePoisson(-0.1), "HurdlePoisson: zero must be a finite number between 0 and 1, got -0.1"),
        (HurdlePoisson("half"), "zero must be a finite number between 0 and 1, got 'half'"),
        (Tweedie(2.0), "Tweedie: power must be a finite number between 1 and 2, got 2.0"),
        (Ordinal([1.0, 0.0]), r"Ordinal: cuts must be a vector of increasing numbers, got \[1.0, 0.0\]"),
        (Ordinal([0.0, np.inf]), "cuts must be a vector of increasing numbers"),
        (Ordinal([]), "cuts must be a vector of increasing numbers"),
        (Ordinal(1.0), "cuts must be a vector of increasing numbers"),
        (Binomial("exp"), "Binomial: link must be one of 'logit', 'probit'"),
    ],
)
def test_parameters_are_checked(likelihood, message):
    with pytest.raises(ValueError, match=message):
        likelihood.validate()


@pytest.mark.parametrize("likelihood", [Binomial(), BetaBinomial()])
def test_trials_are_checked(likelihood):
    y = np.array([2.0, 1.0, 5.0])
    np.testing.assert_array_equal(likelihood.check_row({"trials": 5}, 3, y)["trials"], 5.0)
    for trials in ([2.5, 3.0, 4.0], [0.0, 3.0, 4.0], [np.nan, 3.0, 4.0]):
        with pytest.raises(
            ValueError, match=r"trials must be whole numbers 1, 2, 3, …, but 1 of 3 rows are not \(first: row 0"
        ):
            likelihood.check_row({"trials": trials}, 3)
    with pytest.raises(ValueError, match=r"y: 1 of 3 rows have more successes than trials \(row 2: 5 of 4\)$"):
        likelihood.check_row({"trials": [4, 4, 4]}, 3, y)
    with pytest.raises(ValueError, match=r"2 of 3 rows .* \(row 0: 2 of 1, row 2: 5 of 1\); trials is 1 where"):
        likelihood.check_row(None, 3, y)
    with pytest.raises(ValueError, match="takes no exposure; it takes trials"):
        likelihood.check_row({"exposure": 1.0}, 3)


@pytest.mark.parametrize("few", [0, in_numpy.FEW], ids=["JAX", "NumPy"])
@pytest.mark.parametrize("cuts", [[0.0, 1.0], [-1.6, 138.0], [-3.0, -2.9, 0.0, 4.0]])
def test_ranks_under_a_wide_latent(cuts, few, monkeypatch):
    monkeypatch.setattr(in_numpy, "FEW", few)
    # the grid has few nodes far from the cuts; equal steps would be 2048
    y, m, s = (part.ravel() for part in np.meshgrid(np.arange(len(cuts) + 1.0), [-6.0, 0.3, 30.0], [1.0, 8.0, 60.0]))
    got = expectations(Ordinal(cuts), y, m, s**2)
    exact = expectations(Ordinal(cuts), y, m, s**2, rule=trapezoid(4096))
    for part, expected in zip(got, exact):
        np.testing.assert_allclose(part, expected, rtol=1e-8, atol=1e-11)
    rules_of = [rule for rule, _ in rules(Ordinal(cuts), m, s, {})]
    assert max(np.isfinite(rule.nodes).sum() for rule in rules_of if isinstance(rule, Grid)) < 1000


@pytest.mark.parametrize("concentration", [0.01, 10.0, 1e4])
@pytest.mark.parametrize("kind", [Beta, BetaBinomial])
def test_shares_under_a_wide_latent(kind, concentration):
    """Γ(c·logistic(f)) is singular between −log(1 + c) and log(1 + c), and few nodes lie beyond."""
    likelihood = kind(concentration)
    values = [0.001, 0.3, 0.99] if kind is Beta else [0.0, 3.0, 12.0]
    y, m, s = (part.ravel() for part in np.meshgrid(values, [-25.0, 0.7, 90.0], [0.6, 2.0, 9.0, 40.0]))
    row = {} if kind is Beta else {"trials": np.full(len(y), 12.0)}
    got = expectations(likelihood, y, m, s**2, row)
    exact = expectations(likelihood, y, m, s**2, row, rule=trapezoid(4096))
    for part, expected in zip(got, exact):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-11)
    for rule, _ in rules(likelihood, m, s, row):
        assert (np.isfinite(rule.nodes).sum() if isinstance(rule, Grid) else rule.n_nodes) < 300


def test_ranks_far_from_the_cuts():
    """Slopes of log Φ where the two terms of the second one cancel, beside a continued fraction."""
    f = np.array([-30.0, -15.0, 45.0, 200.0])
    mills = []
    for x in np.where(f < 0.0, 2.0 - f, f):  # y = 2 begins at f = 2, y = 0 ends at f = 0
        rest = 0.0
        for k in range(400, 0, -1):
            rest = k / (x + rest)
        mills.append((x + rest, rest))
    ratio, rest = np.array(mills).T
    y, sign = np.where(f < 0.0, 2.0, 0.0), np.where(f < 0.0, 1.0, -1.0)
    value, slope, bend = Ordinal([0.0, 2.0]).log_prob_slopes(y, f)
    np.testing.assert_allclose(value, special.log_ndtr(np.where(f < 0.0, f - 2.0, -f)), rtol=1e-14)
    np.testing.assert_allclose(slope, sign * ratio, rtol=1e-13)
    np.testing.assert_allclose(bend, -ratio * rest, rtol=1e-9)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(2.0), Tweedie(1.5, 1.0)], ids=str)
def test_tiny_exposures(likelihood):
    """Exposure and the mean of exp f, beyond float64 alone, are a number together."""
    moments = likelihood.marginal_moments(np.array([690.0, 2000.0]), np.array([0.5, 2000.0]), np.full(2, 1e-300))
    expected = likelihood.marginal_moments(np.array([690.0 + np.log(1e-300)]), np.array([0.5]))
    np.testing.assert_allclose([part[0] for part in moments], np.ravel(expected), rtol=1e-12)
    assert np.isposinf([part[1] for part in moments]).all()


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(2.0), Tweedie(1.5, 1.0), LogNormal(0.5)], ids=str)
def test_variances_of_rates_under_a_wide_f(likelihood):
    """The mean underflows where exp(v) overflows: their product is no number, the variance is."""
    m, v = np.array([-450.0, -2000.0, -16983.0, 2.0]), np.array([450.0, 2000.0, 4596.0, 2000.0])
    mean, variance = likelihood.marginal_moments(m, v)
    assert np.isfinite(mean[:3]).all()
    assert np.all(variance[:2] >= 1.0)
    assert np.isfinite(variance[:3]).all()
    assert variance[3] == np.inf


@pytest.mark.parametrize("concentration", [0.01, 10.0, 300.0, 1e4])
def test_beta_binomial_tails_of_few_trials_have_all_digits(concentration):
    """Against sums of fractions."""
    rng = np.random.default_rng(0)
    n, f = rng.integers(1, 129, 25), rng.normal(0.0, 4.0, 25)
    y = np.floor(0.5 * rng.uniform(size=25) * n)
    found = BetaBinomial(concentration).cdf(y, f, trials=n.astype(float))
    for k in range(25):
        odds = Fraction(float(np.exp(f[k])))
        a, b = (Fraction(concentration) * share / (1 + odds) for share in (odds, 1))
        total = Fraction(0)
        for count in range(int(y[k]) + 1):
            chosen = [a + i for i in range(count)] + [b + i for i in range(int(n[k]) - count)]
            total += math.comb(int(n[k]), count) * math.prod(chosen)
        exact = total / math.prod(a + b + i for i in range(int(n[k])))
        assert found[k] == pytest.approx(float(exact), rel=1e-12)
