"""Kernels on arrays: chunks, padding, precision and compilations."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.kernels import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    diagonal,
    evaluate,
    evaluate_distances,
    matrix,
)
from npvi.kernels import evaluation as module
from npvi.runtime.parallel import threads


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
def test_any_number_of_pairs(n, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 256)
    rng = np.random.default_rng(n)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    for jobs in (1, 3):
        with threads(jobs):
            values = evaluate(RBF(0.7), X, Z)
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, np.exp(-0.5 * ((X - Z) ** 2).sum(1) / 0.49), rtol=1e-13)


def test_new_sizes_and_new_parameters_compile_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    evaluate(Matern32(0.7), X, X)
    before = module._pairs._cache_size()
    for n in (257, 300, 511):
        evaluate(Matern32(0.1 * n, variance=2), X[:n], X[:n])
    evaluate(Matern32(np.float64(0.3)), X, X)
    assert module._pairs._cache_size() == before


def test_inputs_of_other_types():
    X = [[0, 0], [3, 4]]
    np.testing.assert_allclose(matrix(RBF(5.0), X), [[1.0, np.exp(-0.5)], [np.exp(-0.5), 1.0]])
    np.testing.assert_allclose(diagonal(RBF(5.0, 3.0), np.asarray(X, dtype=np.float32)), [3.0, 3.0])


def test_matrix_of_nothing():
    assert matrix(RBF(), np.empty((0, 2))).shape == (0, 0)
    assert matrix(RBF(), np.ones((3, 2)), np.empty((0, 2))).shape == (3, 0)


@pytest.mark.parametrize(
    "kernel",
    [RBF(0.7, 2.0), Matern12([0.3, 1.0, 2.0]), Matern32(0.5), Matern52(1.5), RationalQuadratic(0.8, alpha=2.0)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_by_distance_is_the_same_as_by_points(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    X[0] = Z[0]
    r2 = (((X - Z) / np.asarray(kernel.length_scale)) ** 2).sum(axis=1)
    np.testing.assert_allclose(evaluate_distances(kernel, r2), evaluate(kernel, X, Z), rtol=1e-13)
