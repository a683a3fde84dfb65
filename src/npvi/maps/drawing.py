"""A map of one surface, or of polygons in the colours of one of their columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.checks import as_numbers, check_flag, rows_text
from npvi.maps.borders import borders
from npvi.runtime.extras import needed

__all__ = ["figure_size", "map", "verbatim"]

#: inches
_WIDTH = 8.0
#: observations that are drawn one by one; of more a sample of so many
_POINTS = 20_000
#: from which range on, largest over smallest, positive numbers have a logarithmic scale
_WIDE = 20.0
#: share of values that is beyond either end of the colours
_CLIPPED = 0.005
#: surfaces whose colours end at fixed numbers
_SHARES = ("exceed_", "p_", "probability", "prior_share")


def map(
    found: Any,
    show: str | None = None,
    points: Any = None,
    ax: Any = None,
    within_reach: bool = True,
    title: Any = None,
    lines: bool = True,
) -> Any:
    """Draw one surface of a grid, or one column of polygons.

    Parameters
    ----------
    found : what `predict_grid`, `fill` or `predict_polygons` returned.
    show : which variable; the mean unless given.
    points : (N, 2) places of observations to draw over it, in the map's coordinates.
    ax : matplotlib axes to draw on; new ones unless given.
    within_reach : leave out cells that are beyond the reach of the data.
    title : above it; what is shown, unless given.
    lines : draw borders of countries and coasts, where the map knows its coordinate system.

    Returns
    -------
    Axes of matplotlib.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> model = npvi.GPRegressor(kernel="rbf", learn=False).fit(X, X.sum(axis=1))
    >>> axes = map(model.predict_grid(0.1), "std")
    >>> axes.get_title()
    'standard deviation of a new response'
    """
    import matplotlib.pyplot as plt

    within_reach, lines = check_flag(within_reach, "within_reach"), check_flag(lines, "lines")
    if ax is not None and not hasattr(ax, "pcolormesh"):
        raise ValueError(f"ax must be axes of matplotlib, got {type(ax).__name__}")
    places = None if points is None else _checked(points)
    if not (hasattr(found, "data_vars") or hasattr(found, "geometry")):
        raise ValueError(f"found must be what predict_grid or predict_polygons returns, got {type(found).__name__}")
    name, draw = _chosen(show, _shown(found)), _grid if hasattr(found, "data_vars") else _polygons
    ratio = _ratio(found)
    if ax is None:  # last: what is refused leaves no open figure behind
        _, ax = plt.subplots(figsize=figure_size(found), layout="compressed")
    image, words = draw(ax, found, name, within_reach)
    if lines:
        _borders(ax, found)
    if places is not None and len(places):
        _points(ax, places)
    # as high as the map
    ax.figure.colorbar(
        image, ax=ax, fraction=min(0.046 * ratio, 0.15), pad=0.02, label=verbatim(name), extend=_extend(image)
    )
    ax.set_title(verbatim(words if title is None else title))
    return ax


def figure_size(found: Any) -> tuple[float, float]:
    """Width and height in inches of a picture that a map fills."""
    return _WIDTH, float(np.clip(0.85 * _WIDTH * _ratio(found) + 0.8, 3.0, 10.0))


def verbatim(words: Any) -> str:
    """Text that matplotlib shows as it is, also where it would take it for a formula.

    >>> print(verbatim("US$ per $x^2$"))
    US\\$ per \\$x^2\\$
    """
    return str(words).replace("$", r"\$")


def _ratio(found: Any) -> float:
    """Height over width of a map."""
    if hasattr(found, "data_vars"):
        y, x = next(variable.dims for variable in found.data_vars.values() if variable.ndim == 2)
        width, height = (float(np.ptp(found[axis].to_numpy())) for axis in (x, y))
        height *= _stretch(found, str(x), found[y].to_numpy())
    else:
        left, bottom, right, top = found.total_bounds
        width, height = right - left, top - bottom
    return float(np.clip(height / width if width > 0.0 else 1.0, 0.1, 10.0))


def _shown(found: Any) -> list[str]:
    """Names of what can be drawn."""
    if hasattr(found, "data_vars"):
        return [str(name) for name, variable in found.data_vars.items() if variable.ndim == 2]
    return [str(name) for name in found.select_dtypes("number").columns]


def _grid(ax: Any, found: Any, name: str, within_reach: bool) -> tuple[Any, str]:
    variable = found[name]
    values = np.asarray(variable.to_numpy(), dtype=np.float64)
    if within_reach and "prior_share" in found and name not in ("prior_share", "reach_distance"):
        from npvi.predictive import Reach

        reach = Reach(found["reach_distance"].to_numpy(), found["prior_share"].to_numpy())
        values = np.where(reach.beyond, np.nan, values)
    y, x = variable.dims
    image = ax.pcolormesh(
        found[x].to_numpy(), found[y].to_numpy(), values, shading="nearest", rasterized=True, **_colours(name, values)
    )
    ax.set_xlabel(verbatim(x))
    ax.set_ylabel(verbatim(y))
    ax.set_aspect(_stretch(found, str(x), found[y].to_numpy()))
    return image, str(variable.attrs.get("long_name", name))


def _polygons(ax: Any, found: Any, name: str, within_reach: bool) -> tuple[Any, str]:
    from matplotlib.cm import ScalarMappable

    needed("geopandas", "geo", "maps of polygons")
    values = found[name].to_numpy(dtype=np.float64)
    colours = _colours(name, values)
    found.plot(column=name, ax=ax, edgecolor="0.4", linewidth=0.4, missing_kwds={"color": "0.9"}, **colours)
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    return ScalarMappable(colours["norm"], colours["cmap"]), name


def _chosen(show: str | None, names: list[str]) -> str:
    name = next((one for one in ("mean", *names) if one in names), "") if show is None else show
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"show must name one of {', '.join(names)}; got {show!r}")
    return name


def _colours(name: str, values: Any) -> dict[str, Any]:
    """A map of colours that the colour-blind can read, and where its ends are: single outliers don't count."""
    from matplotlib.colors import LogNorm, Normalize

    known = values[np.isfinite(values)]
    if name.startswith(_SHARES):
        return {"cmap": "cividis", "norm": Normalize(0.0, 1.0)}
    low, high = np.quantile(known, [_CLIPPED, 1.0 - _CLIPPED]) if len(known) else (0.0, 1.0)
    if name == "std":
        return {"cmap": "magma", "norm": Normalize(0.0, high)}
    if low > 0.0 and high > _WIDE * low:
        return {"cmap": "viridis", "norm": LogNorm(low, high)}
    return {"cmap": "viridis", "norm": Normalize(low, high if high > low else low + 1.0)}


def _extend(image: Any) -> str:
    values = image.get_array()
    if values is None or not np.ma.count(values):
        return "neither"
    known = np.ma.masked_invalid(values).compressed()
    below, above = known.min() < image.norm.vmin, known.max() > image.norm.vmax
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[
        (bool(below), bool(above))
    ]


def _stretch(found: Any, x: str, y: Any) -> float:
    """Of a unit of y beside one of x: a degree of longitude is shorter than one of latitude."""
    described = found["spatial_ref"].attrs if "spatial_ref" in found.coords else {}
    degrees = str(described.get("crs_wkt", "")).startswith("GEOG") or x.lower().startswith("lon")
    middle = 0.5 * (float(np.min(y)) + float(np.max(y)))
    return 1.0 / float(np.cos(np.deg2rad(middle))) if degrees and abs(middle) < 85.0 else 1.0


def _borders(ax: Any, found: Any) -> None:
    """On a light rim, to be seen on any colour."""
    from matplotlib.collections import LineCollection

    if hasattr(found, "data_vars"):
        crs = found["spatial_ref"].attrs.get("crs_wkt") if "spatial_ref" in found.coords else None
    else:
        crs = None if found.crs is None else found.crs.to_wkt()
    if crs is None:
        return
    limits = ax.get_xlim(), ax.get_ylim()
    (left, right), (bottom, top) = (sorted(ends) for ends in limits)
    drawn = borders((left, bottom, right, top), crs)
    for width, colour, alpha in ((1.8, "white", 0.5), (0.6, "0.2", 1.0)):
        ax.add_collection(LineCollection(drawn, colors=colour, linewidths=width, alpha=alpha), autolim=False)
    ax.set(xlim=limits[0], ylim=limits[1])


def _checked(points: Any) -> Any:
    places = as_numbers(points, "points")
    if places.ndim != 2 or places.shape[1] != 2:
        raise ValueError(f"points must have two columns, x and y; got shape {places.shape}")
    wrong = np.flatnonzero(~np.isfinite(places).all(axis=1))
    if len(wrong):
        raise ValueError(f"points has gaps in {len(wrong)} of {len(places)} {rows_text(wrong)}")
    return places


def _points(ax: Any, places: Any) -> None:
    limits = ax.get_xlim(), ax.get_ylim()
    some = places[:: max(1, -(-len(places) // _POINTS))]
    label = f"{len(places):,} observations" + (f", {len(some):,} of them drawn" if len(some) < len(places) else "")
    size = float(np.clip(3000.0 / len(some), 0.3, 8.0))
    ax.scatter(some[:, 0], some[:, 1], s=size, c="white", edgecolors="black", linewidths=0.3, label=label)
    ax.set(xlim=limits[0], ylim=limits[1])
    ax.legend(loc="lower right", fontsize="small", framealpha=0.8)
