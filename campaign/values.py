"""Values that an argument should hardly be given."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

__all__ = ["MUST_BE_REFUSED", "VALUES"]


def _spoiled(value: Any) -> Callable[[Any], Any]:
    """The valid array with one number changed; the value itself where it is no array."""

    def make(valid: Any) -> Any:
        if not isinstance(valid, np.ndarray) or valid.dtype.kind not in "fiu" or not valid.size:
            return value
        changed = valid.astype(np.float64)
        changed.flat[changed.size // 2] = value
        return changed

    return make


def _array(change: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    """A change of the valid array, or of three numbers where it is none."""
    return lambda valid: change(valid if isinstance(valid, np.ndarray) else np.array([1.0, 2.0, 3.0]))


def _frame(values: np.ndarray) -> dict[str, np.ndarray]:
    columns = np.atleast_2d(values.T).T.reshape(len(values), -1)
    return {f"c{k}": columns[:, k] for k in range(columns.shape[1])}


def _masked(values: np.ndarray) -> Any:
    mask = np.zeros(values.shape, dtype=bool)
    mask.flat[0] = True
    return np.ma.masked_array(values, mask)


def _with_one(values: np.ndarray, odd: Any) -> np.ndarray:
    changed = values.astype(object)
    changed.flat[0] = odd
    return changed


VALUES: dict[str, Callable[[Any], Any]] = {
    "valid": lambda valid: valid,
    # not numbers
    "none": lambda _: None,
    "text": lambda _: "nonsense",
    "empty text": lambda _: "",
    "text of a number": lambda _: "0.9",
    "bytes": lambda _: b"abc",
    "a function": lambda _: lambda *_: 1,
    "a class": lambda _: dict,
    "an object": lambda _: object(),
    "a path": lambda _: pathlib.Path("/proc/nowhere/at/all"),  # where nobody can make folders
    "a mapping": lambda _: {"a": 1},
    "a set": lambda _: {1, 2},
    "a generator": lambda _: (k for k in range(3)),
    "a range": lambda _: range(3),
    "a date": lambda _: datetime.date(2020, 1, 1),
    # numbers
    "nan": _spoiled(np.nan),
    "inf": _spoiled(np.inf),
    "-inf": _spoiled(-np.inf),
    "negative": _spoiled(-1.0),
    "zero": _spoiled(0.0),
    "half": _spoiled(0.5),
    "huge": _spoiled(1e300),
    "large": _spoiled(1e160),
    "tiny": _spoiled(1e-300),
    "plain nan": lambda _: float("nan"),
    "plain zero": lambda _: 0,
    "minus one": lambda _: -1,
    "two and a half": lambda _: 2.5,
    "true": lambda _: True,
    "a complex number": lambda _: 1.0 + 2.0j,
    "an endless integer": lambda _: 10**400,
    "a long integer": lambda _: 10**30,
    "a NumPy integer": lambda _: np.int8(3),
    "a JAX number": lambda _: _jax(1.5),
    # arrays of other shapes and kinds
    "no numbers": lambda _: [],
    "an empty array": lambda _: np.empty((0, 2)),
    "0-d": lambda _: np.array(1.0),
    "one too few": _array(lambda values: values[:-1]),
    "one too many": _array(lambda values: np.concatenate([values, values[:1]])),
    "one more axis": _array(lambda values: values[..., None]),
    "transposed": _array(lambda values: np.atleast_2d(values).T),
    "lists": _array(lambda values: values.tolist()),
    "ragged lists": lambda _: [[1.0, 2.0], [3.0]],
    "lists of text": _array(lambda values: values.astype(str).tolist()),
    "objects": _array(lambda values: values.astype(object)),
    "an object among numbers": _array(lambda values: _with_one(values, object())),
    "text among numbers": _array(lambda values: _with_one(values, "x")),
    "none among numbers": _array(lambda values: _with_one(values, None)),
    "dates": _array(lambda values: np.full(values.shape, np.datetime64("2020-01-01"))),
    "durations": _array(lambda values: np.full(values.shape, np.timedelta64(3, "D"))),
    "complex numbers": _array(lambda values: np.full(values.shape, 1.0 + 2.0j)),
    "a masked array": _array(_masked),
    "truths": _array(lambda values: np.ones(values.shape, dtype=bool)),
    "half precision": _array(lambda values: np.ones(values.shape, dtype=np.float16)),
    "records": _array(lambda values: np.zeros(len(values), dtype=[("a", float)])),
    "a JAX array": _array(lambda values: _jax(np.ones(values.shape))),
    # tables
    "pandas": _array(lambda values: pd.DataFrame(_frame(values))),
    "pandas, a column": _array(lambda values: pd.Series(np.ravel(values), index=np.arange(values.size)[::-1] + 7)),
    "polars": _array(lambda values: pl.DataFrame(_frame(values))),
    "a lazy table": _array(lambda values: pl.DataFrame(_frame(values)).lazy()),
    "a sparse matrix": _array(lambda values: _sparse(np.atleast_2d(values).astype(float))),
}

MUST_BE_REFUSED = frozenset({"a complex number", "complex numbers", "a masked array", "durations", "dates"})
"""What no number can be made of without losing something."""


def _jax(values: Any) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(values, dtype=jnp.float32)


def _sparse(values: np.ndarray) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array(values)
