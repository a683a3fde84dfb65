"""The predictive distribution at the cells of a grid."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import as_numbers, check_flag
from npvi.maps.grid import Grid, axes_of_template, grid_of
from npvi.maps.inputs import Inputs, complete, inputs_of, per_cell, with_covariates, without_extras
from npvi.maps.lazily import is_lazy, lazy_maps
from npvi.maps.polygons import within
from npvi.maps.projections import system_text
from npvi.maps.surfaces import check_levels, check_thresholds, described, surface_names, surfaces
from npvi.runtime import progress
from npvi.runtime.extras import needed
from npvi.runtime.interrupts import interrupts_remembered

__all__ = ["CELLS", "predict_grid"]

#: data per row of which a map has one, unless they are given
_PER = ("exposure", "trials")
CELLS = 2**16
"""Cells that are predicted at a time, which bounds the memory that a map takes besides its own surfaces."""


def predict_grid(
    model: Any,
    grid: Any = None,
    quantiles: Any = (),
    exceed: Any = (),
    covariates: Any = None,
    bbox: Any = None,
    axes: tuple[str, str] | None = None,
    crs: Any = None,
    within_reach: bool = False,
    mask: Any = None,
    **row: Any,
) -> Any:
    """What a model says of each cell of a grid, at its centre, as an `xarray.Dataset`.

    Parameters
    ----------
    model : fitted.
    grid : number, pair of arrays, DataArray or Dataset, optional
        The size of a cell, in the units of the inputs; centres of columns and of rows; or a template, whose cells are
        taken as they are and in whose coordinate system the map is. Cells where a template is NaN stay NaN. One that
        holds Dask arrays isn't computed: the map has Dask arrays too, in the same chunks. Not given: some 200 cells
        along the longer side.
    quantiles : of a new response, such as ``[0.05, 0.95]``: variables ``q5`` and ``q95``.
    exceed : thresholds t, such as ``5``: variable ``exceed_5``, P(Y > 5).
    covariates : Dataset, DataArray with bands, or dict, optional
        The inputs that are no places, on the same cells: by name a DataArray, an array (rows, columns), or one number
        for all cells; of groups one label. Those that a template has itself needn't be given again. Cells where one is
        missing stay NaN.
    bbox : left, bottom, right, top; the extent of the data unless given. Not with a template.
    axes : names of the two inputs that are x and y, where the model has more than two and their names don't say.
    crs : coordinate system of the model's inputs, where it was not fitted to a GeoDataFrame, which knows.
    mask : GeoDataFrame of polygons; cells whose centre is in none of them are NaN.
    within_reach : whether cells beyond the reach of the data (``dist.reach.beyond``) are NaN.
    **row : `exposure` and the like, one number for all cells or one per cell, (rows, columns). Without them the map is
        of a response per unit of exposure, or of one trial.

    Returns
    -------
    Dataset
        with ``mean``, ``std``, the quantiles and exceedance probabilities, ``reach_distance`` and ``prior_share``; of
        a classifier as in `npvi predict`. Attributes say what each is. Computed piece by piece.

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(200, 2))
    >>> model = npvi.GPRegressor("poisson", kernel="rbf").fit(X, rng.poisson(np.exp(np.sin(X[:, 0]))))
    >>> found = predict_grid(model, 1.0, exceed=5)
    >>> list(found.data_vars)
    ['mean', 'std', 'exceed_5', 'reach_distance', 'prior_share']
    >>> dict(found.sizes)
    {'y': 10, 'x': 10}
    """
    xarray = needed("xarray", "geo", "maps")
    quantiles, exceed = check_levels(quantiles), check_thresholds(exceed)
    within_reach = check_flag(within_reach, "within_reach")
    inputs = inputs_of(model, axes, system_text(crs))
    classes = getattr(_last_step(model), "classes_", None)
    row = {name: value for name, value in row.items() if value is not None}
    ask = partial(_maps, model, inputs, quantiles, exceed, classes, within_reach)
    if is_lazy(grid):
        if bbox is not None:
            raise ValueError("bbox goes with a size of cells; a template has an extent of its own")
        found = axes_of_template(grid, inputs.axes, inputs.crs)
    else:
        found = grid_of(grid, inputs.bounds if bbox is None else _checked_box(bbox), inputs.axes, inputs.crs)
    inputs.check_grid(found)
    if mask is not None:
        found = within(found, mask)
    if not is_lazy(grid):
        return _dataset(xarray, found, ask(found, covariates, row), model, classes, row)

    def part(template: Any, covariates: Any, row: dict[str, Any]) -> dict[str, NDArray]:
        return ask(grid_of(template, None, inputs.axes, inputs.crs), covariates, row)

    lazy = lazy_maps(grid, found, surface_names(quantiles, exceed, classes), part, covariates, row)
    return _dataset(xarray, found, lazy, model, classes, row)


def _last_step(model: Any) -> Any:
    return model.steps[-1][1] if hasattr(model, "steps") else model


def _maps(
    model: Any,
    inputs: Inputs,
    quantiles: list[float],
    exceed: list[float],
    classes: Any,
    within_reach: bool,
    grid: Grid,
    covariates: Any,
    row: dict[str, Any],
) -> dict[str, NDArray[np.float64]]:
    """All surfaces on a grid, NaN where cells don't count, piece by piece."""
    measured = [name for name in inputs.others if name not in inputs.labelled]
    grid = complete(with_covariates(grid, inputs, covariates), measured)
    # said, not left out: filters of warnings aren't those of one thread of Dask alone
    ones = {name: 1.0 for name in _PER if name in getattr(_last_step(model), "_row_of_fit", ())}
    row = {name: per_cell(value, name, grid.shape) for name, value in (ones | row).items()}
    maps: dict[str, NDArray[np.float64]] = {}
    done, total = 0, grid.shape[0] * grid.shape[1] if grid.inside is None else int(grid.inside.sum())
    with interrupts_remembered(), without_extras():
        for rows, inside in grid.pieces(getattr(model, "cells_at_a_time", CELLS)):
            count = int(inside.sum())
            if count:
                dist = _predicted(model, inputs, grid, rows, inside, row)
                shown = surfaces(dist, quantiles, exceed, classes)
                beyond = dist.reach.beyond if within_reach else np.zeros(count, dtype=bool)
                for name, values in shown.items():
                    if name == "label":
                        values = np.searchsorted(np.asarray(classes), values)
                    target = maps.setdefault(name, np.full(grid.shape, np.nan))
                    target[rows][inside] = np.where(beyond, np.nan, values)
            done += count
            progress.report("map", cells=done, of=total)
    return maps


def _predicted(model: Any, inputs: Inputs, grid: Grid, rows: slice, inside: NDArray, row: dict[str, Any]) -> Any:
    x, y = grid.places(rows, inside)
    values = {name: _in_cells(grid.layers[name], rows, inside) for name in inputs.others}
    extras = {name: _in_cells(value, rows, inside) for name, value in row.items()}
    return model.predict_dist(inputs.rows(x, y, values, grid.crs), **extras)


def _in_cells(values: Any, rows: slice, inside: NDArray) -> Any:
    return values if np.ndim(values) == 0 else values[rows][inside]


def _checked_box(bbox: Any) -> tuple[float, float, float, float]:
    box = as_numbers(bbox, "bbox")
    if box.shape != (4,) or not np.isfinite(box).all() or not (box[0] < box[2] and box[1] < box[3]):
        raise ValueError(f"bbox must be left, bottom, right, top, four numbers in that order; got {bbox!r}")
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def _dataset(xarray: Any, grid: Grid, maps: dict[str, Any], model: Any, classes: Any, row: dict[str, Any]) -> Any:
    unit = "a new response" if classes is None else f"the probability of {np.asarray(classes)[-1]}"
    x, y = grid.names
    found = xarray.Dataset(
        {name: ((y, x), values, {"long_name": described(name, unit)}) for name, values in maps.items()},
        coords={y: grid.y, x: grid.x},
    )
    if classes is not None and "label" in found:
        labels = [str(label) for label in classes]
        found["label"].attrs |= {"flag_values": list(range(len(labels))), "flag_meanings": " ".join(labels)}
    from npvi import __version__

    last = _last_step(model)
    per = [f"{name} of 1" for name in getattr(last, "_row_of_fit", ()) if name not in row]
    found.attrs = {"source": f"npvi {__version__}", "likelihood": repr(last.likelihood_)}
    if per:
        found.attrs["per"] = ", ".join(per)
    if grid.crs is None:
        return found
    needed("rioxarray", "geo", "coordinate systems of maps")
    return found.rio.set_spatial_dims(x_dim=x, y_dim=y).rio.write_crs(grid.crs)
