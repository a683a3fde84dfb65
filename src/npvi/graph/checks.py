"""Checks of what a caller hands to the graph."""

from __future__ import annotations

import operator
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["check_choice", "check_count", "check_permutation", "check_points", "check_seed"]

# Squares of larger coordinates overflow, and all distances would be infinite.
_LARGEST = 1e150


def check_points(X: ArrayLike, name: str, allow_empty: bool = False) -> np.ndarray:
    """X as a finite float64 matrix with rows in memory order."""
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is no array: its rows differ in length, give all the same inputs") from None
    if array.dtype.kind == "O":
        # Tables with columns of mixed types arrive as objects.
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name} holds values that are no real numbers (dtype {array.dtype}): convert them first")
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape} but must be two-dimensional, (points, inputs): "
            f"a single input is {name}.reshape(-1, 1), a single point {name}.reshape(1, -1)"
        )
    if array.shape[1] == 0 or (array.shape[0] == 0 and not allow_empty):
        raise ValueError(f"{name} is empty, with shape {array.shape}: give at least one point with at least one input")
    array = np.ascontiguousarray(array, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~(np.abs(array) <= _LARGEST).all(axis=1))
    if len(wrong):
        shown = ", ".join(map(str, wrong[:5])) + (", …" if len(wrong) > 5 else "")
        rows = f"{len(wrong)} of {len(array)} rows (row {shown})"
        if np.isfinite(array).all():
            raise ValueError(f"{name} has values beyond ±{_LARGEST:g} in {rows}: rescale {name}")
        raise ValueError(f"{name} has NaN or infinite values in {rows}: remove or fill these rows")
    return array


def check_count(value: object, name: str) -> int:
    """A whole number of at least 1 (Python's or NumPy's, not True or 3.0)."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {value!r} but must be a whole number of at least 1, such as 20") from None
    if number < 1:
        raise ValueError(f"{name} is {number} but must be at least 1, such as 20")
    return number


def check_choice(value: object, name: str, choices: tuple[str, ...], otherwise: str = "") -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} is {value!r} but must be one of {listed}{otherwise}")


def check_permutation(order: ArrayLike, n: int) -> np.ndarray:
    """An array that holds each of 0, …, n-1 once, as int64."""
    array = np.asarray(order)
    if array.dtype.kind not in "ui":
        raise TypeError(f"order is an array of {array.dtype} but must hold integers: the row at each position")
    if array.shape != (n,):
        raise ValueError(f"order has shape {array.shape} but X has {n} rows: give a permutation of 0, …, {n - 1}")
    array = array.astype(np.int64)
    outside = np.flatnonzero((array < 0) | (array >= n))
    if len(outside):
        raise ValueError(
            f"order holds {array[outside[0]]} at position {outside[0]} ({len(outside)} such entries) "
            f"but must be a permutation of 0, …, {n - 1}"
        )
    repeats = np.bincount(array, minlength=n)
    if repeats.max() > 1:
        row = int(repeats.argmax())
        raise ValueError(
            f"order holds row {row} {repeats[row]} times but must be a permutation of 0, …, {n - 1}: name each row once"
        )
    return array


def check_seed(seed: object) -> int:
    """A seed below 2⁶³; None counts as 0, so that the same call gives the same graph."""
    if seed is None:
        return 0
    try:
        number = operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"seed is {seed!r} but must be None or a whole number of at least 0") from None
    if not 0 <= number < 2**63:
        raise ValueError(f"seed is {number} but must be between 0 and 2**63 - 1")
    return number
