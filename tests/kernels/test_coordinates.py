"""Euclidean neighbours in a kernel's coordinates are the most correlated points."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.kernels import (
    RBF,
    Constant,
    Custom,
    Linear,
    Matern12,
    Matern32,
    Periodic,
    RationalQuadratic,
    Sphere,
    Subset,
    matrix,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(-1.0, 1.0, size=(60, 3))


def squared_distances(C):
    return ((C[:, None] - C[None]) ** 2).sum(-1)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.3),
        RBF([0.3, 0.3, 0.3]),
        Matern12(7.0, 2.0),
        Linear(),
        Constant(),
        pytest.param(Custom(lambda x, z: x[0] * z[0]), id="custom"),
        RBF(0.3) + Matern12(2.0),
        RBF(0.3) * Linear() + Constant(),
        3.0 * RBF(0.3),
    ],
    ids=repr,
)
def test_one_length_scale_leaves_the_inputs_alone(kernel, X):
    assert kernel.coordinates(X) is X


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.3, 1.0, 5.0]),
        Matern32([0.3, 1.0, 5.0], 2.0),
        RationalQuadratic([2.0, 1.0, 5.0], 0.5),
        Periodic(0.5, 0.7),
        Periodic([0.5, 1.0, 2.0], [0.7, 1.0, 3.0]),
        Subset(RBF([0.3, 1.0]), [2, 0]),
        Subset(RBF(0.5), [0]) * Subset(RBF(2.0), [1]) * RBF([1.0, 2.0, 3.0]),
        Sphere(Matern32(30.0)),
        Sphere(RBF(80.0)) * Subset(RBF(0.7), [2]),
        Subset(RBF(0.5), [0, 1]) * Subset(RBF(0.9), [0, 1]),
        2.0 * RBF([0.3, 1.0, 5.0]),
    ],
    ids=repr,
)
def test_nearest_is_most_correlated(kernel, X):
    K = matrix(kernel, X)
    D = squared_distances(kernel.coordinates(X))
    # sorted by distance, the covariances must fall; ties in rounding do not count
    by_distance = np.take_along_axis(K, np.argsort(D, axis=1), axis=1)
    assert np.all(np.diff(by_distance, axis=1) <= 1e-10 * K.max())


def test_parts_of_a_composite_are_commensurate(X):
    space, time = Subset(RBF(0.5), [0, 1]), Subset(RBF(4.0), [2])
    expected = np.hstack([X[:, :2] / 0.5, X[:, 2:] / 4.0])
    np.testing.assert_allclose((space * time).coordinates(X), expected)
    np.testing.assert_allclose((space * time + Constant() + Linear()).coordinates(X), expected)


def test_sphere_is_in_kilometres():
    points = Sphere(RBF(100.0)).coordinates(np.array([[0.0, 0.0], [90.0, 0.0], [12.0, 90.0]]))
    np.testing.assert_allclose(points, 6371.0088 * np.eye(3), atol=1e-9)


def test_subset_returns_its_columns_unscaled(X):
    np.testing.assert_array_equal(Subset(RBF(0.3), [2, 1]).coordinates(X), X[:, [2, 1]])
