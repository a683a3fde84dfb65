"""With all earlier points as parents and Gaussian noise, NPVI is the dense Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.likelihoods import Gaussian
from tests.support import oracle
from tests.support.models import paper_regressor
from tests.support.problems import KERNELS

N, NOISE, NUGGET = 80, 0.2, 0.03


def fitted(kernel="matern32", mean="zero", noise=NOISE, nugget=NUGGET, **settings):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(N, 2))
    X[40] = X[7]  # two rows at one place
    y = 2.0 + np.sin(6.0 * X[:, 0]) + 0.4 * rng.standard_normal(N)
    kernel_class, dense_kernel = KERNELS[kernel]
    parameters = {"length_scale": 0.4, "variance": 1.7}
    settings = {"n_neighbors": N - 1, "random_state": 0, **settings}
    model = paper_regressor(Gaussian(noise), kernel=kernel_class(**parameters), nugget=nugget, mean=mean, **settings)
    model.fit(X, y)
    covariance = dense_kernel(X, X, **parameters) + nugget * np.eye(N)
    dense = oracle.DenseGP(covariance, y, noise)
    dense = dense.with_best_constant() if mean == "constant" else dense
    return model, dense, X, lambda Z: dense_kernel(Z, X, **parameters)


def evidence(dense, mean):
    return dense.log_evidence_of_any_constant() if mean == "constant" else dense.log_marginal_likelihood()


every_mean = pytest.mark.parametrize("mean", ["zero", "constant"])


@every_mean
@pytest.mark.parametrize("kernel", KERNELS)
def test_posterior_and_bound_are_the_dense_ones(kernel, mean):
    model, dense, _, _ = fitted(kernel, mean)
    order = model.graph_.order
    expected_mean, expected_covariance = dense.posterior()
    L = oracle.dense_triangular(model.posterior_.factor)  # given the constant
    np.testing.assert_allclose(
        model.posterior_.mean, expected_mean[order], rtol=0, atol=1e-8 * np.abs(expected_mean).max()
    )
    expected_covariance = expected_covariance[np.ix_(order, order)]
    np.testing.assert_allclose(L @ L.T, expected_covariance, rtol=0, atol=1e-8 * np.abs(expected_covariance).max())
    assert isinstance(model.elbo_, float)
    assert model.elbo_ == pytest.approx(evidence(dense, mean), rel=1e-8)
    assert model.fit_info_["converged"]


@every_mean
@pytest.mark.parametrize("settings", [{"order": "given"}, {"order": "random"}, {"rule": "paper", "order": "grid"}])
def test_the_order_does_not_matter_when_all_are_parents(mean, settings):
    model, dense, _, _ = fitted("matern12", mean, **settings)
    assert model.elbo_ == pytest.approx(evidence(dense, mean), rel=1e-8)
    mu, _ = dense.posterior()
    np.testing.assert_allclose(model.posterior_.mean, mu[model.graph_.order], rtol=0, atol=1e-8 * np.abs(mu).max())


@pytest.mark.parametrize("noise", [1e-4, 50.0])
def test_little_and_much_noise(noise):
    model, dense, _, _ = fitted("matern32", noise=noise)
    assert model.elbo_ == pytest.approx(dense.log_marginal_likelihood(), rel=1e-8)
    mu, _ = dense.posterior()
    np.testing.assert_allclose(model.posterior_.mean, mu[model.graph_.order], rtol=0, atol=1e-8 * np.abs(mu).max())


@every_mean
@pytest.mark.parametrize("kernel", ["rbf", "matern12"])
def test_predictions_are_the_dense_ones_and_the_nugget_is_fresh(kernel, mean):
    """At a training location the new row shares everything with the old but the nugget, which is no part of f."""
    model, dense, X, cross = fitted(kernel, mean)
    Z = np.vstack([np.random.default_rng(0).uniform(size=(30, 2)), X, [[25.0, 25.0]]])
    expected_mean, expected_variance = dense.predict(cross(Z), 1.7)
    unknown = dense.what_the_constant_adds(cross(Z)) if mean == "constant" else np.zeros(len(Z))
    expected_variance = expected_variance + unknown
    dist = model.predict_dist(Z)
    off = 3e-7 if mean == "constant" else 1e-8  # the residual that a fit with coefficients ends at, or rounding
    np.testing.assert_allclose(dist.latent_mean, expected_mean, rtol=1e-8, atol=off)
    np.testing.assert_allclose(dist.latent_var, expected_variance, rtol=1e-8)
    np.testing.assert_allclose(dist.mean, expected_mean, rtol=1e-8, atol=off)
    np.testing.assert_allclose(dist.var, expected_variance + NUGGET + NOISE, rtol=1e-8)
    assert dist.nugget == NUGGET
    assert dist.latent_var[-1] == pytest.approx(1.7 + unknown[-1])  # far from everything: the prior
    assert dist.latent_mean[-1] == pytest.approx(dense.constant, rel=1e-7, abs=1e-12)


def test_the_constant_is_the_most_likely_one():
    model, dense, _, _ = fitted("matern52", "constant")
    assert model.mean_coefficients_.shape == (1,)
    # a flat optimum: the optimiser knows the constant to half as many digits as the likelihood
    assert model.mean_coefficients_[0] == pytest.approx(dense.constant, rel=1e-6)
    for shift in (-0.1, 0.1):
        other = oracle.DenseGP(dense.covariance, dense.y, NOISE, dense.constant + shift)
        assert dense.log_marginal_likelihood() > other.log_marginal_likelihood()
    assert fitted("matern52", "zero")[0].mean_coefficients_.shape == (0,)


@pytest.mark.parametrize("K", [1, 4, 15])
def test_with_few_parents_the_bound_is_below_the_likelihood_of_the_nngp(K):
    """The evidence of the model whose prior is the NNGP; NPVI's sparse L can only bound it."""
    model, dense, _, _ = fitted("rbf", n_neighbors=K)
    order = model.graph_.order
    P, _ = oracle.nngp_precision(dense.covariance[np.ix_(order, order)], model.graph_.parents)
    nngp = oracle.DenseGP(np.linalg.inv(P), dense.y[order], NOISE)
    assert model.elbo_ < nngp.log_marginal_likelihood()
    # the mean is not restricted: it is the exact one of the NNGP
    mu, _ = nngp.posterior()
    np.testing.assert_allclose(model.posterior_.mean, mu, rtol=0, atol=1e-8 * np.abs(mu).max())
