"""What counts as the same numbers."""

from __future__ import annotations

import doctest
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from .scripts import script

same = script("same_numbers")

BEFORE = {"mean": np.array([1.0, np.nan, np.inf]), "label": np.array(["a", "b"]), "n": np.array(3)}


def test_equal():
    found = same.compare(BEFORE, {name: value.copy() for name, value in BEFORE.items()})
    assert found.equal
    assert (found.arrays, found.absolute, found.relative) == (3, 0.0, 0.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mean": np.array([1.0 + 2**-52, np.nan, np.inf])}, "mean: differs by 2.22e-16"),
        ({"mean": np.array([1.0, 0.0, np.inf])}, "mean: differs by inf"),
        ({"mean": np.array([1.0, np.nan])}, "mean: float64 (3,) became float64 (2,)"),
        ({"mean": np.array([1.0, np.nan, np.inf], dtype=np.float32)}, "mean: float64 (3,) became float32 (3,)"),
        ({"label": np.array(["a", "c"])}, "label: 'b' became 'c'"),
        ({"n": np.array(4)}, "n: differs by 1"),
        ({"more": np.zeros(1)}, "more: only after"),
    ],
)
def test_different(changed, said):
    found = same.compare(BEFORE, {**BEFORE, **changed})
    assert not found.equal
    assert len(found.differing) == 1
    assert found.differing[0].startswith(said)


def test_what_is_gone_and_the_sign_of_zero():
    assert same.compare(BEFORE, {}).differing == ["label: only before", "mean: only before", "n: only before"]
    assert not same.compare({"a": np.array([0.0])}, {"a": np.array([-0.0])}).equal


def test_tolerance():
    before, after = {"a": np.array([1e9, 1e-9])}, {"a": np.array([1e9 + 1.0, 2e-9])}
    found = same.compare(before, after, tolerance=1e-8)  # one is near in proportion, the other absolutely
    assert found.equal
    assert found.absolute == 1.0
    assert found.relative == 0.5
    assert not same.compare(before, after, tolerance=1e-10).equal


def test_numbers_in_texts():
    before, after = ({"text": np.asarray(f"bound {bound} of 1,200 rows")} for bound in ("-2.50", "−2.51"))
    assert same.compare(before, after, tolerance=0.02).equal
    assert not same.compare(before, after).equal
    assert not same.compare(before, {"text": np.asarray("Bound -2.50 of 1,200 rows")}, tolerance=0.02).equal


def test_record():
    @dataclass
    class Means:
        total: float
        seconds: float

    record = same.Record()
    record.add("table", pd.DataFrame({"value": [1.0, 2.0]}, index=["nugget", "variance"]))
    record.add("means", Means(2.0, 0.1))
    record.add("rounds", [{"score": 1.0}, {"score": 2.0}])
    record.add("model", object())
    record.add("none", None)
    assert {name: value.tolist() for name, value in record.arrays.items()} == {
        "table/nugget/value": 1.0,
        "table/variance/value": 2.0,
        "means/total": 2.0,
        "rounds/0/score": 1.0,
        "rounds/1/score": 2.0,
        "none": "None",
    }


def test_times_in_tables_are_masked():
    head = "┃ length scale ┃ nlpd ┃ seconds ┃  ┃\n"
    one = f"{head}│ 0.5 │ 1.23 │ 0.31 │ ← best │\n└────┴─┘\n│ seconds  │ 0.4 (graph 0.1) │"
    other = f"{head}│ 0.5 │ 1.23 │   12 │ ← best │\n└─────┴─┘\n│ seconds  │ 12.0 (graph 11.0)  │"
    assert same.masked(one) == same.masked(other)
    assert "1.23" in same.masked(one)


def test_enough_kinds():
    assert len(same.KINDS) >= 25


def test_kinds_by_how_they_begin():
    assert same._chosen(["files", "update"]) == ["update", "update-integrated", "files-saved", "files-loaded"]
    with pytest.raises(SystemExit, match="no kind is called 'nothing'"):
        same._chosen(["nothing"])


def test_doctests():
    assert doctest.testmod(same).failed == 0
