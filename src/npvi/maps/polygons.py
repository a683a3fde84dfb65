"""Sums over the cells within polygons, from the joint posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import SHARE, check_choice, check_number, check_seed, rows_text
from npvi.maps.frames import is_geo_frame
from npvi.maps.grid import Grid, grid_of
from npvi.maps.inputs import complete, inputs_of, per_cell, with_covariates, without_extras
from npvi.maps.projections import same_system, system_text
from npvi.runtime import progress
from npvi.runtime.extras import needed
from npvi.runtime.interrupts import interrupts_remembered
from npvi.runtime.warn import warn

__all__ = ["predict_polygons", "within"]

#: cells across a polygon of middle size, unless their size is given
_ACROSS = 20
#: most cells within one polygon
_MOST = 10**6


def predict_polygons(
    model: Any,
    polygons: Any,
    cell: Any = None,
    level: float = 0.9,
    of: str = "mean",
    covariates: Any = None,
    axes: tuple[str, str] | None = None,
    crs: Any = None,
    seed: Any = None,
    **row: Any,
) -> Any:
    """Totals and means of each polygon, with intervals that know that neighbouring cells go together.

    Each cell counts as one response, at its centre, by the share of it that lies within the polygon: the total is of
    that many responses, the mean of one of them.

    Parameters
    ----------
    model : fitted to numbers.
    polygons : GeoDataFrame, in a coordinate system of its own.
    cell : size of cells, in the polygons' system; a DataArray or Dataset as template, as in `predict_grid`; or None for
        some 20 across a polygon of middle size.
    level : probability that an interval holds.
    of : {"mean", "response"}
        Whether totals are of expected responses, or of responses with their noise.
    covariates, axes, crs, row : as in `predict_grid`.
    seed : of the draws that totals of counts and the like take.

    Returns
    -------
    GeoDataFrame
        the polygons, with ``cells`` (how many responses a total is of), ``total``, ``total_std``, ``total_lower``,
        ``total_upper``, and the same of the ``mean``.
    """
    needed("geopandas", "geo", "polygons")
    level = check_number(level, "level", SHARE, "between 0 and 1")
    check_choice(of, "of", ("mean", "response"))
    seed = check_seed(seed)
    if hasattr(model.steps[-1][1] if hasattr(model, "steps") else model, "classes_"):
        raise ValueError("totals are of numbers: labels have none")
    if hasattr(model, "to_local"):
        raise ValueError(
            "a model in tiles doesn't say how its predictions go together: where there is memory for all rows, "
            "model.to_local() does"
        )
    shapes, known = _checked(polygons)
    inputs = inputs_of(model, axes, system_text(crs))
    if inputs.crs is None:
        raise ValueError(
            "the coordinate system of the model's inputs isn't known: fit a GeoDataFrame, or say what they are with "
            "crs='EPSG:…'"
        )
    left, bottom, right, top = map(float, polygons.total_bounds)
    cell = _size(shapes) if cell is None else cell
    grid = grid_of(cell, (left, bottom, right, top), ("x", "y"), known)
    if grid.crs is not None and not same_system(grid.crs, known):
        polygons = polygons.to_crs(grid.crs)
        shapes = _made_valid(polygons)
    inputs.check_grid(grid)
    grid = complete(with_covariates(grid, inputs, covariates), inputs.others)
    row = {name: per_cell(value, name, grid.shape) for name, value in row.items() if value is not None}
    found: dict[str, list[float]] = {name: [] for name in _COLUMNS}
    with interrupts_remembered(), without_extras():
        for number, shape in enumerate(shapes):
            rows, columns, share = _cells_within(grid, shape)
            values = _of_polygon(model, inputs, grid, (rows, columns), share, (level, of, seed), row)
            for name, value in zip(_COLUMNS, values):
                found[name].append(value)
            progress.report("polygons", done=number + 1, of=len(shapes))
    empty = np.flatnonzero(np.array(found["cells"]) == 0.0)
    if len(empty):
        warn(f"polygons have no cell in {len(empty)} of {len(shapes)} {rows_text(empty)}: their totals are missing")
    taken = [name for name in _COLUMNS if name in polygons.columns]
    if taken:
        raise ValueError(f"polygons has a column {taken[0]!r} already: rename it")
    return polygons.assign(**found)


def within(grid: Grid, mask: Any) -> Grid:
    """The grid without the cells whose centre is in none of the polygons of a GeoDataFrame."""
    shapely = needed("shapely", "geo", "polygons")
    shapes, known = _checked(mask, "mask", overlap=True)
    if grid.crs is None:
        raise ValueError("mask: the coordinate system of the grid isn't known, say it with crs='EPSG:…'")
    if not same_system(grid.crs, known):
        shapes = _made_valid(mask.to_crs(grid.crs))
    whole = shapely.union_all(shapes)
    shapely.prepare(whole)
    inside = np.stack([shapely.contains_xy(whole, grid.x, np.full(len(grid.x), y)) for y in grid.y])
    inside &= True if grid.inside is None else grid.inside
    if not inside.any():
        raise ValueError("mask: no cell of the grid lies within the polygons")
    return replace(grid, inside=inside)


_COLUMNS = (
    *("cells", "total", "total_std", "total_lower", "total_upper"),
    *("mean", "mean_std", "mean_lower", "mean_upper"),
)


def _of_polygon(
    model: Any, inputs: Any, grid: Grid, at: tuple[NDArray, NDArray], share: NDArray, how: Any, row: dict[str, Any]
) -> list[float]:
    """The columns of one polygon, NaN where it has no cells."""
    size = float(share.sum())
    if size == 0.0:
        return [0.0, *[np.nan] * 8]
    if len(share) > _MOST:
        raise ValueError(f"a polygon has {len(share):,} cells, at most {_MOST:,} are summed: take larger cells, cell=…")
    level, of, seed = how
    values = {name: _at(grid.layers[name], at) for name in inputs.others}
    extras = {name: _at(value, at) for name, value in row.items()}
    dist = model.predict_dist(inputs.rows(grid.x[at[1]], grid.y[at[0]], values, grid.crs), **extras)
    total = dist.total(share, level=level, seed=seed, of=of)
    lower, upper = total.interval()
    return [
        size,
        *(float(value) for value in (total.mean, total.std, lower, upper)),
        *(float(value) / size for value in (total.mean, total.std, lower, upper)),
    ]


def _at(values: Any, at: tuple[NDArray, NDArray]) -> Any:
    return values if np.ndim(values) == 0 else np.asarray(values)[at]


def _cells_within(grid: Grid, shape: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and shares of the cells that a polygon covers."""
    import shapely

    width, height = grid.cell
    left, bottom, right, top = shape.bounds
    columns = np.flatnonzero((grid.x + 0.5 * width > left) & (grid.x - 0.5 * width < right))
    rows = np.flatnonzero((grid.y + 0.5 * height > bottom) & (grid.y - 0.5 * height < top))
    if len(rows) * len(columns) > 100 * _MOST:
        raise ValueError(f"a polygon spans {len(rows) * len(columns):.3g} cells: take larger ones, cell=…")
    r, c = (index.ravel() for index in np.meshgrid(rows, columns, indexing="ij"))
    x, y = grid.x[c], grid.y[r]
    boxes = shapely.box(x - 0.5 * width, y - 0.5 * height, x + 0.5 * width, y + 0.5 * height)
    shapely.prepare(shape)
    share = shapely.contains(shape, boxes).astype(np.float64)
    edge = (share == 0.0) & shapely.intersects(shape, boxes)
    share[edge] = shapely.area(shapely.intersection(shape, boxes[edge])) / (width * height)
    share *= 1.0 if grid.inside is None else grid.inside[r, c]
    keep = share > 0.0
    return r[keep], c[keep], share[keep]


def _checked(polygons: Any, name: str = "polygons", overlap: bool = False) -> tuple[NDArray, str]:
    """Valid shapes, and their coordinate system; whether they may `overlap` without a word."""
    if not is_geo_frame(polygons):
        raise ValueError(f"{name} must be a GeoDataFrame, got {type(polygons).__name__}")
    known = system_text(polygons.crs)
    if known is None:
        raise ValueError(
            f"{name} has no coordinate reference system; say which with {name} = {name}.set_crs('EPSG:4326')"
        )
    if not len(polygons):
        raise ValueError(f"{name} has no rows")
    kinds = polygons.geometry.geom_type.isin(["Polygon", "MultiPolygon"])
    wrong = np.flatnonzero(~kinds.to_numpy() | polygons.geometry.is_empty.to_numpy())
    if len(wrong):
        raise ValueError(f"{name} lacks a polygon in {len(wrong)} of {len(polygons)} {rows_text(wrong)}")
    invalid = np.flatnonzero(~polygons.geometry.is_valid.to_numpy())
    if len(invalid):
        warn(
            f"{name}: polygons cross themselves in {len(invalid)} of {len(polygons)} {rows_text(invalid)}: they are "
            "taken as shapely.make_valid repairs them"
        )
    shapes = _made_valid(polygons)
    if not overlap:
        _warn_about_overlap(shapes)
    return shapes, known


def _made_valid(polygons: Any) -> NDArray:
    import shapely

    shapes = polygons.geometry.to_numpy()
    return np.asarray(shapely.make_valid(shapes), dtype=object)


def _warn_about_overlap(shapes: NDArray) -> None:
    import shapely

    one, other = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    one, other = one[one < other], other[one < other]
    shared = shapely.area(shapely.intersection(shapes[one], shapes[other]))
    least = np.minimum(shapely.area(shapes[one]), shapely.area(shapes[other]))
    over = np.flatnonzero(shared > 1e-3 * least)
    if len(over):
        warn(
            f"polygons overlap in {len(over)} pairs, such as rows {one[over[0]]} and {other[over[0]]}: what they share "
            "counts in the total of each"
        )


def _size(shapes: NDArray) -> float:
    import shapely

    bounds = shapely.bounds(shapes)
    across = np.sqrt((bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]))
    return float(np.median(across)) / _ACROSS
