"""The decoupled posterior against dense formulas and the exact process."""

from __future__ import annotations

from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npvi.inference.data import Data
from npvi.inference.stochastic import observed
from npvi.kernels import Matern32
from npvi.likelihoods import Gaussian, Poisson
from npvi.paper.rivals import DGP
from npvi.paper.rivals.dgp import Batch, Dual, Problem, decoupled_basis, loss
from npvi.paper.rivals.posteriors import Spread, marginals
from npvi.paper.rivals.process import Inducing, Places, Process
from npvi.paper.rivals.task import choose_points
from npvi.runtime.precision import float64
from tests.support import oracle
from tests.support.dense_rivals import LENGTH, NOISE, NUGGET, VARIANCE, covariance, exact, gaussian_case, poisson_case

KERNEL = Matern32(LENGTH, VARIANCE)
NEW = np.linspace(-1.0, 7.0, 9)[:, None]
N, ALPHA, BETA = 6, np.array([5, 0, 2, 3]), np.array([2, 4])


def test_all_rows_in_both_bases_give_the_exact_process():
    X, y = gaussian_case()
    settings = {"n_inducing": 30, "n_covariance": 20, "batch_size": len(X), "epochs": 1000}
    with pytest.warns(UserWarning, match="n_inducing is 30 but there are only 20 rows: using all of them"):
        model = DGP(Gaussian(NOISE), KERNEL, nugget=NUGGET, **settings).fit(X, y)
    mean, variance, evidence = exact(X, y, NEW)
    dist = model.predict_dist(NEW)
    rows = marginals(model.posterior_, Places(X, np.arange(len(X))))[0]
    found = np.hstack([rows, [dist.latent_mean, dist.latent_var + NUGGET]])
    np.testing.assert_allclose(found[0], mean, atol=1e-6)
    np.testing.assert_allclose(found[1], variance, atol=1e-5)
    assert model.elbo_ == pytest.approx(evidence, abs=1e-4)


@pytest.fixture(scope="module")
def case():
    """Bases that share one row: the problem in JAX, parameters, and what they mean in dense matrices."""
    rng = np.random.default_rng(4)
    X, y = (part[:N] for part in poisson_case())
    K = covariance(X, X) + NUGGET * np.eye(N)
    c, C = rng.standard_normal(4), np.array([[0.7, 0.0], [-0.4, 0.5]])
    with float64():
        places = Places(jnp.asarray(X), jnp.arange(N))
        basis = decoupled_basis(Inducing.of(Process(KERNEL, NUGGET), places.take(BETA)), places.take(ALPHA))
        problem = Problem(places, observed(Data(Poisson("softplus"), y), 2.0), basis, 1.0)
        dual = Dual(jnp.asarray(c), Spread(jnp.asarray(C), jnp.asarray(np.log(np.diag(C)))), None)
        a = np.asarray(basis.coefficients(dual.mean))
    return X, y, K, problem, dual, a, c, C


def dense_terms(case):
    """Expected log density of each row, and the divergence, by the formulas of the dual representation."""
    _, y, K, _, _, a, _, C = case
    K_beta, between = K[np.ix_(BETA, BETA)], K[:, BETA]
    inverse_L = np.linalg.inv(np.linalg.cholesky(K_beta))
    B = inverse_L.T @ (np.linalg.inv(C @ C.T) - np.eye(2)) @ inverse_L
    inner = np.linalg.inv(np.linalg.inv(B) + K_beta)
    variance = np.diag(K) - np.einsum("ij,jk,ik->i", between, inner, between)
    expected = oracle.poisson_softplus(y).expectations(K[:, ALPHA] @ a, variance)[0]
    logdet = np.linalg.slogdet(np.eye(2) + K_beta @ B)[1]
    divergence = 0.5 * (a @ K[np.ix_(ALPHA, ALPHA)] @ a + logdet - np.trace(K_beta @ inner))
    return expected, divergence


def test_coordinates_of_the_mean_are_white(case):
    _, _, K, _, _, a, c, _ = case
    explained = K[np.ix_(ALPHA, BETA)] @ np.linalg.solve(K[np.ix_(BETA, BETA)], K[np.ix_(BETA, ALPHA)])
    P = explained + np.diag(np.diag(K)[ALPHA] - np.diag(explained))
    assert a @ P @ a == pytest.approx(c @ c, rel=1e-6)
    assert abs(a @ K[np.ix_(ALPHA, ALPHA)] @ a - c @ c) > 0.01  # there is something left to estimate


def test_bound_is_unbiased_over_rows_and_points(case):
    problem, dual = case[3], case[4]
    rows, points = (np.array(list(combinations(range(n), 2))) for n in (N, 4))
    pairs = np.array(list(product(range(len(rows)), range(len(points)))))
    with float64():
        batches = Batch(jnp.asarray(rows[pairs[:, 0]]), jnp.asarray(points[pairs[:, 1]]))
        of_batch = jax.jit(jax.vmap(lambda batch: loss(dual, batch, jax.random.key(0), problem)))
        losses = np.asarray(of_batch(batches)).reshape(len(rows), len(points))
        whole = float(problem.posterior(dual).divergence())
    expected, divergence = dense_terms(case)
    assert whole == pytest.approx(divergence, rel=1e-6)
    np.testing.assert_allclose(losses.mean(axis=1), divergence - N * expected[rows].mean(axis=1), rtol=1e-6)
    assert losses.mean() == pytest.approx(divergence - expected.sum(), rel=1e-6)
    assert min(losses.std(axis=0).min(), losses.std(axis=1).min()) > 1e-3  # both kinds of chance are there


def test_centres_of_clusters_have_no_nugget():
    X, _ = poisson_case()
    alpha, beta = (choose_points("kmeans", X, count, np.random.RandomState(0)) for count in (6, 3))
    with float64():
        inducing = Inducing.of(Process(KERNEL, NUGGET), Places(*map(jnp.asarray, beta)))
        basis = decoupled_basis(inducing, Places(*map(jnp.asarray, alpha)))
    own, between = covariance(beta.X, beta.X), covariance(alpha.X, beta.X)
    left = VARIANCE - np.einsum("ij,ji->i", between, np.linalg.solve(own, between.T))
    np.testing.assert_allclose(basis.left, left, atol=1e-6)
