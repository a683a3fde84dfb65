"""Predictions of collections of Dask: one of the same kind back, of which nothing is computed yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

__all__ = ["is_lazy", "predicted"]


def is_lazy(X: Any) -> bool:
    """Whether it is a DataFrame or an array of Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def predicted(load: Callable[[str], Any], folder: str, X: Any, exposure: Any, trials: Any) -> Any:
    """Mean and standard deviation of the response at each row: a DataFrame of Dask, or an array with two columns.

    Tasks know the folder by name, and nothing of the model.

    Parameters
    ----------
    load : makes the model of a folder.
    folder : where it is.
    exposure, trials : names of columns of a DataFrame, numbers, or None.
    """
    predict = partial(_predict, load, folder, exposure, trials)
    if X.ndim == 2 and hasattr(X, "map_partitions"):
        return X.map_partitions(predict, meta={"mean": "f8", "std": "f8"})
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; got {X.ndim}")
    whole = X.rechunk({1: X.shape[1]})
    return whole.map_blocks(predict, dtype=np.float64, chunks=(whole.chunks[0], (2,)), meta=np.empty((0, 2)))


def _predict(load: Callable[[str], Any], folder: str, exposure: Any, trials: Any, X: Any) -> Any:
    """Of rows in memory, by a worker."""
    named = hasattr(X, "columns")
    given = {}
    for name, value in (("exposure", exposure), ("trials", trials)):
        given[name] = X[value].to_numpy() if isinstance(value, str) else value
    model = load(folder).set_params(n_jobs=1)
    mean, std = model.predict(X, return_std=True, **given) if len(X) else (np.zeros(0), np.zeros(0))
    if not named:
        return np.column_stack([mean, std])
    import pandas as pd

    return pd.DataFrame({"mean": mean, "std": std}, index=X.index)
