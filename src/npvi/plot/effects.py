"""Pictures of the parts of a predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npvi.checks import Kind, check_number
from npvi.maps.drawing import verbatim
from npvi.plot.style import ALERT, INK, SOFT, axes_for, tidy

__all__ = ["terms"]

#: values of a covariate at which a smooth is drawn, cells along each side of a surface, and levels shown
_CURVE, _SIDE, _LEVELS = 120, 40, 30
#: intervals between ticks of effects: their numbers have up to six characters
_TICKS = 4


def terms(model: Any, parts: Any = None, level: float = 0.9, ax: Any = None) -> Any:
    """Draw the effect of each part of a model with terms, on the scale of the predictor (of log or logit).

    Smooths are curves with a band, groups are levels with intervals, fields are maps of their mean, linear effects are
    coefficients for a change of the column by its standard deviation.

    Parameters
    ----------
    model : GPRegressor that was fitted with ``terms=`` or ``formula=``.
    parts : names of the parts to draw; all unless given. Smooths by a column, fields by a level and varying
        coefficients are left out.
    level : probability of the bands and intervals.
    ax : as many axes of matplotlib as there are parts to draw; new ones unless given.

    Returns
    -------
    list of axes

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.uniform(size=90), "g": rng.choice(list("abc"), 90)})
    >>> table["y"] = np.sin(6.0 * table["x"]) + 0.1 * rng.standard_normal(90)
    >>> axes = terms(npvi.GPRegressor(formula="y ~ s(x) + (1|g)").fit(table))
    >>> [axis.get_title(loc="left") for axis in axes]
    ['s(x)', '1|g']
    """
    if not hasattr(getattr(model, "fitted_", None), "design"):
        raise ValueError("model must be a GPRegressor that was fitted with terms= or formula=")
    level = check_number(level, "level", Kind("between 0 and 1", lambda one: 0.0 < one < 1.0))
    chosen = None if parts is None else model._chosen(parts, "parts")
    drawn = [part for part in model.fitted_.parts if _kind(part) and (chosen is None or part.name in chosen)]
    if not drawn:
        raise ValueError("none of these parts can be drawn; smooths, groups, fields and linear effects can")
    axes = axes_for(ax, len(drawn), (4.2, 3.6))
    axes = [axes] if len(drawn) == 1 else list(axes)
    for axis, part in zip(axes, drawn):
        _DRAW[_kind(part)](axis, model, part, level)
        axis.set_title(verbatim(part.name), loc="left", fontsize=11, fontweight="bold")
    return axes


def _kind(part: Any) -> str:
    """How a part is drawn; empty where it isn't."""
    from npvi.terms import GroupPart, LinearPart, SmoothPart, SurfacePart

    if isinstance(part, GroupPart):
        return "levels"
    if isinstance(part, SmoothPart):
        return "curve" if part.name == f"s({part.columns[0]})" else ""
    if isinstance(part, SurfacePart):
        return "surface" if part.name == f"gp({', '.join(part.columns)})" and len(part.columns) == 2 else ""
    return "coefficients" if isinstance(part, LinearPart) and set(part.names) - {"constant"} else ""


def _curve(axis: Any, model: Any, part: Any, level: float) -> None:
    name = part.columns[0]
    seen = model.fitted_.table[name].to_numpy(dtype=np.float64)
    at = np.linspace(seen.min(), seen.max(), _CURVE)
    dist = model.predict_dist(pd.DataFrame({name: at}), terms=[part.name])
    lower, upper = dist.latent_interval(level)
    axis.fill_between(at, lower, upper, color=SOFT, linewidth=0.0)
    axis.plot(at, dist.latent_mean, color=INK, linewidth=2.0)
    axis.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    shown = np.quantile(seen, np.linspace(0.0, 1.0, 101))
    axis.plot(shown, np.full(101, -0.02), "|", color="0.5", transform=axis.get_xaxis_transform(), clip_on=False)
    axis.tick_params(axis="x", pad=7.0)  # below these
    axis.set_xlabel(verbatim(name))
    axis.set_ylabel("effect")
    tidy(axis)


def _levels(axis: Any, model: Any, part: Any, level: float) -> None:
    from matplotlib.ticker import MaxNLocator
    from scipy.special import ndtri

    table = model.effects(part.name)
    table = table[table["effect"] == part.effect_names[0]].sort_values("mean")
    more = len(table) - _LEVELS
    if more > 0:  # those at both ends
        table = pd.concat([table.head(_LEVELS // 2), table.tail(_LEVELS - _LEVELS // 2)])
    half = ndtri(0.5 * (1.0 + level)) * table["sd"]
    rows = np.arange(len(table))
    axis.hlines(rows, table["mean"] - half, table["mean"] + half, color=SOFT, linewidth=3.0)
    axis.plot(table["mean"], rows, "o", color=INK, markersize=4.5)
    axis.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    axis.set_yticks(rows, labels=[verbatim(str(one)) for one in table["level"]], fontsize=7 if len(rows) > 12 else 9)
    words = (
        f"{part.effect_names[0]}, lowest and highest {_LEVELS // 2} of {len(table) + more}" if more > 0 else "effect"
    )
    axis.set_xlabel(verbatim(words))
    axis.set_ylabel(verbatim(":".join(part.columns)))
    axis.xaxis.set_major_locator(MaxNLocator(_TICKS))
    tidy(axis)


def _surface(axis: Any, model: Any, part: Any, level: float) -> None:
    table = model.fitted_.table
    x, y = (table[name].to_numpy(dtype=np.float64) for name in part.columns)
    across, along = (np.linspace(one.min(), one.max(), _SIDE) for one in (x, y))
    cells = np.meshgrid(across, along)
    places = pd.DataFrame({name: one.ravel() for name, one in zip(part.columns, cells)})
    mean = model.predict_dist(places, terms=[part.name]).latent_mean.reshape(_SIDE, _SIDE)
    largest = float(np.abs(mean).max()) or 1.0
    drawn = axis.pcolormesh(across, along, mean, cmap="RdBu_r", vmin=-largest, vmax=largest, shading="nearest")
    axis.figure.colorbar(drawn, ax=axis, label="effect", shrink=0.85)
    axis.plot(x[:: max(1, len(x) // 1000)], y[:: max(1, len(x) // 1000)], ",", color="0.25")
    axis.set_xlabel(verbatim(part.columns[0]))
    axis.set_ylabel(verbatim(part.columns[1]))


def _coefficients(axis: Any, model: Any, part: Any, level: float) -> None:
    from matplotlib.ticker import MaxNLocator
    from scipy.special import ndtri

    names = [name for name in part.names if name != "constant"]
    rows = model.summary().loc[names]
    scale = part.scale[[part.names.index(name) for name in names]]
    value, half = (
        rows["value"].to_numpy() * scale,
        rows["standard_error"].to_numpy() * scale * ndtri(0.5 * (1.0 + level)),
    )
    at = np.arange(len(names))[::-1]
    axis.hlines(at, value - half, value + half, color=SOFT, linewidth=4.0)
    axis.plot(value, at, "o", color=ALERT, markersize=5.0)
    axis.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    axis.set_yticks(at, labels=[verbatim(name) for name in names])
    axis.set_xlabel("effect of one standard deviation")
    axis.xaxis.set_major_locator(MaxNLocator(_TICKS))
    axis.set_ylim(-0.6, len(names) - 0.4)
    tidy(axis)


_DRAW = {"curve": _curve, "levels": _levels, "surface": _surface, "coefficients": _coefficients}
