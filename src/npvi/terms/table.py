"""Columns of a user's table, by name: numbers, levels, and expressions of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import LARGEST, among, refuse_masked, refuse_repeated_names, rows_text
from npvi.terms.records import Linear, Offset

__all__ = ["EXTRA", "Expressions", "as_frame", "expression", "labels", "names_in", "numbers", "ordered_levels"]

Vector = NDArray[np.float64]

EXTRA = "formulas need the package formulae: pip install 'npvi[formulas]'"
"""Said where it isn't there."""
_FUNCTIONS = ("abs", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan")
#: of formulae, that make levels of a column of any kind
_OF_LEVELS = ("C", "S", "T")
#: kinds of columns of numbers: floating, whole, and those of yes and no, which count as 1 and 0
_NUMBERS = "biuf"
#: numbers that may come as objects, in pandas' words
_OBJECTS = ("boolean", "decimal", "floating", "integer", "mixed-integer-float")


def as_frame(X: Any, name: str = "X") -> pd.DataFrame:
    """Any table as one of pandas, with text for names; the columns of an array are x0, x1, ….

    Numbers that came as objects are numbers.

    >>> as_frame([[1.0, 2.0]]).columns.tolist()
    ['x0', 'x1']
    """
    refuse_masked(X, name)
    refuse_repeated_names(X, name)
    if hasattr(X, "geometry") and hasattr(X, "crs"):
        places = X.geometry
        X = pd.DataFrame(X.drop(columns=places.name)).assign(x=places.x.to_numpy(), y=places.y.to_numpy())
    table = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        frame = table.to_pandas()
        frame.columns = [str(column) for column in frame.columns]
        refuse_repeated_names(frame, name)  # 1 and "1" are one now
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
    return _without_objects(frame).reset_index(drop=True)


def _without_objects(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of objects as what they hold; where some of it is missing, or of a decimal type, as floating numbers."""
    found = frame.infer_objects()
    for name in found.columns[[dtype.kind == "O" for dtype in found.dtypes]]:
        if pd.api.types.infer_dtype(found[name], skipna=True) in _OBJECTS:
            found[name] = found[name].to_numpy(dtype=object, na_value=np.nan).astype(np.float64)
    return found


def column(table: pd.DataFrame, name: str, who: str) -> pd.Series:
    """One column, or an error that says which there are."""
    if name not in table.columns:
        raise ValueError(f"{who}: there is no column {name!r}{among(name, list(table.columns))}")
    return table[name]


def numbers(table: pd.DataFrame, names: Sequence[str], who: str) -> NDArray[np.float64]:
    """Columns of numbers, shape (rows, d), none missing.

    >>> numbers(pd.DataFrame({"a": [1.0, np.nan]}), ["a"], "s(a)")
    Traceback (most recent call last):
    ValueError: s(a): column 'a' has NaN or no number in 1 of 2 rows (rows 1): leave these rows out, or fill them
    """
    return np.column_stack([_numbers(column(table, name, who), name, who) for name in names])


def _numbers(values: pd.Series, name: str, who: str) -> Vector:
    if values.dtype.kind in "Mm":
        raise ValueError(f"{who}: column {name!r} has dates or durations: make it a number, such as days since a day")
    if values.dtype.kind == "c":
        raise ValueError(f"{who}: column {name!r} has complex numbers, where real ones are needed")
    try:
        if values.dtype.kind in _NUMBERS:
            found = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            found = values.to_numpy(dtype=object, na_value=np.nan).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{who}: column {name!r} has text ({values.iloc[0]!r}), where a number is needed") from None
    refuse_missing(~(np.abs(found) <= LARGEST), name, who)
    return found


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
    return np.array([str(_plain(value)) for value in found.tolist()], dtype=object)[codes]


def _plain(value: Any) -> Any:
    """3.0 and 3 are the same level."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def ordered_levels(values: pd.Series) -> list[Any]:
    """The levels that there are in a column, in their order: that of categories where they have one, else sorted.

    >>> ordered_levels(pd.Series(pd.Categorical(["mid", "low"], ["low", "mid", "high"], ordered=True)))
    ['low', 'mid']
    """
    if isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered:
        return [_plain(value) for value in values.cat.remove_unused_categories().cat.categories.tolist()]
    found = [_plain(value) for value in pd.unique(values).tolist()]
    try:
        return sorted(found)
    except TypeError:  # of several kinds
        return sorted(found, key=str)


class _Said(logging.Filter):
    """Keeps what formulae says to itself, and whether it did: of powers, and of nothing else when it reads."""

    heard = False

    def filter(self, record: logging.LogRecord) -> bool:
        self.heard = True
        return False


class _Uses(NamedTuple):
    """Names in a formula: those of which numbers or words are made use of as they are, and those that are only cut
    into levels, as ``year`` is in ``C(year)``."""

    plain: frozenset[str]
    levels: frozenset[str]


class Expressions:
    """Columns that linear terms make of a table, and of others: formulae's design matrix.

    formulae computes with columns in their own types, in which whole numbers wrap round (200 · 200 = 64 in eight bits)
    and small floating ones overflow. So it gets numbers in double precision alone; yes and no are 1 and 0. Words, and
    whatever `C` cuts into levels, are levels as they were in the first table, whichever type they come in.

    Parameters
    ----------
    terms : as in a formula.
    intercept : whether there is a constant.
    table : of the rows that say which levels, knots and the like there are.
    who : what errors begin with.

    Examples
    --------
    >>> table = pd.DataFrame({"a": np.array([100, 200], dtype=np.uint8), "who": ["x", "y"]})
    >>> made = Expressions(["I(a**2)", "who"], False, table, "linear")
    >>> made.names, made.of(table).tolist()
    (('I(a ** 2)', 'who[x]', 'who[y]'), [[10000.0, 1.0, 0.0], [40000.0, 0.0, 1.0]])
    """

    def __init__(self, terms: Sequence[str], intercept: bool, table: pd.DataFrame, who: str) -> None:
        self._terms, self._who = tuple(terms), who
        text = " + ".join(["1" if intercept else "0", *terms])
        uses = _uses(text, table.columns, who)
        self._plain = [name for name in uses.plain if table[name].dtype.kind in _NUMBERS]
        #: of each column of levels, in their order
        self.levels: dict[str, list[Any]] = {}
        for name in sorted((uses.plain | uses.levels) - set(self._plain)):
            if name in uses.plain:
                _refuse_no_words(table[name], name, who)
            labels(table, [name], who)
            self.levels[name] = ordered_levels(table[name])
        given = self._given(table, ordered=True)
        matrices, env = _formulae("matrices"), _functions()
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # what isn't finite is refused by name
                self._made = matrices.design_matrices(text, given, na_action="error", env=env).common
        except Exception as error:  # of formulae, which has no class of its own for them
            raise ValueError(f"{who}: {_reason(error)}") from error

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(str(label) for one in self._made.terms.values() for label in _labels_of(one))

    def of(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """The columns for the rows of a table, all finite."""
        given = self._given(table, ordered=False)  # with an order, some of the levels would be refused
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.asarray(self._made.evaluate_new_data(given).design_matrix, dtype=np.float64)
        found = np.broadcast_to(found, (len(table), found.shape[1])).copy()
        allowed = np.abs(found) <= LARGEST  # NaN isn't
        refuse_missing(~np.asarray(allowed.all(axis=1)), ", ".join(self._terms), self._who)
        return found

    def _given(self, table: pd.DataFrame, ordered: bool) -> pd.DataFrame:
        """What formulae is given of a table."""
        columns: dict[str, Any] = {name: numbers(table, [name], self._who)[:, 0] for name in self._plain}
        for name, levels in self.levels.items():
            codes = self._codes(table, name, levels)
            columns[name] = pd.Categorical.from_codes(codes, pd.Index(levels), ordered=ordered)
        return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))

    def _codes(self, table: pd.DataFrame, name: str, levels: list[Any]) -> NDArray[np.intp]:
        found = labels(table, [name], self._who)
        known = {str(level): code for code, level in enumerate(levels)}
        new = sorted(set(found) - set(known))
        if new:
            raise ValueError(
                f"{self._who}: {name!r} has the level {new[0]!r}, which the fit has not seen; there are "
                f"{', '.join(sorted(known)[:20])}. A Group, (1|{name}), has an effect for levels it hasn't seen"
            )
        return np.array([known[level] for level in found], dtype=np.intp)


def _refuse_no_words(values: pd.Series, name: str, who: str) -> None:
    """Raise where a column is neither of numbers nor of words."""
    if values.dtype.kind in "Mmc":
        _numbers(values, name, who)  # says why
    kind = values.dtype
    inside = values if not isinstance(kind, pd.CategoricalDtype) else pd.Series(["word"])
    found = pd.api.types.infer_dtype(inside, skipna=True)
    if found == "empty":
        refuse_missing(np.ones(len(values), dtype=bool), name, who)
    if found != "string":
        some = next(value for value in inside if not isinstance(value, str))
        raise ValueError(
            f"{who}: column {name!r} must hold numbers or words; it has {some!r:.40} ({type(some).__name__})"
            + (" beside words" if found.startswith("mixed") else "")
        )


def expression(text: str, table: pd.DataFrame, who: str) -> Vector:
    """One number for each row: a column, or an expression of columns.

    >>> expression("log(hours)", pd.DataFrame({"hours": [1.0, np.e]}), "offset").tolist()
    [0.0, 1.0]
    """
    if text in table.columns:
        return numbers(table, [text], who)[:, 0]
    if "'" in text or '"' in text:
        raise ValueError(f"{who}: the expression must be one number for each row, made of columns; it has text")
    with _one_number():
        found = Expressions([f"I({text})"], False, table, who).of(table)
    if found.shape[1] != 1:
        raise ValueError(f"{who}: {text!r} must be one number for each row")
    return found[:, 0]


@contextmanager
def _one_number() -> Iterator[None]:
    """What an error of an expression has to end with."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}. The expression must be one number for each row, made of columns") from error


def names_in(term: Linear | Offset, columns: Iterable[str]) -> set[str]:
    """The columns in the expressions of a term, or an error that names what is none.

    >>> sorted(names_in(Linear("log(depth + 1)", "forest:slope"), ["depth", "slope", "forest", "count"]))
    ['depth', 'forest', 'slope']
    """
    known = list(columns)
    if isinstance(term, Offset):
        if term.expression in known:
            return {term.expression}
        with _one_number():
            found = [_uses(f"I({term.expression})", known, term.name)]
    else:
        found = [_uses(text, known, term.name) for text in term.terms]
    return {name for uses in found for name in uses.plain | uses.levels}


def _uses(text: str, columns: Iterable[str], who: str) -> _Uses:
    module, logger, said = _formulae("model_description"), logging.getLogger("formulae"), _Said()
    logger.addFilter(said)
    try:
        described = module.model_description(text)
    except Exception as error:  # of formulae, likewise
        raise ValueError(f"{who}: {_reason(error)}") from error
    finally:
        logger.removeFilter(said)
    if said.heard:
        raise ValueError(f"{who}: outside of I(), a column to a power is the column itself: write I(x**2) in {text!r}")
    known, words = list(columns), _words()
    plain: set[str] = set()
    levels: set[str] = set()
    if described.group_terms:
        raise ValueError(f"{who}: effects of levels, (1|site), are no linear ones: npvi.Group('site')")
    for term in described.common_terms:
        for one in getattr(term, "components", ()):
            call: Any = getattr(one, "call", None)
            cut = call is not None and call.callee in _OF_LEVELS
            first = {arg.name for arg in call.args[:1] if hasattr(arg, "name")} if cut else set()
            levels |= first
            plain |= set(one.var_names) - first - {""}
    for name in sorted(plain | levels):
        if name not in known and name not in words:
            raise ValueError(f"{who}: there is no column {name!r}{among(name, known)}")
    return _Uses(frozenset(plain.intersection(known)), frozenset((levels - plain).intersection(known)))


def _functions() -> Any:
    """What a formula may call, besides what formulae itself has: a few of NumPy's functions and nothing else."""
    Environment = _formulae("environment").Environment
    return Environment([{name: getattr(np, name) for name in _FUNCTIONS}])


def _words() -> set[str]:
    """Names that aren't those of columns."""
    return {*_FUNCTIONS, *_formulae("transforms").TRANSFORMS, *_formulae("categorical").ENCODINGS}


def _formulae(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"formulae.{module}")
    except ModuleNotFoundError:
        raise ImportError(EXTRA) from None


def _reason(error: Exception) -> str:
    """formulae's error in words that say what there is; of names that aren't there, columns are known by then."""
    if isinstance(error, KeyError):
        return f"there is no function {str(error.args[0])!r}{among(str(error.args[0]), sorted(_words()))}"
    return str(error).strip().rstrip(".")


def _labels_of(one: Any) -> Any:
    found = getattr(one, "labels", None)
    return [one.name] if found is None else found
