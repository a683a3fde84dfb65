"""How much test scores depend on the order of the training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments import ordering
from npvi.paper.experiments.figures.groups import name_groups, places_of
from npvi.paper.experiments.figures.stored import Number, by_number
from npvi.paper.experiments.figures.style import LOOKS, canvas, plain, save, title
from npvi.paper.experiments.paper import ORDER_DEVIATION
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store

__all__ = ["draw"]

Scores = dict[Number, list[float]]


def draw(store: Store, plan: Plan, folder: Path) -> Path | None:
    """A row per kernel, a mark per order; None where nothing is stored."""
    found = [(kernel, scores) for kernel in ordering.KERNELS if (scores := _scores(store, plan, kernel))]
    if not found:
        return None
    rows = [_panels(scores) for _, scores in found]
    figure = canvas(10.0, 0.9 + 3.7 * len(rows))
    grid = figure.add_gridspec(len(rows), max(map(len, rows)), width_ratios=[3, 1][: max(map(len, rows))])
    for number, ((kernel, _), panels) in enumerate(zip(found, rows)):
        for column, scores in enumerate(panels):
            axis = figure.add_subplot(grid[number, column])
            _draw_panel(axis, scores)
            if scores is panels[0]:
                title(axis, "Length scale {:g}, variance {:g}, nugget {:g}".format(*kernel))
                axis.set_ylabel("test score, less its mean")
            else:
                title(axis, "", "on another scale")
    heading = f"Bird counts: how test scores differ between {plan.n_orders} random orders of the training rows"
    figure.suptitle(heading, fontsize=13, fontweight="bold", x=0.01, ha="left")
    note = (
        "numbers: standard deviation over orders, and the mean score (negative log density); grey: "
        f"± {ORDER_DEVIATION:g}, the paper's standard deviation for NPVI-NN"
    )
    figure.supxlabel(note, fontsize=9.5, color="0.35", x=0.01, ha="left")
    return save(figure, folder / "ordering.png")


def _scores(store: Store, plan: Plan, kernel: tuple[float, float, float]) -> Scores:
    """Those of all orders, by method and K, for one kernel."""
    found = by_number(store, (cell for cell in ordering.cells(plan) if ordering.kernel_of(cell) == kernel))
    return {key: [result["test"] for result in results] for key, results in found.items()}


def _panels(scores: Scores) -> list[Scores]:
    """Trained networks apart from the others, whose spread could not be seen beside theirs."""
    closed = {key: values for key, values in scores.items() if key[0] != "gcn"}
    trained = {key: values for key, values in scores.items() if key[0] == "gcn"}
    return [panel for panel in (closed, trained) if panel]


def _draw_panel(axis: Any, scores: Scores) -> None:
    plain(axis)
    places = places_of(list(scores))
    axis.axhspan(-ORDER_DEVIATION, ORDER_DEVIATION, color="0.92", zorder=0)
    widest = ORDER_DEVIATION
    for key, place in places.items():
        values = np.array(scores[key])
        apart = values - values.mean()
        widest = max(widest, float(np.abs(apart).max()))
        look = LOOKS[key[0]]
        aside = np.linspace(-0.22, 0.22, len(values))
        axis.scatter(place + aside, apart, color=look.colour, marker=look.marker, s=20, linewidths=0, alpha=0.85)
    axis.set_ylim(-1.25 * widest, 1.6 * widest)
    for key, place in places.items():
        values = np.array(scores[key])
        spread = f"{values.std(ddof=1):.3f}\n" if len(values) > 1 else ""
        axis.annotate(
            f"{spread}({values.mean():.2f})",
            (place, 1.0),
            (0, -2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=9,
            color=LOOKS[key[0]].colour,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    name_groups(axis, places)
