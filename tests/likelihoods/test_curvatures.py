"""Second derivatives of the expected log-density, against differences of the first ones."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.likelihoods import (
    Bernoulli,
    Gaussian,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Tweedie,
    curvatures,
    expectations,
)

MEANS = np.array([-2.0, 0.3, 1.5, 4.0, -1.0, 0.0])
SDS = np.array([0.05, 0.4, 1.0, 2.5, 6.0, 1.7])
CASES = {
    "gaussian": (Gaussian(0.3), np.array([0.1, -3.0, 2.0, 1.0, 0.0, 5.0])),
    "lognormal": (LogNormal(0.2), np.array([0.1, 3.0, 2.0, 1.0, 0.5, 5.0])),
    "poisson exp": (Poisson(), np.array([0.0, 3.0, 2.0, 60.0, 0.0, 5.0])),
    "poisson softplus": (Poisson("softplus"), np.array([0.0, 3.0, 2.0, 7.0, 0.0, 5.0])),
    "logit": (Bernoulli(), np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0])),
    "probit": (Bernoulli("probit"), np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0])),
    "negative binomial": (NegativeBinomial(1.5), np.array([0.0, 3.0, 2.0, 60.0, 0.0, 5.0])),
    "ordinal": (Ordinal([-1.0, 0.5]), np.array([0.0, 1.0, 2.0, 2.0, 0.0, 1.0])),
    "tweedie": (Tweedie(1.4, 0.6), np.array([0.0, 0.3, 2.0, 60.0, 0.0, 5.0])),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_slopes_are_those_of_the_expectations(name):
    likelihood, y = CASES[name]
    at, expected = curvatures(likelihood, y, MEANS, SDS), expectations(likelihood, y, MEANS, SDS**2)
    np.testing.assert_allclose(at.value, expected.value, rtol=1e-12)
    np.testing.assert_allclose(at.in_mean, expected.gradient, rtol=1e-10, atol=1e-12)
    # w = −2 ∂E/∂v and ∂/∂s = 2s ∂/∂v
    np.testing.assert_allclose(-at.in_sd / SDS, expected.precision, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_differences_of_the_first(name):
    likelihood, y = CASES[name]
    at = curvatures(likelihood, y, MEANS, SDS)
    h = 1e-5 * np.maximum(SDS, 0.1)

    def difference(part, along_mean, along_sd):
        up = curvatures(likelihood, y, MEANS + along_mean * h, SDS + along_sd * h)
        down = curvatures(likelihood, y, MEANS - along_mean * h, SDS - along_sd * h)
        return (getattr(up, part) - getattr(down, part)) / (2 * h)

    tolerance = {"rtol": 2e-5, "atol": 2e-6}
    np.testing.assert_allclose(at.in_mean_mean, difference("in_mean", 1, 0), **tolerance)
    np.testing.assert_allclose(at.in_mean_sd, difference("in_mean", 0, 1), **tolerance)
    np.testing.assert_allclose(at.in_mean_sd, difference("in_sd", 1, 0), **tolerance)
    np.testing.assert_allclose(at.in_sd_sd, difference("in_sd", 0, 1), **tolerance)


@pytest.mark.parametrize("name", CASES)
def test_concave_in_mean_and_sd_together(name):
    """What makes Newton's method in (m, s) safe for log-concave likelihoods."""
    likelihood, y = CASES[name]
    at = curvatures(likelihood, y, MEANS, SDS)
    assert np.all(at.in_mean_mean <= 0)
    assert np.all(at.in_sd_sd <= 1e-12)
    assert np.all(at.in_mean_mean * at.in_sd_sd - at.in_mean_sd**2 >= -1e-9 * np.abs(at.in_mean_mean * at.in_sd_sd))


def test_exposure_reaches_the_formula():
    y, exposure = np.array([3.0, 1.0]), np.array([0.5, 4.0])
    with_exposure = curvatures(Poisson(), y, np.zeros(2), np.ones(2), {"exposure": exposure})
    shifted = curvatures(Poisson(), y, np.log(exposure), np.ones(2))
    for name in ("in_mean", "in_sd", "in_mean_mean", "in_mean_sd", "in_sd_sd"):
        np.testing.assert_allclose(getattr(with_exposure, name), getattr(shifted, name), rtol=1e-12)
