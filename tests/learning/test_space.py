"""Hyper-parameters as a vector, and the climb."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.kernels import RBF, Matern12
from npvi.learning.bfgs import climb
from npvi.learning.space import SearchSpace, learnable, unwrapped
from npvi.parameters import POSITIVE_NUMBER, REAL_NUMBER, Interval, Parameter, bounded, fixed

VALUES = {"a": 2.0, "b": [0.5, 3.0], "c": 0.3, "d": -1.0, "e": [-1.0, 0.5, 0.7]}
DOMAINS = {
    "a": POSITIVE_NUMBER,
    "b": POSITIVE_NUMBER,
    "c": Interval(0.0, 1.0),
    "d": REAL_NUMBER,
    "e": Interval(increasing=True),
}


def test_there_and_back():
    space = SearchSpace(VALUES, DOMAINS, {}, {})
    assert len(space) == 8
    again = space.named(space.vector())
    for name, value in VALUES.items():
        np.testing.assert_allclose(again[name], value)


def test_any_vector_is_allowed():
    space = SearchSpace(VALUES, DOMAINS, {}, {})
    for seed in range(20):
        values = space.named(3.0 * np.random.default_rng(seed).standard_normal(8))
        assert values["a"] > 0.0
        assert min(values["b"]) > 0.0
        assert 0.0 < values["c"] < 1.0
        assert (np.diff(values["e"]) > 0.0).all()


def test_gradients_are_pulled_back():
    """Of a quadratic function of all numbers, against differences."""
    prior = {"a": Parameter(2.0, prior=(0.1, 0.5))}
    space = SearchSpace(VALUES, DOMAINS, prior, {})
    slopes = {name: np.arange(1.0, 1.0 + np.size(value)) for name, value in VALUES.items()}

    def function(z):
        values = space.named(z)
        return sum(float(np.sum(slopes[name] * np.square(values[name]))) for name in values) + space.log_prior(z)

    z = space.vector() + 0.1
    gradient = {name: 2.0 * slopes[name] * np.atleast_1d(value) for name, value in space.named(z).items()}
    found = space.pull_back(z, gradient)
    for i in range(len(z)):
        e = np.zeros(len(z))
        e[i] = 1e-6
        assert found[i] == pytest.approx((function(z + e) - function(z - e)) / 2e-6, rel=1e-5)


def test_what_the_user_said():
    kernel, said = unwrapped(RBF(fixed(0.5)) + Matern12(variance=bounded(1.0, 0.5, 2.0)), "kernel")
    assert kernel.k1.length_scale == 0.5
    names = learnable(kernel, "kernel")
    values = dict.fromkeys(names, 1.0)
    space = SearchSpace(values, names, said, {"kernel__k1__variance": (0.1, 10.0)})
    assert [c.name for c in space.coordinates] == [
        "kernel__k1__variance",
        "kernel__k2__length_scale",
        "kernel__k2__variance",
    ]
    np.testing.assert_allclose(space.low, [np.log(0.1), -np.inf, np.log(0.5)])
    np.testing.assert_allclose(space.high, [np.log(10.0), np.inf, np.log(2.0)])
    assert space.at_bound(np.array([np.log(10.0), 5.0, 0.0])) == ["kernel__k1__variance"]


def rosenbrock(z):
    x, y = z
    value = -((1.0 - x) ** 2 + 5.0 * (y - x**2) ** 2)
    return value, np.array([2.0 * (1.0 - x) + 20.0 * x * (y - x**2), -10.0 * (y - x**2)])


def test_climbs_a_curved_ridge():
    found = climb(rosenbrock, np.array([-1.0, 1.5]), np.full(2, -5.0), np.full(2, 5.0), noise=0.0, enough=1e-6)
    np.testing.assert_allclose(found.z, 1.0, atol=0.01)


def test_stays_in_the_box():
    found = climb(
        rosenbrock, np.array([-1.0, 0.2]), np.array([-5.0, -5.0]), np.array([0.5, 5.0]), noise=0.0, enough=1e-6
    )
    assert found.z[0] == 0.5
    assert found.z[1] == pytest.approx(0.25, abs=0.01)


def test_steps_back_from_where_there_is_nothing():
    def function(z):
        return (-np.inf, np.zeros(1)) if z[0] > 1.0 else (-((z[0] - 0.9) ** 2), -2.0 * (z - 0.9))

    found = climb(function, np.array([0.0]), np.array([-5.0]), np.array([5.0]), noise=0.0, enough=1e-6)
    assert found.z[0] == pytest.approx(0.9, abs=0.01)
