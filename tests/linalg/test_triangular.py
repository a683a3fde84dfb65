"""Products and solves with triangular matrices on the graph's pattern."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg

from npvi.runtime.parallel import threads
from tests.support.linalg_cases import triangular
from tests.support.oracle import dense_triangular

SHAPES = [(1, 1), (2, 1), (3, 2), (9, 8), (17, 4), (100, 99), (250, 10), (500, 30)]


@pytest.mark.parametrize("right_hand_sides", [None, 1, 2, 8, 15, 33])
@pytest.mark.parametrize(("n", "K"), SHAPES)
def test_products_and_solves_are_the_dense_ones(n, K, right_hand_sides):
    matrix = triangular(n, K, size=0.1)
    T = dense_triangular(matrix)
    shape = n if right_hand_sides is None else (n, right_hand_sides)
    x = np.random.default_rng(n).standard_normal(shape)
    untouched = x.copy()
    for result, expected in [
        (matrix.dot(x), T @ x),
        (matrix.transpose_dot(x), T.T @ x),
        (matrix.gram_dot(x), T.T @ (T @ x)),
        (matrix.solve(x), scipy.linalg.solve_triangular(T, x, lower=True)),
        (matrix.transpose_solve(x), scipy.linalg.solve_triangular(T, x, lower=True, trans=1)),
    ]:
        assert result.shape == x.shape
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_array_equal(x, untouched)


def test_memory_layout_does_not_matter():
    matrix = triangular(60, 7)
    x = np.random.default_rng(0).standard_normal((60, 5))
    for other in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        for name in ("dot", "transpose_dot", "gram_dot", "solve", "transpose_solve"):
            np.testing.assert_array_equal(getattr(matrix, name)(other), getattr(matrix, name)(x))
    for name in ("dot", "transpose_dot", "gram_dot", "solve", "transpose_solve"):
        np.testing.assert_allclose(getattr(matrix, name)(x[:, 3]), getattr(matrix, name)(x)[:, 3], rtol=1e-12)


def test_to_scipy_and_row_norms():
    matrix = triangular(120, 6)
    T = dense_triangular(matrix)
    np.testing.assert_array_equal(matrix.to_scipy().toarray(), T)
    np.testing.assert_allclose(matrix.row_norms_squared(), np.diag(T @ T.T), rtol=1e-14)


@pytest.fixture(scope="module")
def large():
    return triangular(20_000, 5, size=0.05)


@pytest.mark.parametrize("shape", [(20_000,), (20_000, 3), (20_000, 16)])
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_many_points(large, n_threads, shape):
    x = np.random.default_rng(2).standard_normal(shape)
    T = large.to_scipy()
    with threads(n_threads):
        solved, transpose_solved = large.solve(x), large.transpose_solve(x)
        np.testing.assert_allclose(large.dot(solved), x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(large.transpose_dot(transpose_solved), x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(large.dot(x), T @ x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(large.transpose_dot(x), T.T @ x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(large.gram_dot(x), T.T @ (T @ x), rtol=0, atol=1e-12)
    expected = scipy.sparse.linalg.spsolve_triangular(T, x, lower=True)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=1e-11)
