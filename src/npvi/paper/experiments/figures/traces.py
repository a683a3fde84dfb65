"""Validation scores against training time, all methods on one axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments import speed
from npvi.paper.experiments.figures.stored import finished, letter
from npvi.paper.experiments.figures.style import LOOKS, canvas, limit, plain, plain_ticks, save, title
from npvi.paper.experiments.methods import RIVALS
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import DATA

__all__ = ["draw"]

#: numbers that an axis has room for
_TICKS = 10


def draw(store: Store, plan: Plan, folder: Path) -> Path | None:
    """The paper's figure of speed; None where nothing is stored."""
    found = finished(store, speed.cells(plan))
    if not found:
        return None
    figure = canvas(10.0, 5.2)
    axis = figure.subplots()
    plain(axis)
    axis.set_xscale("log")
    scores = np.concatenate([np.array(result["trace"])[:, 1] for _, result in found])
    highest = limit(axis, scores, [result["final"] for _, result in found])
    for cell, result in found:
        label = f"{LOOKS[cell.method].name}\n{letter(cell.method)} = {cell.size}, ℓ = {result['length_scale']:g}"
        if result["final"] > highest:
            label += f"\noff the scale: {result['final']:.3g}"
        _draw_trace(axis, cell.method, result, label)
    axis.legend(frameon=False, fontsize=9.5, loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.8)
    axis.set(xlabel="seconds of training (logarithmic)", ylabel="negative log density per validation row")
    _plain_seconds(axis)
    below = "lower is better; compiling is left out; ring: within 2 % of the final score"
    if any(result["out_of_time"] for _, result in found):
        below += "; cross: the time ended"
    name = DATA[speed.DATA][0]
    title(axis, f"{name}: validation score against training time", below)
    return save(figure, folder / "speed.png")


def _draw_trace(axis: Any, method: str, result: dict[str, Any], label: str) -> None:
    look = LOOKS[method]
    seconds, scores = np.array(result["trace"]).T
    seconds = np.maximum(seconds, 1e-3)
    few = len(seconds) <= 20
    some: dict[str, Any] = {"color": look.colour, "zorder": 2 if method in RIVALS else 3}
    marker = {"marker": look.marker, "markersize": 6.0, "markevery": 1 if few else [len(seconds) - 1]}
    axis.plot(seconds, scores, linewidth=1.8, label=label, **marker, **some)
    first = int(np.argmax(seconds >= result["seconds_to_final"]))
    axis.scatter(seconds[first], scores[first], s=130, facecolors="none", edgecolors=look.colour, zorder=4)
    if result["out_of_time"]:
        axis.scatter(seconds[-1], scores[-1], s=110, marker="x", color=look.colour, linewidths=1.8, zorder=4)


def _plain_seconds(axis: Any) -> None:
    """1, 2, 5, 10 … or, where there are too many of them, 1, 10, 100 …"""
    low, high = axis.get_xlim()
    for digits in ((1, 2, 5), (1,)):
        ticks = [digit * 10.0**power for power in range(-3, 7) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= _TICKS:
            break
    plain_ticks(axis.xaxis, ticks)
