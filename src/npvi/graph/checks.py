"""Checks of what a caller hands to the graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import LARGEST, as_numbers, check_finite

__all__ = ["check_permutation", "check_points"]


def check_points(X: ArrayLike, name: str, allow_empty: bool = False) -> np.ndarray:
    """X as a finite float64 matrix with rows in memory order."""
    array = as_numbers(X, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape} but must be two-dimensional, (points, inputs): "
            f"a single input is {name}.reshape(-1, 1), a single point {name}.reshape(1, -1)"
        )
    if array.shape[1] == 0 or (array.shape[0] == 0 and not allow_empty):
        raise ValueError(f"{name} is empty, with shape {array.shape}: give at least one point with at least one input")
    check_finite(array, name, LARGEST)
    return np.ascontiguousarray(array)


def check_permutation(order: ArrayLike, n: int) -> np.ndarray:
    """An array that holds each of 0, …, n-1 once, as int64."""
    try:
        array = np.asarray(order)
    except ValueError:
        raise ValueError("order is no list of numbers: its rows differ in length") from None
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
