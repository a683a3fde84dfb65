"""What is particular to each continuous likelihood, beyond the battery."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

from npvi.likelihoods import (
    Beta,
    CensoredGaussian,
    CensoredLogNormal,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    LogNormal,
    StudentT,
    Tweedie,
    Weibull,
    curvatures,
    expectations,
)
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.moments import predictive_moments
from npvi.likelihoods.integrals.normal import log_normal_cdf
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.runtime.precision import float64

RNG = np.random.default_rng(0)


def test_log_normal_cdf_in_all_its_pieces():
    x = np.concatenate([np.linspace(-60.0, 40.0, 1001), [-1e4, -20.0, 5.0, 300.0]])
    with float64():
        value = np.asarray(jax.vmap(log_normal_cdf)(x))
        slope = np.asarray(jax.vmap(jax.grad(log_normal_cdf))(x))
        bend = np.asarray(jax.vmap(jax.grad(jax.grad(log_normal_cdf)))(x))
    np.testing.assert_allclose(value, special.log_ndtr(x), rtol=1e-12, atol=1e-300)
    mills = np.where(x < 25, np.sqrt(2 / np.pi) / special.erfcx(-np.minimum(x, 25) / np.sqrt(2)), 0.0)
    np.testing.assert_allclose(slope, mills, rtol=1e-10, atol=1e-100)
    np.testing.assert_allclose(bend, -mills * (x + mills), rtol=1e-4, atol=1e-12)
    assert np.all((bend <= 0.0) & (bend >= -1.0))


@pytest.mark.parametrize("likelihood", [CensoredGaussian(0.3), CensoredLogNormal(0.3)], ids=repr)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_censored_rows(likelihood, side):
    log_scale = isinstance(likelihood, CensoredLogNormal)
    y, m, v = np.array([0.5, 1.0, 30.0]), np.array([0.4, -3.0, 2.0]), np.array([1e-8, 1.0, 20.0])
    x, row = np.log(y) if log_scale else y, {"censored": np.full(3, side)}
    with float64():
        got = [float(likelihood.log_prob(a, b, censored=side)) for a, b in zip(y, m)]
        for f in (-800.0, -30.0, 0.0, 30.0, 800.0):
            slope = jax.grad(lambda f: likelihood.log_prob(1.0, f, censored=side))
            assert np.isfinite(slope(f))
            assert -1e-12 <= -jax.grad(slope)(f) < np.inf
    reference = stats.norm.logsf if side > 0 else stats.norm.logcdf
    np.testing.assert_allclose(got, reference(x, m, np.sqrt(0.3)), rtol=1e-10)
    np.testing.assert_allclose(
        predictive_log_prob(likelihood, y, m, v, row), reference(x, m, np.sqrt(0.3 + v)), rtol=1e-10
    )
    expected = [
        integrate.quad(
            lambda z, i=i: reference(x[i], m[i] + np.sqrt(v[i]) * z, np.sqrt(0.3)) * stats.norm.pdf(z),
            -10,
            10,
            epsabs=1e-11,
            limit=200,
        )[0]
        for i in range(3)
    ]
    np.testing.assert_allclose(expectations(likelihood, y, m, v, row).value, expected, rtol=1e-8, atol=1e-14)
    # predictions are of the true value, whatever was seen of others
    np.testing.assert_array_equal(
        predictive_quantile(likelihood, 0.3, m, v, row), predictive_quantile(likelihood, 0.3, m, v)
    )
    f = likelihood.initial_latent(y, **row)
    assert np.all(np.sign(f - x) == side)


def test_censored_is_checked():
    with pytest.raises(ValueError, match=r"censored must be -1, 0 or 1, but 1 of 2 rows are not \(first: row 1, 2.0\)"):
        CensoredGaussian().check_row({"censored": [0, 2]}, 2)
    with pytest.raises(ValueError, match="CensoredGaussian takes no noise_variance; it takes censored"):
        CensoredGaussian().check_row({"noise_variance": [0.1, 2]}, 2)


def test_known_noise_is_added():
    y, m, v, noise = RNG.normal(size=5), RNG.normal(size=5), np.full(5, 0.4), RNG.uniform(0.1, 2.0, 5)
    row = {"noise_variance": noise}
    for i in range(5):
        plain = Gaussian(0.2 + noise[i])
        one = (y[i : i + 1], m[i : i + 1], v[i : i + 1])
        few = {"noise_variance": noise[i : i + 1]}
        for function in (predictive_log_prob, predictive_cdf):
            np.testing.assert_allclose(function(Gaussian(0.2), *one, few), function(plain, *one))
        for got, expected in zip(expectations(Gaussian(0.2), *one, few), expectations(plain, *one)):
            np.testing.assert_allclose(got, expected)
        np.testing.assert_allclose(curvatures(Gaussian(0.2), *one, few), curvatures(plain, *one))
    assert np.all(np.isfinite(expectations(Gaussian(1e-12), y, m, v, row).value))
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        Gaussian().check_row({"noise_variance": [0.0]}, 1)


def test_expectations_that_quadrature_cannot_reach():
    # E exp(−f) at a latent variance of 50 is exp(25), from f that no rule visits
    y, m, v = np.array([2.0]), np.array([0.5]), np.array([50.0])
    ratio = 2.0 * np.exp(-0.5 + 25.0)
    np.testing.assert_allclose(expectations(Exponential(), y, m, v).value, -0.5 - ratio)
    at = expectations(Gamma(3.0), y, m, v)
    constant = 3.0 * np.log(3.0) - special.gammaln(3.0) + 2.0 * np.log(2.0)
    np.testing.assert_allclose(at.value, constant - 3.0 * 0.5 - 3.0 * ratio)
    np.testing.assert_allclose(at.precision, 3.0 * ratio)


def test_moments_of_exp_at_large_variance():
    for likelihood, relative in ((Gamma(2.0), 0.5), (Exponential(), 1.0), (Weibull(1.0), 1.0)):
        mean, variance = predictive_moments(likelihood, np.array([0.5]), np.array([50.0]))
        np.testing.assert_allclose(mean, np.exp(25.5))
        np.testing.assert_allclose(variance, relative * np.exp(101.0) + np.exp(51.0) * np.expm1(50.0))


def test_special_cases_agree():
    with float64():
        for f in (-3.0, 0.2, 5.0):
            one = float(Exponential().log_prob(0.7, f))
            assert float(Gamma(1.0).log_prob(0.7, f)) == pytest.approx(one, rel=1e-13)
            assert float(Weibull(1.0).log_prob(0.7, f)) == pytest.approx(one, rel=1e-13)
        # many degrees of freedom are Gaussian, with no digits lost on the way
        for df in (150.0, 1e6, 1e12):
            exact = stats.t.logpdf(0.8, df) if df < 1e5 else stats.norm.logpdf(0.8)
            assert float(StudentT(1.0, df).log_prob(0.8, 0.0)) == pytest.approx(exact, abs=1e-6 if df == 1e6 else 1e-11)


@pytest.mark.parametrize("df", [2.5, 4.0, 1000.0])
@pytest.mark.parametrize("variance", [0.0, 1.0, 3e3**2])
def test_density_of_t_under_any_latent(df, variance):
    # at 3,000 scales no rule of a bounded number of nodes over f finds the noise; in u = log χ²/df all is smooth
    away = np.array([0.0, 0.3, 2.0, 30.0, 1e4, 1e9]) * np.hypot(0.5, np.sqrt(variance))
    u = np.linspace(-100.0, 8.0, 300_001)
    log_share = 0.5 * df * (u - np.expm1(u))
    total = variance + 0.25 * np.exp(-u)
    given = log_share - 0.5 * (away[:, None] ** 2 / total + np.log(2.0 * np.pi * total))
    exact = special.logsumexp(given, axis=1) - special.logsumexp(log_share)
    got = predictive_log_prob(StudentT(0.5, df), away, np.zeros(6), np.full(6, variance))
    np.testing.assert_allclose(got, exact, rtol=1e-8)
    if variance == 0.0:
        np.testing.assert_allclose(got, stats.t.logpdf(away, df, scale=0.5), rtol=1e-8)


def test_laplace_precision_is_twice_the_density_at_y():
    # E|f − y| has second derivative 2 N(y; m, v) in m, and w is that over the scale
    y, m, v = RNG.normal(size=6), RNG.normal(size=6), 10.0 ** RNG.uniform(-6, 2, 6)
    at = expectations(Laplace(0.3), y, m, v)
    np.testing.assert_allclose(at.precision, 2.0 * stats.norm.pdf(y, m, np.sqrt(v)) / 0.3, rtol=1e-8, atol=1e-12)
    at = expectations(Laplace(0.3), np.array([1.0]), np.array([1.0]), np.array([0.0]))
    assert all(np.isfinite(part[0]) for part in at)


def test_laplace_marginal_at_the_ends():
    y, m, v = np.array([0.0, 0.0, 3.0, -50.0]), np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1e6, 1.0])
    got = predictive_log_prob(Laplace(0.5), y, m, v)
    np.testing.assert_allclose(got[:2], stats.laplace.logpdf([0.0, 1.0], 0.0, 0.5), atol=1e-10)
    assert got[2] == pytest.approx(stats.norm.logpdf(3.0, 0.0, 1e3), rel=1e-6)
    assert got[3] == pytest.approx(stats.laplace.logpdf(50.0, 0.0, 0.5) + 0.5 / 0.25, rel=1e-9)
    np.testing.assert_allclose(predictive_cdf(Laplace(0.5), y[:2], m[:2], v[:2]), [0.5, 0.5 * np.exp(-2.0)])


def test_student_t_needs_a_variance():
    with pytest.raises(ValueError, match="StudentT: df must be a finite number above 2, got 2"):
        StudentT(df=2.0).validate()
    with pytest.raises(ValueError, match="StudentT: scale must be positive"):
        StudentT(scale=0.0).validate()
    StudentT(df=2.001).validate()


@pytest.mark.parametrize("likelihood", [Gamma(0.1), Exponential(), Weibull(0.2), Beta(0.3)], ids=repr)
@pytest.mark.parametrize("f", [-600.0, -30.0, 30.0, 600.0])
def test_draws_stay_inside_far_out(likelihood, f):
    draws = likelihood.sample(np.random.default_rng(0), np.full(200, f))
    assert not likelihood.support.invalid(draws).any()
    steps = likelihood.cdf(np.array([1e-300, 0.4, 1.0]), np.full(3, f))
    assert np.all((steps >= 0.0) & (steps <= 1.0) & (np.diff(steps, append=1.0) >= 0.0))


def test_shares_outside_are_refused():
    with pytest.raises(ValueError, match=r"2 of 3 rows cannot be Beta .*allowed: numbers strictly between 0 and 1"):
        Beta().check_response([0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("likelihood", "unit"),
    [
        (Gaussian(), True),
        (CensoredGaussian(), True),
        (StudentT(), True),
        (Laplace(), True),
        (LogNormal(), False),
        (CensoredLogNormal(), False),
        (Gamma(), False),
        (Weibull(), False),
    ],
    ids=repr,
)
def test_start_values_do_not_depend_on_units(likelihood, unit):
    y = np.exp(RNG.normal(size=500))
    first, second = likelihood.initial_parameters(y), likelihood.initial_parameters(1000.0 * y)
    likelihood.replace(**first).validate()
    for name, value in first.items():
        power = {"variance": 2, "scale": 1}.get(name, 0) if unit else 0
        assert second[name] == pytest.approx(1000.0**power * value)
    assert likelihood.initial_parameters(np.ones(3)) in ({}, {"df": 4.0})  # nothing to tell from


def test_start_values_are_about_right():
    noise = np.exp(0.3 * RNG.normal(size=4000))
    variance = 0.1 * np.var(np.log(noise))
    assert LogNormal().initial_parameters(noise)["variance"] == pytest.approx(variance)
    for likelihood in (Gamma(), Weibull()):
        likelihood = likelihood.replace(**likelihood.initial_parameters(noise))
        draws = likelihood.sample(np.random.default_rng(1), np.zeros(100_000))
        assert np.var(np.log(draws)) == pytest.approx(variance, rel=0.05)
    share = special.expit(RNG.normal(size=4000))
    beta = Beta().replace(**Beta().initial_parameters(share))
    f = np.full(100_000, special.logit(share.mean()))
    assert np.var(beta.sample(np.random.default_rng(1), f)) == pytest.approx(0.1 * np.var(share), rel=0.05)
    spoilt = np.append(RNG.normal(size=999), 1e6)
    assert StudentT().initial_parameters(spoilt)["scale"] == pytest.approx(np.sqrt(0.1), rel=0.15)


@pytest.mark.filterwarnings("error")
def test_zeros_have_a_start_next_to_a_power_of_two():
    y = np.array([0.0, 0.5, 3.0])
    start = Tweedie(power=1.9999, dispersion=0.1).initial_latent(y, exposure=2.0)
    assert np.isfinite(start).all()
    assert start[0] < start[1]
    np.testing.assert_allclose(start[1:], np.log(y[1:] / 2.0))
    usual = Tweedie(power=1.5, dispersion=1.0).initial_latent(y)  # where half an amount is expected
    assert usual[0] == pytest.approx(np.log((0.5 * 1.0 * 0.5) ** 2.0))
    assert np.isfinite(Tweedie(power=1.9999).initial_latent(np.zeros(3))).all()
