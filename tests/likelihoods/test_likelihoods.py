"""One battery for every likelihood: p(y | f) against SciPy's distributions."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from npvi.likelihoods import Bernoulli, Gaussian, Likelihood, LogNormal, Poisson, as_likelihood
from npvi.likelihoods.integrals.moments import conditional_moments
from npvi.runtime.precision import float64
from tests.support.likelihood_cases import CASES

LATENTS = np.array([-8.0, -1.5, 0.0, 0.7, 4.0])
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
def test_log_prob(case):
    for exposure in case.exposures:
        row = {name: value[0] for name, value in case.row(exposure).items()}
        for y in case.responses:
            with float64():
                got = [float(case.likelihood.log_prob(y, f, **row)) for f in LATENTS]
            np.testing.assert_allclose(got, case.log_prob(y, LATENTS, exposure), rtol=1e-11, atol=1e-12)


FAR = np.array([-800.0, -40.0, -36.0, 0.0, 36.0, 300.0])
NEAR = np.linspace(-30.0, 30.0, 601)


@cache
def derivatives(name):
    """First and second derivatives in f at `FAR` and `NEAR`, a row for each response: computed once for two tests."""
    case = CASES[name]
    row = {extra: value[0] for extra, value in case.row(case.exposures[0]).items()}
    f, found = np.concatenate([FAR, NEAR]), []
    with float64():
        for y in case.responses:
            slope = jax.grad(lambda f, y=y: case.likelihood.log_prob(y, f, **row))
            found.append([np.asarray(jax.vmap(slope)(f)), np.asarray(jax.vmap(jax.grad(slope))(f))])
    return np.stack(found, axis=1)


@pytest.mark.parametrize("name", CASES)
def test_log_prob_has_derivatives_far_out(name):
    assert not np.isnan(derivatives(name)[:, :, : len(FAR)]).any()


@pytest.mark.parametrize("name", CASES)
def test_log_concave_where_it_says_so(name):
    curvature = derivatives(name)[1, :, len(FAR) :]
    assert (curvature.max() <= 1e-12) == CASES[name].likelihood.log_concave


@every_case
def test_conditional_moments(case):
    for exposure in case.exposures:
        frozen = case.given(LATENTS, exposure)
        mean, variance = conditional_moments(case.likelihood, LATENTS, case.row(exposure, len(LATENTS)))
        np.testing.assert_allclose(mean, frozen.mean(), rtol=1e-12)
        np.testing.assert_allclose(variance, frozen.var(), rtol=1e-10)


@every_case
def test_cdf(case):
    y = np.array([-3.0, 0.0, 0.5, 1.0, 2.3, 17.0])[:, None]
    for exposure in case.exposures:
        row = {name: value[0] for name, value in case.row(exposure).items()}
        got = case.likelihood.cdf(y, LATENTS, **row)
        np.testing.assert_allclose(got, case.given(LATENTS, exposure).cdf(y), rtol=1e-10, atol=1e-14)
        assert np.all(np.diff(got, axis=1) <= 1e-15)  # the contract: never increases with f


@every_case
def test_samples(case):
    for exposure in case.exposures:
        row = {name: value[0] for name, value in case.row(exposure).items()}
        draws = case.likelihood.sample(np.random.default_rng(0), np.full(20_000, 0.7), **row)
        assert draws.dtype == np.float64
        assert not case.likelihood.support.invalid(draws).any()
        frozen = case.given(0.7, exposure)
        if case.discrete:
            values = np.arange(draws.max() + 1.0)
            share = (draws[:, None] == values).mean(0)
            assert np.abs(share - frozen.pmf(values)).max() < 0.015
        else:
            # what is at an atom is compared as a share, the rest as a distribution
            at_atom = 0.0 if case.likelihood.support.atom is None else frozen.cdf(case.likelihood.support.atom)
            smooth = draws[draws != case.likelihood.support.atom]
            assert abs(1.0 - len(smooth) / len(draws) - at_atom) < 0.015
            given_no_atom = stats.kstest((frozen.cdf(smooth) - at_atom) / (1.0 - at_atom), "uniform")
            assert given_no_atom.pvalue > 1e-4


@every_case
def test_initial_latent_has_about_the_right_mean(case):
    y = np.array(case.responses)
    for exposure in case.exposures:
        f = case.likelihood.initial_latent(y, **case.row(exposure, len(y)))
        assert np.all(np.isfinite(f))
        if not case.starts_at_mean:
            continue
        if not isinstance(case.likelihood, Bernoulli):
            f_mean = conditional_moments(case.likelihood, f, case.row(exposure, len(y)))[0]
            np.testing.assert_allclose(f_mean, np.maximum(y, 0.5 if case.discrete else -np.inf), rtol=0.2)
        else:
            np.testing.assert_array_equal(np.sign(f), 2.0 * y - 1.0)


@every_case
def test_clone_and_traceable(case):
    again = clone(case.likelihood)
    assert repr(again) == repr(case.likelihood)
    again.validate()
    assert len(jax.tree.leaves(again)) == len(again.get_params()) - len(again.static)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (
            Poisson(),
            [0, 1.5, 2, -1, np.nan],
            r"y: 3 of 5 rows .* \(row 1: 1.5, row 3: -1.0, row 4: nan\).* 0, 1, 2, …",
        ),
        (Bernoulli(), [0, 1, 2], "1 of 3 rows cannot be Bernoulli .*allowed: 0 or 1"),
        (LogNormal(), [0.0, 1.0], "1 of 2 rows cannot be LogNormal .*allowed: positive numbers"),
        (Gaussian(), [np.inf], "allowed: any finite number"),
        (Gaussian(), np.full(9, np.nan), r"9 of 9 .*row 2: nan, …\)"),
    ],
)
def test_responses_outside_the_support(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_response(y)


def test_responses_inside_the_support():
    assert Poisson().check_response([1, 2]).dtype == np.float64
    assert Poisson.support.discrete
    assert not Gaussian.support.discrete


@pytest.mark.parametrize(
    ("likelihood", "row", "message"),
    [
        (Gaussian(), {"exposure": [1.0, 1.0]}, "Gaussian takes no exposure"),
        (Poisson(), {"trials": [1, 1]}, "Poisson takes no trials; it takes exposure"),
        (Poisson(), {"exposure": [1.0]}, r"exposure must be one number or 2 of them, .* \(1,\)"),
        (
            Poisson(),
            {"exposure": [1.0, 0.0]},
            r"exposure must be positive .* 1 of 2 rows are not \(first: row 1, 0.0\)",
        ),
    ],
)
def test_data_per_row_is_checked(likelihood, row, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_row(row, 2)


def test_data_per_row():
    assert Gaussian().check_row({"exposure": None}, 2) == {}
    assert Gaussian().check_row(None, 2) == {}
    np.testing.assert_array_equal(Poisson().check_row({"exposure": 2}, 3)["exposure"], [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Gaussian(0.0), "Gaussian: variance must be positive"),
        (LogNormal(-1.0), "LogNormal: variance must be positive"),
        (Poisson("log"), "Poisson: link must be one of 'exp', 'softplus', got 'log'"),
        (Bernoulli("exp"), "Bernoulli: link must be one of 'logit', 'probit'"),
    ],
)
def test_parameters_are_checked(likelihood, message):
    with pytest.raises(ValueError, match=message):
        likelihood.validate()


def test_as_likelihood():
    assert isinstance(as_likelihood("lognormal"), LogNormal)
    likelihood = Gaussian(2.0)
    assert as_likelihood(likelihood) is likelihood
    with pytest.raises(ValueError, match=r"no likelihood is named 'Poisson'.*'gaussian', 'hurdle_poisson'.*'poisson'"):
        as_likelihood("Poisson")
    with pytest.raises(TypeError, match=r"write Poisson\(\)"):
        as_likelihood(Poisson)
    with pytest.raises(TypeError, match=r"'bernoulli'.*; got builtins.float"):
        as_likelihood(1.0)


def test_a_likelihood_without_formulas_says_so():
    for call in (lambda x: x.log_prob(0.0, 0.0), lambda x: x.cdf(0.0, 0.0), lambda x: x.sample(None, 0.0)):
        with pytest.raises(NotImplementedError):
            call(Likelihood())
