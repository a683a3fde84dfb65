"""Quantiles of many rows: every likelihood by name, against its own distribution function and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from npvi.likelihoods import (
    Beta,
    BetaBinomial,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
)
from npvi.likelihoods.families.student_t import _normal_mixture
from npvi.likelihoods.families.thresholds import Threshold, threshold_cdf
from npvi.likelihoods.families.tweedie import compound_cdf
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.likelihoods.integrals.root_finding import _next_whole
from npvi.likelihoods.integrals.rows_cdf import RowsCdf
from npvi.likelihoods.registry import LIKELIHOODS

RNG = np.random.default_rng(0)
MEAN, VARIANCE = RNG.normal(0.5, 1.2, 60), 10.0 ** RNG.uniform(-2.5, 0.3, 60)
EXTREME = np.array([(m, v) for m in (-30.0, -3.0, 0.0, 2.0, 30.0) for v in (0.0, 1e-12, 1e-3, 0.5, 50.0)])
ROWS = {"exposure": RNG.uniform(0.1, 50.0, 60), "trials": np.floor(10.0 ** RNG.uniform(0.0, 3.5, 60))}


def misses(likelihood, q, mean, variance, row=None):
    """By how much P(Y ≤ y) misses q at the quantile y, or P(Y ≤ y') reaches it at the number y' before."""
    y = predictive_quantile(likelihood, q, mean, variance, row)
    assert not np.isnan(y).any()
    if likelihood.support.discrete:
        # beyond, the distribution function given f has fewer digits, and in the end counts are more than 1 apart
        sure, before, after = y < 1e9, y - 1.0, y
    else:
        sure = (np.abs(y) < 1e290) & (np.abs(y) > 1e-290) if likelihood.support.lower == 0.0 else np.abs(y) < 1e290
        if likelihood.support.upper == 1.0:
            sure &= y < 1.0 - 1e-6  # with a wide latent, shares are nearer to 1 than numbers can be
        before, after = np.nextafter(y, -np.inf), np.nextafter(y, np.inf)
        if likelihood.support.atom is not None:
            before = np.where(y == likelihood.support.atom, -1.0, before)
    short = q - predictive_cdf(likelihood, np.where(sure, after, 1.0), mean, variance, row)
    over = predictive_cdf(likelihood, np.where(sure, before, 1.0), mean, variance, row) - q
    return np.where(sure, np.maximum(short, over), 0.0).max()


@pytest.mark.parametrize("q", [0.05, 0.95])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_by_name(name, q):
    assert misses(LIKELIHOODS[name](), q, MEAN, VARIANCE) < 1e-10


@pytest.mark.parametrize("q", [0.05, 0.95])
@pytest.mark.parametrize(
    "likelihood",
    [
        Poisson(),
        Poisson("softplus", 3.0),
        NegativeBinomial(0.3),
        NegativeBinomial(100.0, "softplus", 0.1),
        HurdlePoisson(0.02, "softplus"),
        ZeroInflatedNegativeBinomial(0.01, 0.5, "softplus"),
        Tweedie(1.3, 0.5),
        Binomial(),
        Binomial("probit"),
        BetaBinomial(3.0),
        BetaBinomial(200.0, "probit"),
        Gaussian(1e-6),
    ],
    ids=repr,
)
def test_data_per_row(likelihood, q):
    name = likelihood.extras[0]
    row = {name: ROWS.get(name, ROWS["exposure"])}
    assert misses(likelihood, q, MEAN, VARIANCE, row) < 1e-10


@pytest.mark.parametrize(
    "likelihood",
    [
        Poisson(),
        NegativeBinomial(0.5),
        HurdlePoisson(0.3, "softplus"),
        Binomial(),
        BetaBinomial(),
        Gamma(0.2),
        Gamma(50.0),
        Exponential(),
        Weibull(4.0),
        Beta(0.5),
        StudentT(0.01, 2.1),
        Tweedie(1.7, 2.0),
    ],
    ids=repr,
)
def test_extreme_means_and_variances(likelihood):
    mean, variance = EXTREME.T
    row = {"trials": np.full(len(mean), 40.0)} if "trials" in likelihood.extras else None
    for q in (0.001, 0.5, 0.999):
        assert misses(likelihood, q, mean, variance, row) < 1e-10


@pytest.mark.parametrize("q", [0.02, 0.9])
@pytest.mark.parametrize(
    "likelihood", [Poisson(), NegativeBinomial(3.0), Gamma(3.0), Weibull(1.3), Beta(7.0), Binomial()], ids=repr
)
def test_the_rules_are_as_exact_as_they_say(likelihood, q):
    row = {"trials": np.full(60, 30.0)} if "trials" in likelihood.extras else {}
    cdf = RowsCdf(likelihood, q, MEAN, VARIANCE, row)
    y, every = predictive_quantile(likelihood, q, MEAN, VARIANCE, row), np.arange(60)
    z = np.linspace(-9.0, 9.0, 20_001)
    f = MEAN[:, None] + np.sqrt(VARIANCE)[:, None] * z
    given = likelihood.cdf(y[:, None], f, **{name: value[:, None] for name, value in row.items()})
    expected = np.trapezoid(given * stats.norm.pdf(z), z)
    np.testing.assert_allclose(cdf(y, every), expected, atol=2e-11)
    np.testing.assert_allclose(cdf(y, every, True), expected, atol=2e-5)


@pytest.mark.parametrize("b", [None, 0.4, 2.0, 300.0])
@pytest.mark.parametrize("a", [0.3, 1.0, 7.0, 2e4])
def test_thresholds(a, b):
    """E Φ((T − m)/s) is P(f ≤ T), with f ~ N(m, s²) and T a log-gamma or logit-beta variable."""
    s = np.array([0.5, 1.0, 3.0]) * np.sqrt(1.0 / a + (0.0 if b is None else 1.0 / b))
    m = np.log(a) - (0.0 if b is None else np.log(b)) + np.array([-1.0, 0.3, 1.5]) * s
    got = threshold_cdf(Threshold(np.full(3, a), None if b is None else np.full(3, b), lambda u, rows: u), m, s)
    z = np.linspace(-9.0, 9.0, 20_001)
    f = m[:, None] + s[:, None] * z
    with np.errstate(over="ignore"):
        beyond = special.gammaincc(a, np.exp(f)) if b is None else special.betainc(b, a, special.expit(-f))
    np.testing.assert_allclose(got, np.trapezoid(beyond * stats.norm.pdf(z), z), atol=2e-11)


@pytest.mark.filterwarnings("error")
def test_a_threshold_with_a_long_tail_warns_of_nothing():
    threshold = Threshold(np.ones(1), np.full(1, 0.02), lambda u, rows: u)
    assert threshold_cdf(threshold, np.zeros(1), np.ones(1))[0] == pytest.approx(0.98406128)


@pytest.mark.parametrize("df", [2.05, 4.0, 30.0, 1e3])
def test_t_is_a_mixture_of_normals(df):
    log_variances, shares = _normal_mixture(df)
    t = np.array([-40.0, -3.0, -0.2, 0.0, 1.0, 8.0])
    got = special.ndtr(t[:, None] / np.exp(0.5 * log_variances)) @ shares
    np.testing.assert_allclose(got, stats.t.cdf(t, df), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("concentration", [0.5, 10.0, 100.0, 3000.0])
def test_beta_binomial_with_many_trials_is_scipys(concentration):
    trials, f = np.array([20.0, 1500.0, 10_000.0])[:, None], np.array([-4.0, -1.0, 0.0, 2.0])
    a, b = concentration * special.expit(f), concentration * special.expit(-f)
    for share in (0.0, 0.01, 0.2, 0.5, 0.7, 0.99):
        k = np.floor(share * trials)
        expected = stats.betabinom.cdf(k, trials, a, b)
        np.testing.assert_allclose(BetaBinomial(concentration).cdf(k, f, trials=trials), expected, atol=1e-10)


@pytest.mark.parametrize("concentration", [0.5, 10.0, 300.0])
@pytest.mark.parametrize("trials", [20_000.0, 1e6])
def test_beta_binomial_with_very_many_trials_is_an_integral_over_the_share(trials, concentration):
    f = np.array([-2.0, -0.5, 0.7])
    a, b = concentration * special.expit(f), concentration * special.expit(-f)
    x = np.linspace(-60.0, 40.0, 400_001)[:, None]  # log-odds of the share
    density = np.exp(a * special.log_expit(x) + b * special.log_expit(-x) - special.betaln(a, b))
    for share in (0.05, 0.4, 0.9):
        k = np.floor(share * trials)
        below = special.betainc(trials - k, k + 1.0, special.expit(-x))
        expected = np.trapezoid(below * density, x, axis=0)
        got = BetaBinomial(concentration).cdf(np.full((1, 1), k), f[None], trials=np.full((1, 1), trials))
        # what the integral itself lacks, far left
        missing = special.betainc(a, b, special.expit(-60.0))
        np.testing.assert_allclose(got[0], expected + missing, rtol=0.0, atol=2e-11)


def test_ties_at_zero():
    # more zeros than asked for, exactly as many, and fewer
    for q, expected in ((0.2, 0.0), (0.3, 0.0), (0.5, 1.0)):
        far = np.full(2, -40.0)  # a tiny rate leaves only 0 and 1
        np.testing.assert_array_equal(predictive_quantile(HurdlePoisson(0.3), q, far, np.zeros(2)), expected)


def expected_cdf(likelihood, y, mean, variance, row=None):
    """E P(Y ≤ y | f) by a sum that is as fine as any step."""
    z = np.linspace(-9.0, 9.0, 4001)
    columns = {name: value[:, None] for name, value in (row or {}).items()}
    given = likelihood.cdf(y[:, None], mean[:, None] + np.sqrt(variance)[:, None] * z, **columns)
    return np.trapezoid(given * stats.norm.pdf(z), z)


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("concentration", [0.5, 10.0, 300.0, 3000.0])
def test_many_shares(concentration, q):
    """Enough rows for a table; steps get narrower from the ends to the middle."""
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(0.0, 2.0, 100), 10.0 ** rng.uniform(-3.0, 0.0, 100)
    mean[:3], variance[:3] = (2.89817776, 2.72084334, 3.56290883), (0.62771733, 0.99600527, 0.26675876)
    likelihood = Beta(concentration)
    y = predictive_quantile(likelihood, q, mean, variance)
    inside = (y < 1.0 - 1e-5) & (y > 1e-290)
    assert inside.sum() > 30
    got = expected_cdf(likelihood, y[inside], mean[inside], variance[inside])
    np.testing.assert_allclose(got, q, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize(("power", "dispersion"), [(1.05, 1.0), (1.3, 0.5), (1.5, 1.0), (1.9, 3.0)])
def test_many_amounts(power, dispersion):
    rng = np.random.default_rng(2)
    mean, variance = rng.normal(0.0, 1.5, 80), 10.0 ** rng.uniform(-6.0, 0.0, 80)
    likelihood, row = Tweedie(power, dispersion), {"exposure": 10.0 ** rng.uniform(-3.0, 3.0, 80)}
    for q in (0.3, 0.95):
        y = predictive_quantile(likelihood, q, mean, variance, row)
        some = np.flatnonzero(y > 0.0)[:12]
        assert len(some) > 5
        chosen = {"exposure": row["exposure"][some]}
        got = expected_cdf(likelihood, y[some], mean[some], variance[some], chosen)
        np.testing.assert_allclose(got, q, rtol=0.0, atol=1e-10)
        np.testing.assert_array_less(q - 1e-12, predictive_cdf(likelihood, 0.0 * y, mean, variance, row)[y == 0.0])


@pytest.mark.parametrize("q", [1e-6, 0.05, 0.45, 0.5, 0.95])
def test_shares_nearer_to_one_than_numbers(q):
    mean, variance, likelihood = np.array([6.0]), np.array([100.0]), Beta(5.0)
    y = predictive_quantile(likelihood, q, mean, variance)
    assert predictive_cdf(likelihood, y, mean, variance) >= q - 1e-10
    assert y > 1e-290 or predictive_cdf(likelihood, np.full(1, 1e-290), mean, variance) >= q
    assert y < 1.0 or predictive_cdf(likelihood, np.nextafter(y, 0.0), mean, variance) < q


@pytest.mark.parametrize("likelihood", [Beta(), Gamma(0.01)])
def test_responses_nearer_to_zero_than_numbers(likelihood):
    mean, variance, smallest = np.array([-5.0, 0.0]), np.array([9.7, 0.5]), np.finfo(float).tiny
    for q in (0.0005, 0.05):
        y = predictive_quantile(likelihood, q, mean, variance)
        reached = predictive_cdf(likelihood, np.full(2, smallest), mean, variance) >= q
        assert reached.any() or q == 0.05
        np.testing.assert_array_equal(y[reached], smallest)
        np.testing.assert_allclose(predictive_cdf(likelihood, y, mean, variance)[~reached], q, rtol=1e-9)


@pytest.mark.parametrize("upper", [False, True])
def test_sums_of_amounts_from_either_side(upper):
    means = np.array([0.1, 3.0, 30.0, 50.0, 500.0])
    amounts, size = np.repeat(means, 3), np.outer(means, [0.7, 1.0, 1.3]).ravel()
    n = np.arange(1.0, 2000.0)
    gamma = special.gammaincc if upper else special.gammainc
    expected = stats.poisson.pmf(n, amounts[:, None]) * gamma(2.0 * n, 2.0 * size[:, None])
    expected = expected.sum(axis=1) + (0.0 if upper else np.exp(-amounts))
    np.testing.assert_allclose(compound_cdf(2.0, amounts, 2.0 * size, upper), expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
def test_shares_that_are_nearer_to_one_than_numbers_are(q):
    """The smallest number that reaches q, where P(Y ≤ y) rises by a thousandth from one number to the next."""
    mean, variance = np.full(6, 2.83228368), np.array([0.01, 1.5, 1.621025386808025, 1.8, 2.5, 9.0])
    y = predictive_quantile(Beta(5.311985748511402), q, mean, variance)
    before = np.nextafter(y, -np.inf)
    at, below = (predictive_cdf(Beta(5.311985748511402), each, mean, variance) for each in (y, before))
    near = y > 1.0 - 2.0**-40
    assert np.all((at >= q) | ~near)
    assert np.all((below < q) | ~near)
    np.testing.assert_allclose(at[~near], q, atol=3e-5)


def test_a_search_goes_on_from_the_end_it_knows():
    low, high, end = np.zeros(2), np.full(2, 1000.0), np.array([-np.inf, -0.5])
    found = _next_whole(low, high, end, -end[::-1], unit=np.ones(2), step=1)
    # back from 1,000 by twice the distance in log(y + 1), and on from 0
    np.testing.assert_array_equal(found, np.ceil(np.expm1([np.log(1001.0) - 1.0, 1.0])))
