"""The envelope gradient against differences of a dense formula."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.kernels import RBF, Matern12, Matern32, Matern52, Periodic, RationalQuadratic, Stationary
from npvi.linalg import zero_fill_factor
from npvi.priors import NNGP
from npvi.priors.conditionals import grain
from npvi.priors.gradient import expected_log_density_gradient, marginal_gradient
from npvi.runtime.parallel import threads
from tests.support.oracle import dense_triangular

KERNELS = {
    "matern12, ard": Matern12([0.3, 0.6], 1.3),
    "matern32": Matern32(0.4, 0.7),
    "matern52, ard": Matern52([0.3, 0.6], 1.3),
    "rbf": RBF(0.3, 2.0),
    "rational quadratic": RationalQuadratic(0.4, alpha=1.5, variance=1.2),
    "sum": RBF([0.5, 0.2], 1.0) + Matern12(0.2, 0.4),
    "product": 2.0 * Matern32(0.5) * Periodic(period=0.7),
}
WEIGHTS = np.array([1.0, 0.25, 0.25, 0.25, 0.25])


def objective(kernel, nugget, X, graph, functions):
    """Σ −½ [log d + Σ_s weight (f − b f_parents)²/d] by the prior's own conditionals, which have tests of their own."""
    prior = NNGP(kernel, nugget, X, graph)
    residuals = prior.root.dot(functions)
    return -0.5 * (prior.logdet + (residuals**2 * WEIGHTS).sum())


def names(kernel):
    return [name for name, value in kernel.get_params(deep=True).items() if isinstance(value, float | list)]


def made(n, K):
    rng = np.random.default_rng(n)
    X = rng.random((n, 2))
    X[1] = X[0]  # a repeated point
    graph = build_graph(X, K)
    return X[graph.order], graph, rng


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("n", "K"), [(60, 7), (9, 20), (300, 3)])
def test_against_differences(name, n, K):
    kernel = KERNELS[name]
    X, graph, rng = made(n, K)
    functions = rng.standard_normal((n, 5))
    found = expected_log_density_gradient(NNGP(kernel, 0.05, X, graph), functions, WEIGHTS)
    _check(found, kernel, lambda kernel, nugget: objective(kernel, nugget, X, graph, functions))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("n", "K"), [(60, 7), (9, 20), (300, 3), (40, 39)])
def test_marginal_gradient_against_differences(name, n, K):
    kernel = KERNELS[name]
    X, graph, rng = made(n, K)
    mean, w = rng.standard_normal(n), rng.exponential(size=n)

    def marginal(kernel, nugget):
        prior = NNGP(kernel, nugget, X, graph)
        if n - 1 <= K:  # there the factor is that of P + W itself
            determinant = np.linalg.slogdet(prior.block(np.arange(n)) + np.diag(w))[1]
        else:
            determinant = zero_fill_factor(prior.root, w).log_determinant()
        return -0.5 * (prior.quadratic(mean) + prior.logdet + determinant)

    prior = NNGP(kernel, 0.05, X, graph)
    _check(marginal_gradient(prior, mean[:, None], zero_fill_factor(prior.root, w)), kernel, marginal)


def test_where_the_factor_is_not_exact_draws_tell_the_rest():
    """Against the dense determinant: no bias, and a fraction of the noise of draws alone."""
    kernel, n, n_draws, seeds = Matern32(0.3, 2.0), 300, 32, 40
    X, graph, rng = made(n, 6)
    prior = NNGP(kernel, 0.05, X, graph)
    mean, w = np.zeros(n), rng.exponential(size=n)
    factor = zero_fill_factor(prior.root, w)
    A = prior.block(np.arange(n)) + np.diag(w)

    def marginal(nugget):
        prior = NNGP(kernel, nugget, X, graph)
        return -0.5 * (prior.logdet + np.linalg.slogdet(prior.block(np.arange(n)) + np.diag(w))[1])

    exact = (marginal(0.05 + 1e-5) - marginal(0.05 - 1e-5)) / 2e-5
    # draws U⁻ᵀM^{−½}ε of N(0, A⁻¹)
    U_inverse = np.linalg.inv(dense_triangular(factor.transpose).T)
    values, vectors = np.linalg.eigh(U_inverse @ A @ U_inverse.T)
    assert np.abs(values - 1.0).max() > 0.05  # or there would be nothing to tell
    root = U_inverse.T @ (vectors / np.sqrt(values)) @ vectors.T
    both, alone = [], []
    for seed in range(seeds):
        noise = np.random.default_rng(seed).standard_normal((n, n_draws))
        draws = root @ noise
        both.append(marginal_gradient(prior, mean[:, None], factor, draws, noise).nugget)
        weights = np.append(1.0, np.full(n_draws, 1.0 / n_draws))
        alone.append(expected_log_density_gradient(prior, np.column_stack([mean, draws]), weights).nugget)
    assert abs(np.mean(both) - exact) < 4.0 * np.std(both) / np.sqrt(seeds)
    assert abs(np.mean(alone) - exact) < 4.0 * np.std(alone) / np.sqrt(seeds)
    assert np.std(both) < 0.3 * np.std(alone)


def _check(found, kernel, function):
    for parameter in names(kernel):
        derivatives = np.atleast_1d(found.kernel.get_params(deep=True)[parameter])
        value = kernel.get_params(deep=True)[parameter]
        for at, derivative in enumerate(derivatives):
            ends = []
            for step in (1e-5, -1e-5):
                moved = np.array(value, dtype=float)
                moved[... if moved.ndim == 0 else at] *= np.exp(step)
                changed = _with(kernel, parameter, moved.tolist())
                ends.append(function(changed, 0.05))
            along_log = derivative * np.atleast_1d(value)[at]
            assert along_log == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-5, abs=1e-4), (parameter, at)
    ends = [function(kernel, 0.05 * np.exp(step)) for step in (1e-5, -1e-5)]
    assert found.nugget * 0.05 == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-5, abs=1e-4)


def _with(kernel, parameter, value):
    from sklearn.base import clone

    return clone(kernel).set_params(**{parameter: value})


def test_rows_add_up_and_threads_make_no_difference():
    rng = np.random.default_rng(0)
    X, functions = rng.random((500, 2)), rng.standard_normal((500, 5))
    graph = build_graph(X, 6)
    prior = NNGP(RBF([0.3, 0.4], 1.2), 0.05, X[graph.order], graph)
    whole = expected_log_density_gradient(prior, functions, WEIGHTS)
    halves = [
        expected_log_density_gradient(prior, functions, WEIGHTS, rows.astype(np.int32))
        for rows in (np.arange(250), np.arange(250, 500))
    ]
    mean = sum(half.kernel.length_scale for half in halves) / 2.0
    np.testing.assert_allclose(mean, whole.kernel.length_scale, rtol=1e-10)
    with threads(1):
        alone = expected_log_density_gradient(prior, functions, WEIGHTS)
    np.testing.assert_allclose(alone.kernel.length_scale, whole.kernel.length_scale, rtol=1e-10)
    np.testing.assert_allclose(alone.nugget, whole.nugget, rtol=1e-10)


class Plain(Stationary):
    """A user's own kernel, written without a thought for r = 0."""

    def correlation(self, r2):
        return jnp.exp(-jnp.sqrt(r2))


def test_own_stationary_kernels_have_a_gradient_where_points_coincide():
    X, graph, rng = made(60, 7)
    functions = rng.standard_normal((60, 5))
    own, ours = (
        expected_log_density_gradient(NNGP(kernel, 0.05, X, graph), functions, WEIGHTS)
        for kernel in (Plain([0.3, 0.6], 1.3), Matern12([0.3, 0.6], 1.3))
    )
    np.testing.assert_allclose(own.kernel.length_scale, ours.kernel.length_scale, rtol=1e-6)
    np.testing.assert_allclose(own.kernel.variance, ours.kernel.variance, rtol=1e-6)
    np.testing.assert_allclose(own.nugget, ours.nugget, rtol=1e-9)


def test_many_neighbours_are_done_by_one_thread():
    assert grain(1000, 20) == 16
    assert grain(1000, 3000) == 1000
