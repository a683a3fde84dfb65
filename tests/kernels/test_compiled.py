"""The compiled correlations against the formulas in JAX, which are what a kernel is."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numba import njit

from npvi.kernels import RBF, Matern, Matern12, Matern32, Matern52, RationalQuadratic, Sum
from npvi.kernels.fast import FORMULAS, NO_FORMULA, correlate, formula_of
from npvi.runtime.precision import float64


@njit
def correlated(formula, variance, squares, values, slopes):
    correlate(FORMULAS[formula], variance, len(squares), squares, values, slopes)


KERNELS = [Matern12(), Matern32(), Matern52(), RBF(), Matern(), *(Matern(smoothness=nu) for nu in (0.5, 1.5, 2.5))]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n", [1, 1000])
def test_values_and_slopes(kernel, n):
    squares = 10.0 ** np.random.default_rng(n).uniform(-3.0, 5.0, (n, 8))
    squares[0, 0] = 0.0
    with float64():
        expected = 1.7 * np.asarray(jax.vmap(jax.vmap(kernel.correlation))(squares))
        along = 1.7 * np.asarray(jax.vmap(jax.vmap(jax.grad(kernel.correlation)))(squares))
    values, slopes, only = (np.empty((n, 8)) for _ in range(3))
    correlated(formula_of(kernel), 1.7, squares, values, slopes)
    correlated(formula_of(kernel), 1.7, squares, only, np.empty((0, 8)))
    np.testing.assert_array_equal(values, only)
    # an exponent of 300 has an error of 300 ε
    np.testing.assert_allclose(values, expected, rtol=2e-13, atol=1e-250)
    np.testing.assert_allclose(slopes.flat[1:], along.flat[1:], rtol=1e-12, atol=1e-250)
    assert values[0, 0] == 1.7
    assert np.isfinite(slopes[0, 0])  # whatever: it is multiplied by r² = 0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_infinitely_far_is_nothing(kernel):
    squares, values, slopes = np.full((1, 8), 1e308), np.empty((1, 8)), np.empty((1, 8))
    correlated(formula_of(kernel), 1.7, squares, values, slopes)
    assert np.abs(values).max() < 1e-290
    assert np.abs(slopes).max() < 1e-290


def test_a_formula_belongs_to_its_function():
    class Own(RBF):
        def correlation(self, r2):
            return 1.0 / (1.0 + r2)

    class Renamed(RBF):
        pass

    assert formula_of(Renamed()) == formula_of(RBF()) != NO_FORMULA
    for kernel in (Own(), RationalQuadratic(), Sum(RBF(), RBF())):
        assert formula_of(kernel) == NO_FORMULA
