"""Models are compared row by row: by what the rows are, not by where they stand."""

import numpy as np
import pandas as pd
import pytest

import npvi

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, (120, 2))
Y = RNG.poisson(np.exp(np.sin(X[:, 0])))


def plain(X, y, likelihood="poisson", **row):
    return npvi.GPRegressor(likelihood, learn=False, n_jobs=1).fit(X, y, **row)


def test_the_same_rows_in_another_order_are_the_same_rows():
    order = RNG.permutation(len(X))
    found = npvi.compare(plain(X, Y), plain(X[order], Y[order]))
    assert abs(found.difference) < 1e-8
    assert np.abs(found.by_row).max() < 1e-9


def test_the_same_rows_of_a_table_in_another_order_are_the_same_rows():
    table = pd.DataFrame({"a": X[:, 0], "g": np.where(X[:, 1] > 5.0, "high", "low"), "count": Y})
    model = npvi.GPRegressor("poisson", terms=[npvi.Linear("a"), npvi.Group("g", sd=0.5)], learn=False, n_jobs=1)
    first = model.fit(table, "count")
    order = RNG.permutation(len(X))
    second = npvi.GPRegressor(**model.get_params(deep=False)).fit(table.iloc[order], "count")
    assert np.abs(npvi.compare(first, second).by_row).max() < 1e-8


def test_models_of_the_same_responses_in_place_may_have_other_inputs_and_likelihoods():
    y = np.exp(np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(len(X)))
    found = npvi.compare(plain(X, y, "lognormal"), plain(X[:, :1], y, "gamma"))
    assert np.isfinite(found.difference)


@pytest.mark.parametrize("other", [RNG.poisson(3.0, len(X)), Y[::-1]], ids=["other responses", "other rows"])
def test_models_of_different_responses_are_not_compared(other):
    with pytest.raises(ValueError, match=r"y differs in \d+ of 120 rows"):
        npvi.compare(plain(X, Y), plain(X, other))


def test_models_of_different_exposure_are_not_compared():
    with pytest.raises(ValueError, match="exposure differs"):
        npvi.compare(plain(X, Y, exposure=np.ones(len(X))), plain(X, Y, exposure=np.full(len(X), 2.0)))
