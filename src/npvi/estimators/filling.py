"""Gaps of a raster, filled from what is around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from npvi.estimators.regressor import GPRegressor
from npvi.maps import Grid, check_levels, described, is_xarray, read_raster, surfaces
from npvi.runtime import progress
from npvi.runtime.extras import needed

__all__ = ["fill"]

#: cells that are predicted at a time
_CELLS = 2**16


def fill(raster: Any, model: Any = None, target: str | None = None, quantiles: Any = (0.05, 0.95)) -> Any:
    """A raster without gaps: a model is fitted where it has values, and predicts where it hasn't.

    Parameters
    ----------
    raster : DataArray, or Dataset in which `target` has gaps; its other variables on the same axes are covariates.
    model : unfitted; a clone of it is fitted. ``GPRegressor()`` unless given.
    target : the variable to fill, where there are several.
    quantiles : of what is filled in.

    Returns
    -------
    Dataset
        The target by its own name ("value" where it has none), with means in its gaps; ``std`` and quantiles, which
        are 0 and the value itself where it was known; and ``filled``, whether it wasn't. Cells where a covariate is
        missing stay as they are. ``attrs["model"]`` says what was fitted.

    Examples
    --------
    >>> import npvi, xarray
    >>> y, x = np.mgrid[0:20, 0:20]
    >>> axes = {"y": np.arange(20.0), "x": np.arange(20.0)}
    >>> picture = xarray.DataArray(np.sin(x / 4.0) + np.cos(y / 5.0), axes, ("y", "x"))
    >>> gaps = picture.where(np.hypot(x - 10, y - 10) > 3)
    >>> found = npvi.fill(gaps, npvi.GPRegressor(kernel="rbf", hyper="plug-in"))
    >>> bool(abs(found["value"] - picture).max() < 0.05), int(found["filled"].sum())
    (True, 29)
    """
    xarray = needed("xarray", "geo", "rasters")
    if not is_xarray(raster):
        raise ValueError(f"raster must be a DataArray or a Dataset of xarray, got {type(raster).__name__}")
    usable = hasattr(model, "get_params") and hasattr(model, "fit") and not isinstance(model, type)
    if model is not None and not usable:
        raise ValueError(f"model must be an estimator such as npvi.GPRegressor(), got {type(model).__name__}")
    levels = check_levels(quantiles)
    grid = read_raster(raster)
    target = _target(grid, target)
    covariates = {name: np.asarray(layer) for name, layer in grid.layers.items() if name != target}
    values = np.array(grid.layers[target])
    complete = np.ones(grid.shape, dtype=bool)
    for layer in covariates.values():
        complete &= np.isfinite(layer)
    known, gaps = np.isfinite(values) & complete, ~np.isfinite(values) & complete
    if not known.any():
        raise ValueError(f"raster: {target!r} has no value where all covariates have one: nothing can be learned")
    maps = {target: values, "std": np.where(np.isfinite(values), 0.0, np.nan)}
    fitted = clone(GPRegressor() if model is None else model)
    if gaps.any():
        fitted.fit(_rows(grid, covariates, known), values[known])
    at = np.flatnonzero(gaps)
    for start in range(0, len(at), _CELLS):
        piece = np.zeros(gaps.size, dtype=bool)
        piece[at[start : start + _CELLS]] = True
        piece = piece.reshape(grid.shape)
        shown = surfaces(fitted.predict_dist(_rows(grid, covariates, piece)), levels)
        for name, found in shown.items():
            place = maps.setdefault(target if name == "mean" else name, np.where(known, values, np.nan))
            place[piece] = found
        progress.report("fill", cells=min(len(at), start + _CELLS), of=len(at))
    x, y = grid.names
    kept = [name for name in maps if name not in ("reach_distance", "prior_share")]
    out = xarray.Dataset(
        {name: ((y, x), maps[name], {} if name == target else {"long_name": described(name)}) for name in kept},
        coords={y: raster[y], x: raster[x]},
    )
    out["filled"] = ((y, x), gaps, {"long_name": "whether the value was missing"})
    out.attrs["model"] = repr(fitted)
    if grid.crs is None:
        return out
    needed("rioxarray", "geo", "coordinate systems of rasters")
    return out.rio.set_spatial_dims(x_dim=x, y_dim=y).rio.write_crs(grid.crs)


def _target(grid: Grid, target: str | None) -> str:
    names = list(grid.layers)
    if target is None and len(names) == 1:
        return names[0]
    if not isinstance(target, str) or target not in names:
        raise ValueError(f"target must name what is to be filled, one of {', '.join(names)}; got {target!r}")
    return str(target)


def _rows(grid: Grid, covariates: dict[str, NDArray[np.float64]], where: NDArray[np.bool_]) -> Any:
    """Inputs at some cells; places with a coordinate system as points, so that degrees are on the Earth."""
    import pandas as pd

    x, y = grid.places(slice(0, grid.shape[0]), where)
    table = pd.DataFrame({name: layer[where] for name, layer in covariates.items()}, index=range(len(x)))
    if grid.crs is not None:
        geopandas = needed("geopandas", "geo", "rasters with a coordinate system")
        return geopandas.GeoDataFrame(table, geometry=geopandas.points_from_xy(x, y), crs=grid.crs)
    for position, (name, axis) in enumerate(zip(("x", "y"), (x, y))):
        table.insert(position, name, axis)
    return table
