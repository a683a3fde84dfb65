"""What every kernel that has a name must do, alone and inside others.

A new file in `kernels/families` is here by itself. Formulas in NumPy and random compositions are in `tests/kernels`.
"""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from sklearn.base import clone

from npvi.config import from_config, to_config
from npvi.kernels import KERNELS, Matern12, Subset, diagonal, evaluate, matrix
from npvi.runtime.precision import float64

every_name = pytest.mark.parametrize("name", sorted(KERNELS))
POINTS = np.random.default_rng(3).normal(size=(30, 3))
POINTS[7] = POINTS[3]  # places that coincide are normal


@every_name
def test_covariances_are_those_of_one_pair(name):
    kernel, Z = KERNELS[name](), POINTS[::-1].copy()
    with float64():
        one = np.array([[float(kernel(x, z)) for z in Z[:4]] for x in POINTS[:5]])
    np.testing.assert_allclose(matrix(kernel, POINTS, Z)[:5, :4], one, rtol=1e-12, atol=1e-15)
    K = matrix(kernel, POINTS)
    np.testing.assert_allclose(diagonal(kernel, POINTS), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(evaluate(kernel, POINTS, Z), np.diag(matrix(kernel, POINTS, Z)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.trace(K)


@every_name
def test_gradients(name):
    kernel = KERNELS[name]()
    x, z = POINTS[:2]
    leaves, structure = jax.tree.flatten(kernel)
    with float64():
        same = jax.tree.leaves(jax.grad(lambda k, x: k(x, POINTS[0]), argnums=(0, 1))(kernel, x))
        assert all(np.all(np.isfinite(leaf)) for leaf in same)
        gradient = jax.tree.leaves(jax.grad(lambda k: k(x, z))(kernel))
        for i, leaf in enumerate(leaves):
            up, down = (
                jax.tree.unflatten(structure, [*leaves[:i], leaf + step, *leaves[i + 1 :]])(x, z)
                for step in (1e-6, -1e-6)
            )
            np.testing.assert_allclose(gradient[i], (up - down) / 2e-6, rtol=1e-5, atol=1e-8)


@every_name
def test_checks_its_numbers(name):
    kernel = KERNELS[name]()
    kernel.validate(3)
    for parameter in set(kernel.get_params(deep=False)) - set(kernel.static):
        with pytest.raises(ValueError, match=f"{type(kernel).__name__}: {parameter} must be positive"):
            kernel.replace(**{parameter: -1.0}).validate(3)


@every_name
def test_survives_json_and_clone(name):
    kernel = KERNELS[name]()
    assert KERNELS[name].about
    again = from_config(json.loads(json.dumps(to_config(kernel))))
    assert repr(again) == repr(clone(kernel)) == repr(kernel)


@every_name
def test_what_learning_asks_is_passed_on(name):
    kernel = KERNELS[name]()
    kernel.validate(2)
    inside = 2.0 * Subset(kernel, [2, 0]) + Matern12(3.0)
    seen = POINTS[:, [2, 0]]
    for question in ("start", "limits", "choices"):
        own, passed = getattr(kernel, question)(seen), getattr(inside, question)(POINTS)
        assert set(own) <= set(kernel.get_params(deep=False))
        for parameter, answer in own.items():
            np.testing.assert_array_equal(passed[f"k1__kernel__kernel__{parameter}"], answer)
        others = {parameter for parameter in passed if parameter.startswith("k2__")}
        assert others == {f"k2__{parameter}" for parameter in getattr(Matern12(3.0), question)(POINTS)}
    for low, high in kernel.limits(seen).values():
        assert np.all(np.asarray(low) < high)
    assert kernel.amplitude is None or kernel.amplitude in kernel.get_params(deep=False)
    assert np.all(np.isfinite(kernel.coordinates(POINTS)))
