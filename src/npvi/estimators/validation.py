"""Checks of what a user hands in: errors that say what to do."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight, validate_data

from npvi.model import ScaleWarning
from npvi.parameters import check_count

__all__ = [
    "ScaleWarning",
    "check_count",
    "check_inputs",
    "check_response",
    "check_weights",
]


def check_inputs(estimator: Any, X: Any, *, reset: bool) -> NDArray[np.float64]:
    """X as float64, or an error that names the column or the rows; remembers names and number of columns if `reset`."""
    _check_numeric_columns(X)
    X = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C")
    _check_finite(X, "X")
    return X


def check_response(estimator: Any, X: Any, y: Any) -> tuple[NDArray[np.float64], Any]:
    """X and y of one fit."""
    X = check_inputs(estimator, X, reset=True) if y is not None else validate_data(estimator, X, y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    _check_finite(y, "y")
    return X, y


def check_weights(sample_weight: Any, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Observation weights as float64, or None."""
    if sample_weight is None:
        return None
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def _check_numeric_columns(X: Any) -> None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
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


def _check_finite(values: NDArray, name: str) -> None:
    try:
        finite = np.isfinite(values.astype(np.float64, copy=False))
    except (TypeError, ValueError):  # labels, which a classifier encodes
        finite = ~np.asarray(pd.isna(values))
    rows = np.flatnonzero(~(finite.all(axis=1) if finite.ndim == 2 else finite))
    if len(rows):
        some = ", ".join(str(row) for row in rows[:5]) + (", …" if len(rows) > 5 else "")
        raise ValueError(
            f"Input {name} contains NaN or infinity in {len(rows)} of {len(values)} rows (rows {some}): "
            "drop or fill them first"
        )
