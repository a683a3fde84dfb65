"""The distribution of y with f integrated out, for any ratio of the latent variance to the noise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, special, stats

from npvi.likelihoods import Bernoulli, Poisson
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.moments import predictive_moments
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from tests.support.likelihood_cases import CASES, LATENT, integrals, normal_nodes

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
means, variances = np.array(LATENT).T
N = len(means)


@every_case
def test_log_prob(case):
    for exposure in case.exposures:
        # first, middle and last: the references are slow
        for y in sorted({*case.responses[:: max(1, (len(case.responses) - 1) // 2)]}):
            row = case.row(exposure, N)
            got = predictive_log_prob(case.likelihood, np.full(N, y), means, variances, row)
            start = float(case.likelihood.initial_latent(np.array([y]), **case.row(exposure))[0])
            kink = case.kink and case.kink(y)
            expected = integrals(case.own_log_prob(y, exposure), means, variances, start, kink)
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("v", [0.01, 1.0, 50.0])
def test_log_prob_against_scipy(v):
    for y, m in ((0, 1.0), (4, 0.5), (30, 2.0)):
        expected = integrate.quad(
            lambda f, y=y, m=m: stats.poisson.pmf(y, np.exp(f)) * stats.norm.pdf(f, m, np.sqrt(v)),
            m - 12 * np.sqrt(v),
            min(m + 12 * np.sqrt(v), 15.0),
            points=[np.log(y + 0.5)],
            limit=500,
            epsabs=0,
            epsrel=1e-11,
        )[0]
        got = predictive_log_prob(Poisson(), np.array([float(y)]), np.array([m]), np.array([v]))
        np.testing.assert_allclose(got, np.log(expected), atol=1e-9)


def test_probabilities_of_counts_sum_to_one():
    for link in ("exp", "softplus"):
        for m, v in ((1.0, 1e-8), (0.5, 0.3)):
            y = np.arange(256.0)
            log_prob = predictive_log_prob(Poisson(link), y, np.full(len(y), m), np.full(len(y), v))
            assert special.logsumexp(log_prob) == pytest.approx(0.0, abs=1e-8)


def test_log_prob_of_responses_far_from_anything():
    # the mode lies tens of standard deviations from the latent mean, on either side
    y, m = np.array([0.0, 1e5, 0.0]), np.array([30.0, -4.0, 600.0])
    for v in (1e-8, 1e-2, 1.0):
        got = predictive_log_prob(Poisson(), y, m, np.full(3, v))
        assert np.all(np.isfinite(got))
        for i in (0, 1):
            own = CASES["poisson"].own_log_prob(y[i], 1.0)
            expected = integrals(own, m[i : i + 1], np.array([v]), np.log(y[i] + 0.5))
            np.testing.assert_allclose(got[i], expected[0], rtol=1e-6)


@every_case
def test_moments(case):
    # exp(f) with a variance of 50 leaves the range of a grid of ±11 standard deviations: see the closed forms
    # below
    usable = variances <= (1.0 if case.growing else 1e9)
    m, v = means[usable], variances[usable]
    for exposure in case.exposures:
        got = predictive_moments(case.likelihood, m, v, case.row(exposure, len(m)))
        f, weights = normal_nodes(m, v)
        given = case.given(f, exposure)
        at = given.mean()
        mean = np.sum(at * weights, axis=1)
        spread = np.sum((at - mean[:, None]) ** 2 * weights, axis=1)
        np.testing.assert_allclose(got[0], mean, rtol=1e-8)
        np.testing.assert_allclose(got[1], np.sum(given.var() * weights, axis=1) + spread, rtol=1e-8)


def test_moments_in_closed_form_at_large_variance():
    m, v = np.array([0.5]), np.array([50.0])
    mean, variance = predictive_moments(Poisson(), m, v, {"exposure": np.array([2.0])})
    np.testing.assert_allclose(mean, 2.0 * np.exp(25.5))
    np.testing.assert_allclose(variance, mean + mean**2 * np.expm1(50.0))
    mean, variance = predictive_moments(CASES["lognormal"].likelihood, m, v)
    frozen = stats.lognorm(np.sqrt(50.3), scale=np.exp(0.5))
    np.testing.assert_allclose([mean[0], variance[0]], [frozen.mean(), frozen.var()])
    mean, variance = predictive_moments(Poisson(), m, np.array([2000.0]))
    assert mean[0] == variance[0] == np.inf


@every_case
def test_cdf(case):
    # beyond 9 standard deviations there is nothing; the grid is fine enough for the steps of the counts used here
    z = np.linspace(-9.0, 9.0, 8_001 if case.kink is None else 40_001)
    for exposure in case.exposures:
        with np.errstate(over="ignore"):
            given = case.given(means[:, None] + np.sqrt(variances)[:, None] * z, exposure)
        for y in [*case.responses, -1.0, 2.5]:
            got = predictive_cdf(case.likelihood, np.full(N, y), means, variances, case.row(exposure, N))
            expected = np.trapezoid(given.cdf(y) * stats.norm.pdf(z), z)
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=2e-11)


@every_case
@pytest.mark.parametrize("q", [0.001, 0.25, 0.5, 0.9, 0.999])
def test_quantile_inverts_the_cdf(case, q):
    row = case.row(case.exposures[-1], N)
    y = predictive_quantile(case.likelihood, q, means, variances, row)
    at = predictive_cdf(case.likelihood, y, means, variances, row)
    if case.discrete:
        np.testing.assert_array_equal(y, np.floor(y))
        below = predictive_cdf(case.likelihood, y - 1.0, means, variances, row)
        small = y < 2**50  # beyond, neighbouring numbers are more than 1 apart
        assert np.all(at >= q - 1e-11)
        assert np.all(below[small] < q)
    else:
        # with a wide latent, shares are nearer to 0 or 1 than numbers can be
        inside = (y > 1e-280) & (y < 1.0 - 1e-6) if case.likelihood.support.upper == 1.0 else np.isfinite(y)
        # an atom may have more than the probability asked for
        inside &= (y != case.likelihood.support.atom) | (at < q)
        np.testing.assert_allclose(at[inside], q, atol=1e-10)


@every_case
def test_quantiles_without_latent_variance_are_scipys(case):
    q = np.array([0.01, 0.3, 0.5, 0.95])
    f = np.array([-1.0, 0.3, 4.0])
    for exposure in case.exposures:
        got = [predictive_quantile(case.likelihood, p, f, np.zeros(3), case.row(exposure, 3)) for p in q]
        np.testing.assert_allclose(got, [case.given(f, exposure).ppf(p) for p in q], rtol=1e-9)


def test_quantiles_of_large_counts():
    m, v = np.log([1e4, 1e6, 1e9]), np.array([1e-6, 0.5, 1e-12])
    got = predictive_quantile(Poisson(), 0.9, m, v)
    # where the latent variance is negligible y is Poisson, where it is large y is log-normal
    assert got[0] == pytest.approx(1e4 + stats.norm.ppf(0.9) * np.sqrt(1e4 + 1e2), abs=2)
    assert got[1] == pytest.approx(np.exp(m[1] + np.sqrt(0.5) * stats.norm.ppf(0.9)), rel=1e-5)
    assert got[2] == pytest.approx(stats.poisson.ppf(0.9, 1e9), abs=30)


def test_quantiles_at_the_ends_and_at_ties():
    m, v = np.zeros(2), np.ones(2)
    np.testing.assert_array_equal(predictive_quantile(Poisson(), 0.0, m, v), 0.0)
    np.testing.assert_array_equal(predictive_quantile(Poisson(), 1.0, m, v), np.inf)
    np.testing.assert_array_equal(predictive_quantile(Bernoulli(), 1.0, m, v), 1.0)
    np.testing.assert_array_equal(predictive_quantile(Bernoulli(), 0.5, m, v), 0.0)  # P(Y ≤ 0) = ½ exactly
    np.testing.assert_array_equal(predictive_quantile(Bernoulli(), 0.51, m, v), 1.0)


def test_no_rows():
    nothing = np.empty(0)
    for case in CASES.values():
        assert predictive_log_prob(case.likelihood, nothing, nothing, nothing).shape == (0,)
        assert predictive_cdf(case.likelihood, nothing, nothing, nothing).shape == (0,)
        assert predictive_quantile(case.likelihood, 0.3, nothing, nothing).shape == (0,)
        assert predictive_moments(case.likelihood, nothing, nothing)[0].shape == (0,)


def test_a_row_between_two_roundings_has_an_end():
    # the loop over rows once asked twice whether to go on, rounded differently, and never ended; apart, to be stopped
    code = """
import numpy as np
from npvi.likelihoods import NegativeBinomial
from npvi.likelihoods.integrals.density import predictive_log_prob
found = predictive_log_prob(
    NegativeBinomial(0.0262, "softplus", 3e15), np.full(4, 6e15), np.full(4, 35.0), np.full(4, 100.0)
)
assert np.isfinite(found).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_a_variance_beyond_all_measure_takes_no_panels(monkeypatch):
    calls = []
    counted = Poisson.cdf
    monkeypatch.setattr(Poisson, "cdf", lambda self, *args, **row: calls.append(1) or counted(self, *args, **row))
    mean, sd, y = np.full(3, 5e14), 1.6e15, np.array([0.0, 1e15, 4e15])
    found = predictive_cdf(Poisson("softplus"), y, mean, np.full(3, sd**2))
    np.testing.assert_allclose(found, stats.norm.cdf((y - mean) / sd), rtol=1e-6)
    assert len(calls) < 200  # 82 to find the step, and none across it
