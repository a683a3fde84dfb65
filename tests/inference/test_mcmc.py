"""The sampler that test_full.py trusts, where the posterior is known; its ellipses are, on purpose, not quite that."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import oracle
from tests.support.mcmc import sample
from tests.support.noises import NOISES


@pytest.mark.parametrize(("shift", "width"), [(0.0, 1.0), (0.3, 1.5), (-0.3, 0.7)])
def test_gaussian_noise(shift, width):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20, 2))
    covariance, y = oracle.matern32(X, X, 0.4, 1.5) + 0.05 * np.eye(20), np.sin(5.0 * X[:, 0])
    mean, V = oracle.DenseGP(covariance, y, 0.2).posterior()
    log_prob = oracle.gaussian(y, 0.2).log_prob
    found = sample(
        lambda f: log_prob(f).sum(axis=0),
        np.linalg.inv(covariance),
        mean + shift * np.sqrt(np.diag(V)),
        width * V,
        rng,
    )
    assert np.abs((found.mean - mean) / found.error).max() < 4.0
    assert (found.error / found.sd).max() < 0.02
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(V)), rtol=0.05)


@pytest.mark.parametrize("name", ["exponential", "student-t", "bernoulli"])
def test_two_points_by_brute_force(name):
    y = {"exponential": [0.02, 3.0], "student-t": [-1.0, 1.0], "bernoulli": [1.0, 0.0]}[name]
    covariance = np.array([[3.0, 1.0], [1.0, 3.0]])
    precision, log_prob = np.linalg.inv(covariance), NOISES[name].of(np.array(y), {})
    line = np.linspace(-12.0, 12.0, 401)
    f = np.array(np.meshgrid(line, line)).reshape(2, -1)
    log_posterior = log_prob(f).sum(axis=0) - 0.5 * (f * (precision @ f)).sum(axis=0)
    p = np.exp(log_posterior - log_posterior.max())
    mean = f @ p / p.sum()
    sd = np.sqrt(f**2 @ p / p.sum() - mean**2)
    reference = 0.8 * sd.max() ** 2 * np.eye(2)
    found = sample(lambda f: log_prob(f).sum(axis=0), precision, mean + 0.5, reference, np.random.default_rng(1), 0.04)
    assert np.abs((found.mean - mean) / found.error).max() < 4.0
    assert (found.error / found.sd).max() < 0.04
    np.testing.assert_allclose(found.sd, sd, rtol=0.05)
