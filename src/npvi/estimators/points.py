"""Point patterns: where events are, modelled as counts in the cells of a lattice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import LARGEST, SCALE, as_numbers, check_finite, check_number
from npvi.estimators.regressor import GPRegressor
from npvi.terms import Field, Linear, Term, as_frame, check_terms

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["fit_points"]

#: cells unless a size is given, and most of them
_CELLS, _MOST = 5_000, 4_000_000


def fit_points(
    points: Any,
    window: Any = None,
    covariates: Callable[[NDArray, NDArray], Mapping[str, Any]] | pd.DataFrame | None = None,
    cell: float | None = None,
    terms: Sequence[Term] | None = None,
    **settings: Any,
) -> GPRegressor:
    """The intensity of a point pattern: a log-Gaussian Cox process on the cells of a lattice.

    Events are counted in square cells, whose area inside the window is the exposure; so places without events count as
    much as those with. (Events as rows of an ordinary model, with ones for responses, say nothing of where none are.)

    Parameters
    ----------
    points : (N, 2) coordinates, a table with columns x and y, or a GeoDataFrame of points.
    window : where events could have been seen: a polygon of shapely, a GeoDataFrame, or left, bottom, right, top; the
        extent of the points unless given.
    covariates : a function of arrays x and y that returns columns by name, or a table with columns x, y and others, of
        which each cell gets the nearest row.
    cell : side of a cell; some 5,000 of them in the window unless given.
    terms : what the logarithm of the intensity is a sum of; a field over x and y and linear effects of the covariates
        unless given.
    **settings : of `GPRegressor`, such as ``likelihood="negative_binomial"`` or ``random_state``.

    Returns
    -------
    GPRegressor
        fitted to counts per cell. ``cells_`` has the cells (``x``, ``y``, ``area``, ``count`` and covariates);
        ``predict_dist(table, exposure=1.0).mean`` is the intensity per unit of area, and
        ``predict_dist(cells, exposure=cells["area"]).total()`` how many events are expected, with their uncertainty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(0.0, 10.0, size=(2, 300))
    >>> model = fit_points(np.column_stack([x, y]), (0.0, 0.0, 10.0, 10.0), cell=1.0, hyper="plug-in")
    >>> cells = model.cells_
    >>> len(cells), int(cells["count"].sum()), float(cells["area"].sum())
    (100, 300, 100.0)
    >>> total = model.predict_dist(cells, exposure=cells["area"]).total(seed=0)
    >>> bool(abs(total.mean - 300.0) < 10.0)
    True
    """
    import pandas as pd

    xy = _coordinates(points)
    shape, (left, bottom, right, top) = _window(window, xy)
    area = (right - left) * (top - bottom) if shape is None else float(shape.area)
    size = np.sqrt(area / _CELLS) if cell is None else check_number(cell, "cell", SCALE)
    # up to rounding, so that a side of 1000 has 100 cells of 10
    across, down = (max(1, int(np.ceil(span / size - 1e-9))) for span in (right - left, top - bottom))
    if across * down == 1:
        raise ValueError(f"cell={size:g} makes one cell of it all, which says nothing of places: take a smaller one")
    if across * down > _MOST:
        raise ValueError(f"cell={size:g} makes {across * down:,} cells, more than {_MOST:,}: take a larger one")
    inside = _inside(xy, shape, (left, bottom, right, top))
    if not inside.all():
        where = "window" if window is not None else "extent"
        raise ValueError(
            f"{np.count_nonzero(~inside)} of {len(xy)} points are outside of the {where}, such as "
            f"{xy[~inside][0].tolist()}: leave them out, or give a window that has them"
        )
    columns = np.minimum(((xy[:, 0] - left) / size).astype(np.int64), across - 1)
    rows = np.minimum(((xy[:, 1] - bottom) / size).astype(np.int64), down - 1)
    counts = np.bincount(rows * across + columns, minlength=across * down)
    x, y = (
        a.ravel() for a in np.meshgrid(left + size * (np.arange(across) + 0.5), bottom + size * (np.arange(down) + 0.5))
    )
    areas = _areas(x, y, size, shape, (left, bottom, right, top))
    kept = areas > 0.0
    table = pd.DataFrame({"x": x, "y": y, "area": areas, "count": counts})[kept].reset_index(drop=True)
    names: list[str] = []
    if covariates is not None:
        more = _covariates(covariates, table)
        names = list(more.columns)
        table = pd.concat([table, more], axis=1)
    terms = [Field("x", "y"), Linear(*names)] if terms is None else list(check_terms(terms))
    model = GPRegressor(**{"likelihood": "poisson", **settings, "terms": terms})
    model.fit(table, "count", exposure=table["area"])
    model.cells_ = table
    return model


def _coordinates(points: Any) -> NDArray[np.float64]:
    if hasattr(points, "x") and hasattr(points, "geom_type"):  # a GeoSeries
        points = np.column_stack([points.x, points.y])
    if not isinstance(points, np.ndarray | list | tuple):
        frame = as_frame(points, "points")
        if not {"x", "y"} <= set(frame.columns):
            raise ValueError(f"points must have columns x and y, got {', '.join(frame.columns)}")
        points = frame[["x", "y"]].to_numpy()
    xy = as_numbers(points, "points")
    if xy.ndim != 2 or xy.shape[1] != 2 or not len(xy):
        raise ValueError(f"points must be coordinates of shape (N, 2), at least one; got shape {xy.shape}")
    check_finite(xy, "points", LARGEST)
    return xy


def _window(window: Any, xy: NDArray[np.float64]) -> tuple[Any, tuple[float, float, float, float]]:
    """The window's shape, None for a rectangle, and its extent."""
    shape = None
    if window is None:
        bounds = (*xy.min(axis=0), *xy.max(axis=0))
        if (np.ptp(xy, axis=0) == 0.0).any():
            raise ValueError("points that have all the same x, or y, leave the window without an area: give window=")
    elif hasattr(window, "geometry") and hasattr(window, "crs"):  # a GeoDataFrame
        shape = window.geometry.union_all()
    elif hasattr(window, "geom_type"):
        shape = window
    else:
        bounds = tuple(np.ravel(as_numbers(window, "window")))
        if len(bounds) != 4:
            raise ValueError(f"window must be a polygon, or left, bottom, right, top; got {window!r}")
    if shape is not None:
        if not shape.is_valid or shape.area <= 0.0:
            raise ValueError("window must be a valid polygon with an area; shapely's make_valid may mend it")
        bounds = shape.bounds
    left, bottom, right, top = map(float, bounds)
    if not (left < right and bottom < top):
        raise ValueError(f"window must have left below right and bottom below top, got {left, bottom, right, top}")
    return shape, (left, bottom, right, top)


def _inside(xy: NDArray[np.float64], shape: Any, bounds: tuple[float, float, float, float]) -> NDArray[np.bool_]:
    if shape is None:
        left, bottom, right, top = bounds
        x, y = xy.T
        return np.asarray((x >= left) & (x <= right) & (y >= bottom) & (y <= top))
    import shapely

    return np.asarray(shapely.covers(shape, shapely.points(xy)))


def _areas(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    size: float,
    shape: Any,
    bounds: tuple[float, float, float, float],
) -> NDArray[np.float64]:
    """Of each cell, what lies inside the window."""
    half = 0.5 * size
    left, bottom, right, top = bounds
    width = np.minimum(x + half, right) - np.maximum(x - half, left)
    height = np.minimum(y + half, top) - np.maximum(y - half, bottom)
    if shape is None:
        return width * height
    import shapely

    shapely.prepare(shape)
    boxes = shapely.box(x - half, y - half, x + half, y + half)
    areas = np.where(shapely.contains(shape, boxes), size**2, 0.0)
    crossed = np.flatnonzero(shapely.intersects(shape, boxes) & (areas == 0.0))
    areas[crossed] = shapely.area(shapely.intersection(shape, boxes[crossed]))
    return areas


def _covariates(given: Any, table: pd.DataFrame) -> pd.DataFrame:
    """Columns for each cell."""
    import pandas as pd
    from scipy.spatial import cKDTree

    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    if callable(given) and not isinstance(given, type):
        returned = given(x, y)
        try:
            found = pd.DataFrame(dict(returned))
        except (TypeError, ValueError):
            raise ValueError(
                "covariates must return a column by each name, such as {'depth': …}, with a number for each cell; got "
                f"{returned!r}"
            ) from None
        if len(found) != len(table):
            raise ValueError(f"covariates returned {len(found)} rows for {len(table)} cells")
        return found.reset_index(drop=True)
    frame = as_frame(given, "covariates")
    if not {"x", "y"} < set(frame.columns):
        raise ValueError(f"covariates must have columns x, y and others, got {', '.join(frame.columns)}")
    nearest = cKDTree(frame[["x", "y"]].to_numpy(dtype=np.float64)).query(np.column_stack([x, y]))[1]
    others = [name for name in frame.columns if name not in ("x", "y")]
    return pd.DataFrame({name: frame[name].to_numpy()[nearest] for name in others})
