"""E log p(y | f) and its derivatives: against brute force, and against differences of the value itself."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from npvi.likelihoods import (
    Exponential,
    Gamma,
    Gaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Poisson,
    StudentT,
    Weibull,
    expectations,
    parameter_gradient,
)
from npvi.likelihoods.integrals.expectations import _by_rule, _closed_form
from npvi.likelihoods.integrals.quadrature import gauss_hermite, rule_of_tier, trapezoid
from npvi.runtime.precision import float64
from tests.support.likelihood_cases import CASES, LATENT, normal_nodes

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
means, variances = np.array(LATENT).T


class Laplace(Likelihood):
    """Its second derivative is 0 wherever there is one."""

    resolution = 0.1

    def log_prob(self, y, f):
        return -jnp.abs(y - f) - jnp.log(2.0)


@every_case
def test_value(case):
    # exp(−f) against a variance of 50 is beyond quadrature in double precision: these have closed forms for it
    beyond = case.steep or isinstance(case.likelihood, (Exponential, Gamma, Weibull))
    usable = variances <= (1.0 if beyond else 1e9)
    m, v = means[usable], variances[usable]
    for exposure in case.exposures:
        for y in case.responses:
            got = expectations(case.likelihood, np.full(len(m), y), m, v, case.row(exposure, len(m))).value
            if isinstance(case.likelihood, Poisson) and case.likelihood.link == "exp":
                expected = y * m - exposure * np.exp(m + v / 2) + stats.poisson.logpmf(y, exposure) + exposure
            else:
                f, weights = normal_nodes(m, v, case.kink and case.kink(y))
                expected = np.sum(case.own_log_prob(y, exposure)(f) * weights, axis=1)
            np.testing.assert_allclose(got, expected, rtol=2e-10, atol=1e-14)


@pytest.mark.parametrize("link", ["exp", "softplus"])
def test_counts_of_any_size(link):
    """A sum whose parts are 10¹⁶ nats, and one row among others that keep their closed form."""
    y, r, z, weights = 3e15, 2.5, *normal_nodes(np.zeros(1), np.ones(1), None)
    m, v = np.log(y) + 0.3, 0.04
    likelihood = NegativeBinomial(r, link, 1e18)
    rate = np.exp(m + 0.2 * z[0])  # which softplus bends by a thousandth
    rate = 1e18 * np.log1p(rate / 1e18) if link == "softplus" else rate
    value = (r - 1.0) * np.log(y) - special.gammaln(r) - y * np.log1p(r / rate) - r * np.log1p(rate / r)
    at = [np.array([4.0, y]), np.array([1.0, m]), np.array([0.5, v])]
    got, alone = expectations(likelihood, *at), expectations(likelihood, *(column[:1] for column in at))
    assert got.value[1] == pytest.approx(value @ weights, abs=1e-9)
    assert got.value[0] == alone.value[0]
    score = y * r / (rate + r) - r * rate / (rate + r)
    if link == "exp":
        assert got.gradient[1] == pytest.approx(score @ weights, abs=1e-9)
        change = parameter_gradient(likelihood, *at)["dispersion"]
        ends = [expectations(NegativeBinomial(r + h), *at).value.sum() for h in (-1e-4, 1e-4)]
        assert change == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 200.0])
def test_outliers_under_any_variance(scale):
    """Steps that the scale of the noise asks for were more than there are; the limit is E log (f − y)²."""
    y, sd, df = 2344.3, np.array([1e-2, 1.0, 30.0, 1430.0, 1e6, 1e12]), 4.0
    likelihood, m = StudentT(scale, df), np.full(6, -4.65)
    got = expectations(likelihood, np.full(6, y), m, sd**2)
    ends = [expectations(likelihood, np.full(6, y), m, ((1.0 + h) * sd) ** 2).value for h in (-1e-4, 1e-4)]
    np.testing.assert_allclose(got.precision * sd**2, -(ends[1] - ends[0]) / 2e-4, rtol=1e-5, atol=1e-7)
    for k in range(6):

        def integrand(f, k=k):
            return (stats.t.logpdf(y - f, df, 0.0, scale) * stats.norm.pdf(f, m[k], sd[k])).item()

        breaks = sorted(
            {
                *(m[k] + np.array([-9.0, -3.0, 0.0, 3.0, 9.0]) * sd[k]),
                *(y + np.outer([-1, 1], 10.0 ** np.arange(-6, 14)).ravel()),
            }
        )
        inside = [f for f in breaks if m[k] - 9.0 * sd[k] <= f <= m[k] + 9.0 * sd[k]]
        whole = sum(integrate.quad(integrand, *pair, epsrel=1e-11)[0] for pair in itertools.pairwise(inside))
        assert got.value[k] == pytest.approx(whole, rel=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "lognormal", "poisson", "gamma", "exponential", "weibull"])
@pytest.mark.parametrize("v", [1e-4, 0.3, 2.0])
def test_closed_forms_against_scipy_and_against_the_general_rule(name, v):
    case, m, sd = CASES[name], 0.4, np.sqrt(v)
    exposure = case.exposures[-1]

    def integrand(f, y):
        return case.log_prob(y, f, exposure) * stats.norm.pdf(f, m, sd)

    for y in case.responses:
        arguments = (case.likelihood, np.array([y]), np.array([m]), np.array([v]), case.row(exposure))
        closed, general = expectations(*arguments), expectations(*arguments, rule=trapezoid(256))
        ends = (m - 10 * sd, m + 10 * sd)
        by_scipy = integrate.quad(integrand, *ends, args=(y,), epsabs=1e-12, epsrel=1e-11)[0]
        np.testing.assert_allclose(closed.value, by_scipy, rtol=1e-9)
        for exact, approximate in zip(closed, general):
            np.testing.assert_allclose(exact, approximate, rtol=1e-9)


@every_case
@pytest.mark.parametrize("v", [0.05, 0.9, 6.0, 80.0])
def test_gradient_and_precision_are_derivatives_of_the_value(case, v):
    def value(m, v):
        n = len(y)
        return expectations(case.likelihood, y, np.full(n, m), np.full(n, v), case.row(case.exposures[-1], n)).value

    y, m, step = np.array(case.responses), 0.3, 1e-4
    row = case.row(case.exposures[-1], len(y))
    got = expectations(case.likelihood, y, np.full(len(y), m), np.full(len(y), v), row)
    slope = (value(m + step, v) - value(m - step, v)) / (2 * step)
    np.testing.assert_allclose(got.gradient, slope, rtol=1e-6, atol=1e-7)
    bend = -2 * (value(m, v * (1 + step)) - value(m, v * (1 - step))) / (2 * step * v)
    np.testing.assert_allclose(got.precision, bend, rtol=1e-5, atol=1e-7)


def test_precision_is_that_of_the_rule_used():
    # In exact arithmetic −2 ∂/∂v equals minus the mean second derivative; under 20 nodes it does not, and
    # only the former is the derivative of the value that an optimiser sees.
    likelihood, rule, y, m, v = Poisson("softplus"), gauss_hermite(20), 3.0, 5.0, 50.0
    got = expectations(likelihood, np.array([y]), np.array([m]), np.array([v]), rule=rule)
    assert got.precision[0] == pytest.approx(0.1743, abs=5e-5)
    with float64():
        second = jax.vmap(jax.grad(jax.grad(lambda f: likelihood.log_prob(y, f))))(m + np.sqrt(v) * rule.nodes)
    assert -rule.weights @ np.asarray(second) == pytest.approx(0.1455, abs=5e-5)


def test_precision_of_a_log_density_without_curvature():
    y = np.linspace(-2.0, 2.0, 9)
    got = expectations(Laplace(), y, np.zeros(9), np.ones(9))
    assert np.all(got.precision > 0.05)
    np.testing.assert_allclose(got.precision, 2 * stats.norm.pdf(y), rtol=0.05)


def test_rows_with_different_rules_come_back_in_order():
    rng = np.random.default_rng(0)
    n = 3000
    y, m = rng.poisson(3.0, n).astype(float), rng.normal(size=n)
    v, row = 10.0 ** rng.uniform(-6, 3, n), {"exposure": rng.uniform(0.5, 2.0, n)}
    got = expectations(Poisson("softplus"), y, m, v, row)
    reference = expectations(Poisson("softplus"), y, m, v, row, rule=rule_of_tier(6))
    np.testing.assert_allclose(got.value, reference.value, rtol=1e-10)
    np.testing.assert_allclose(got.gradient, reference.gradient, rtol=1e-8, atol=1e-9)
    large = v > 1e-3  # below, both are exact derivatives of values known to 16 digits, divided by √v
    np.testing.assert_allclose(got.precision[large], reference.precision[large], rtol=1e-7)


def test_variance_zero_and_no_rows():
    got = expectations(Poisson("softplus"), np.array([2.0]), np.array([0.5]), np.array([0.0]))
    assert all(np.isfinite(part[0]) for part in got)
    assert got.value[0] == pytest.approx(stats.poisson.logpmf(2, np.log1p(np.exp(0.5))))
    assert expectations(LogNormal(), *np.empty((3, 0))).value.shape == (0,)
    assert expectations(Poisson("softplus"), *np.empty((3, 0))).value.shape == (0,)


def test_results_can_be_written_to():
    got = expectations(Gaussian(), np.ones(256), np.ones(256), np.ones(256))
    got.precision[:] = 0.0


def test_new_sizes_and_parameters_compile_nothing():
    rng = np.random.default_rng(0)

    def run(n, scale):
        arrays = rng.poisson(3.0, n).astype(float), rng.normal(size=n), scale * rng.uniform(size=n)
        expectations(Poisson("softplus"), *arrays)
        expectations(Gaussian(scale), *arrays)

    run(500, 0.5)
    before = _by_rule._cache_size(), _closed_form._cache_size()
    run(400, 0.9)
    run(300, 0.1)
    assert (_by_rule._cache_size(), _closed_form._cache_size()) == before
