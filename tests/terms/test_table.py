"""Columns of tables: numbers of every type, levels, and what is neither."""

from __future__ import annotations

import datetime
import decimal
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import npvi
from npvi.terms import as_frame
from npvi.terms.table import Expressions, expression

A, B = np.array([200, 100, 7, 255]), np.array([3, 200, 9, 254])
TYPES = (
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "UInt8",
    "Int64",
    "float16",
    "float32",
    "float64",
    "object",
)
BACKENDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
WORDS = ["low", "high", "mid", "low", "mid", "high"]


def made(terms, table, other=None):
    """The columns of `terms` for a table, of which another one says what there is."""
    found = Expressions(terms, False, as_frame(table), "linear")
    return found.of(as_frame(table if other is None else other))


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_every_type_are_computed_with_in_double_precision(kind):
    a, b = (A // 2, B // 2) if kind == "int8" else (A, B)
    table = pd.DataFrame({"a": a, "b": b}).astype(kind)
    a, b = a.astype(float), b.astype(float)
    expected = {
        "a:b": a * b,
        "I(a*b)": a * b,
        "I(a**3)": a**3,
        "I(-a)": -a,
        "I(a-b)": a - b,
        "log(a)": np.log(a),
        "a": a,
    }
    for text, values in expected.items():
        np.testing.assert_allclose(made([text], table)[:, 0], values, rtol=1e-15, err_msg=text)
    for text, values in {"-a": -a, "0 - a": -a, "a*b": a * b, "log(a)": np.log(a)}.items():
        np.testing.assert_allclose(expression(text, as_frame(table), "offset"), values, rtol=1e-15, err_msg=text)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_the_same_whatever_type_whole_numbers_have(backend):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({"a": rng.integers(100, 250, 60), "b": rng.integers(100, 250, 60)})
    wide["y"] = 1e-3 * wide["a"] * wide["b"] + rng.standard_normal(60)
    narrow, build = wide.astype({"a": "uint8", "b": "uint8"}), BACKENDS[backend]

    def fitted(formula, table):
        return npvi.GPRegressor(formula=formula, learn=False, n_jobs=1).fit(build(table))

    for formula in ("y ~ a * b", "y ~ I(a**2) + offset(-b)"):
        models = [fitted(formula, wide), fitted(formula, narrow)]
        summaries = [model.summary()["value"] for model in models]
        pd.testing.assert_series_equal(*summaries, rtol=1e-12)
        expected = models[0].predict(build(wide))
        for model in models:
            for table in (wide, narrow):
                np.testing.assert_allclose(model.predict(build(table)), expected, rtol=1e-9)


def test_decimals_and_numbers_that_come_as_objects_are_numbers():
    table = pd.DataFrame({"x": [decimal.Decimal("1.5"), decimal.Decimal(3)], "f": np.array([True, False], object)})
    np.testing.assert_array_equal(made(["I(x**2)", "f"], table), [[2.25, 1.0], [9.0, 0.0]])


def test_yes_and_no_are_one_and_zero_in_sums():
    table = pd.DataFrame({"f": [True, False, True], "g": [True, True, False]})
    np.testing.assert_array_equal(made(["I(f + g)"], table)[:, 0], [2.0, 1.0, 1.0])


@pytest.mark.parametrize("kind", [int, float, str, "category", "Int64"])
def test_levels_are_known_by_what_they_say(kind):
    years = pd.DataFrame({"year": [2001, 2002, 2010, 2002]})
    found = Expressions(["C(year)"], True, years, "linear")
    assert found.names == ("Intercept", "C(year)[2002]", "C(year)[2010]")
    np.testing.assert_array_equal(found.of(years[1:3].astype(kind)), [[1, 1, 0], [1, 0, 1]])
    with pytest.raises(ValueError, match="has the level '1999', which the fit has not seen"):
        found.of(pd.DataFrame({"year": [1999]}).astype(kind))


def test_levels_without_a_row_are_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ordered in (False, True):
            levels = pd.Categorical(WORDS, ["never", "low", "mid", "high"], ordered=ordered)
            found = Expressions(["w", "C(w)"], True, pd.DataFrame({"w": levels}), "linear")
            first = "low" if ordered else "high"
            assert {f"w[{word}]" for word in {"low", "mid", "high"} - {first}} < set(found.names)
            assert len(found.names) == 5
            some = found.of(pd.DataFrame({"w": pd.Categorical(["mid"])}))
            np.testing.assert_array_equal(some, found.of(pd.DataFrame({"w": WORDS}))[2:3])


def test_files_know_the_order_of_levels_and_yes_from_no(tmp_path):
    rng = np.random.default_rng(1)
    levels = pd.Categorical(np.array(WORDS)[rng.integers(6, size=80)], ["low", "mid", "high"], ordered=True)
    table = pd.DataFrame({"w": levels, "f": rng.uniform(size=80) < 0.5, "y": rng.standard_normal(80)})
    table["y"] += 2.0 * (levels == "mid") + 3.0 * table["f"]
    model = npvi.GPRegressor(formula="y ~ w + (1|f)", learn=False, n_jobs=1).fit(table)
    model.save(tmp_path / "levels.npvi")
    again = npvi.load(tmp_path / "levels.npvi")
    assert list(again.summary().index) == list(model.summary().index)
    np.testing.assert_allclose(again.predict(table), model.predict(table), rtol=1e-12)


NEITHER = {
    "no word": (["a", None, "b"], "column 'x' has NaN or no number in 1 of 3 rows (rows 1)"),
    "no category": (pd.Categorical(["a", None, "b"]), "column 'x' has NaN or no number in 1 of 3 rows (rows 1)"),
    "no number": ([1.0, 2.0, np.nan], "column 'x' has NaN or no number in 1 of 3 rows (rows 2)"),
    "no whole number": (pd.array([None, 1, 2], "Int64"), "column 'x' has NaN or no number in 1 of 3 rows (rows 0)"),
    "an object missing": (
        np.array([1.0, None, 2.0], object),
        "column 'x' has NaN or no number in 1 of 3 rows (rows 1)",
    ),
    "nothing": ([None] * 3, "column 'x' has NaN or no number in 3 of 3 rows"),
    "dates": (pd.date_range("2020", periods=3), "column 'x' has dates or durations"),
    "dates of Python": ([datetime.date(2020, 1, 1)] * 3, "column 'x' must hold numbers or words; it has datetime.date"),
    "both": (["a", 1, 2], "column 'x' must hold numbers or words; it has 1 (int) beside words"),
    "complex": ([1j, 2.0, 3.0], "column 'x' has complex numbers"),
}


@pytest.mark.parametrize("name", NEITHER)
def test_columns_that_are_no_use_are_named_with_their_rows(name, caplog, capfd):
    values, message = NEITHER[name]
    with pytest.raises(ValueError, match=re.escape(f"linear: {message}")):
        made(["z", "x"], pd.DataFrame({"z": [1.0, 2.0, 4.0], "x": values}))
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ forrest", "there is no column 'forrest': did you mean 'forest'? There are forest, depth, site, y"),
        ("y ~ log(forrest)", "linear: there is no column 'forrest': did you mean 'forest'?"),
        ("y ~ s(deph)", "s(deph): there is no column 'deph': did you mean 'depth'?"),
        ("y ~ gp(depth, lat)", "gp(depth, lat): there is no column 'lat'. There are forest, depth, site, y"),
        ("y ~ s(depth) + (1|sight)", "1|sight: there is no column 'sight': did you mean 'site'?"),
        ("y ~ offset(log(deph))", "offset(log(deph)): there is no column 'deph': did you mean 'depth'?"),
        ("y ~ lgo(depth)", "linear: there is no function 'lgo': did you mean 'log'?"),
        ("y ~ depth**2", "linear: outside of I(), a column to a power is the column itself"),
        ("y ~ forest + y", "the responses, column 'y', are among the predictors"),
        ("y ~ s(depth) + log(y)", "the responses, column 'y', are among the predictors"),
    ],
)
def test_names_that_mean_nothing(formula, message):
    table = pd.DataFrame({"forest": [1.0, 2.0], "depth": [3.0, 4.0], "site": ["a", "b"], "y": [0.0, 1.0]})
    with pytest.raises(ValueError, match=re.escape(message)):
        npvi.GPRegressor(formula=formula).fit(table)


def test_responses_are_said_once():
    table = pd.DataFrame({"x": np.arange(20.0), "z": np.ones(20), "y": np.sin(np.arange(20.0))})
    model = npvi.GPRegressor(formula="y ~ x", learn=False, n_jobs=1)
    for other in (table["y"] + 1.0, "z"):
        with pytest.raises(ValueError, match="the responses are column 'y' of X, and y has others in 20 of 20 rows"):
            model.fit(table, other)
    expected = model.fit(table).predict(table)
    for X, y in ((table, table["y"]), (table, "y"), (table[["x"]], table["y"].to_numpy())):
        np.testing.assert_array_equal(model.fit(X, y).predict(table), expected)
