"""One battery for every kernel, against dense formulas in NumPy that share no code with the library."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from npvi.config import from_config, to_config
from npvi.kernels import (
    RBF,
    Constant,
    Custom,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Product,
    RationalQuadratic,
    Scaled,
    Sphere,
    Subset,
    Sum,
    as_kernel,
    diagonal,
    evaluate,
    matrix,
)
from npvi.parameters import bounded
from npvi.runtime.precision import float64

ARD = [0.7, 1.9, 0.4]


def cauchy(x, z):
    return 1.0 / (1.0 + jnp.sum((x - z) ** 2))


def d2(X, Z, scale=1.0):
    return (((X[:, None, :] - Z[None, :, :]) / np.asarray(scale)) ** 2).sum(-1)


def d(X, Z, scale=1.0):
    return np.sqrt(d2(X, Z, scale))


def chord(X, Z):
    def xyz(A):
        lon, lat = np.radians(A[:, 0]), np.radians(A[:, 1])
        return 6371.0088 * np.c_[np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]

    return d(xyz(X), xyz(Z))


def sines(X, Z, period, scale):
    difference = X[:, None, :] - Z[None, :, :]
    return ((np.sin(np.pi * difference / np.asarray(period)) / np.asarray(scale)) ** 2).sum(-1)


S3, S5 = np.sqrt(3.0), np.sqrt(5.0)
CASES = {
    "rbf": (RBF(0.8, 1.7), lambda X, Z: 1.7 * np.exp(-0.5 * d2(X, Z) / 0.8**2)),
    "rbf-ard": (RBF(ARD), lambda X, Z: np.exp(-0.5 * d2(X, Z, ARD))),
    "matern12": (Matern12(0.8, 1.7), lambda X, Z: 1.7 * np.exp(-d(X, Z) / 0.8)),
    "matern12-ard": (Matern12(ARD), lambda X, Z: np.exp(-d(X, Z, ARD))),
    "matern32": (Matern32(0.8), lambda X, Z: (1 + S3 * d(X, Z, 0.8)) * np.exp(-S3 * d(X, Z, 0.8))),
    "matern52": (
        Matern52(0.8),
        lambda X, Z: (1 + S5 * d(X, Z, 0.8) + 5 / 3 * d2(X, Z, 0.8)) * np.exp(-S5 * d(X, Z, 0.8)),
    ),
    "rational-quadratic": (
        RationalQuadratic(0.8, 1.3, 2.0),
        lambda X, Z: 2.0 * (1 + d2(X, Z) / (2 * 1.3 * 0.8**2)) ** -1.3,
    ),
    "periodic": (Periodic(0.9, 0.6, 2.0), lambda X, Z: 2.0 * np.exp(-2 * sines(X, Z, 0.6, 0.9))),
    "periodic-ard": (Periodic(ARD, [1, 2, 3]), lambda X, Z: np.exp(-2 * sines(X, Z, [1, 2, 3], ARD))),
    "linear": (Linear(0.3), lambda X, Z: 0.3 * X @ Z.T),
    "constant": (Constant(0.3), lambda X, Z: np.full((len(X), len(Z)), 0.3)),
    "sum": (
        RBF(0.8) + Matern12(2.0),
        lambda X, Z: np.exp(-0.5 * d2(X, Z) / 0.64) + np.exp(-d(X, Z) / 2.0),
    ),
    "product": (RBF(0.8) * Linear(), lambda X, Z: np.exp(-0.5 * d2(X, Z) / 0.64) * (X @ Z.T)),
    "scaled": (2.5 * Matern12(0.8), lambda X, Z: 2.5 * np.exp(-d(X, Z) / 0.8)),
    "plus-number": (1.5 + RBF(), lambda X, Z: 1.5 + np.exp(-0.5 * d2(X, Z))),
    "subset": (
        Subset(RBF([0.5, 2.0]), [2, 0]),
        lambda X, Z: np.exp(-0.5 * d2(X[:, [2, 0]], Z[:, [2, 0]], [0.5, 2])),
    ),
    "sphere": (Sphere(Matern12(500.0)), lambda X, Z: np.exp(-chord(X, Z) / 500.0)),
    "sphere-time": (
        Sphere(Matern12(50.0)) * Subset(RBF(0.5), 2),
        lambda X, Z: np.exp(-chord(X, Z) / 50.0) * np.exp(-0.5 * d2(X[:, 2:], Z[:, 2:], 0.5)),
    ),
    "custom": (Custom(cauchy), lambda X, Z: 1.0 / (1.0 + d2(X, Z))),
}
every_kernel = pytest.mark.parametrize(("kernel", "dense"), CASES.values(), ids=CASES.keys())


@pytest.fixture
def X():
    points = np.random.default_rng(3).normal(size=(40, 3))
    points[7] = points[3]  # places that coincide are normal
    return points


@every_kernel
def test_formula(kernel, dense, X):
    Z = np.random.default_rng(4).normal(size=(25, 3))
    np.testing.assert_allclose(matrix(kernel, X, Z), dense(X, Z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(diagonal(kernel, X), np.diag(dense(X, X)), rtol=1e-12)
    np.testing.assert_allclose(evaluate(kernel, X[:25], Z), np.diag(dense(X, Z)), rtol=1e-12, atol=1e-14)


@every_kernel
def test_symmetric_and_positive_definite(kernel, dense, X):
    K = matrix(kernel, X)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.trace(K)


@every_kernel
def test_gradients_are_finite_at_coincident_points(kernel, dense):
    x = np.array([0.3, -0.2, 1.1])
    with float64():
        value, (in_kernel, in_x) = jax.value_and_grad(lambda k, x, z: k(x, z), argnums=(0, 1))(kernel, x, x)
        assert np.isfinite(value)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((in_kernel, in_x)))


@every_kernel
def test_gradient_matches_finite_differences(kernel, dense):
    x, z = np.array([0.3, -0.2, 1.1]), np.array([0.1, 0.4, 0.9])
    leaves, structure = jax.tree.flatten(kernel)
    with float64():
        gradient = jax.tree.leaves(jax.grad(lambda k: k(x, z))(kernel))
        for i, leaf in enumerate(leaves):
            for j in np.ndindex(np.shape(leaf)):
                step = np.zeros(np.shape(leaf))
                step[j] = 1e-6
                up, down = ([*leaves[:i], leaf + s, *leaves[i + 1 :]] for s in (step, -step))
                slope = (jax.tree.unflatten(structure, up)(x, z) - jax.tree.unflatten(structure, down)(x, z)) / 2e-6
                np.testing.assert_allclose(gradient[i][j], slope, rtol=1e-5, atol=1e-8)


@every_kernel
def test_survives_json_and_clone(kernel, dense, X):
    text = json.dumps(to_config(kernel))
    again = from_config(json.loads(text), custom={"cauchy": cauchy})
    np.testing.assert_array_equal(matrix(again, X), matrix(kernel, X))
    np.testing.assert_array_equal(matrix(clone(kernel), X), matrix(kernel, X))
    assert type(clone(kernel)) is type(kernel)


@every_kernel
def test_valid_parameters_pass(kernel, dense):
    kernel.validate(3)


positive = st.floats(0.05, 20.0)
leaf_kernels = st.one_of(
    st.builds(RBF, positive, positive),
    st.builds(Matern12, st.lists(positive, min_size=2, max_size=2), positive),
    st.builds(Matern32, positive, positive),
    st.builds(Matern52, positive, positive),
    st.builds(RationalQuadratic, positive, positive, positive),
    st.builds(Periodic, positive, positive, positive),
    st.builds(Linear, positive),
    st.builds(Constant, positive),
    st.builds(Subset, st.builds(RBF, positive), st.sampled_from([(0,), (1,), (1, 0)])),
    st.builds(Sphere, st.builds(Matern32, st.floats(1.0, 1e4))),
)
kernels = st.recursive(
    leaf_kernels,
    lambda inner: st.one_of(
        st.builds(Sum, inner, inner), st.builds(Product, inner, inner), st.builds(Scaled, inner, positive)
    ),
    max_leaves=3,
)


@settings(max_examples=40, deadline=None)
@given(kernel=kernels, seed=st.integers(0, 1000))
def test_compositions_are_positive_definite(kernel, seed):
    kernel.validate(2)
    X = np.random.default_rng(seed).uniform(-3.0, 3.0, size=(12, 2))
    K = matrix(kernel, X)
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-13)
    assert np.linalg.eigvalsh(0.5 * (K + K.T)).min() > -1e-9 * np.trace(K)
    C = kernel.coordinates(X)
    assert C.shape[0] == 12
    assert np.all(np.isfinite(C))


def test_set_params_reaches_into_compositions(X):
    kernel = RBF(1.0) + 2.0 * Matern12(3.0)
    kernel.set_params(k1__length_scale=0.5, k2__kernel__variance=4.0)
    np.testing.assert_allclose(matrix(kernel, X), np.exp(-0.5 * d2(X, X, 0.5)) + 8.0 * np.exp(-d(X, X) / 3.0))
    subset = Subset(RBF(), [0]).set_params(columns=[1, 2])
    np.testing.assert_allclose(matrix(subset, X), np.exp(-0.5 * d2(X[:, 1:], X[:, 1:])))


def test_subset_takes_names_where_the_inputs_have_them():
    names = ["lon", "lat", "day"]
    time, space = Subset(RBF(2.0), "day"), Subset(Subset(RBF(0.5), ["lat"]), ["lat", "lon"])
    numbered = (space + 2.0 * time).with_numbered_columns(names)
    assert numbered.k1.columns == (1, 0)
    assert numbered.k1.kernel.columns == (0,)
    assert numbered.k2.kernel.columns == (2,)
    X = np.random.default_rng(0).normal(size=(9, 3))
    expected = matrix(Subset(RBF(0.5), [1]) + 2.0 * Subset(RBF(2.0), [2]), X)
    np.testing.assert_allclose(matrix(numbered, X), expected)
    assert clone(space).columns == ("lat", "lon")
    by_number = Subset(RBF(), np.array([0, 2]))
    assert by_number.with_numbered_columns(names) is by_number
    assert by_number.with_numbered_columns(None) is by_number
    assert Sphere(RBF()).with_numbered_columns(names).kernel.length_scale == 1.0
    with pytest.raises(ValueError, match=r"there is no 'hour' among the inputs of the kernel, which are lon, lat, day"):
        Subset(RBF(), ["lon", "hour"]).with_numbered_columns(names)
    with pytest.raises(ValueError, match=r"there is no 'day', because the inputs have no names; give numbers"):
        time.validate(3)


def test_parameters_of_a_custom_kernel():
    def cauchy(x, z, scale, power):
        return (1.0 + jnp.sum((x - z) ** 2) / scale**2) ** -power

    kernel = Custom(cauchy, {"scale": 0.5, "power": bounded(1.0, 0.1, 5.0)})
    x, z = jnp.zeros(2), jnp.array([0.3, 0.4])
    assert float(kernel(x, z)) == pytest.approx(0.5)
    assert float(kernel.replace(power=2.0)(x, z)) == pytest.approx(0.25)
    assert float(clone(3.0 * kernel).set_params(kernel__scale=1.0)(x, z)) == pytest.approx(3.0 / 1.25)
    slopes = jax.grad(lambda kernel: kernel(x, z))(kernel)
    assert float(slopes.scale) == pytest.approx(1.0)  # 2 r²/s³ (1 + r²/s²)⁻²
    assert float(slopes.power) == pytest.approx(-0.5 * np.log(2.0))
    assert clone(kernel).params == kernel.params
    assert Custom(cauchy, "named").name == "named"
    for params, words in (
        ({"scale": -1.0, "power": 1.0}, r"Custom \(cauchy\): scale must be positive, got -1.0"),
        ({"scale": 1.0, "name": 1.0}, "cannot be called 'name'"),
        ({"scale": 1.0}, r"a function of two points and of params \(scale\) written with jax.numpy"),
    ):
        with pytest.raises(ValueError, match=words):
            Custom(cauchy, params).validate(2)
    with pytest.raises(TypeError, match=r"params must map names to numbers, got 3.0"):
        Custom(cauchy, 3.0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(-1.0), "RBF: length_scale must be positive and finite, got -1.0"),
        (RBF(1.0, np.nan), "variance must be positive"),
        (RBF("wide"), "length_scale must be a positive number, got 'wide'"),
        (RBF([1.0, 2.0]), r"length_scale has 2 values, but the kernel sees 3 inputs"),
        (RBF(np.ones((2, 2))), r"length_scale has an array of shape \(2, 2\)"),
        (Periodic(1.0, [1.0, 2.0]), "period has 2 values"),
        (RationalQuadratic(alpha=0.0), "alpha must be positive"),
        (RBF() + Matern12(0.0), "Matern12: length_scale"),
        (-2.0 * RBF(), "Scaled: factor"),
        (Subset(RBF(), [0, 3]), r"columns must be different numbers from 0 to 2 .* got \(0, 3\)"),
        (Subset(RBF(), [1, 1]), "columns must be different"),
        (Subset(RBF(), []), "columns must be different"),
        (Subset(RBF(), [0.5]), "columns must be whole numbers"),
        (Subset(RBF([1.0, 2.0]), [0]), "length_scale has 2 values, but the kernel sees 1 inputs"),
        (Sphere(RBF([1.0, 2.0])), "the kernel sees 3 inputs"),
        (Custom(lambda x, z: x - z), r"must return one number .* shape \(3,\)"),
        (Custom(lambda x: x), "must be a function of two points"),
    ],
)
def test_mistakes_are_explained(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel.validate(3)


def test_columns_that_are_no_columns():
    with pytest.raises(TypeError, match="columns is a LazyFrame"):
        Subset(RBF(), pl.DataFrame({"c": [0]}).lazy())
    with pytest.raises(ValueError, match="columns is masked"):
        Subset(RBF(), np.ma.masked_array([0, 1], [True, False]))


def test_sphere_needs_two_inputs_in_degrees():
    with pytest.raises(ValueError, match="needs longitude and latitude"):
        Sphere(RBF()).validate(1)
    with pytest.raises(ValueError, match="are longitude and latitude swapped"):
        Sphere(RBF()).coordinates(np.array([[10.0, 120.0]]))


def test_as_kernel():
    assert isinstance(as_kernel("rational_quadratic"), RationalQuadratic)
    kernel = RBF(3.0)
    assert as_kernel(kernel) is kernel
    assert as_kernel(cauchy).function is cauchy
    with pytest.raises(ValueError, match=r"no kernel is named 'rfb'.*'matern', 'matern12'.*'rbf'"):
        as_kernel("rfb")
    with pytest.raises(TypeError, match=r"write RBF\(\)"):
        as_kernel(RBF)
    with pytest.raises(TypeError, match=r"'matern52'.*got builtins.int"):
        as_kernel(3)
    from sklearn.gaussian_process.kernels import RBF as foreign

    with pytest.raises(TypeError, match=r"expected a kernel from npvi.kernels"):
        as_kernel(foreign())


def test_a_kernel_does_not_add_to_anything():
    with pytest.raises(TypeError):
        RBF() + "rbf"
    with pytest.raises(NotImplementedError):
        Kernel()(np.zeros(1), np.zeros(1))
