"""The zero-fill factor, and conjugate gradients with it."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.graph import build_graph, extend_graph
from npvi.kernels import RBF
from npvi.linalg import Triangular, conjugate_gradients, zero_fill_factor
from npvi.linalg.widen import widened
from npvi.priors import NNGP
from npvi.runtime.parallel import threads
from tests.support.linalg_cases import KERNELS, prior, triangular
from tests.support.oracle import dense_triangular, pattern


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "K"), [(1, 1), (2, 1), (60, 3), (300, 10), (50, 49)])
def test_without_sites_it_is_the_priors_own_root(kernel, n, K):
    root = prior(n, K, kernel).root
    factor = zero_fill_factor(root, np.zeros(n))
    scale = np.abs(root.diagonal).max()
    np.testing.assert_allclose(factor.transpose.diagonal, root.diagonal, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(factor.transpose.edges, root.edges, rtol=0, atol=1e-10 * scale)
    assert len(factor.breakdowns) == 0
    assert factor.log_determinant() == pytest.approx(-prior(n, K, kernel).logdet, rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [2, 3, 40, 120])
def test_on_a_complete_pattern_it_is_exact(kernel, n):
    root = prior(n, n - 1, kernel).root
    w = np.random.default_rng(n).exponential(size=n) * 10.0 ** np.random.default_rng(0).uniform(-2, 2, n)
    T = dense_triangular(root)
    A = T.T @ T + np.diag(w)
    factor = zero_fill_factor(root, w)
    U = dense_triangular(factor.transpose).T
    np.testing.assert_allclose(U @ U.T, A, rtol=0, atol=1e-10 * np.abs(A).max())
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-9)
    x = np.random.default_rng(1).standard_normal(n)
    np.testing.assert_allclose(A @ factor.solve(x), x, rtol=0, atol=1e-9 * np.linalg.cond(A) ** 0.5)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(np.linalg.inv(A)), rtol=1e-6)


def test_the_inverse_diagonal_is_the_slope_of_the_log_determinant():
    """On a narrow pattern, by differences; and near the inverse's, where the factor isn't exact."""
    model = prior(80, 5, "matern32")
    w = np.random.default_rng(3).exponential(size=80)
    factor = zero_fill_factor(model.root, w)
    found = factor.inverse_diagonal()
    for i in (0, 7, 40, 79):
        step = np.zeros(80)
        step[i] = 1e-5
        up, down = (zero_fill_factor(model.root, w + sign * step).log_determinant() for sign in (1.0, -1.0))
        assert found[i] == pytest.approx((up - down) / 2e-5, rel=1e-5)
    T = dense_triangular(model.root)
    np.testing.assert_allclose(found, np.diag(np.linalg.inv(T.T @ T + np.diag(w))), rtol=0.1)


@pytest.mark.parametrize("kernel", ["matern12", "matern32"])
def test_it_matches_the_matrix_on_the_pattern(kernel):
    """What defines a zero-fill factor: U Uᵀ agrees with P + W wherever the pattern has an entry."""
    model = prior(300, 6, kernel)
    w = np.random.default_rng(5).exponential(size=300)
    factor = zero_fill_factor(model.root, w)
    assert len(factor.breakdowns) == 0
    T, U = dense_triangular(model.root), dense_triangular(factor.transpose).T
    A = T.T @ T + np.diag(w)
    mask = pattern(model.graph.parents)
    np.testing.assert_allclose((U @ U.T)[mask], A[mask], rtol=0, atol=1e-10 * np.abs(A).max())
    assert np.abs(U @ U.T - A).max() > 1e-6 * np.abs(A).max()  # and isn't the matrix itself


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "K"), [(1, 1), (2, 1), (60, 3), (300, 10), (50, 49)])
def test_gradient_of_its_determinant(kernel, n, K):
    root = prior(n, K, kernel).root
    rng = np.random.default_rng(n)
    w = rng.exponential(size=n)
    in_diagonal, in_edges = zero_fill_factor(root, w).log_determinant_gradient()
    # relative changes: entries of a smooth kernel's root span many orders of magnitude
    diagonal, edges = root.diagonal * rng.standard_normal(n), root.edges * rng.standard_normal(root.edges.shape)

    def moved(step):
        changed = Triangular(root.graph, root.diagonal + step * diagonal, root.edges + step * edges)
        return zero_fill_factor(changed, w).log_determinant()

    expected = (moved(1e-6) - moved(-1e-6)) / 2e-6
    scale = np.abs(in_diagonal * diagonal).sum() + np.abs(in_edges * edges).sum()
    assert in_diagonal @ diagonal + np.sum(in_edges * edges) == pytest.approx(expected, abs=1e-6 * scale)


def test_threads_do_not_change_the_factor():
    model = prior(20_000, 4, "matern12")
    w = np.random.default_rng(5).exponential(size=20_000)
    with threads(1):
        one = zero_fill_factor(model.root, w)
    with threads(4):
        two = zero_fill_factor(model.root, w)
    np.testing.assert_allclose(one.transpose.diagonal, two.transpose.diagonal, rtol=1e-13)
    np.testing.assert_allclose(one.transpose.edges, two.transpose.edges, rtol=1e-11, atol=1e-13)


BREAKING = {"n": 400, "K": 10, "kernel": RBF(0.1), "nugget": 1e-6, "order": "random"}


def test_breakdowns_are_repaired_and_reported():
    model = prior(**BREAKING)
    w = np.ones(400)
    factor = zero_fill_factor(model.root, w)
    assert len(factor.breakdowns) > 0
    np.testing.assert_allclose(
        factor.transpose.diagonal[factor.breakdowns] ** 2, (1.0 / model.conditional_variance + w)[factor.breakdowns]
    )
    assert np.all(factor.transpose.diagonal > 0.0)
    assert np.all(np.isfinite(factor.transpose.diagonal))
    coarse_to_fine = prior(**{**BREAKING, "order": "maximin"})
    assert len(zero_fill_factor(coarse_to_fine.root, w).breakdowns) == 0


def test_a_factor_full_of_breakdowns_is_still_made_of_numbers():
    model = prior(2000, 10, RBF(0.1), nugget=1e-4, order="random", seed=1)
    for seed in range(3):
        w = np.random.default_rng(seed).uniform(0.5, 1.5, 2000)
        factor = zero_fill_factor(model.root, w)
        assert len(factor.breakdowns) > 0
        assert np.all(np.isfinite(factor.transpose.edges))
        assert np.all(np.isfinite(factor.transpose.diagonal))


# -- a wider pattern --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "K"), [(2, 1), (30, 29), (30, 20), (200, 5)])
def test_widening_keeps_the_matrix_and_its_pattern(n, K):
    model = prior(n, K)
    wide = widened(model.root, model.lower_half)
    np.testing.assert_array_equal(dense_triangular(wide), dense_triangular(model.root))
    parents = wide.graph.parents
    assert parents.shape == (n, min(2 * K, n - 1))
    assert np.all(pattern(parents) >= pattern(model.graph.parents))
    for i, row in enumerate(parents):
        real = row[row >= 0]
        assert len(real) == min(2 * K, i)
        assert np.all(np.diff(real) > 0)
        assert np.all(real < i)
        assert np.all(row[len(real) :] == -1)
    T = dense_triangular(model.root)
    x = np.random.default_rng(0).standard_normal(n)
    product = wide.transpose_dot(wide.dot(x))
    np.testing.assert_allclose(product, T.T @ (T @ x), rtol=1e-10, atol=1e-10 * np.abs(product).max())


def test_a_wider_factor_loses_less():
    model = prior(300, 6, "matern32")
    w = np.full(300, 5.0)
    T = dense_triangular(model.root)
    A = T.T @ T + np.diag(w)

    def loss(root):
        U = dense_triangular(zero_fill_factor(root, w).transpose).T
        inverse = np.linalg.inv(U)
        return np.linalg.norm(inverse @ A @ inverse.T - np.eye(300))

    assert loss(widened(model.root, model.lower_half)) < 0.5 * loss(model.root)


# -- conjugate gradients ----------------------------------------------------------------------------------------------


def spd(n, condition, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.geomspace(1.0, condition, n)) @ Q.T


@pytest.mark.parametrize(("n", "condition"), [(1, 1.0), (2, 10.0), (50, 100.0), (200, 1e4)])
def test_conjugate_gradients_solve(n, condition):
    A = spd(n, condition)
    b = np.random.default_rng(1).standard_normal(n)
    for precondition in (lambda r: r, lambda r: r / np.diag(A)):
        found = conjugate_gradients(A.dot, b, precondition, tolerance=1e-11, max_iterations=2000)
        assert found.converged
        assert found.residual <= 1e-11
        assert np.linalg.norm(A @ found.x - b) <= 2e-11 * np.linalg.norm(b) * max(1.0, 1e-3 * condition)
        np.testing.assert_allclose(found.x, np.linalg.solve(A, b), rtol=0, atol=1e-10 * condition)


def test_conjugate_gradients_with_the_inverse_take_one_step():
    A = spd(60, 1e5)
    inverse = np.linalg.inv(A)
    found = conjugate_gradients(A.dot, np.ones(60), inverse.dot, tolerance=1e-8)
    assert found.converged
    assert found.iterations == 1


def test_conjugate_gradients_own_up():
    A = spd(200, 1e8)
    few = conjugate_gradients(A.dot, np.ones(200), lambda r: r, tolerance=1e-12, max_iterations=5)
    assert (few.converged, few.iterations) == (False, 5)
    assert few.residual == pytest.approx(np.linalg.norm(A @ few.x - 1.0) / np.sqrt(200), rel=1e-6)
    zero = conjugate_gradients(A.dot, np.zeros(200), lambda r: r)
    assert (zero.converged, zero.iterations) == (True, 0)
    np.testing.assert_array_equal(zero.x, 0.0)
    indefinite = conjugate_gradients(lambda x: -x, np.ones(3), lambda r: r)
    assert not indefinite.converged
    assert np.all(np.isfinite(indefinite.x))


def test_the_factor_is_a_good_preconditioner():
    model = prior(500, 10, "matern32", nugget=1e-4)
    w = np.full(500, 3.0)

    def matvec(x):
        return model.matvec(x) + w * x

    b = np.random.default_rng(0).standard_normal(500)
    factor = zero_fill_factor(model.root, w)
    with_factor = conjugate_gradients(matvec, b, factor.solve)
    without = conjugate_gradients(matvec, b, lambda r: r, max_iterations=5000)
    assert with_factor.converged
    assert with_factor.iterations < 20 < without.iterations


def test_a_triangular_matrix_is_not_changed_by_factoring_it():
    root = triangular(50, 5)
    copy = Triangular(root.graph, root.diagonal.copy(), root.edges.copy())
    zero_fill_factor(root, np.ones(50))
    np.testing.assert_array_equal(root.diagonal, copy.diagonal)
    np.testing.assert_array_equal(root.edges, copy.edges)


def test_an_extended_factor_is_nearly_one_of_its_own():
    whole = prior(600, 10)
    w = np.random.default_rng(0).exponential(1.0, 600)
    X = whole.X
    old = build_graph(X[:590], 10, order="given")
    longer = extend_graph(old, X[:590], X[590:])
    root = NNGP(whole.kernel, whole.nugget, X, longer).root
    part = NNGP(whole.kernel, whole.nugget, X[:590], old).root
    extended = zero_fill_factor(part, w[:590]).extended(root, w)
    A = dense_triangular(root).T @ dense_triangular(root) + np.diag(w)
    x = np.random.default_rng(1).standard_normal(600)
    found = conjugate_gradients(lambda v: A @ v, x, extended.solve, 1e-2, 5)
    assert found.converged
    np.testing.assert_allclose(found.x, np.linalg.solve(A, x), atol=0.1 * np.abs(x).max())
    last = extended.transpose  # a point without children is eliminated exactly
    np.testing.assert_allclose(last.diagonal[599] ** 2, A[599, 599], rtol=1e-12)
    np.testing.assert_allclose(last.edges[599] * last.diagonal[599], A[599, longer.parents[599]], rtol=1e-9, atol=1e-12)
