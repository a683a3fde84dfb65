"""The length scale: which one each method chooses, and how validation scores depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments.figures.groups import places_of
from npvi.paper.experiments.figures.stored import Results, by_number, letter, of_splits
from npvi.paper.experiments.figures.style import (
    LOOKS,
    canvas,
    key_to_marks,
    limit,
    plain,
    plain_ticks,
    save,
    shades,
    title,
)
from npvi.paper.experiments.methods import OURS, RIVALS
from npvi.paper.experiments.paper import LENGTH_SCALES
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import DATA, table_cells

__all__ = ["draw_chosen", "draw_scores"]

#: from one method to the next at the same size, of the distance from one size to the next
_ASIDE = 0.21
#: lines of a method at its sizes, from the smallest on
_STYLES = ((0, (1, 1.2)), (0, (5, 1.5)), "solid")


def draw_chosen(store: Store, plan: Plan, data: str, folder: Path) -> Path | None:
    """The length scales of the first table, those of the paper beside them; None where nothing is stored."""
    results = by_number(store, table_cells(plan, data, "paper"))
    if not results:
        return None
    figure = canvas(10.0, 4.4)
    axes = figure.subplots(1, 2, sharey=True)
    halves = ((RIVALS, plan.n_inducing, "M inducing points"), (OURS, plan.n_neighbors, "K neighbours"))
    for axis, (group, sizes, label) in zip(axes, halves):
        plain(axis)
        axis.set_yscale("log")
        for number, method in enumerate(group):
            offset = _ASIDE * (number - 0.5 * (len(group) - 1))
            _draw_choices(axis, method, sizes, offset, results, data)
        axis.set_xticks(range(len(sizes)), labels=[f"{size}" for size in sizes])
        axis.set(xlabel=label, xlim=(-0.5, len(sizes) - 0.5))
        _name_methods(axis, [method for method in group if any(method == other for other, _ in results)])
    plain_ticks(axes[0].yaxis, plan.length_scales)
    axes[0].set_ylabel("length scale (logarithmic)")
    small, large = min(plan.length_scales), max(plan.length_scales)
    axes[0].set_ylim(small / 1.35, large * 1.35)
    splits = "one split" if of_splits(results) == "one split" else "a mark per split"
    below = f"{splits}, all candidates ticked" + ("; hollow: the paper's choice" if data == "bird_counts" else "")
    title(axes[0], f"{DATA[data][0]}: the length scale that each method chose on validation rows", below)
    return save(figure, folder / f"length-scale-{data.replace('_', '-')}.png")


def draw_scores(store: Store, plan: Plan, data: str, folder: Path) -> Path | None:
    """Validation scores against the length scale, a line per method and size; None where nothing is stored."""
    results = by_number(store, table_cells(plan, data, "paper"))
    curves = {key: _curve(results[key]) for key in places_of(results) if key[0] in (*RIVALS, "npvi")}
    curves = {key: curve for key, curve in curves.items() if len(curve)}
    if not any(method == "npvi" for method, _ in curves):
        return None
    figure = canvas(10.0, 5.0)
    axis = figure.subplots()
    plain(axis)
    axis.set_xscale("log")
    every = np.concatenate([curve[:, 1] for curve in curves.values()])
    highest = limit(axis, every, [curve[:, 1].min() for curve in curves.values()])
    for (method, size), curve in curves.items():
        _draw_curve(axis, method, size, plan, curve, "" if curve[:, 1].min() <= highest else " (off the scale)")
    off = "" if np.isinf(highest) else "; far larger ones are off the scale"
    below = f"lower is better; {of_splits(results)}{off}"
    plain_ticks(axis.xaxis, plan.length_scales)
    axis.set(xlabel="length scale (logarithmic)", ylabel="negative log density per validation row")
    axis.legend(frameon=False, fontsize=9.5, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)
    title(axis, f"{DATA[data][0]}: validation scores of NPVI and its rivals at each length scale", below)
    return save(figure, folder / f"validation-{data.replace('_', '-')}.png")


def _draw_curve(axis: Any, method: str, size: int, plan: Plan, curve: np.ndarray, note: str) -> None:
    look, number, count = LOOKS[method], plan.sizes(method).index(size), len(plan.sizes(method))
    if method == "npvi":  # lines that lie on each other are still seen: the lighter, the larger
        colour, marker = shades(look.colour, count)[number], max(3, 9 - 2 * number)
        drawn: dict[str, Any] = {"color": colour, "markersize": marker, "linewidth": 2.0, "zorder": 3}
    else:
        style = _STYLES[(number + len(_STYLES) - count) % len(_STYLES)]
        drawn = {"color": look.colour, "linestyle": style, "markersize": 4, "linewidth": 1.3, "alpha": 0.55}
    axis.plot(*curve.T, marker=look.marker, label=f"{look.name}, {letter(method)} = {size}{note}", **drawn)


def _draw_choices(axis: Any, method: str, sizes: Sequence[int], offset: float, results: Results, data: str) -> None:
    look = LOOKS[method]
    for number, size in enumerate(sizes):
        chosen = [result["candidates"][result["chosen"]]["length_scale"] for result in results.get((method, size), [])]
        spread = 0.055 * (np.arange(len(chosen)) - 0.5 * (len(chosen) - 1))
        axis.scatter(number + offset + spread, chosen, color=look.colour, marker=look.marker, s=26, zorder=3)
        paper = LENGTH_SCALES.get("npvi-nn" if method == "gcn" else method, {}).get(size)
        if data == "bird_counts" and chosen and paper is not None:
            axis.scatter(
                number + offset, paper, marker=look.marker, s=150, facecolors="none", edgecolors=look.colour, zorder=4
            )


def _name_methods(axis: Any, methods: Sequence[str]) -> None:
    marks = {
        LOOKS[method].name.replace("\n", " "): {"marker": LOOKS[method].marker, "color": LOOKS[method].colour}
        for method in methods
    }
    key_to_marks(axis, marks, loc="upper center", ncols=2, bbox_to_anchor=(0.5, -0.16))


def _curve(found: list[dict[str, Any]]) -> np.ndarray:
    """Length scales and mean validation scores over the splits, of those that every split has."""
    by_length: dict[float, list[float]] = {}
    for result in found:
        for told in result["candidates"]:
            if told["validation"] is not None:
                by_length.setdefault(told["length_scale"], []).append(told["validation"])
    whole = [(length, float(np.mean(scores))) for length, scores in by_length.items() if len(scores) == len(found)]
    return np.array(sorted(whole)).reshape(-1, 2)
