"""Checks of what a user hands in: errors that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from npvi.checks import (
    LARGEST,
    SMALLEST,
    as_numbers,
    check_finite,
    check_per_row,
    refuse_masked,
    refuse_not_real,
    refuse_repeated_names,
    rows_text,
)
from npvi.kernels import Sphere, as_kernel
from npvi.likelihoods import refuse_no_column, refuse_no_labels
from npvi.maps import geometry_columns, is_geo_frame, is_geographic, place_names
from npvi.model import ScaleWarning
from npvi.parameters import Parametrised

__all__ = [
    "ScaleWarning",
    "check_column",
    "check_inputs",
    "check_labels",
    "check_response",
    "check_weights",
    "settings_on_map",
    "with_places",
]


#: sums of squares over many rows, times other numbers, must stay numbers
_LARGEST_WEIGHT = 1e50


def check_inputs(estimator: Any, X: Any, *, reset: bool) -> NDArray[np.float64]:
    """X as float64, or an error that names the column or the rows; remembers names and number of columns if `reset`."""
    refuse_masked(X, "X")
    refuse_repeated_names(X, "X")
    X = with_places(estimator, X, reset=reset)
    # a table? Arrays, which are none, needn't be asked for all that tables may be
    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        _check_numeric_columns(frame)
    elif not scipy.sparse.issparse(X):
        X = as_numbers(X, "X")
    X = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C")
    check_finite(X, "X", LARGEST)
    spread = np.ptp(X, axis=0) if reset and len(X) else np.zeros(0)
    tiny = np.flatnonzero((spread > 0.0) & (spread < SMALLEST))
    if len(tiny):
        raise ValueError(
            f"column {tiny[0]} of X has values at most {spread[tiny[0]]:g} apart, whose squares are no numbers any "
            "more: rescale X"
        )
    return X


def check_response(estimator: Any, X: Any, y: Any) -> tuple[NDArray[np.float64], Any]:
    """X and y of one fit."""
    X = check_inputs(estimator, X, reset=True) if y is not None else validate_data(estimator, X, y)
    y = check_column(y, "y")
    check_consistent_length(X, y)
    return X, y


def check_column(y: Any, name: str) -> NDArray:
    """Responses, numbers or labels, one after the other and none missing."""
    refuse_no_column(y, name)
    if isinstance(y, list | tuple) and any(isinstance(value, str) for value in y):
        y = np.array(y, dtype=object)  # numbers among words would become words
    elif np.asarray(y).dtype.kind == "c":
        refuse_not_real(np.asarray(y), name)
    y = column_or_1d(y, warn=True)
    check_finite(np.where(_is_there(y), 0.0, np.nan), name)
    return y


def check_labels(y: Any, name: str = "y") -> NDArray:
    """Labels of a classifier as an array: all text, or all numbers.

    >>> check_labels(["a", 1])
    Traceback (most recent call last):
    ValueError: y has labels of several kinds, text and numbers: make them all text, or all numbers
    """
    refuse_no_labels(y, name)
    if isinstance(y, list | tuple) or np.asarray(y).dtype.kind == "O":
        is_text = [isinstance(label, str) for label in np.ravel(np.array(y, dtype=object))]
        if any(is_text) and not all(is_text):
            kinds = "labels of several kinds, text and numbers"
            raise ValueError(f"{name} has {kinds}: make them all text, or all numbers")
    return np.asarray(y)


def check_weights(sample_weight: Any, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Observation weights as float64, one per row of X and not all of them 0; or None.

    >>> check_weights([1.0, -2.0], np.zeros((2, 1)))
    Traceback (most recent call last):
    ValueError: Negative values in sample_weight in 1 of 2 rows (rows 1): a weight says how much a row counts
    """
    if sample_weight is None:
        return None
    weight = np.array(np.broadcast_to(check_per_row(sample_weight, "sample_weight", len(X)), (len(X),)))
    check_finite(weight, "sample_weight", _LARGEST_WEIGHT)
    negative = np.flatnonzero(weight < 0.0)
    if len(negative):
        raise ValueError(
            f"Negative values in sample_weight in {len(negative)} of {len(X)} {rows_text(negative)}: a weight says how "
            "much a row counts"
        )
    small = np.flatnonzero((weight > 0.0) & (weight < 1.0 / _LARGEST_WEIGHT))
    if len(small):
        raise ValueError(
            f"sample_weight is below {1.0 / _LARGEST_WEIGHT:g} in {len(small)} of {len(X)} {rows_text(small)}: give 0 "
            "to rows that don't count, or multiply all weights"
        )
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number: sample_weight is 0 in all rows")
    return weight


def _check_numeric_columns(frame: nw.DataFrame) -> None:
    wrong = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == nw.Boolean)]
    objects = [name for name in wrong if frame.schema[name] == nw.Object]
    wrong = [name for name in wrong if name not in objects or not _holds_numbers(frame[name])]
    if wrong:
        kinds = ", ".join(f"{name!r} ({frame.schema[name]})" for name in wrong[:5])
        raise ValueError(
            f"inputs must be numbers, but column {kinds} is not: convert it, or leave it out of the inputs"
        )


def _holds_numbers(column: nw.Series) -> bool:
    try:
        column.to_numpy().astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _is_there(y: NDArray) -> NDArray[np.bool_]:
    """Which entries are no gaps: of numbers those that are finite, of labels those that aren't missing."""
    if y.dtype.kind in "fc":
        return np.isfinite(y)
    missing = np.asarray(pd.isna(y))
    if y.dtype.kind == "O":
        missing |= np.array([isinstance(value, float) and not np.isfinite(value) for value in y], dtype=bool)
    return ~missing


# -- tables of geopandas among the inputs: columns for the model, and what a coordinate system says of its settings ---


def with_places(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X, or of a GeoDataFrame a table with its points as columns; the estimator remembers their system if `reset`."""
    if not is_geo_frame(X):
        if reset:
            vars(estimator).pop("crs_", None)
        return X
    if not getattr(estimator, "_takes_points", False):
        raise ValueError(
            f"X is a GeoDataFrame, which {type(estimator).__name__} doesn't take: give a table with its coordinates as "
            "columns, X.get_coordinates()"
        )
    known = getattr(estimator, "crs_", None)
    if not reset and known is None:
        raise ValueError(
            "X is a GeoDataFrame, but the model was fitted to a table that has no coordinate system: give its columns, "
            "or fit a GeoDataFrame"
        )
    table, crs = geometry_columns(X, None if reset else known)
    if reset:
        estimator.crs_ = crs
    return table


def settings_on_map(settings: Mapping[str, Any], crs: str) -> dict[str, Any]:
    """Settings for places in the system `crs`: the process sees these alone unless `coords` says more, other columns
    are covariates; with longitudes and latitudes its kernel is on the sphere, in kilometres.

    >>> found = settings_on_map({"coords": None, "kernel": "matern32"}, "EPSG:4326")
    >>> found["coords"], found["kernel"]
    (['longitude', 'latitude'], Sphere(kernel=Matern32()))
    """
    names = list(place_names(crs))
    coords = names if settings["coords"] is None else settings["coords"]
    kernel = settings["kernel"]
    if is_geographic(crs) and not _has_sphere(kernel):
        if list(coords) != names:
            raise ValueError(
                "kernel: with inputs besides longitude and latitude say how distances on the Earth go together with "
                "them, such as Sphere(Matern()) * Subset(Matern(), ['year'])"
            )
        kernel = Sphere(as_kernel(kernel))
    return {**settings, "coords": coords, "kernel": kernel}


def _has_sphere(kernel: Any) -> bool:
    if not isinstance(kernel, Parametrised):
        return False
    return isinstance(kernel, Sphere) or any(isinstance(part, Sphere) for part in kernel.get_params(deep=True).values())
