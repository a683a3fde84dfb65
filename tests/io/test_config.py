"""Kernels and likelihoods as JSON: what cannot be saved or loaded is explained."""

from __future__ import annotations

import json

import numpy as np
import pytest

from npvi.config import from_config, to_config
from npvi.kernels import RBF, Kernel, Subset
from npvi.kernels import Custom as CustomKernel
from npvi.likelihoods import Bernoulli, Custom, Gaussian
from npvi.likelihoods.support import Support
from npvi.parameters import bounded, fixed, positive


class Mine(Kernel):
    def __init__(self, weight=1.0):
        self.weight = weight


@pytest.mark.parametrize(
    "obj", [Gaussian(0.3), Bernoulli("probit"), Mine(2.0), Subset(RBF([1.0, 2.0]), (0, 2))], ids=repr
)
def test_round_trip(obj):
    again = from_config(json.loads(json.dumps(to_config(obj))))
    assert type(again) is type(obj)
    assert repr(again) == repr(obj)


def noise(y, f, scale):
    return -0.5 * ((y - f) / scale) ** 2


@pytest.mark.parametrize(
    "obj",
    [
        RBF(fixed([1.0, 2.0]), bounded(1.0, 0.5, 2.0, prior=(0.0, 1.0))) + Mine(positive(2.0)),
        Gaussian(positive(0.3, prior=(-1.0, 0.5))),
        Custom(noise, {"scale": bounded(0.5, 0.1, 2.0)}, support="positive", log_concave=True),
        Custom(noise, {"scale": 0.5}, support=Support("mine", "more than 2", lower=2.0, open_lower=True)),
    ],
    ids=repr,
)
def test_what_was_said_about_parameters_comes_back(obj):
    again = from_config(json.loads(json.dumps(to_config(obj))), {"noise": noise})
    assert type(again) is type(obj)
    assert repr(again) == repr(obj)
    assert to_config(again) == to_config(obj)


def test_arrays_become_lists():
    assert to_config(RBF(np.array([1.0, 2.0]), np.float64(3.0))) == {
        "type": "RBF",
        "length_scale": [1.0, 2.0],
        "variance": 3.0,
    }


def test_functions_are_saved_by_name_and_asked_for():
    config = to_config(CustomKernel(lambda x, z: 1.0, name="flat") + RBF())
    with pytest.raises(ValueError, match=r'called \'flat\', which is not in the file; pass custom=\{"flat"'):
        from_config(config)
    assert from_config(config, {"flat": max}).k1.function is max
    with pytest.raises(ValueError, match="its function has no name"):
        to_config(CustomKernel(lambda x, z: 1.0))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "Rbf"}, "no kernel or likelihood is called 'Rbf'.*Matern12"),
        ({}, "called None"),
        (
            {"type": "RBF", "lengthscale": 1.0},
            "RBF has no parameter 'lengthscale'; it has length_scale, variance",
        ),
    ],
)
def test_files_from_elsewhere(config, message):
    with pytest.raises(ValueError, match=message):
        from_config(config)


def test_objects_that_are_not_json():
    with pytest.raises(TypeError, match="holds a object"):
        to_config(Gaussian(object()))
