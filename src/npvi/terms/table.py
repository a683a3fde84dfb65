"""Columns of a user's table, by name: numbers, levels, and expressions of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import LARGEST, refuse_masked, rows_text

__all__ = [
    "EXTRA",
    "NO_NUMBER",
    "as_frame",
    "design",
    "evaluated",
    "expression",
    "functions",
    "labels",
    "numbers",
    "words",
]

Vector = NDArray[np.float64]

EXTRA = "formulas need the package formulae: pip install 'npvi[formulas]'"
"""Said where it isn't there."""
NO_NUMBER = "The expression must be one number for each row, made of columns"
"""Said of an offset that isn't."""
_FUNCTIONS = ("abs", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan")


def as_frame(X: Any, name: str = "X") -> pd.DataFrame:
    """Any table as one of pandas, with text for names; the columns of an array are x0, x1, ….

    >>> as_frame([[1.0, 2.0]]).columns.tolist()
    ['x0', 'x1']
    """
    refuse_masked(X, name)
    if hasattr(X, "geometry") and hasattr(X, "crs"):
        places = X.geometry
        X = pd.DataFrame(X.drop(columns=places.name)).assign(x=places.x.to_numpy(), y=places.y.to_numpy())
    table = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        frame = table.to_pandas()
        frame.columns = [str(column) for column in frame.columns]
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise ValueError(f"{name} has two columns named {twice[0]!r}: rename one")
    else:
        try:
            values = np.asarray(X)
        except ValueError as error:  # lists of different lengths
            raise ValueError(f"{name} must be a table with named columns, or an array: {error}") from None
        if values.ndim != 2:
            raise ValueError(f"{name} must be a table with named columns, or an array of two dimensions; got {X!r:.60}")
        frame = pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])])
    if not len(frame):
        raise ValueError(f"{name} has no rows")
    return frame.reset_index(drop=True)


def column(table: pd.DataFrame, name: str, who: str) -> pd.Series:
    """One column, or an error that says which there are."""
    if name not in table.columns:
        known = ", ".join(map(str, table.columns[:20])) + (", …" if len(table.columns) > 20 else "")
        raise ValueError(f"{who}: there is no column {name!r}; the columns are {known}")
    return table[name]


def numbers(table: pd.DataFrame, names: Sequence[str], who: str) -> NDArray[np.float64]:
    """Columns of numbers, shape (rows, d), none missing.

    >>> numbers(pd.DataFrame({"a": [1.0, np.nan]}), ["a"], "s(a)")
    Traceback (most recent call last):
    ValueError: s(a): column 'a' has NaN or no number in 1 of 2 rows (rows 1): leave these rows out, or fill them
    """
    return np.column_stack([_numbers(column(table, name, who), name, who) for name in names])


def _numbers(values: pd.Series, name: str, who: str) -> Vector:
    refuse_dates(values, name, who)
    if values.dtype.kind == "c":
        raise ValueError(f"{who}: column {name!r} has complex numbers, where real ones are needed")
    try:
        found = np.asarray(values, dtype=object if values.dtype == object else None).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{who}: column {name!r} has text ({values.iloc[0]!r}), where a number is needed") from None
    refuse_missing(~(np.abs(found) <= LARGEST), name, who)
    return found


def refuse_dates(values: pd.Series, name: str, who: str) -> None:
    """Raise ValueError where a column has them."""
    if values.dtype.kind in "Mm":
        raise ValueError(f"{who}: column {name!r} has dates or durations: make it a number, such as days since a day")


def refuse_missing(wrong: NDArray[np.bool_], name: str, who: str) -> None:
    """Raise ValueError that names the rows."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise ValueError(
            f"{who}: column {name!r} has NaN or no number in {len(rows)} of {len(wrong)} {rows_text(rows)}: leave "
            "these rows out, or fill them"
        )


def labels(table: pd.DataFrame, names: Sequence[str], who: str) -> NDArray[np.object_]:
    """The level of each row as text; of several columns their combination. 3 and 3.0 are the same level.

    >>> labels(pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]}), ["a", "b"], "1|a:b").tolist()
    ['1:x', '2.5:y']
    """
    found = [_labels(column(table, name, who), name, who) for name in names]
    return found[0] if len(found) == 1 else np.array([":".join(row) for row in zip(*found)], dtype=object)


def _labels(values: pd.Series, name: str, who: str) -> NDArray[np.object_]:
    refuse_missing(np.asarray(values.isna()), name, who)
    codes, found = pd.factorize(values)
    texts = [str(int(x)) if isinstance(x, float | np.floating) and x == int(x) else str(x) for x in found.tolist()]
    return np.array(texts, dtype=object)[codes]


def functions() -> Any:
    """What a formula may call, besides what formulae itself has: a few of NumPy's functions and nothing else."""
    Environment = _formulae("environment").Environment
    return Environment([{name: getattr(np, name) for name in _FUNCTIONS}])


def design(terms: Iterable[str], intercept: bool, table: pd.DataFrame, who: str) -> Any:
    """formulae's design matrix of linear terms; it can be evaluated on other tables."""
    terms = list(terms)
    text = " + ".join(["1" if intercept else "0", *terms])
    matrices = _formulae("matrices")
    for name in words(terms):
        if name in table.columns:
            refuse_unusable(table[name], name, who)
    unused = {name: table[name].cat.remove_unused_categories() for name in _categories(table)}
    table = table.assign(**unused)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # what isn't finite is refused by name
            found = matrices.design_matrices(text, table, na_action="pass", env=functions())
    except Exception as error:  # of formulae, which has no class of its own for them
        raise ValueError(f"{who}: {_reason(error, table)}") from error
    return found.common


def words(terms: Iterable[str]) -> list[str]:
    """What may be names of columns in expressions, each once, not what is called; between backticks anything may.

    >>> words(["forest:log(x)", "`wet ness`"])
    ['forest', 'x', 'wet ness']
    """
    found = (word.strip("`") for term in terms for word in re.findall(r"`[^`]*`|\b[^\W\d]\w*\b(?!\s*[(=])", term))
    return list(dict.fromkeys(found))


def refuse_unusable(values: pd.Series, name: str, who: str) -> None:
    """Raise ValueError where a column is neither numbers nor labels, or has rows without a label."""
    refuse_dates(values, name, who)
    if values.dtype.kind not in "biuf":
        refuse_missing(np.asarray(values.isna()), name, who)


def evaluated(made: Any, table: pd.DataFrame) -> Any:
    """A design of formulae for another table, whose categories may be others."""
    plain = {name: table[name].astype(object) for name in _categories(table)}
    return made.evaluate_new_data(table.assign(**plain)).design_matrix


def _categories(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)]


def expression(text: str, table: pd.DataFrame, who: str) -> Vector:
    """One number for each row: a column, or an expression of columns.

    >>> expression("log(hours)", pd.DataFrame({"hours": [1.0, np.e]}), "offset").tolist()
    [0.0, 1.0]
    """
    if text in table.columns:
        return numbers(table, [text], who)[:, 0]
    if "'" in text or '"' in text:
        raise ValueError(f"{who}: the expression must be one number for each row, made of columns; it has text")
    try:
        made = design([text if text.endswith(")") else f"I({text})"], False, table, who)
    except ValueError as error:
        raise ValueError(f"{error}. {NO_NUMBER}") from error
    found = np.asarray(made.design_matrix)
    if found.ndim != 2 or found.shape[1] != 1:
        raise ValueError(f"{who}: {text!r} must be one number for each row")
    values = found[:, 0].astype(np.float64)
    refuse_missing(~np.isfinite(values), text, who)
    return values


def _formulae(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"formulae.{module}")
    except ModuleNotFoundError:
        raise ImportError(EXTRA) from None


def _reason(error: Exception, table: pd.DataFrame) -> str:
    """formulae's error in words that say what there is."""
    if isinstance(error, KeyError):
        known = ", ".join(map(str, table.columns[:20]))
        others = f"; of those it names there are {known}" if known else ""
        return f"there is no column or function {error.args[0]!r}{others}"
    return str(error).strip().rstrip(".")
