"""Counts with the softplus link: expectations over a graded grid, against panels of Gauss' rule and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from npvi.likelihoods import (
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    curvatures,
    expectations,
)
from npvi.likelihoods.integrals.expectations import rules
from npvi.likelihoods.integrals.learning import parameter_gradient
from npvi.likelihoods.integrals.moments import predictive_moments

PANEL = special.roots_legendre(24)
MEANS = [-50.0, -8.0, -2.5, 0.0, 0.7, 4.0, 15.0, 60.0, 200.0]
SDS = [1e-4, 0.02, 0.45, 0.55, 1.0, 2.1, 7.0, 40.0]
M, S = (part.ravel() for part in np.meshgrid(MEANS, SDS))


def log_rate(f, exposure):
    with np.errstate(divide="ignore"):
        return np.log(exposure) + np.where(f < -30.0, f, np.log(np.logaddexp(0.0, f)))


def poisson(y, log_mean):
    return y * log_mean - np.exp(log_mean) - special.gammaln(y + 1.0)


def negative_binomial(y, log_mean, r=0.3):
    constant = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1.0)
    return constant + y * log_mean + r * np.log(r) - (y + r) * np.logaddexp(log_mean, np.log(r))


def with_zeros(counts, y, inflation=0.02):
    log_counts = np.log1p(-inflation) + counts
    return log_counts if y > 0.0 else np.logaddexp(np.log(inflation), log_counts)


def hurdle(y, log_mean, zero=0.4):
    if y == 0.0:
        return np.full_like(log_mean, np.log(zero))
    rate = np.exp(log_mean)
    share = np.log(-np.expm1(-np.maximum(rate, 1e-300)))
    return np.log1p(-zero) + poisson(y, log_mean) - share


CASES = {
    "poisson": (Poisson("softplus"), poisson),
    "negative binomial": (NegativeBinomial(0.3, "softplus"), negative_binomial),
    "hurdle": (HurdlePoisson(0.4, "softplus"), hurdle),
    "inflated poisson": (ZeroInflatedPoisson(0.02, "softplus"), lambda y, rate: with_zeros(poisson(y, rate), y)),
    "inflated negative binomial": (
        ZeroInflatedNegativeBinomial(0.02, 3.0, "softplus"),
        lambda y, rate: with_zeros(negative_binomial(y, rate, 3.0), y),
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def reference(log_prob, y, m, s, exposure):
    """E log p, and the scale that errors are relative to; panels are fine against s and around f = 0."""
    around = np.linspace(-60.0, 60.0, 241)
    edges = np.unique(
        np.concatenate([m + s * np.linspace(-11.0, 11.0, 89), np.clip(around, m - 11.0 * s, m + 11.0 * s)])
    )
    half = 0.5 * np.diff(edges)
    f = (edges[:-1] + half)[:, None] + half[:, None] * PANEL[0]
    weights = half[:, None] * PANEL[1] * stats.norm.pdf(f, m, s)
    values = log_prob(y, log_rate(f, exposure))
    return np.sum(weights * values), 1.0 + np.sum(weights * np.abs(values))


@every_case
@pytest.mark.parametrize("y", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("exposure", [0.02, 1.0, 50.0])
def test_value_against_panels(case, y, exposure):
    likelihood, log_prob = case
    row = {"exposure": np.full(len(M), exposure)}
    found = np.array([reference(log_prob, y, m, s, exposure) for m, s in zip(M, S)])
    for coarse, limit in ((False, 1e-10), (True, 2e-6)):
        got = expectations(likelihood, np.full(len(M), y), M, S**2, row, coarse=coarse).value
        assert np.max(np.abs(got - found[:, 0]) / found[:, 1]) < limit


@every_case
@pytest.mark.parametrize("coarse", [False, True])
def test_derivatives_are_those_of_the_value_returned(case, coarse):
    """Also where the value itself is off by 1e-6."""
    likelihood = case[0]
    m, s, y = np.tile([-3.0, 0.3, 2.5, 9.0], 3), np.repeat([0.8, 2.7, 11.0], 4), np.tile([0.0, 2.0], 6)
    step = 1e-4

    def value(m, s):
        return expectations(likelihood, y, m, s**2, coarse=coarse).value

    got, at = expectations(likelihood, y, m, s**2, coarse=coarse), curvatures(likelihood, y, m, s, coarse=coarse)
    np.testing.assert_allclose(
        got.gradient, (value(m + step, s) - value(m - step, s)) / (2 * step), rtol=1e-7, atol=1e-8
    )
    in_sd = (value(m, s + step) - value(m, s - step)) / (2 * step)
    np.testing.assert_allclose(-got.precision * s, in_sd, rtol=1e-7, atol=1e-8)
    for part, expected in zip(at[:3], (got.value, got.gradient, -got.precision * s)):
        np.testing.assert_allclose(part, expected, rtol=1e-10, atol=1e-12)
    up, down = (curvatures(likelihood, y, m + h, s, coarse=coarse) for h in (step, -step))
    np.testing.assert_allclose(at.in_mean_mean, (up.in_mean - down.in_mean) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(at.in_mean_sd, (up.in_sd - down.in_sd) / (2 * step), rtol=1e-6, atol=1e-7)
    up, down = (curvatures(likelihood, y, m, s + h, coarse=coarse) for h in (step, -step))
    np.testing.assert_allclose(at.in_sd_sd, (up.in_sd - down.in_sd) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("coarse", [False, True])
def test_gradient_in_the_dispersion(coarse):
    rng = np.random.default_rng(0)
    y, m, v = rng.poisson(3.0, 700).astype(float), rng.normal(0.0, 8.0, 700), rng.uniform(0.01, 60.0, 700)
    weight = rng.uniform(size=700)

    def total(r):
        return weight @ expectations(NegativeBinomial(r, "softplus"), y, m, v, coarse=coarse).value

    got = parameter_gradient(NegativeBinomial(1.3, "softplus"), y, m, v, weight=weight, coarse=coarse)["dispersion"]
    # the grid itself moves a little with the dispersion, by no more than its error
    assert got == pytest.approx((total(1.3 + 1e-3) - total(1.3 - 1e-3)) / 2e-3, rel=1e-3 if coarse else 1e-5)


@every_case
def test_moments_against_panels(case):
    likelihood = case[0]
    mean, variance = predictive_moments(likelihood, M, S**2)
    share = {"HurdlePoisson": None}.get(type(likelihood).__name__, 1.0 - getattr(likelihood, "inflation", 0.0))
    assert np.all(variance > 0.0)
    if share is not None:
        expected = [share * reference(lambda y, rate: np.exp(rate), 0.0, m, s, 1.0)[0] for m, s in zip(M, S)]
        np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-15)


def test_few_nodes_however_wide():
    for sd in (1.0, 30.0, 1e4):
        for rule, _ in rules(Poisson("softplus"), np.zeros(1), np.full(1, sd), {}):
            assert np.isfinite(rule.nodes).sum() < 150


def test_rows_that_are_no_numbers_harm_no_others():
    m = np.array([np.nan, 1.0, np.inf])
    got = expectations(Poisson("softplus"), np.ones(3), m, np.full(3, 9.0)).value
    assert got[1] == expectations(Poisson("softplus"), np.ones(1), m[1:2], np.full(1, 9.0)).value[0]
    assert np.isnan(got[0])
