"""Which of a model's inputs are places on a map, and rows of inputs for the cells of one."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import as_numbers
from npvi.maps.frames import PLACES
from npvi.maps.grid import Box, Grid, NoCellsError, layers_of
from npvi.maps.projections import check_degrees, is_geographic, transform
from npvi.runtime.warn import warn

__all__ = [
    "Inputs",
    "are_degrees",
    "as_label",
    "complete",
    "inputs_of",
    "per_cell",
    "training_inputs",
    "with_covariates",
    "with_medians",
    "without_extras",
]

Vector = NDArray[np.float64]

#: names of longitudes and of latitudes, in lower case
_LONGITUDES, _LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")


@dataclass(frozen=True)
class Inputs:
    """What a fitted model takes, and what of it is a place.

    Attributes
    ----------
    names : of all inputs, in order; numbers as text where they have none.
    named : whether the model wants a table.
    places : numbers of the two inputs that are x and y.
    crs : the system of these two, where it is known.
    bounds : left, bottom, right, top of the training rows, where they are known.
    labelled : names of inputs that are labels: levels of a group.
    """

    names: tuple[str, ...]
    named: bool
    places: tuple[int, int]
    crs: str | None
    bounds: Box | None
    labelled: frozenset[str] = frozenset()

    @property
    def axes(self) -> tuple[str, str]:
        """Names of x and y."""
        x, y = (self.names[number] for number in self.places)
        return (x, y) if self.named else ("x", "y")

    @property
    def others(self) -> list[str]:
        """Names of all other inputs."""
        return [name for number, name in enumerate(self.names) if number not in self.places]

    def rows(self, x: Vector, y: Vector, values: Mapping[str, Any], crs: str | None) -> Any:
        """Inputs at the places x, y of the system `crs`, in the form that the model wants."""
        if crs is not None and self.crs is not None:
            x, y = transform(x, y, crs, self.crs)
        columns = {self.names[self.places[0]]: x, self.names[self.places[1]]: y}
        for name in self.others:
            kind = object if name in self.labelled else np.float64
            columns[name] = np.broadcast_to(np.asarray(values[name], dtype=kind), x.shape)
        table = {name: columns[name] for name in self.names}
        if not self.named:
            return np.column_stack(list(table.values()))
        import pandas as pd

        return pd.DataFrame(table)

    def check_grid(self, grid: Grid) -> None:
        """Raise where cells are no places, or lie where no data are though their systems aren't both known."""
        x, y = (np.array([axis.min(), axis.max()]) for axis in (grid.x, grid.y))
        degrees = grid.crs is not None and is_geographic(grid.crs)
        if degrees:
            check_degrees(x, y, "grid")
        if grid.crs is not None and self.crs is not None:
            corners = np.meshgrid(x, y)
            xs, ys = transform(corners[0].ravel(), corners[1].ravel(), grid.crs, self.crs)
            x, y = np.array([xs.min(), xs.max()]), np.array([ys.min(), ys.max()])
        if self.bounds is None:
            return
        left, bottom, right, top = self.bounds
        if not (x[0] > right or x[1] < left or y[0] > top or y[1] < bottom):
            return
        words = (
            f"the grid ({grid.names[0]} {grid.x.min():g} to {grid.x.max():g}, {grid.names[1]} {grid.y.min():g} to "
            f"{grid.y.max():g}) and the data ({self.axes[0]} {left:g} to {right:g}, {self.axes[1]} {bottom:g} to "
            f"{top:g}) have no place in common"
        )
        if self.crs is None or grid.crs is None:
            raise ValueError(
                f"{words}: they may be in different coordinate systems. Fit a GeoDataFrame, or say what the model's "
                "coordinates are with crs='EPSG:…', and the grid is brought into it"
            )
        warn(f"{words}: what is mapped is the prior")


def inputs_of(model: Any, axes: tuple[str, str] | None = None, crs: str | None = None) -> Inputs:
    """What a fitted model takes; `axes` names x and y, `crs` their system, where the model doesn't know.

    Raises
    ------
    ValueError
        Where it isn't clear which inputs are places.
    """
    if not (hasattr(model, "predict_dist") and hasattr(model, "n_features_in_")):
        raise ValueError(f"model must be a fitted estimator of npvi, got {type(model).__name__}")
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    n = int(model.n_features_in_)
    named = hasattr(model, "feature_names_in_")
    names = tuple(str(name) for name in model.feature_names_in_) if named else tuple(str(number) for number in range(n))
    own = getattr(last, "crs_", None)
    if crs is None:
        crs = own
    elif own is not None:
        raise ValueError(f"crs is for models that don't know their coordinate system; this one's is {own}")
    places = _places(model, last, names, axes)
    bounds = _bounds(model, places)
    called = [names[place].lower() for place in places]
    if crs is None and are_degrees(called, bounds):
        crs = "EPSG:4326"
    elif crs is None and bounds is not None and are_degrees(called, (bounds[1], bounds[0], bounds[3], bounds[2])):
        warn(
            f"{names[places[1]]} goes from {bounds[1]:g} to {bounds[3]:g} and {names[places[0]]} from {bounds[0]:g} to "
            f"{bounds[2]:g}: are longitude and latitude swapped? They are mapped as x and y of a plane"
        )
    table = getattr(getattr(last, "fitted_", None), "table", None)
    labelled = (
        [] if table is None or last is not model else [name for name in names if table[name].dtype.kind not in "biuf"]
    )
    return Inputs(names, named, places, crs, bounds, frozenset(labelled))


def _places(model: Any, last: Any, names: tuple[str, ...], axes: Any) -> tuple[int, int]:
    if axes is not None:
        wanted = [str(name) for name in axes] if isinstance(axes, tuple | list) else []
        unknown = [name for name in wanted if name not in names]
        if len(wanted) != 2 or unknown or wanted[0] == wanted[1]:
            raise ValueError(f"axes must name two of the model's inputs, {', '.join(names)}; got {axes!r}")
        return names.index(wanted[0]), names.index(wanted[1])
    lower = [name.lower() for name in names]
    for x, y in (PLACES[True], ("lon", "lat"), ("lng", "lat"), ("long", "lat"), PLACES[False], ("easting", "northing")):
        if x in lower and y in lower:
            return lower.index(x), lower.index(y)
    part = getattr(getattr(last, "model_", last), "linear_part_", None) if last is model else None
    seen = range(len(names)) if part is None else part.coords.tolist()
    if len(seen) == 2:
        return int(seen[0]), int(seen[1])
    raise ValueError(
        f"which inputs are places isn't clear among {', '.join(names)}: say so, x first, with axes=('east', 'north')"
    )


def are_degrees(names: list[str], bounds: Box | None) -> bool:
    """Whether columns are longitude and latitude by what they are called, and by what is in them."""
    if names[0] not in _LONGITUDES or names[1] not in _LATITUDES or bounds is None:
        return False
    return max(abs(bounds[0]), abs(bounds[2])) <= 360.0 and max(abs(bounds[1]), abs(bounds[3])) <= 90.0


def _bounds(model: Any, places: tuple[int, int]) -> Box | None:
    """The extent of the training rows, where that is known."""
    extent = getattr(model, "extent_", None)
    if extent is not None:  # of a model in tiles
        (left, bottom), (right, top) = extent[:, list(places)].tolist()
        return left, bottom, right, top
    if hasattr(model, "steps"):
        try:
            seen = training_inputs(model)[:, list(places)]
        except ValueError:
            return None
        (left, bottom), (right, top) = seen.min(axis=0).tolist(), seen.max(axis=0).tolist()
        return left, bottom, right, top
    fitted = getattr(model, "model_", model)
    table = getattr(getattr(fitted, "fitted_", None), "table", None)
    if table is not None:  # of a model made of terms
        across, along = (table.iloc[:, number].to_numpy(dtype=np.float64) for number in places)
        return float(across.min()), float(along.min()), float(across.max()), float(along.max())
    part = getattr(fitted, "linear_part_", None)
    if part is None:
        return None
    ends = []
    for number in places:
        if number in part.coords:
            values = fitted.prior_.X[:, list(part.coords).index(number)]
        else:
            at = list(part.covariates).index(number)
            values = fitted.basis_[:, int(part.constant) + at] * part.scale[at] + part.center[at]
        ends.append((float(values.min()), float(values.max())))
    (left, right), (bottom, top) = ends
    return left, bottom, right, top


def training_inputs(model: Any) -> NDArray[np.float64]:
    """The inputs of the training rows, all columns, as they were given to `fit`.

    Raises
    ------
    ValueError
        Where a pipeline's steps can't be undone.

    Examples
    --------
    >>> import npvi
    >>> X = np.column_stack([np.arange(20.0) ** 0.5, np.arange(20.0) % 3])
    >>> model = npvi.GPRegressor(coords=[0], learn=False).fit(X, X.sum(axis=1))
    >>> bool(np.allclose(training_inputs(model), X))
    True
    """
    if hasattr(model, "steps"):
        return _before_steps(model)
    fitted = getattr(model, "model_", model).fitted_
    part, order = fitted.linear_part, fitted.graph.order
    found = np.empty((len(order), int(model.n_features_in_)))
    found[np.ix_(order, part.covariates)] = fitted.basis[:, int(part.constant) :] * part.scale + part.center
    found[np.ix_(order, part.coords)] = fitted.prior.X
    return found


def _before_steps(pipeline: Any) -> NDArray[np.float64]:
    """What went into a pipeline, from what its model was fitted to."""
    steps = [step for _, step in pipeline.steps[:-1] if step is not None and not isinstance(step, str)]
    last = pipeline.steps[-1][1]
    if hasattr(getattr(last, "fitted_", None), "table"):
        raise ValueError("the table of a sum of terms doesn't say what went into the steps before it")
    seen = found = training_inputs(last)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for step in reversed(steps):
            if not hasattr(step, "inverse_transform"):
                raise ValueError(f"a {type(step).__name__} can't be undone")
            found = np.asarray(step.inverse_transform(found), dtype=np.float64)
            if found.shape != seen.shape:  # what fewer columns say is not where they came from
                raise ValueError(f"a {type(step).__name__} that changes the number of columns can't be undone")
        again = found
        for step in steps:
            again = np.asarray(step.transform(again), dtype=np.float64)
    if not np.allclose(again, seen, rtol=1e-6, atol=1e-6 * float(np.abs(seen).max())):
        raise ValueError("steps that leave something out can't be undone")
    return found


def with_medians(model: Any, inputs: Inputs, covariates: Any, known: Any = ()) -> tuple[Any, str]:
    """Covariates of a map, those that aren't given nor `known` at the medians of the data, and what was done, in words.

    >>> import npvi
    >>> X = np.column_stack([np.arange(20.0), np.arange(20.0) % 7, np.arange(20.0) % 3])
    >>> model = npvi.GPRegressor(coords=[0, 1], learn=False).fit(X, X.sum(axis=1))
    >>> with_medians(model, inputs_of(model), None)
    ({'2': 1.0}, 'Inputs that are no places are at the medians of the data: 2 = 1.')
    """
    if not inputs.others or not (covariates is None or isinstance(covariates, Mapping)):
        return covariates, ""
    found = dict(covariates or {})
    lacking = [name for name in inputs.others if name not in found and name not in known]
    if lacking:
        X = training_inputs(model)
        found |= {name: float(np.median(X[:, inputs.names.index(name)])) for name in lacking}
    said = ", ".join(f"{name} = {found[name]:.4g}" for name in lacking)
    return found or None, f"Inputs that are no places are at the medians of the data: {said}." if said else ""


def with_covariates(grid: Grid, inputs: Inputs, covariates: Any) -> Grid:
    """A grid that has every input which is no place."""
    layers = layers_of(covariates, grid)
    unknown = [name for name in layers if name not in inputs.others]
    if unknown and isinstance(covariates, Mapping):
        have = ", ".join(inputs.others) or "none besides its places"
        raise ValueError(f"covariates: the model has no input {unknown[0]!r}; it has {have}")
    for name in set(layers) & inputs.labelled:
        layers[name] = as_label(layers[name], name)
    wrong = next(
        (name for name, value in layers.items() if isinstance(value, str) and name not in inputs.labelled), None
    )
    if wrong is not None:
        raise ValueError(f"covariates[{wrong!r}] must be numbers, got {layers[wrong]!r}")
    grid = grid.with_layers(layers)
    lacking = [name for name in inputs.others if name not in grid.layers]
    if lacking:
        raise ValueError(
            f"covariates: the model needs {', '.join(lacking)} in each cell as well: give "
            f"{_how_to_give(lacking[0], inputs)}"
        )
    return grid


def _how_to_give(name: str, inputs: Inputs) -> str:
    if name in inputs.labelled:
        return f"one label, as in covariates={{{name!r}: 'a'}} (--at {name}=a)"
    return (
        f"a DataArray on the grid (a raster, --covariates), or one number, as in covariates={{{name!r}: 1.0}} "
        f"(--at {name}=1)"
    )


def as_label(value: Any, name: str) -> str:
    """The level that all cells have of an input which is a label; of a number its digits.

    >>> as_label("kea", "bird"), as_label(2007.0, "year")
    ('kea', '2007')
    """
    if isinstance(value, str):
        return value
    if np.ndim(value) == 0 and float(value).is_integer():
        return str(int(value))
    raise ValueError(f"covariates[{name!r}] must be one label for all cells, such as a level that the data have")


def complete(grid: Grid, names: list[str]) -> Grid:
    """The grid without cells that lack one of its layers by these names."""
    inside = grid.inside
    gaps = []
    for name in names:
        known = np.broadcast_to(np.isfinite(np.asarray(grid.layers[name], dtype=np.float64)), grid.shape)
        missing = int((~known).sum() if inside is None else (~known & inside).sum())
        if missing:
            gaps.append(f"{name} in {missing:,}")
            inside = known if inside is None else inside & known
    if gaps:
        cells = grid.shape[0] * grid.shape[1] if grid.inside is None else int(grid.inside.sum())
        warn(f"covariates are missing in some of {cells:,} cells, which stay empty: {', '.join(gaps)}")
    if inside is not None and not inside.any():
        raise NoCellsError("no cell of the grid has all covariates")
    return replace(grid, inside=inside)


def per_cell(value: Any, name: str, shape: tuple[int, int]) -> Any:
    """Data per row: one number for all cells, or one for each."""
    numbers = as_numbers(value.to_numpy() if hasattr(value, "dims") else value, name)
    if numbers.ndim and numbers.shape != shape:
        raise ValueError(f"{name} must be one number, or one per cell, shape {shape}; got shape {numbers.shape}")
    return float(numbers) if numbers.ndim == 0 else numbers


@contextlib.contextmanager
def without_extras() -> Iterator[None]:
    """Inside, nobody is told that predictions are per unit of exposure: that is what a map is of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the model was fitted with")
        yield
