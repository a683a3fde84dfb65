"""Cells of a map: where they are, which of them count, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import POSITIVE, as_numbers, check_finite, check_number, is_number
from npvi.maps.projections import same_system, system_text
from npvi.runtime.extras import needed

__all__ = ["Grid", "NoCellsError", "axes_of_template", "bands_of", "grid_of", "is_xarray", "layers_of", "read_raster"]

Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""

#: most cells of a map, whose surfaces are in memory together
_MOST = 2 * 10**8
#: most cells along a side that are counted
_LONGEST = 1e12
#: cells along the longer side, unless their size is given
_ACROSS = 200
#: names of the two axes, in the order in which they are looked for
_AXES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("X", "Y"), ("easting", "northing"), ("east", "north"))
#: by how much two centres may differ and be one, in cells
_SAME = 1e-3


class NoCellsError(ValueError):
    """A map without a cell that counts."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A rectangle of cells.

    Attributes
    ----------
    x, y : centres of columns and of rows, ascending or descending.
    names : of the two axes.
    crs : their coordinate system, where it is known.
    inside : (rows, columns), which cells count; None where all do.
    layers : what is known of each cell, (rows, columns) by name.

    Examples
    --------
    >>> grid = Grid(np.array([0.5, 1.5]), np.array([3.0, 2.0, 1.0]))
    >>> grid.shape, grid.cell
    ((3, 2), (1.0, 1.0))
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    names: tuple[str, str] = ("x", "y")
    crs: str | None = None
    inside: NDArray[np.bool_] | None = None
    layers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.y), len(self.x)

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of a cell."""
        return _step(self.x), _step(self.y)

    def pieces(self, most: int) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Some rows after the other, about `most` cells at a time, with which of their cells count."""
        step = max(1, most // max(1, len(self.x)))
        for start in range(0, len(self.y), step):
            rows = slice(start, min(len(self.y), start + step))
            every = np.ones((rows.stop - rows.start, len(self.x)), dtype=bool)
            yield rows, every if self.inside is None else self.inside[rows]

    def places(self, rows: slice, inside: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x and y of the cells of some rows that count."""
        x, y = np.meshgrid(self.x, self.y[rows])
        return x[inside], y[inside]

    def with_layers(self, layers: Mapping[str, Any]) -> Grid:
        """The same, knowing more of each cell."""
        return replace(self, layers={**self.layers, **layers})


def is_xarray(value: Any) -> bool:
    """Whether it is a DataArray or a Dataset; nothing is imported to find out."""
    return type(value).__module__.partition(".")[0] == "xarray" and hasattr(value, "coords")


def grid_of(grid: Any, bounds: Box | None, names: tuple[str, str], crs: str | None) -> Grid:
    """What was asked for: a size of cells, two axes, a template of xarray, or None for some 200 cells across.

    Parameters
    ----------
    grid : number, pair of arrays, DataArray, Dataset or None.
    bounds : left, bottom, right, top, where `grid` doesn't say.
    names, crs : of the axes, where a template doesn't say.

    Examples
    --------
    >>> found = grid_of(0.5, (0.0, 0.0, 2.0, 1.0), ("x", "y"), None)
    >>> found.x, found.y  # from the north to the south, as in images
    (array([0.25, 0.75, 1.25, 1.75]), array([0.75, 0.25]))
    """
    if is_xarray(grid):
        return _of_template(grid, names, crs)
    if isinstance(grid, tuple | list) and len(grid) == 2:
        x, y = (_axis(values, f"grid: {name}") for name, values in zip(names, grid))
        _check_size(len(x), len(y))
        return Grid(x, y, names, crs)
    if bounds is None:
        raise ValueError(
            "bbox=(left, bottom, right, top) is needed: the pipeline's steps can't be undone to see where its data are"
        )
    left, bottom, right, top = bounds
    if grid is None:
        grid = _round(max(right - left, top - bottom) / _ACROSS)
    elif not is_number(grid, POSITIVE):
        raise ValueError(
            "grid must be the size of a cell (a positive number), two arrays with the centres of columns and rows, or "
            f"a DataArray or Dataset of xarray; got {type(grid).__name__} {grid!r:.60}"
        )
    size = check_number(grid, "grid", POSITIVE)
    # edges at multiples of the size, so that maps of the same size go together
    left, bottom = (size * np.floor(end / size + 1e-6) for end in (left, bottom))
    columns, rows = (max(1.0, np.ceil(min(extent / size, _LONGEST) - 1e-6)) for extent in (right - left, top - bottom))
    _check_size(columns, rows, size)
    x = left + size * (np.arange(int(columns)) + 0.5)
    y = bottom + size * (np.arange(int(rows))[::-1] + 0.5)
    return Grid(x, y, names, crs)


def read_raster(raster: Any) -> Grid:
    """The cells of a DataArray or Dataset, with its bands or variables as layers; NaN where one has a gap."""
    return _of_template(raster, ("x", "y"), None, masked=False)


def bands_of(raster: Any) -> dict[str, Any]:
    """Bands or variables of a raster as DataArrays, by name."""
    if hasattr(raster, "data_vars"):
        return {str(name): raster[name] for name in raster.data_vars if raster[name].ndim >= 2}
    grid = read_raster(raster)
    x, y = grid.names
    one = raster if raster.ndim == 2 else raster.isel({next(d for d in raster.dims if d not in (x, y)): 0}, drop=True)
    return {name: one.transpose(y, x).copy(data=layer) for name, layer in grid.layers.items()}


def layers_of(covariates: Any, grid: Grid) -> dict[str, Any]:
    """What is known of each cell, by name: (rows, columns) arrays, or one number or label for all.

    Parameters
    ----------
    covariates : Dataset, DataArray with bands, or mapping from names to DataArrays, arrays and numbers.

    Raises
    ------
    ValueError
        Where one is not on the grid's own cells.
    """
    if covariates is None:
        return {}
    if is_xarray(covariates):
        return _layers(covariates, grid)
    if not isinstance(covariates, Mapping):
        raise ValueError(
            "covariates must be a Dataset of xarray, a DataArray with bands, or a dictionary from names to numbers, "
            f"arrays and DataArrays; got {type(covariates).__name__}"
        )
    found: dict[str, Any] = {}
    for name, value in covariates.items():
        what = f"covariates[{name!r}]"
        if is_xarray(value):
            layers = _layers(value.rename(name) if hasattr(value, "rename") else value, grid)
            if len(layers) != 1:
                raise ValueError(f"{what} has {len(layers)} layers ({', '.join(layers)}): choose one of them")
            found[str(name)] = next(iter(layers.values()))
            continue
        if isinstance(value, str):  # a label of all cells
            found[str(name)] = value
            continue
        numbers = as_numbers(value, what)
        if numbers.ndim == 0:
            found[str(name)] = check_number(value, what)
        elif numbers.shape == grid.shape:
            found[str(name)] = numbers
        else:
            raise ValueError(
                f"{what} must be one number, or one per cell, shape {grid.shape}; got shape {numbers.shape}"
            )
    return found


def _layers(raster: Any, grid: Grid) -> dict[str, Any]:
    """Variables or bands of a raster on the grid's own cells."""
    other = _of_template(raster, grid.names, grid.crs, masked=False)
    if grid.crs is not None and other.crs is not None and not same_system(grid.crs, other.crs):
        raise ValueError(
            f"covariates are in {other.crs}, the grid is in {grid.crs}: bring them onto it first, with "
            "covariates.rio.reproject_match(template)"
        )
    rows, columns = _matched(grid.y, other.y), _matched(grid.x, other.x)
    if rows is None or columns is None:
        raise ValueError(
            f"covariates have other cells ({_extent(other)}) than the grid ({_extent(grid)}): interpolate them to it "
            "first, with covariates.interp_like(template), or take them as the grid"
        )
    return {name: np.asarray(values)[np.ix_(rows, columns)] for name, values in other.layers.items()}


def _matched(wanted: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Which of the centres `there` are those `wanted`; None where one is not there."""
    order = np.argsort(there)
    at = np.clip(np.searchsorted(there[order], wanted), 0, len(there) - 1)
    before = np.maximum(at - 1, 0)
    nearer = np.abs(there[order][before] - wanted) < np.abs(there[order][at] - wanted)
    found = order[np.where(nearer, before, at)]
    return found if np.all(np.abs(there[found] - wanted) <= _SAME * _step(wanted)) else None


def axes_of_template(raster: Any, names: tuple[str, str], crs: str | None) -> Grid:
    """The cells of a DataArray or Dataset whose values aren't looked at."""
    axes = _axes_of(raster, names)
    x, y = (_axis(raster[name].to_numpy(), f"grid: {name}") for name in axes)
    _check_size(len(x), len(y))
    own = _system_of(raster)
    return Grid(x, y, axes, own if own is not None else crs)


def _of_template(raster: Any, names: tuple[str, str], crs: str | None, masked: bool = True) -> Grid:
    axes = _axes_of(raster, names)
    x, y = (_axis(raster[name].to_numpy(), f"grid: {name}") for name in axes)
    _check_size(len(x), len(y))
    layers = _named_layers(raster, axes)
    own = _system_of(raster)
    inside = None
    if masked:
        for values in layers.values():
            known = ~np.isnan(values)
            inside = known if inside is None else inside & known
        if inside is not None and inside.all():
            inside = None
    if inside is not None and not inside.any():
        raise NoCellsError("grid has no cell with a value: NaN in a template says that a cell doesn't count")
    return Grid(x, y, axes, own if own is not None else crs, inside, layers)


def _named_layers(raster: Any, axes: tuple[str, str]) -> dict[str, NDArray[np.float64]]:
    """Variables of a Dataset, bands of a DataArray, each (rows, columns); gaps are NaN."""
    across = axes[::-1]
    if hasattr(raster, "data_vars"):
        variables = {name: raster[name] for name in raster.data_vars if set(across) <= set(raster[name].dims)}
    else:
        alone = raster.attrs.get("long_name")  # what a file of one band calls it
        alone = alone if isinstance(alone, str) else "value"
        variables = {raster.name if raster.name is not None else alone: raster}
    found = {}
    for name, variable in variables.items():
        extra = [dim for dim in variable.dims if dim not in across]
        if len(extra) > 1 or (extra and hasattr(raster, "data_vars") and variable.sizes[extra[0]] > 1):
            raise ValueError(
                f"grid: {name!r} has dimensions {', '.join(map(str, variable.dims))}; choose one of the others' "
                f"values first, so that {axes[1]} and {axes[0]} are left"
            )
        if not extra:
            found[str(name)] = _values(variable.transpose(*across))
        elif variable.sizes[extra[0]] == 1:
            found[str(name)] = _values(variable.isel({extra[0]: 0}).transpose(*across))
        else:
            labels = variable.attrs.get("long_name")
            if not isinstance(labels, tuple | list) or len(labels) != variable.sizes[extra[0]]:
                labels = variable[extra[0]].to_numpy().tolist() if extra[0] in variable.coords else range(10**6)
            for number, label in zip(range(variable.sizes[extra[0]]), labels):
                found[str(label)] = _values(variable.isel({extra[0]: number}).transpose(*across))
    return found


def _values(variable: Any) -> NDArray[np.float64]:
    values = as_numbers(variable.to_numpy(), f"grid: {variable.name}")
    absent = variable.attrs.get("_FillValue", variable.encoding.get("_FillValue"))
    rio = getattr(variable, "rio", None)  # there once rioxarray has been imported
    absent = rio.nodata if absent is None and rio is not None else absent
    if absent is not None and np.isfinite(absent):
        values = np.where(values == absent, np.nan, values)
    return values


def _axes_of(raster: Any, names: tuple[str, str]) -> tuple[str, str]:
    for x, y in (names, *_AXES):
        if x in raster.dims and y in raster.dims:
            return x, y
    have = ", ".join(str(dim) for dim in raster.dims)
    raise ValueError(
        f"grid has dimensions {have or 'none'}; two of them must be {names[0]} and {names[1]}, or x and y, or lon and "
        "lat: rename them"
    )


def _system_of(raster: Any) -> str | None:
    """The coordinate system that a raster says it has."""
    described = any("grid_mapping_name" in raster.coords[name].attrs for name in raster.coords) or any(
        "crs_wkt" in raster.coords[name].attrs for name in raster.coords
    )
    if not described and "crs" not in raster.attrs:
        return None
    needed("rioxarray", "geo", "coordinate systems of rasters")
    return system_text(raster.rio.crs if raster.rio.crs is not None else raster.attrs.get("crs"))


def _axis(values: Any, name: str) -> NDArray[np.float64]:
    axis = as_numbers(values, name)
    if axis.ndim != 1 or not len(axis):
        raise ValueError(f"{name} must be a row of numbers, the centres of cells; got shape {axis.shape}")
    check_finite(axis, name)
    steps = np.diff(axis)
    if len(steps) and not (np.all(steps > 0.0) or np.all(steps < 0.0)):
        raise ValueError(f"{name} must ascend or descend")
    return axis


def _check_size(columns: float, rows: float, size: float | None = None) -> None:
    cells = columns * rows
    if cells <= _MOST:
        return
    larger = "" if size is None else f" Cells of {_round(size * np.sqrt(cells / 1e6)):g} make about a million"
    raise ValueError(
        f"the grid has {cells:.3g} cells ({columns:,.0f} × {rows:,.0f}), {8e-9 * cells:,.0f} GB for each number "
        f"that is mapped; at most {_MOST:,} are taken at once.{larger or ' Predict it in parts'}"
    )


def _step(axis: NDArray[np.float64]) -> float:
    return float(np.abs(np.diff(axis)).mean()) if len(axis) > 1 else 1.0


def _round(size: float) -> float:
    """1, 2 or 5 times a power of ten, not below."""
    if not size > 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(size))
    return float(next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= size * (1.0 - 1e-9)))


def _extent(grid: Grid) -> str:
    return (
        f"{grid.names[0]} {grid.x.min():g} to {grid.x.max():g}, {grid.names[1]} {grid.y.min():g} to {grid.y.max():g}, "
        f"{grid.shape[0]} × {grid.shape[1]}"
    )
