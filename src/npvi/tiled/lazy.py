"""Predictions of collections of Dask and of xarray: one of the same kind back, nothing of which is computed yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

__all__ = ["is_lazy", "of_dataset", "predicted"]


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


def of_dataset(load: Callable[[str], Any], folder: str, X: Any, inputs: Sequence[str], row: Mapping[str, Any]) -> Any:
    """The same for a Dataset or DataArray of xarray that has the inputs as variables or coordinates: a Dataset, on all
    their dimensions; in chunks, and computed when it is asked for, where X has some. Empty where an input is missing.

    Parameters
    ----------
    inputs : names of the model's inputs.
    row : exposure and trials: names of variables, numbers, or None.
    """
    import xarray

    missing = [name for name in inputs if name not in X.coords and not (hasattr(X, "data_vars") and name in X)]
    if missing:
        raise ValueError(f"X has no variable or coordinate {', '.join(map(repr, missing))}")
    named = {name: value for name, value in row.items() if isinstance(value, str)}
    arrays = xarray.broadcast(*(X[name] for name in (*inputs, *named.values())))
    if X.chunks:
        sizes = {dim: size for dim, size in X.chunksizes.items() if dim in arrays[0].dims}
        arrays = tuple(array.chunk(sizes) for array in arrays)
    numbers = {name: value for name, value in row.items() if name not in named}
    found = xarray.apply_ufunc(
        partial(_predict_cells, load, folder, numbers, list(named)),
        *arrays,
        output_core_dims=[["said"]],
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {"said": 2}},
    )
    whole = found.transpose(*(dim for dim in X.sizes if dim in found.dims), "said")
    return xarray.Dataset({name: whole.isel(said=number, drop=True) for number, name in enumerate(("mean", "std"))})


def _predict_cells(
    load: Callable[[str], Any], folder: str, numbers: Mapping[str, Any], named: Sequence[str], *columns: Any
) -> Any:
    """Of cells in memory, by a worker: mean and standard deviation last."""
    rows = np.column_stack([np.ravel(column).astype(np.float64) for column in columns])
    found, whole = np.full((len(rows), 2), np.nan), np.isfinite(rows).all(axis=1)
    if whole.any():
        X, extras = np.hsplit(rows[whole], [rows.shape[1] - len(named)])
        row = {**numbers, **dict(zip(named, extras.T))}
        found[whole] = np.column_stack(load(folder).set_params(n_jobs=1).predict(X, return_std=True, **row))
    return found.reshape(*np.shape(columns[0]), 2)


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
