"""Models that tables suggest."""

from __future__ import annotations

import shlex

import numpy as np
import pandas as pd
import polars as pl
import pytest

import npvi
from npvi.suggesting.comparing import candidates


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(600, 2))
    f = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1])
    return pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "forest": rng.uniform(size=600)}), f, rng


def test_lognormal_and_its_command(survey):
    table, f, rng = survey
    found = npvi.suggest(table.assign(rain=np.exp(f + 0.7 * rng.standard_normal(600))), "rain", path="rain.csv")
    assert found.likelihood == "lognormal"
    assert next(iter(found.scores)) == "lognormal"
    assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
    assert found.command == (
        "npvi fit rain.csv --target rain --inputs lon,lat,forest --coords lon,lat --likelihood lognormal"
    )
    assert "gamma by" in found.reasons["likelihood"]
    assert found.command in str(found)


def test_counts_that_vary_more_than_poisson_ones(survey):
    table, f, rng = survey
    mean = np.exp(1.0 + 0.5 * f)
    for size, name in ((1.0, "negative_binomial"), (None, "poisson")):
        counts = rng.poisson(mean) if size is None else rng.negative_binomial(size, size / (size + mean))
        found = npvi.suggest(table.assign(count=counts))
        assert (found.target, found.likelihood) == ("count", name)
        assert "times the mean" in found.reasons["likelihood"]


def test_what_covariates_explain_is_no_overdispersion(survey):
    table, f, rng = survey
    found = npvi.suggest(table.assign(count=rng.poisson(np.exp(0.4 * f + 2.5 * table["forest"]))))
    assert (found.likelihood, found.covariates) == ("poisson", ["forest"])


def test_the_model_is_not_fitted_and_can_be(survey):
    table, f, _ = survey
    table = table.assign(seen=(f > 0.3).astype(int))[:80]
    found = npvi.suggest(table, "seen")
    model = found.model()
    assert isinstance(model, npvi.GPRegressor)
    assert not hasattr(model, "posterior_")
    assert model.coords == ["lon", "lat"]
    model.set_params(learn=False).fit(table[found.inputs], table[found.target])


def test_labels_are_classified(survey):
    table, f, _ = survey
    species = np.array(["oak", "fir", "elm"])[np.digitize(f, [-0.5, 0.5])]
    found = npvi.suggest(table.assign(species=species), "species")
    assert (found.likelihood, found.classify) == ("softmax", True)
    assert "--classify" in found.command
    assert isinstance(found.model(), npvi.GPClassifier)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], ["ordinal"]),
        ([0.0, 1.0, 2.0, 40.0], ["poisson", "negative_binomial", "zero_inflated_poisson"]),
        ([-1.5, 2.0], ["gaussian", "student_t"]),
        ([0.5, 20.0], ["gaussian", "student_t", "lognormal", "gamma"]),
        ([0.0] + [5.5] * 200, ["gaussian", "student_t"]),
    ],
)
def test_what_values_allow(y, expected):
    assert candidates(np.array(y))[0] == expected


def test_missing_values_are_left_out_and_said(survey):
    table, f, _ = survey
    table = table.assign(seen=(f > 0.0).astype(float))
    table.loc[3, "forest"] = np.nan
    table.loc[5, "seen"] = np.nan
    found = npvi.suggest(table, "seen")
    assert found.drop_missing
    assert found.command.endswith("--drop-missing")
    assert found.reasons["missing values"].startswith("2 of 600")


def test_names_are_quoted_for_the_shell_and_commas_left_out(survey):
    table, f, _ = survey
    table = table.rename(columns={"forest": "a, b"}).assign(**{"[red]$(rm x)": f > 0.0, "it's": f})
    found = npvi.suggest(table, "[red]$(rm x)")
    words = shlex.split(found.command)
    assert words[words.index("--target") + 1] == "[red]$(rm x)"
    assert words[words.index("--inputs") + 1] == "lon,lat,it's"
    assert "'a, b'" in found.reasons["covariates"]


def test_places_with_commas_and_a_target_like_an_option_can_be_typed(survey):
    table, f, _ = survey
    found = npvi.suggest(table.assign(**{"--seed": f > 0.0}), "--seed")
    assert "--target=--seed" in shlex.split(found.command)


BAD = {
    "no numbers": (pd.DataFrame({"a": ["x", "y"]}), None, "no column holds numbers"),
    "no such target": (pd.DataFrame({"a": [1.0, 2.0]}), "b", "there is no column 'b'"),
    "one row": (pd.DataFrame({"a": [1.0], "b": [2.0]}), "b", "1 row"),
    "constant": (pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 3.0]}), "b", "is 3.0 in every row"),
    "all missing": (pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan]}), "b", "has no values"),
    "many words": (
        pd.DataFrame({"a": np.arange(200.0), "b": [f"w{i}" for i in range(200)]}),
        "b",
        "text with 200 different values",
    ),
    "dates": (pd.DataFrame({"a": [1.0, 2.0], "b": pd.date_range("2020", periods=2)}), "b", "holds dates"),
    "nothing to model it by": (pd.DataFrame({"b": [1.0, 2.0, 4.0]}), "b", "no column of numbers is left"),
    "never complete": (pd.DataFrame({"x": [1, 2, np.nan], "b": [np.nan, 3.0, 4.0]}), "b", "1 complete row"),
    "twice": (pd.DataFrame([[1.0, 2.0], [2.0, 3.0]], columns=["a", "a"]), "a", "more than one column 'a'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_in_words(case):
    table, target, words = BAD[case]
    with pytest.raises(ValueError, match=words):
        npvi.suggest(table, target)


def test_a_table_whose_rows_are_not_there_yet():
    with pytest.raises(TypeError, match=r"table is a LazyFrame, .*: call its collect\(\) first"):
        npvi.suggest(pl.LazyFrame({"x": [1.0, 2.0], "y": [0, 1]}), "y")


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="table must be a data frame"):
        npvi.suggest(np.ones((3, 2)), "a")
    with pytest.raises(TypeError, match="target must be the name"):
        npvi.suggest(pd.DataFrame({"a": [1.0, 2.0]}), 3)
