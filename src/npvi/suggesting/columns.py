"""What each column of a table may be for, by its name and its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["Roles", "find_places", "find_target", "numbers_of", "roles_of"]

_LONGITUDES, _LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")
#: pairs of names that are places together, in the order in which they are looked for
_PAIRS: tuple[tuple[str, str], ...] = (
    *((x, y) for x in _LONGITUDES for y in _LATITUDES),
    *(("decimallongitude", "decimallatitude"), ("easting", "northing"), ("eastings", "northings"), ("east", "north")),
    *(("utm_x", "utm_y"), ("utm_e", "utm_n"), ("x_km", "y_km"), ("x_m", "y_m"), ("coord_x", "coord_y")),
    *(("xcoord", "ycoord"), ("x_coord", "y_coord"), ("x", "y"), ("x1", "x2"), ("s1", "s2")),
)
_TARGETS = ("target", "response", "y", "count", "counts", "value", "observed", "observation", "abundance", "presence")
_EXPOSURES: tuple[str, ...] = (
    "exposure",
    "effort",
    "hours",
    "minutes",
    "duration",
    "area",
    "population",
    "pop",
    "person_years",
)
_EXPOSURES += ("effort_hours", "effort_hrs", "duration_minutes", "swept_area", "area_km2", "hrs", "time_at_risk")
_TRIALS = ("trials", "n_trials", "ntrials", "n", "total", "ntot", "size", "tested", "examined", "sown", "sampled")
#: numbers that are names
_IDENTIFIERS = re.compile(r"(^|_)(id|fid|gid|key|code|num|number|no|nr|index|idx|row|col|route|station|site|plot)$")
#: what stands for no value in columns of text
_MISSING = frozenset(("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"))
#: a column of counts with so many zeros, beside a target of counts, is another response
_ZEROS = 0.1
_FEWEST = 2


@dataclass
class Roles:
    """Columns by what they are for, and why.

    Attributes
    ----------
    places : two columns, or none.
    exposure, trials : a column each, or None.
    covariates : columns with an effect of their own.
    reasons : by what they explain.
    """

    places: list[str] = field(default_factory=list)
    exposure: str | None = None
    trials: str | None = None
    covariates: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


def numbers_of(column: pd.Series) -> NDArray[np.float64] | None:
    """A column as float64, NaN where a value is missing or infinite; None where it is no column of numbers.

    >>> numbers_of(pd.Series(["1", "NA", "2.5"])), numbers_of(pd.Series(["a", "b"]))
    (array([1. , nan, 2.5]), None)
    """
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return None
    if pd.api.types.is_complex_dtype(column):
        return None
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        values = column.to_numpy(dtype=np.float64)
        return np.where(np.isfinite(values), values, np.nan)
    values = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    unread = np.isnan(values) & ~column.isna().to_numpy()
    if unread.any() and not column[unread].astype(str).str.strip().isin(_MISSING).all():
        return None
    return np.where(np.isfinite(values), values, np.nan)


def find_places(numbers: Mapping[str, NDArray[np.float64]], target: str | None = None) -> list[str]:
    """The two columns that say where, x or longitude first; none where no pair of names says so.

    >>> find_places({"Lat": np.array([1.0, 2.0]), "speed": np.array([3.0, 4.0]), "LON": np.array([5.0, 7.0])})
    ['LON', 'Lat']
    """
    folded = {name.lower(): name for name in reversed(list(numbers)) if name != target}
    for x, y in _PAIRS:
        if x not in folded or y not in folded:
            continue
        pair = [folded[x], folded[y]]
        if all(_varies(numbers[name]) for name in pair):
            return pair
    return []


def find_target(frame: pd.DataFrame, numbers: Mapping[str, NDArray[np.float64]]) -> tuple[str, str]:
    """The column that seems to be the response, and why: by its name, or the last that is for nothing else."""
    places = find_places(numbers)
    free = [name for name, values in numbers.items() if name not in places and _varies(values)]
    by_name = {name.lower(): name for name in reversed(free)}
    for word in _TARGETS:
        if word in by_name:
            return by_name[word], "by its name"
    taken = {*_EXPOSURES, *_TRIALS}
    others = [name for name in free if name.lower() not in taken and not _is_identifier(name, numbers[name])]
    if not others:
        raise ValueError(
            f"no column seems to be a response: of {frame.shape[1]:,} column(s) {len(numbers):,} hold numbers, and "
            "those are places, numbers of rows, or all the same; name one as target"
        )
    return others[-1], "the last column of numbers that is for nothing else; if it is another, name it as target"


def roles_of(numbers: Mapping[str, NDArray[np.float64]], target: str, y: NDArray[np.float64] | None) -> Roles:
    """What the other columns are for; `y` is None where the target is a label."""
    found = Roles(find_places(numbers, target))
    counts = y is not None and _are_counts(y)
    amounts = counts or (y is not None and bool(np.any(y == 0.0)) and bool(np.nanmin(y) >= 0.0))
    found.reasons["places"] = (
        f"{' and '.join(found.places)} are places by their names{_about_degrees(found.places, numbers)}"
        if found.places
        else "no pair of columns has the names of places"
    )
    left = {name: values for name, values in numbers.items() if name not in (*found.places, target)}
    if y is not None and counts:
        found.trials = _named(left, _TRIALS, lambda values: _are_trials(values, y))
    if found.trials is not None:
        found.reasons["trials"] = f"{target} is never more than {found.trials}, which are whole numbers"
    elif amounts:
        found.exposure = _named(left, _EXPOSURES, lambda values: _varies(values) and _all(values > 0.0, values))
        if found.exposure is not None:
            found.reasons["exposure"] = f"{found.exposure} is positive everywhere, and named as effort is"
    used = (found.exposure, found.trials)
    out: list[str] = []
    for name, values in left.items():
        if name in used:
            continue
        if _is_identifier(name, values) or not _varies(values) or _like_target(name, values, target, counts):
            out.append(name)
        else:
            found.covariates.append(name)
    found.reasons["covariates"] = _about_covariates(found, out)
    return found


def _about_degrees(places: list[str], numbers: Mapping[str, NDArray[np.float64]]) -> str:
    """Words where longitudes and latitudes can't be degrees."""
    named = places[1].lower() in (*_LATITUDES, "decimallatitude")
    right = _within(numbers[places[0]], 360.0) and _within(numbers[places[1]], 90.0)
    return ", but their numbers are no degrees" if named and not right else ""


def _about_covariates(found: Roles, out: list[str]) -> str:
    free = len(found.covariates)
    what = f"{free} column(s) of numbers that are for nothing else" if free else "none left"
    if not out:
        return what
    some = ", ".join(out[:6]) + (f" and {len(out) - 6} more" if len(out) > 6 else "")
    return f"{what}; not {some}: names of rows, constants or other responses"


def _named(
    columns: Mapping[str, NDArray[np.float64]], words: Sequence[str], fits: Callable[[NDArray[np.float64]], bool]
) -> str | None:
    """The column with the first of these names whose numbers fit."""
    folded = {name.lower(): name for name in reversed(list(columns))}
    return next((folded[word] for word in words if word in folded and fits(columns[folded[word]])), None)


def _are_trials(values: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    return _are_counts(values) and _all(values >= np.maximum(y, 1.0), values, y)


def _all(condition: NDArray[np.bool_], *columns: NDArray[np.float64]) -> bool:
    """Whether it holds wherever all of the columns have a value."""
    there = np.all([np.isfinite(values) for values in columns], axis=0)
    return bool(there.any() and condition[there].all())


def _within(values: NDArray[np.float64], most: float) -> bool:
    return bool(np.nanmax(np.abs(values), initial=0.0) <= most)


def _varies(values: NDArray[np.float64]) -> bool:
    there = values[np.isfinite(values)]
    return len(there) >= _FEWEST and bool(np.ptp(there) > 1e-12 * np.abs(there).max())


def _are_counts(values: NDArray[np.float64]) -> bool:
    there = values[np.isfinite(values)]
    return len(there) > 0 and bool(np.all((there >= 0.0) & (there == np.floor(there))))


def _is_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Named as numbers of things are, or one more than the row before."""
    steps = np.diff(values)
    return bool(_IDENTIFIERS.search(name.lower())) or bool(len(steps) > 1 and np.all(steps == 1.0))


def _like_target(name: str, values: NDArray[np.float64], target: str, counts: bool) -> bool:
    """Another response: named as the target but for its last word, or counts with zeros beside counts."""
    stem, mark, _ = target.rpartition("_")
    sibling = bool(mark) and name.startswith(stem + "_")
    many_zeros = float(np.mean(values[np.isfinite(values)] == 0.0)) > _ZEROS if np.isfinite(values).any() else False
    more_than_two = len(np.unique(values[np.isfinite(values)])) > 2
    return sibling or (counts and _are_counts(values) and many_zeros and more_than_two)
