"""Parameters of the wrong kind are refused by name, before anything is computed with them."""

import datetime

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi import kernels, likelihoods

X = np.linspace(0.0, 1.0, 12)[:, None]
NO_NUMBER = [
    [1.0, 2.0],
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    datetime.date(2020, 1, 1),
    "0.9",
    1.0 + 2.0j,
    np.array([1.0 + 2.0j]),
    (k for k in range(3)),
    pd.DataFrame({"a": [1.0]}),
    np.ma.masked_array([1.0], [True]),
    None,
]


@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: type(value).__name__)
def test_one_number(value):
    with pytest.raises(ValueError, match="variance must be one number"):
        npvi.GPRegressor(kernel=kernels.Linear(value)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="shape must be one number"):
        npvi.GPRegressor(likelihoods.Gamma(npvi.fixed(value))).fit(X, X[:, 0] + 1.0)


@pytest.mark.parametrize("value", [3, np.ones(3), None, kernels.RBF], ids=str)
@pytest.mark.parametrize("make", [kernels.Sphere, kernels.Scaled, lambda k: kernels.Subset(k, [0])])
def test_a_kernel_inside(make, value):
    with pytest.raises(ValueError, match="kernel must be a kernel"):
        npvi.GPRegressor(kernel=make(value)).fit(X, X[:, 0])


def test_kernels_of_a_sum():
    with pytest.raises(ValueError, match="Sum: k2 must be a kernel"):
        npvi.GPRegressor(kernel=kernels.Sum(kernels.RBF(), np.ones(2))).fit(X, X[:, 0])


@pytest.mark.parametrize("value", [["exp"], np.array(["exp"]), pd.Series(["exp"])])
def test_link(value):
    with pytest.raises(ValueError, match="link must be one of"):
        npvi.GPRegressor(likelihoods.Poisson(link=value)).fit(X, np.arange(12))


def test_checkpoint():
    with pytest.raises(TypeError, match="checkpoint must be text or a path, or None"):
        npvi.SGD(checkpoint=3.0)
