"""Formulas, and what is said of those that aren't understood."""

from __future__ import annotations

import pytest

import npvi
from npvi.terms import FormulaError, parse

UNDERSTOOD = {
    "y ~ 1": [npvi.Linear()],
    "y ~ 0 + a": [npvi.Linear("a", intercept=False)],
    "y ~ a - 1": [npvi.Linear("a", intercept=False)],
    "y ~ a*b + poly(x, 2) + log(z)": [npvi.Linear("a*b", "poly(x, 2)", "log(z)")],
    "y ~ s(x) + (1|g)": [npvi.Smooth("x"), npvi.Group("g"), npvi.Linear()],
    "y ~ s(x, k=6, by=f)": [npvi.Smooth("x", k=6, by="f"), npvi.Linear()],
    "y ~ s(day, cyclic=True)": [npvi.Smooth("day", cyclic=True), npvi.Linear()],
    "y ~ te(x, z, k=5)": [npvi.Smooth("x", "z", k=5), npvi.Linear()],
    "y ~ (1 + a + b|g:h)": [npvi.Group("g", "h", slope=["a", "b"]), npvi.Linear()],
    "y ~ (0 + a|g)": [npvi.Group("g", slope="a", intercept=False), npvi.Linear()],
    "y ~ gp(lon, lat, by=AR1(year), kernel='matern12', range=20)": [
        npvi.Field("lon", "lat", by=npvi.AR1("year"), kernel="matern12", range=20),
        npvi.Linear(),
    ],
    "y ~ gp(x, y) + gp(x, y, by=year, range=shared)": [
        npvi.Field("x", "y"),
        npvi.Field("x", "y", by="year", range="shared"),
        npvi.Linear(),
    ],
    "y ~ effort:gp(x, y)": [npvi.Varying("effort", over=npvi.Field("x", "y")), npvi.Linear()],
    "y ~ offset(log(hours)) + s(`my depth`)": [npvi.Offset("log(hours)"), npvi.Smooth("my depth"), npvi.Linear()],
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_what_is_understood(text):
    found = parse(text)
    assert found.response == "y"
    assert list(found.terms) == UNDERSTOOD[text]


NOT_UNDERSTOOD = {
    "": "formula must be a text",
    "y ~ s(x": "this ( is not closed",
    "y ~ x)": "there is no ( to this )",
    "y ~ a ~ b": "there can be only one ~",
    "y ~": "nothing is right of ~",
    "log(y) ~ x": "left of ~ must be the name of a column",
    "y ~ a + + b": "nothing is left of this +",
    "y ~ a +": "nothing comes after this",
    "y ~ a*s(x)": "stands by itself",
    "y ~ a - s(x)": "only the constant can be taken out",
    "y ~ a|g": "in parentheses of their own",
    "y ~ (1|a/b)": "write a/b as",
    "y ~ (log(x)|g)": "left of | are 1, 0 and names",
    "y ~ s(log(x))": "make a column of this expression",
    "y ~ s(x, q=3)": "no argument 'q'",
    "y ~ s(x, k=2)": "at least 4",
    "y ~ s()": "has an argument that is empty",
    "y ~ gp(x, y, by=2 + 2)": "by= is a column",
    "y ~ offset()": "needs a column or an expression",
    "y ~ a $ b": "Unexpected character",
}


@pytest.mark.parametrize("text", NOT_UNDERSTOOD)
def test_errors_say_what_and_where(text):
    with pytest.raises(FormulaError) as error:
        parse(text)
    message = str(error.value)
    assert NOT_UNDERSTOOD[text] in message
    if text:
        line, pointer = message.splitlines()[-2:]
        assert line == "  " + text
        assert pointer.strip() == "^"
        assert 2 <= len(pointer) - 1 <= len(text) + 2


def test_the_place_is_the_right_one():
    with pytest.raises(FormulaError) as error:
        parse("count ~ forest + s(depth, q=3)")
    pointer = str(error.value).splitlines()[-1]
    assert "  count ~ forest + s(depth, q=3)"[len(pointer) - 1] == "q"
