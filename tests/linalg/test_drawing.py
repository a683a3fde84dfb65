"""Draws in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.linalg import Noise, Triangular, draw
from npvi.runtime.parallel import threads
from tests.support.linalg_cases import triangular


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_draws", [1, 4, 31, 32, 64, 70])
@pytest.mark.parametrize(("n", "K"), [(1, 1), (2, 1), (30, 29), (500, 10)])
def test_draws_are_solutions(n, K, n_draws, n_threads):
    matrix = triangular(n, K, size=0.1)
    noise = Noise(matrix.graph.order)
    with threads(n_threads):
        x, squares = draw(matrix, noise, n_draws)
    assert (x.dtype, x.shape, x.flags.c_contiguous) == (np.float32, (n, n_draws), True)
    numbers = noise.columns(0, n_draws)
    exact = matrix.solve(numbers)
    np.testing.assert_allclose(x, exact, rtol=0, atol=2e-6 * np.abs(exact).max())
    by_parents = exact - numbers / matrix.diagonal[:, None]
    np.testing.assert_allclose(squares, np.mean(by_parents**2, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_of_tiny_and_huge_draws(scale):
    """They would be nothing, or infinite, in single precision."""
    matrix = triangular(50, 5, size=0.3)
    noise = Noise(matrix.graph.order)
    scaled = Triangular(matrix.graph, matrix.diagonal / scale, matrix.edges / scale)
    np.testing.assert_allclose(draw(scaled, noise, 32)[1] / scale**2, draw(matrix, noise, 32)[1], rtol=1e-4, atol=1e-9)
