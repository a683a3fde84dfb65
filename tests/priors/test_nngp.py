"""The five questions that a prior answers, against dense matrices."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.kernels import RBF, Kernel, Linear, Matern12, Matern32, Matern52, RationalQuadratic, Subset
from npvi.priors import NNGP, NotPositiveDefiniteError
from tests.support import oracle

KERNELS = {
    "rbf": (RBF(0.3, variance=2.0), lambda A, B: oracle.rbf(A, B, 0.3, 2.0)),
    "matern12": (Matern12(0.5), lambda A, B: oracle.matern12(A, B, 0.5)),
    "matern32": (Matern32(0.4, variance=0.5), lambda A, B: oracle.matern32(A, B, 0.4, 0.5)),
    "matern52": (Matern52(0.4), lambda A, B: oracle.matern52(A, B, 0.4)),
    "rational quadratic": (
        RationalQuadratic(0.4, alpha=2.0),
        lambda A, B: oracle.rational_quadratic(A, B, 0.4, alpha=2.0),
    ),
    "ard": (RBF([0.2, 0.9]), lambda A, B: oracle.rbf(A / [0.2, 0.9], B / [0.2, 0.9])),
    "product": (
        Subset(Matern12(0.5), [0]) * Subset(RBF(0.4), [1]),
        lambda A, B: oracle.matern12(A[:, :1], B[:, :1], 0.5) * oracle.rbf(A[:, 1:], B[:, 1:], 0.4),
    ),
    "sum": (Matern32(0.3) + Linear(0.5), lambda A, B: oracle.matern32(A, B, 0.3) + 0.5 * A @ B.T),
}
NUGGET = 0.02


def made(kernel, n, K, nugget=NUGGET, seed=0, **settings):
    kernel, dense = KERNELS[kernel]
    X = np.random.default_rng([n, seed]).uniform(size=(n, 2))
    graph = build_graph(kernel.coordinates(X), K, **settings)
    X = X[graph.order]
    covariance = dense(X, X) + nugget * np.eye(n)
    return NNGP(kernel, nugget, X, graph), covariance, dense


def assert_close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "K"), [(1, 1), (2, 1), (50, 49), (40, 200)])
def test_with_all_parents_it_is_the_gaussian_process(kernel, n, K):
    prior, covariance, _ = made(kernel, n, K)
    everything = np.arange(n)
    assert_close(np.linalg.inv(prior.block(everything)), covariance)
    assert prior.logdet == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-9, abs=1e-10)
    x = np.random.default_rng(1).standard_normal((n, 3))
    assert_close(covariance @ prior.matvec(x), x)
    assert prior.quadratic(x[:, 0]) == pytest.approx(x[:, 0] @ np.linalg.solve(covariance, x[:, 0]), rel=1e-8)


@pytest.mark.parametrize("settings", [{}, {"rule": "paper", "order": "random"}, {"order": "given"}], ids=str)
@pytest.mark.parametrize("K", [1, 4, 12])
@pytest.mark.parametrize("kernel", KERNELS)
def test_with_few_parents_it_is_the_definition(kernel, K, settings):
    prior, covariance, _ = made(kernel, 90, K, **settings)
    B, d = oracle.nngp(covariance, prior.graph.parents)
    for i, row in enumerate(prior.graph.parents):
        count = int((row >= 0).sum())
        np.testing.assert_allclose(prior.conditional_mean_weights[i, :count], B[i, row[:count]], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(prior.conditional_mean_weights[i, count:], 0.0)
    np.testing.assert_allclose(prior.conditional_variance, d, rtol=1e-9)
    P, logdet = oracle.nngp_precision(covariance, prior.graph.parents)
    assert prior.logdet == pytest.approx(logdet, rel=1e-9)
    some = np.random.default_rng(0).choice(90, 15, replace=False)
    assert_close(prior.block(some), P[np.ix_(some, some)])
    x = np.random.default_rng(1).standard_normal(90)
    assert_close(prior.matvec(x), P @ x)
    assert_close(prior.matvec(np.column_stack([x, -x])), np.column_stack([P @ x, -P @ x]))
    assert prior.quadratic(x) == pytest.approx(x @ P @ x, rel=1e-9)


@pytest.mark.parametrize("K", [1, 5, 29])
def test_draws_have_the_precision_as_covariance(K):
    prior, covariance, _ = made("matern32", 30, K, nugget=0.3)
    P, _ = oracle.nngp_precision(covariance, prior.graph.parents)
    n_draws = 200_000
    x = prior.draw(np.random.default_rng(0), n_draws)
    assert x.shape == (30, n_draws)
    # each entry of the sample covariance has variance (P_ij² + P_ii P_jj)/n; all 465 within five deviations
    deviation = np.sqrt((P**2 + np.outer(np.diag(P), np.diag(P))) / n_draws)
    assert np.all(np.abs(x @ x.T / n_draws - P) < 5.0 * deviation)
    assert np.all(np.abs(x.mean(axis=1)) < 5.0 * np.sqrt(np.diag(P) / n_draws))
    np.testing.assert_array_equal(x[:, :7], prior.draw(np.random.default_rng(0), n_draws)[:, :7])
    assert prior.draw(np.random.default_rng(0)).shape == (30, 1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "K", "used"), [(1, 1, 1), (40, 39, 40), (80, 6, 6)])
def test_conditional_of_new_points(kernel, n, K, used):
    prior, covariance, dense = made(kernel, n, K)
    Z = np.vstack([np.random.default_rng(5).uniform(size=(20, 2)), prior.X[:5]])
    given = prior.conditional(Z)
    assert given.neighbors.shape == given.weights.shape == (len(Z), used)
    for z, near, weights, variance in zip(Z, *given):
        assert len(set(near.tolist())) == used
        cross = dense(z[None], prior.X[near])[0]
        expected = np.linalg.solve(covariance[np.ix_(near, near)], cross)
        np.testing.assert_allclose(weights, expected, rtol=1e-7, atol=1e-9)
        # the nugget is in the total and not in the covariance, at a place that was seen as well
        total = dense(z[None], z[None])[0, 0] + NUGGET
        assert variance == pytest.approx(total - expected @ cross, rel=1e-7)
        assert variance > NUGGET
        away = np.setdiff1d(np.arange(n), near)
        if kernel not in ("sum", "product", "ard") and len(away):
            distance = oracle.distances(z[None], prior.X)[0]
            assert distance[near].max() <= distance[away].min() + 1e-12


def test_neighbours_are_near_in_the_kernels_own_metric():
    kernel = RBF([1e-3, 1e3])
    X = np.random.default_rng(0).uniform(size=(200, 2))
    graph = build_graph(kernel.coordinates(X), 5)
    prior = NNGP(kernel, 0.1, X[graph.order], graph)
    Z = np.random.default_rng(1).uniform(size=(10, 2))
    for z, near in zip(Z, prior.conditional(Z).neighbors):
        nearest = np.argsort(np.abs(prior.X[:, 0] - z[0]))[:5]
        assert set(near.tolist()) == set(nearest.tolist())


def test_a_point_without_noise_is_known_where_it_was_seen():
    prior, _, _ = made("matern12", 40, 10, nugget=0.0)
    given = prior.conditional(prior.X[:6])
    np.testing.assert_allclose(given.variance, 0.0, atol=1e-12)
    np.testing.assert_array_equal(given.neighbors[:, 0], np.arange(6))
    np.testing.assert_allclose(given.weights[:, 0], 1.0, rtol=1e-9)
    np.testing.assert_allclose(given.weights[:, 1:], 0.0, atol=1e-9)


# -- not positive definite --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["maximin", "given", "random"])
def test_repeated_points_without_a_nugget_are_named(order):
    X = np.random.default_rng(0).uniform(size=(60, 2))
    X[41] = X[13]
    graph = build_graph(X, 5, order=order)
    with pytest.raises(NotPositiveDefiniteError) as error:
        NNGP(Matern32(), 0.0, X[graph.order], graph)
    message = str(error.value)
    rows = re.search(r"rows (\d+) and (\d+) are only 0 apart", message)
    assert rows is not None, message
    assert {int(rows[1]), int(rows[2])} == {13, 41}
    assert "nugget is 0" in message
    assert "add a nugget, for example nugget=0.0001" in message
    assert " of 60 points" in message
    assert isinstance(error.value, ValueError)
    NNGP(Matern32(), 1e-4, X[graph.order], graph)  # the advice helps


def test_too_smooth_a_kernel_names_the_two_closest_rows_of_a_neighbourhood():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    graph = build_graph(X, 20)
    with pytest.raises(
        NotPositiveDefiniteError, match=r"for example nugget=0\.0005, or choose a smaller variance or a rougher"
    ) as error:
        NNGP(RBF(3.0, variance=5.0), 0.0, X[graph.order], graph)
    rows = re.search(r"rows (\d+) and (\d+) are only (\S+) apart", str(error.value))
    a, b = int(rows[1]), int(rows[2])
    assert np.linalg.norm(X[a] - X[b]) == pytest.approx(float(rows[3]), rel=5e-3)


def test_the_advised_nugget_is_never_zero():
    """A linear kernel has no variance at the origin, but a nugget of 0 is no advice."""
    X = np.vstack([np.random.default_rng(0).uniform(size=(20, 2)), np.zeros((1, 2))])
    graph = build_graph(X, 3, order=np.arange(21)[::-1])
    with pytest.raises(NotPositiveDefiniteError) as error:
        NNGP(Linear(), 0.0, X[graph.order], graph)
    advised = float(re.search(r"for example nugget=([^,]+),", str(error.value))[1])
    assert advised > 0.0
    NNGP(Linear(), advised, X[graph.order], graph)


def test_forgetting_the_precision_is_harmless():
    prior, covariance, _ = made("rbf", 30, 5)
    before = prior.lower_half
    assert prior.lower_half is before
    prior.forget_precision()
    assert prior.lower_half is not before
    prior.forget_precision()
    prior.forget_precision()
    P, _ = oracle.nngp_precision(covariance, prior.graph.parents)
    assert_close(prior.block(np.arange(30)), P)


class PerInput(Kernel):
    """Of a user: `variance` needn't be a number."""

    def __init__(self, variance=(1.0, 2.0)):
        self.variance = variance

    def __call__(self, x, z):
        return jnp.sum(jnp.asarray(self.variance) * jnp.exp(-jnp.abs(x - z)))


@pytest.mark.parametrize("kernel", [Matern32(0.3), PerInput()], ids=["formula", "own"])
def test_no_new_points_and_own_kernels(kernel):
    X = np.random.default_rng(0).random((30, 2))
    graph = build_graph(X, 5)
    prior = NNGP(kernel, 0.1, X[graph.order], graph)
    assert prior.conditional(np.empty((0, 2))).weights.shape == (0, 5)
    assert np.isfinite(prior.logdet)


def test_in_a_gap_more_neighbours_say_more():
    rng = np.random.default_rng(0)
    X = rng.random((900, 2))
    X = X[np.hypot(*(X - 0.5).T) > 0.25]
    Z = 0.5 + 0.1 * rng.standard_normal((50, 2))
    graph = build_graph(X, 10)
    X = X[graph.order]
    prior = NNGP(Matern12(0.5), 1e-6, X, graph)
    f = rng.standard_normal(len(X)).cumsum() / 10.0  # anything
    f = np.linalg.cholesky(oracle.matern12(X, X, 0.5) + 1e-6 * np.eye(len(X))) @ f
    exact = oracle.matern12(Z, X, 0.5) @ np.linalg.solve(oracle.matern12(X, X, 0.5) + 1e-6 * np.eye(len(X)), f)
    near, wide = (prior.conditional(Z, times) for times in (1, 3))
    assert wide.weights.shape == (50, 30)
    assert np.abs(wide.mean(f) - exact).mean() < 0.6 * np.abs(near.mean(f) - exact).mean()
    assert (wide.variance <= near.variance + 1e-9).all()


@pytest.mark.filterwarnings("error")
def test_sites_that_take_away_more_than_there_is_have_no_classical_factor():
    prior, _, _ = made(next(iter(KERNELS)), 40, 5)
    found = prior.factor(np.full(40, -1e6), "classical").half(np.ones(40))
    assert not np.isfinite(found).all()
