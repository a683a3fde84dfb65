"""Expectations by draws, mixtures of Gaussians, and SAVIGP against the exact process."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from npvi.kernels import Matern32
from npvi.likelihoods import Likelihood, Poisson
from npvi.paper.rivals import SAVIGP
from npvi.paper.rivals.posteriors import marginals
from npvi.paper.rivals.process import Places
from npvi.paper.rivals.savigp import expected_by_draws, stratified_normals
from npvi.runtime.precision import float64
from tests.support import oracle
from tests.support.dense_rivals import (
    LENGTH,
    NOISE,
    NUGGET,
    VARIANCE,
    Dense,
    covariance,
    exact,
    gaussian_case,
    poisson_case,
)

KERNEL = Matern32(LENGTH, VARIANCE)
NEW = np.linspace(-1.0, 7.0, 9)[:, None]


class OnlyEvaluated(Likelihood):
    """Gaussian noise that refuses to be differentiated."""

    def log_prob(self, y, f, **row):
        @jax.custom_jvp
        def value(f):
            return -0.5 * (jnp.log(2.0 * jnp.pi * NOISE) + (y - f) ** 2 / NOISE)

        @value.defjvp
        def refuse(primals, tangents):
            raise AssertionError("the likelihood was differentiated")

        return value(f)


def test_all_rows_as_inducing_points_give_the_exact_process():
    X, y = gaussian_case()
    # rows seven at a time, which leaves a block that isn't full
    settings = {"n_inducing": len(X), "batch_size": 7, "samples": 20}
    model = SAVIGP(OnlyEvaluated(), KERNEL, nugget=NUGGET, **settings).fit(X, y)
    mean, variance, evidence = exact(X, y, NEW)
    dist = model.predict_dist(NEW)
    rows = marginals(model.posterior_, Places(X, np.arange(len(X))))[0]
    found = np.hstack([rows, [dist.latent_mean, dist.latent_var + NUGGET]])
    np.testing.assert_allclose(found[0], mean, atol=1e-4)
    np.testing.assert_allclose(found[1], variance, atol=1e-4)
    assert model.elbo_ == pytest.approx(evidence, abs=1e-4)
    assert model.fit_info_["elbo"][-1] == pytest.approx(evidence, abs=1e-4)  # no chance is left for Gaussian noise


def test_expectations_by_draws():
    y, mean, variance = np.array([0.0, 3.0, 8.0]), np.array([-0.5, 1.0, 2.0]), np.array([1.5, 0.4, 0.9])
    counts = oracle.poisson_softplus(y)
    likelihood = Poisson("softplus")

    def estimate(key):
        z = jax.vmap(lambda key: stratified_normals(key, 8, 3))(jax.random.split(key))

        def total(m, v):
            values = expected_by_draws(lambda f: likelihood.log_prob(jnp.asarray(y), f), m, v, z)
            return values.sum(), values

        slopes, values = jax.grad(total, argnums=(0, 1), has_aux=True)(jnp.asarray(mean), jnp.asarray(variance))
        return jnp.stack([values, *slopes])

    with float64():
        found = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(0), 5_000)))
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - counts.expectations(mean, variance)) < 4.5 * error)
    # sixteen draws without strata and control variates are off by √(Var[log p] / 16)
    z = np.random.default_rng(0).standard_normal((3, 100_000))
    plain = counts.log_prob(mean[:, None] + np.sqrt(variance)[:, None] * z).std(axis=1) / 4.0
    assert np.all(found[:, 0].std(axis=0) < 0.2 * plain)


@pytest.fixture(scope="module")
def mixture():
    """A mixture of two over eight inducing values, fitted; and the same dense: K, weights, means and variances."""
    X, y = poisson_case()
    settings = {"nugget": NUGGET, "n_inducing": 8, "mean": "constant"}
    model = SAVIGP(Poisson("softplus"), KERNEL, components=2, samples=20, **settings).fit(X, y)
    posterior = model.posterior_
    Z, q = np.asarray(posterior.inducing.points.X), posterior.q
    K = covariance(Z, Z) + NUGGET * np.eye(8)
    weights = np.exp(q.logits) / np.exp(q.logits).sum()
    return model, Z, K, weights, np.asarray(q.means) @ np.linalg.cholesky(K).T, np.exp(2.0 * np.asarray(q.log_sd))


def test_a_mixture_gets_close_to_the_best_gaussian(mixture):
    model = mixture[0]
    X, y = poisson_case()
    rows = np.asarray(model.posterior_.inducing.points.rows)
    best, (mean, _) = Dense.of(X, rows, oracle.poisson_softplus(y)).maximum()
    assert best - 8.0 < model.elbo_ < best  # diagonal covariances, and a bound of the entropy
    found = marginals(model.posterior_, Places(X, np.arange(len(X))))
    for of_component, _ in found:
        assert np.abs(of_component - mean).max() < 0.5


def test_divergence_of_a_mixture(mixture):
    model, _, K, weights, means, variances = mixture
    with float64():
        found = float(jax.jit(lambda posterior: posterior.divergence())(model.posterior_))
    prior = stats.multivariate_normal(np.zeros(8), K)
    cross = [prior.logpdf(m) - 0.5 * np.trace(np.linalg.solve(K, np.diag(s))) for m, s in zip(means, variances)]
    under = [
        [stats.multivariate_normal(n, np.diag(s + t)).logpdf(m) for n, t in zip(means, variances)]
        for m, s in zip(means, variances)
    ]
    overlap = special.logsumexp(np.log(weights) + under, axis=1)
    assert found == pytest.approx(weights @ (overlap - cross), rel=1e-6)
    # and it is an upper bound of the true one, which draws tell
    rng = np.random.default_rng(0)
    which = rng.choice(2, 20_000, p=weights)
    u = means[which] + np.sqrt(variances[which]) * rng.standard_normal((20_000, 8))
    parts = [w * stats.multivariate_normal(m, np.diag(s)).pdf(u) for w, m, s in zip(weights, means, variances)]
    true = np.mean(np.log(sum(parts)) - prior.logpdf(u))
    assert true < found < true + 8.0 * 0.5 * (1.0 - np.log(2.0)) + 1.0


def test_what_a_mixture_predicts(mixture):
    model, Z, K, weights, means, variances = mixture
    between = covariance(Z, NEW)
    a = np.linalg.solve(K, between)
    mean = float(model.posterior_.constant) + means @ a
    variance = VARIANCE + NUGGET - np.sum(a * between, axis=0) + variances @ a**2
    dist, y = model.predict_dist(NEW), np.arange(9.0)
    np.testing.assert_allclose(dist.latent_mean, weights @ mean, atol=1e-6)
    z, density = np.linspace(-9.0, 9.0, 801), stats.norm.pdf(np.linspace(-9.0, 9.0, 801))
    f = mean[..., None] + np.sqrt(variance)[..., None] * z
    probability = stats.poisson.pmf(y[:, None], np.logaddexp(0.0, f)) @ (density / density.sum())
    np.testing.assert_allclose(dist.log_prob(y), np.log(weights @ probability), atol=1e-6)
    assert model.log_score(NEW, y) == pytest.approx(np.log(weights @ probability).mean(), abs=1e-6)
    assert dist.sample(2, seed=0).shape == (2, 9)
