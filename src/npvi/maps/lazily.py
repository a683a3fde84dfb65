"""Maps on templates that aren't in memory: a Dataset whose chunks are predicted when they are asked for, by Dask."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.maps.grid import Grid, NoCellsError, is_xarray
from npvi.runtime.extras import needed

__all__ = ["is_lazy", "lazy_maps"]


def is_lazy(grid: Any) -> bool:
    """Whether it is a template of xarray that holds Dask arrays; nothing is computed to find out."""
    return is_xarray(grid) and bool(grid.chunks)


def lazy_maps(
    template: Any,
    grid: Grid,
    names: list[str],
    predicted: Callable[..., Any],
    covariates: Any,
    row: Mapping[str, Any],
) -> dict[str, Any]:
    """Surfaces as Dask arrays by name, in the chunks of the template.

    Parameters
    ----------
    template : DataArray or Dataset.
    grid : its axes, and which of its cells may count, where a mask says.
    names : of the surfaces.
    predicted : (template, covariates, row) → surfaces of a part of the cells, by name.
    covariates, row : as in `predict_grid`.
    """
    dask = needed("dask", "geo", "maps on Dask arrays")
    array = needed("dask.array", "geo", "maps on Dask arrays")
    y, x = grid.names[::-1]
    across = [_starts(template, axis) for axis in (y, x)]
    work = dask.delayed(_block, pure=False)
    lines = []
    for rows in across[0]:
        line = []
        for columns in across[1]:
            some = template.isel({y: rows, x: columns})
            if grid.inside is not None:
                some = some.where(_like(grid.inside[rows, columns], (y, x), some))
            parts = [_part(value, grid, rows, columns) for value in (covariates, dict(row))]
            shape = (len(names), rows.stop - rows.start, columns.stop - columns.start)
            # a function that holds the model isn't looked into by Dask
            line.append(array.from_delayed(work(predicted, names, shape, some, *parts), shape, float))
        lines.append(line)
    whole = array.block([lines]) if len(lines) * len(lines[0]) > 1 else lines[0][0]
    return {name: whole[number] for number, name in enumerate(names)}


def _block(
    predicted: Callable[..., Any], names: list[str], shape: tuple[int, ...], template: Any, covariates: Any, row: Any
) -> NDArray[np.float64]:
    """All surfaces of one chunk, (surfaces, rows, columns)."""
    try:
        with warnings.catch_warnings():
            # of each chunk once more, where of the whole map nobody knows before
            warnings.filterwarnings("ignore", message="covariates are missing")
            found = predicted(template, covariates, row)
    except NoCellsError:
        return np.full(shape, np.nan)
    return np.stack([np.asarray(found[name], dtype=np.float64) for name in names])


def _starts(template: Any, axis: str) -> list[slice]:
    """Chunks along an axis: those of the first variable that has some."""
    sizes = template.chunksizes.get(axis, (template.sizes[axis],))
    ends = np.cumsum(sizes).tolist()
    return [slice(stop - size, stop) for size, stop in zip(sizes, ends)]


def _like(inside: NDArray[np.bool_], dims: tuple[str, str], template: Any) -> Any:
    xarray = needed("xarray", "geo", "maps")
    return xarray.DataArray(inside, dims=dims, coords={dim: template[dim] for dim in dims})


def _part(value: Any, grid: Grid, rows: slice, columns: slice) -> Any:
    """What there is of some cells; numbers, and what isn't on the grid's own cells, stay as they are."""
    if isinstance(value, Mapping):
        return {name: _part(one, grid, rows, columns) for name, one in value.items()}
    y, x = grid.names[::-1]
    if is_xarray(value):
        same = all(axis in value.sizes and value.sizes[axis] == size for axis, size in zip((y, x), grid.shape))
        return value.isel({y: rows, x: columns}) if same else value
    return value[rows, columns] if isinstance(value, np.ndarray) and value.shape == grid.shape else value
