"""Likelihoods that have their derivatives in NumPy give what JAX gives by the same rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npvi.likelihoods import Gaussian, Poisson, StudentT, curvatures, expectations
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments

CASES = [
    (Poisson(), "exposure"),
    (Poisson("softplus"), "exposure"),
    (Poisson("softplus", knee=3.0), "exposure"),
    (Gaussian(0.3), "noise_variance"),
    (StudentT(0.3, 4.0), None),
    (StudentT(0.01, 400.0), None),
]


@pytest.mark.parametrize(("likelihood", "extra"), CASES, ids=lambda case: str(case))
def test_numpy_and_jax_agree(likelihood, extra, monkeypatch):
    rng = np.random.default_rng(0)
    n = 200
    mean, variance = rng.normal(1.0, 1.5, n), rng.uniform(1e-4, 0.9, n)
    row = {} if extra is None else {extra: rng.uniform(0.2, 5.0, n)}
    # where exp underflows and overflows, and where f is all but known or hardly known at all
    mean[:4], variance[4:9] = [-60.0, -40.0, 30.0, 0.0], [1e-10, 1e-6, 4.0, 25.0, 1e-20]
    y = rng.poisson(np.minimum(np.exp(mean), 1e4)).astype(float)

    def everything():
        parts = [expectations(likelihood, y, mean, np.maximum(variance, 1e-4), row)]
        parts += [curvatures(likelihood, y, mean, np.sqrt(variance), row)]
        parts += [conditional_moments(likelihood, mean, row), predictive_moments(likelihood, mean, variance, row)]
        return [array for part in parts for array in part] + [predictive_log_prob(likelihood, y, mean, variance, row)]

    found = everything()
    monkeypatch.setattr(in_numpy, "_has", lambda kind, method: False)
    for ours, theirs in zip(found, everything(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_log_factorials_of_large_and_broken_counts():
    y = np.array([0.0, 3.0, 1023.0, 5000.0, 2.5])
    f = np.array([0.0, 1.0, 7.0, 8.0, 1.0])
    expected = y * f - np.exp(f) - [math.lgamma(each + 1.0) for each in y]
    np.testing.assert_allclose(Poisson().log_prob_slopes(y, f)[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(Poisson().log_prob_slopes(y[:3], f[:3])[0], Poisson().log_prob_slopes(y, f)[0][:3])
