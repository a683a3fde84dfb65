"""The bird counts on a map: what was seen, and what each method makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments import surfaces
from npvi.paper.experiments.figures.stored import finished, letter
from npvi.paper.experiments.figures.style import LOOKS, canvas, plain_ticks, save
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store

__all__ = ["draw_deviations", "draw_means"]

#: rates below this look alike: fewer birds than one in so many visits
_LEAST = 0.05
_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)


def draw_means(store: Store, plan: Plan, folder: Path) -> Path | None:
    """Observations and predicted rates side by side, on one scale; None where nothing is stored."""
    found = finished(store, surfaces.cells(plan))
    if not found:
        return None
    seen = found[0][1]["observed"]
    counts = np.array(seen["count"])
    norm = _norm(counts[counts > 0.0])
    figure, axes = _panels(1 + len(found), "Bird counts: what was seen, and the rate that each method predicts")
    colours: dict[str, Any] = {"norm": norm, "cmap": "viridis"}
    shown = axes[0].scatter(
        seen["east"], seen["north"], c=np.clip(counts, _LEAST, None), s=_dot(counts), linewidths=0, **colours
    )
    _name(axes[0], "observed", f"mean count at {len(counts):,} places", "black")
    for axis, (cell, result) in zip(axes[1:], found):
        axis.imshow(np.clip(_grid(result, "mean"), _LEAST, None), **_frame(result), **colours)
        note = f"length scale {result['length_scale']:g}; test score {result['test']:.2f}"
        note = f"{letter(cell.method)} = {cell.size}, {note}"
        _name(axis, LOOKS[cell.method].name, note, LOOKS[cell.method].colour)
    for axis in axes:
        axis.set_xlim(*_frame(found[0][1])["extent"][:2])
        axis.set_ylim(*_frame(found[0][1])["extent"][2:])
    bar = _bar(figure, shown, axes, extend="both")
    bar.set_label("birds per visit (logarithmic; one scale for all)")
    plain_ticks(bar.ax.xaxis, [tick for tick in _TICKS if norm.vmin <= tick <= norm.vmax])
    return save(figure, folder / "surfaces.png")


def draw_deviations(store: Store, plan: Plan, folder: Path) -> Path | None:
    """How unsure each method is of its rate; None where nothing is stored."""
    from matplotlib.colors import Normalize

    found = finished(store, surfaces.cells(plan))
    if not found:
        return None
    every = np.concatenate([_grid(result, "std").ravel() for _, result in found])
    norm = Normalize(0.0, float(np.nanquantile(every, 0.99)))
    figure, axes = _panels(len(found), "Bird counts: standard deviation of the rate, as each method has it")
    for axis, (cell, result) in zip(axes, found):
        shown = axis.imshow(_grid(result, "std"), **_frame(result), norm=norm, cmap="magma")
        _name(axis, LOOKS[cell.method].name, f"{letter(cell.method)} = {cell.size}", LOOKS[cell.method].colour)
    bar = _bar(figure, shown, axes, extend="max")
    bar.set_label("birds per visit (one scale for all)")
    return save(figure, folder / "surfaces-deviation.png")


def _panels(count: int, heading: str) -> tuple[Any, list[Any]]:
    columns = 3 if count > 4 else 2 if count > 1 else 1
    rows = -(-count // columns)
    figure = canvas(3.5 * columns if columns > 1 else 5.5, 1.1 + 2.45 * rows)
    axes = list(np.ravel(figure.subplots(rows, columns)))
    figure.suptitle(heading, fontsize=12, fontweight="bold", x=0.01, ha="left")
    figure.get_layout_engine().set(h_pad=0.09)
    for axis in axes[count:]:
        axis.remove()
    for axis in axes[:count]:
        axis.set(xticks=[], yticks=[], aspect="equal")
        axis.set_facecolor("0.96")
        axis.spines[:].set_visible(False)
    return figure, axes[:count]


def _name(axis: Any, name: str, note: str, colour: str) -> None:
    axis.set_title(name.replace("\n", " "), loc="left", fontsize=11.5, fontweight="bold", color=colour, pad=18)
    axis.annotate(
        note, (0.0, 1.0), (0, 4), xycoords="axes fraction", textcoords="offset points", fontsize=9.5, color="0.35"
    )


def _norm(values: np.ndarray) -> Any:
    """Skewed numbers need a logarithm; the largest hundredth looks alike."""
    from matplotlib.colors import LogNorm

    return LogNorm(_LEAST, max(float(np.quantile(values, 0.99)), 2.0 * _LEAST))


def _dot(counts: np.ndarray) -> float:
    return float(np.clip(9_000.0 / len(counts), 1.2, 20.0))


def _grid(result: dict[str, Any], name: str) -> np.ndarray:
    return np.array(result[name], dtype=np.float64).reshape(result["shape"])


def _frame(result: dict[str, Any]) -> dict[str, Any]:
    grid = surfaces.Grid(result["west"], result["south"], result["step"], tuple(result["shape"]))
    return {"extent": grid.extent, "origin": "lower", "interpolation": "nearest"}


def _bar(figure: Any, shown: Any, axes: list[Any], extend: str) -> Any:
    return figure.colorbar(shown, ax=axes, location="bottom", extend=extend, aspect=60, shrink=0.6, pad=0.02)
