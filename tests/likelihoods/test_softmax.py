"""The integrals behind classes, against quadrature in as many dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special

from npvi.likelihoods.families.softmax import Softmax
from npvi.likelihoods.integrals.softmax import expected_log_sum_exp
from tests.support.softmax_oracle import log_sum_exp


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("sd", [1e-6, 0.1, 0.3, 0.31, 0.9, 1.0, 1.7])
def test_three_classes(sd, rng):
    mean = rng.normal(0.0, 2.0, size=(6, 3)) + 40.0
    spread = sd * rng.uniform(0.3, 1.0, size=(6, 3))
    spread[:, 0] = sd
    found = expected_log_sum_exp(mean, spread)
    value, probability, squared = log_sum_exp(mean, spread, nodes=48)
    np.testing.assert_allclose(found.value, value, atol=2e-8)
    np.testing.assert_allclose(found.in_mean, probability, atol=2e-8)
    np.testing.assert_allclose(found.in_sd, spread * (probability - squared), atol=2e-8)


@pytest.mark.parametrize("sd", [0.5, 2.0, 2.9, 8.0, 30.0])
def test_two_classes_are_the_logistic_function(sd):
    """log(eᵃ + eᵇ) = (a + b)/2 + log 2 cosh((a − b)/2), and a − b has variance sd² + 1."""
    a, b, total = 1.0, -0.5, np.sqrt(sd**2 + 1.0)
    found = expected_log_sum_exp(np.array([[a, b]]), np.array([[sd, 1.0]]))

    def expect(g):
        ends = (-9.0 * total, 9.0 * total)
        return integrate.quad(
            lambda t: g(a - b + t) * np.exp(-0.5 * (t / total) ** 2) / total / np.sqrt(2.0 * np.pi),
            *ends,
            points=[b - a],
            limit=500,
            epsabs=1e-12,
        )[0]

    value = 0.5 * (a + b) + expect(lambda t: np.logaddexp(0.5 * t, -0.5 * t))
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    np.testing.assert_allclose(found.in_mean[0, 0], expect(special.expit), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 7, 40])
def test_derivatives_are_those_of_the_value(n_classes, rng):
    mean, sd = rng.normal(size=(5, n_classes)), rng.uniform(0.05, 3.0, size=(5, n_classes))
    found = expected_log_sum_exp(mean, sd)
    step = 1e-5
    for c in {0, n_classes - 1}:
        e = step * np.eye(n_classes)[c]
        slope = (expected_log_sum_exp(mean + e, sd).value - expected_log_sum_exp(mean - e, sd).value) / (2 * step)
        np.testing.assert_allclose(found.in_mean[:, c], slope, atol=1e-8)
        slope = (expected_log_sum_exp(mean, sd + e).value - expected_log_sum_exp(mean, sd - e).value) / (2 * step)
        np.testing.assert_allclose(found.in_sd[:, c], slope, atol=1e-8)


def test_probabilities_sum_to_one_and_a_common_shift_changes_nothing(rng):
    mean, sd = rng.normal(0.0, 3.0, size=(200, 5)), rng.uniform(0.0, 6.0, size=(200, 5))
    found, shifted = expected_log_sum_exp(mean, sd), expected_log_sum_exp(mean - 123.4, sd)
    np.testing.assert_allclose(found.in_mean.sum(axis=1), 1.0, atol=1e-8)
    np.testing.assert_allclose(shifted.value + 123.4, found.value, atol=1e-8)
    np.testing.assert_allclose(shifted.in_mean, found.in_mean, atol=1e-8)


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.0), (1e4, 1.0), (-1e4, 1.0), (0.0, 1e3), (500.0, 60.0)])
def test_nothing_overflows(mean, sd):
    found = expected_log_sum_exp(np.array([[mean, 0.0, 0.0]]), np.array([[sd, 1.0, 0.0]]))
    assert all(np.isfinite(part).all() for part in found)
    assert np.all((found.in_mean >= 0.0) & (found.in_mean <= 1.0 + 1e-6))


def test_what_a_class_may_be():
    assert Softmax(4).support.invalid(np.array([0.0, 3.0, 4.0, -1.0, 1.5])).tolist() == [False, False, True, True, True]
    with pytest.raises(ValueError, match="n_classes must be a whole number of at least 2, got 1"):
        Softmax(1).validate()
