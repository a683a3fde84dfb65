"""What users hand in, checked once: numbers, seeds, and whatever holds numbers. Errors name the argument.

Everything that a user may give passes through here before anything is computed with it, whether it came to an
estimator, a likelihood, a graph, a prediction or the command line. Compiled code trusts what it gets.
"""

from __future__ import annotations

import datetime
import difflib
import operator
import os
import sys
from collections.abc import Callable, Collection, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FINITE",
    "LARGEST",
    "NOT_NEGATIVE",
    "POSITIVE",
    "RATE",
    "SCALE",
    "SHARE",
    "SMALLEST",
    "Kind",
    "among",
    "as_numbers",
    "check_choice",
    "check_count",
    "check_finite",
    "check_flag",
    "check_jobs",
    "check_number",
    "check_path",
    "check_per_row",
    "check_seed",
    "generator",
    "is_number",
    "random_state",
    "refuse_masked",
    "refuse_not_real",
    "refuse_repeated_names",
    "rows_text",
]

#: squares of larger numbers overflow: of inputs, all distances would be infinite
LARGEST = 1e150
#: squares of what is divided by a smaller one do
SMALLEST = 1e-150

_DATES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


class Kind(NamedTuple):
    """Which numbers are allowed, in words and as a test."""

    words: str
    allows: Callable[[float], bool]


FINITE = Kind("a finite number", lambda value: -np.inf < value < np.inf)
POSITIVE = Kind("a positive number", lambda value: 0.0 < value < np.inf)
NOT_NEGATIVE = Kind("a finite number that isn't negative", lambda value: 0.0 <= value < np.inf)
#: of learning; parameters have units in which 1 is a long way
RATE = Kind("a positive number of at most 1e6", lambda value: 0.0 < value <= 1e6)
#: whose square is a number, with room to multiply
SCALE = Kind("a positive number from 1e-50 to 1e50", lambda value: 1e-50 <= value <= 1e50)
SHARE = Kind("a number from 0 to 1", lambda value: 0.0 <= value <= 1.0)


# -- words and flags --------------------------------------------------------------------------------------------------


def check_choice(value: Any, name: str, choices: Collection[Any], otherwise: str = "") -> None:
    """Raise ValueError unless it is one of a few words (or of True, False and None): an array never is.

    >>> check_choice("idw", "method", ("full", "npvi"))
    Traceback (most recent call last):
    ValueError: method must be one of 'full', 'npvi'; got 'idw'
    """
    if not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}{otherwise}; got {value!r}")


def check_flag(value: Any, name: str) -> bool:
    """`value` as True or False, or ValueError; whole numbers are true unless they are 0.

    >>> check_flag([True, False], "return_std")
    Traceback (most recent call last):
    ValueError: return_std must be True or False, got [True, False]
    """
    if not isinstance(value, bool | np.bool_ | int | np.integer):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


# -- one number -------------------------------------------------------------------------------------------------------


def is_number(value: Any, kind: Kind = FINITE) -> bool:
    """Whether `value` is one real number of that kind; True and "1" are none.

    >>> [is_number(value, POSITIVE) for value in (2, 0.5, -1.0, True, "1", None)]
    [True, True, False, False, False, False]
    """
    if getattr(value, "shape", None) == ():  # of NumPy or JAX
        value = value.item() if hasattr(value, "item") else value
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and kind.allows(float(value))
    except OverflowError:  # of a whole number with hundreds of digits
        return False


def check_number(value: Any, name: str, kind: Kind = FINITE, words: str | None = None) -> float:
    """`value` as a float, or ValueError; `words` where more is allowed than `kind` says.

    >>> check_number("0.9", "level", SHARE)
    Traceback (most recent call last):
    ValueError: level must be a number from 0 to 1, got '0.9'
    """
    if not is_number(value, kind):
        raise ValueError(f"{name} must be {words or kind.words}, got {value!r}")
    return float(value)


def check_count(value: Any, name: str, smallest: int = 1, largest: int = 2**63 - 1) -> int:
    """`value` as an integer from `smallest` to `largest`: Python's or NumPy's, not True or 3.0.

    >>> check_count(2.5, "n")
    Traceback (most recent call last):
    ValueError: n must be a whole number of at least 1, got 2.5
    """
    try:
        number = smallest - 1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = smallest - 1
    if number < smallest:
        raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
    if number > largest:
        shown = f"{number:,}" if number < 10**30 else "one of more than 30 digits"
        raise ValueError(f"{name} must be at most {largest:,}, or there is no memory for them; got {shown}")
    return number


def check_jobs(value: Any, name: str = "n_jobs") -> None:
    """Raise ValueError unless it is None, or a whole number other than 0."""
    if value is not None:
        words = "None (all cores), a number of threads, or -1, -2, …"
        check_number(value, name, Kind(words, lambda number: number != 0.0 and number.is_integer()))


def check_seed(value: Any, name: str = "seed") -> int:
    """A seed below 2⁶³; None counts as 0, so that the same call gives the same answer.

    >>> check_seed(None), check_seed(7)
    (0, 7)
    """
    if value is None:
        return 0
    try:
        number = -1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} must be None or a whole number from 0 to 2**63 - 1, got {value!r}")
    return number


def generator(seed: Any, name: str = "seed") -> np.random.Generator:
    """`numpy.random.default_rng`, in our words where that takes no such seed.

    >>> generator("a")
    Traceback (most recent call last):
    ValueError: seed must be None, a whole number of at least 0, or a numpy.random.Generator; got 'a'
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be None, a whole number of at least 0, or a numpy.random.Generator; got {seed!r}"
        ) from None


def random_state(seed: Any, name: str = "random_state") -> np.random.RandomState:
    """scikit-learn's `check_random_state`, in our words where that takes no such seed; None is the same as 0.

    >>> random_state("a")
    Traceback (most recent call last):
    ValueError: random_state must be None, a whole number from 0 to 2**32 - 1, or a numpy.random.RandomState; got 'a'
    """
    from sklearn.utils import check_random_state  # here: the command line stands on this module too

    try:
        return check_random_state(0 if seed is None else seed)
    except (TypeError, ValueError, OverflowError):
        allowed = "None, a whole number from 0 to 2**32 - 1, or a numpy.random.RandomState"
        raise ValueError(f"{name} must be {allowed}; got {seed!r}") from None


def check_path(path: Any, name: str = "path", optional: bool = False) -> None:
    """Raise TypeError unless it is text or a path, or None where it is `optional`: a number would be an open file's.

    >>> check_path(True)
    Traceback (most recent call last):
    TypeError: path must be text or a path, got True
    """
    if not (isinstance(path, str | os.PathLike) or (optional and path is None)):
        raise TypeError(f"{name} must be text or a path{', or None' if optional else ''}, got {path!r}")


# -- many numbers -----------------------------------------------------------------------------------------------------


def as_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """An array, list, column or number as float64; missing values become NaN.

    Raises
    ------
    ValueError, TypeError
        Where it holds something else (text, dates, complex numbers, objects), or has a mask.

    Examples
    --------
    >>> as_numbers([1, 2.5], "y")
    array([1. , 2.5])
    >>> as_numbers(np.array(["2020-01-01"], dtype="datetime64[D]"), "y")
    Traceback (most recent call last):
    ValueError: y holds dates or durations, not numbers: turn them into days or years first
    >>> as_numbers(np.ma.masked_less([-9999.0, 1.0], 0.0), "y")
    Traceback (most recent call last):
    ValueError: y is masked in 1 of 2 rows (rows 0): drop or fill them first
    """
    refuse_masked(values, name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is no array of numbers: its rows differ in length") from None
    refuse_not_real(array, name)
    if array.dtype.kind == "O":
        array = _of_objects(array, name)
    return array.astype(np.float64, copy=False)


def check_per_row(values: Any, name: str, n: int) -> NDArray[np.float64]:
    """`n` numbers, one per row, or the one number that holds for all of them.

    >>> check_per_row([1.0, 2.0], "exposure", 3)
    Traceback (most recent call last):
    ValueError: exposure must be one number or 3 of them, one per row; got shape (2,)
    """
    array = as_numbers(values, name)
    if array.shape not in [(), (n,)]:
        raise ValueError(f"{name} must be one number or {n} of them, one per row; got shape {array.shape}")
    return array


def refuse_not_real(array: NDArray, name: str) -> None:
    """Raise where an array's kind, or a table that is none yet, says that it holds no real numbers."""
    kind = array.dtype.kind
    if kind in "mM" or (kind == "O" and any(isinstance(value, _DATES) for value in array.flat)):
        raise ValueError(f"{name} holds dates or durations, not numbers: turn them into days or years first")
    if kind == "c" or (kind == "O" and any(isinstance(value, complex | np.complexfloating) for value in array.flat)):
        raise ValueError(f"Complex data not supported: {name} has an imaginary part; give its real part")
    if kind in "US" or kind not in "buifO":
        such = f" such as {str(array.flat[0])!r}" if array.size else ""
        raise ValueError(f"{name} must be numbers, got {'text' if kind in 'US' else array.dtype}{such}")


def refuse_repeated_names(table: Any, name: str) -> None:
    """Raise where a table, of pandas or pyarrow, has two columns of one name: which of them is meant can't be known.

    >>> import pandas as pd
    >>> refuse_repeated_names(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), "X")
    Traceback (most recent call last):
    ValueError: X has more than one column 'a': rename or remove all but one
    """
    names = getattr(table, "column_names", None)
    if names is None and hasattr(table, "columns") and hasattr(table, "dtypes"):
        names = table.columns
    seen: set[Any] = set()
    for one in () if names is None else names:
        if one in seen:
            raise ValueError(f"{name} has more than one column {one!r}: rename or remove all but one")
        seen.add(one)


def refuse_masked(values: Any, name: str) -> None:
    """Raise where some of an array is masked, or there are no rows (yet): its mask or its rows would be lost.

    >>> refuse_masked(np.ma.array([1.0, 2.0], mask=[False, True]), "exposure")
    Traceback (most recent call last):
    ValueError: exposure is masked in 1 of 2 rows (rows 1): drop or fill them first
    """
    if isinstance(values, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in values):
        mask = np.array([bool(np.ma.getmaskarray(row).any()) for row in values])
    elif isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
    else:
        polars = sys.modules.get("polars")
        if polars is not None and isinstance(values, polars.LazyFrame):
            raise TypeError(f"{name} is a LazyFrame, whose rows aren't there yet: call its collect() first")
        xarray = sys.modules.get("xarray")
        if xarray is not None and isinstance(values, xarray.Dataset):
            raise TypeError(
                f"{name} is an xarray.Dataset, a grid and no table of rows: model.predict_grid(grid) predicts all its "
                "cells; grid.to_dataframe().reset_index() makes rows of them"
            )
        return
    mask = np.atleast_1d(mask)
    rows = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)) if mask.size else np.empty(0, np.int64)
    if len(rows):
        raise ValueError(f"{name} is masked in {len(rows)} of {len(mask)} {rows_text(rows)}: drop or fill them first")


def check_finite(values: NDArray, name: str, largest: float = np.inf) -> None:
    """Raise where some of an array is NaN, infinite, or beyond ±`largest`."""
    with np.errstate(invalid="ignore", over="ignore"):  # `largest` is infinite in half precision
        good = np.isfinite(values) if largest == np.inf else np.abs(values) <= largest
    rows = np.flatnonzero(~(good.all(axis=1) if good.ndim == 2 else np.atleast_1d(good)))
    if not len(rows):
        return
    some = f"in {len(rows)} of {len(good) if good.ndim else 1} {rows_text(rows)}"
    if np.isfinite(values).all():
        raise ValueError(f"{name} has values beyond ±{largest:g} {some}: rescale {name}")
    raise ValueError(f"Input {name} contains NaN or infinity {some}: drop or fill them first")


def among(name: str, names: Sequence[str]) -> str:
    """What to say after a name that isn't there: the closest one, and a list of all.

    >>> "no column 'cuont'" + among("cuont", ["lon", "lat", "count"])
    "no column 'cuont': did you mean 'count'? There are lon, lat, count"
    """
    folded = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    guess = f": did you mean {folded[close[0]]!r}?" if close else "."
    shown = [candidate if candidate.isprintable() else repr(candidate) for candidate in names[:20]]
    listed = ", ".join(text[:40] for text in shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"{guess} There are {listed}"


def rows_text(rows: NDArray) -> str:
    """Row numbers for a message, the first five.

    >>> rows_text(np.arange(3, 10))
    'rows (rows 3, 4, 5, 6, 7, …)'
    """
    return f"rows (rows {', '.join(map(str, rows[:5]))}{', …' if len(rows) > 5 else ''})"


def _of_objects(array: NDArray, name: str) -> NDArray[np.float64]:
    """Tables with columns of mixed types, and columns with gaps, arrive as objects."""
    import pandas as pd  # a slow import, needed only here

    missing = np.asarray(pd.isna(array))
    text = next((value for value in array.flat if isinstance(value, str | bytes)), None)
    if text is not None:
        raise ValueError(f"{name} must be numbers, got text such as {str(text)!r}")
    try:
        return np.where(missing, np.nan, array).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must be numbers: {error}") from None
