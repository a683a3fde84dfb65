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


@pytest.mark.parametrize("number", [1e300, 1e-300, 10**200])
def test_numbers_without_a_square(number):
    for wrap in (float, npvi.fixed, npvi.positive):
        with pytest.raises(ValueError, match=r"variance must be from 1e-150 to 1e\+150"):
            npvi.GPRegressor(kernel=kernels.Matern(variance=wrap(number))).fit(X, X[:, 0])
        with pytest.raises(ValueError, match=r"scale must be from 1e-150 to 1e\+150"):
            npvi.GPRegressor(likelihoods.StudentT(scale=wrap(number))).fit(X, X[:, 0])
    if number > 1.0:
        with pytest.raises(ValueError, match=r"df must be from -1e\+150 to 1e\+150"):
            npvi.GPRegressor(likelihoods.StudentT(df=number)).fit(X, X[:, 0])
        for nugget in (number, npvi.fixed(number)):
            with pytest.raises(ValueError, match=r"nugget must be from -1e\+150 to 1e\+150"):
                npvi.GPRegressor(nugget=nugget).fit(X, X[:, 0])


def test_a_mean_that_is_no_number():
    with pytest.raises(ValueError, match="LogNormal: variance must be at most 700"):
        npvi.GPRegressor(likelihoods.LogNormal(variance=2000.0)).fit(X, X[:, 0] + 1.0)


@pytest.mark.parametrize("value", [(k for k in range(3)), np.array(1.5), "1.5"], ids=lambda value: type(value).__name__)
def test_smoothness(value):
    with pytest.raises(ValueError, match="smoothness must be one of"):
        npvi.GPRegressor(kernel=kernels.Matern(smoothness=value)).fit(X, X[:, 0])


def test_long_integers_and_columns_are_numbers():
    given = {"nugget": 0.1, "learn": False}
    one = npvi.GPRegressor(kernel=kernels.RBF(0.5, npvi.fixed(10**20)), **given).fit(X, X[:, 0])
    same = npvi.GPRegressor(kernel=kernels.RBF(0.5, 1e20), **given).fit(X, X[:, 0])
    np.testing.assert_array_equal(one.predict(X), same.predict(X))
    labels = np.arange(12) % 4
    cuts = [-1.0, 0.0, 1.0]
    one, same = (
        npvi.GPRegressor(likelihoods.Ordinal(given_cuts), kernel=kernels.RBF(0.5), **given).fit(X, labels)
        for given_cuts in (pd.Series(cuts, index=[7, 6, 5]), cuts)
    )
    np.testing.assert_array_equal(one.predict(X), same.predict(X))


def test_a_kernel_keeps_its_numbers_when_the_callers_change():
    lengths = np.array([0.5])
    model = npvi.GPRegressor(kernel=kernels.RBF(lengths), nugget=0.1, learn=False).fit(X, X[:, 0])
    lengths[:] = 9.0
    assert model.kernel_.length_scale == [0.5]


def test_cuts_that_are_no_vector():
    assert likelihoods.Ordinal([[1.0, 2.0], [3.0]]).support.upper == 0.0
    with pytest.raises(ValueError, match="cuts must be a number, or a sequence of numbers"):
        npvi.GPRegressor(likelihoods.Ordinal([[1.0, 2.0], [3.0]])).fit(X, np.arange(12) % 3)


def test_scales_of_priors():
    for wrong in (1e-300, 1e160, "a"):
        for name in ("below", "above"):
            with pytest.raises(ValueError, match=f"{name} must be a positive number from 1e-50 to 1e50"):
                npvi.pc(**{name: wrong})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rate": 1e160}, "learning_rate must be a positive number of at most 1e6"),
        ({"steps": 10**30}, "steps must be a whole number from 1 to 2147483648"),
        ({"rounds": 10**30}, "rounds must be a whole number from 0 to 100"),
        ({"width": 10**9}, "width must be a whole number from 1 to 1000"),
    ],
)
def test_settings_of_networks_have_an_end(settings, words):
    with pytest.raises(ValueError, match=words):
        npvi.amortized.SiteNetwork(**settings).validate()


@pytest.mark.parametrize("settings", [{"points": np.int8(100)}, {"learning_rate": np.array(0.005)}], ids=str)
def test_settings_of_networks_may_be_numpys(settings):
    rows = np.linspace(0.0, 1.0, 300)[:, None]
    model = npvi.GPRegressor("poisson", kernel=kernels.RBF(0.1), nugget=0.1, learn=False)
    npvi.fit_network(model, rows, np.arange(300) % 4, rounds=0, steps=2, **settings)


def test_an_estimator_to_train_for():
    with pytest.raises(TypeError, match="estimator must be a GPRegressor or a GPClassifier"):
        npvi.fit_network([], X, np.arange(12))


def test_columns_of_a_subset_that_are_none():
    for columns in ([[1.0, 2.0], [3.0]], "x", ["x"]):
        with pytest.raises(ValueError, match="columns"):
            npvi.GPRegressor(kernel=kernels.Subset(kernels.RBF(), columns)).fit(X, X[:, 0])
