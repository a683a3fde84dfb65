"""Test scores of every method on one data set, the paper's beside them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments.figures.groups import name_groups, places_of
from npvi.paper.experiments.figures.stored import Number, Results, by_number, of_splits
from npvi.paper.experiments.figures.style import LOOKS, canvas, key_to_marks, plain, save, title, top
from npvi.paper.experiments.paper import published
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import DATA, table_cells

__all__ = ["draw"]

#: from one mark of a size to the next, where one size is 1 from the next
_ASIDE = 0.27


def draw(store: Store, plan: Plan, data: str, folder: Path) -> Path | None:
    """Both tables of a data set as one figure; None where nothing is stored."""
    tables = {experiment: by_number(store, table_cells(plan, data, experiment)) for experiment in ("paper", "tuned")}
    places = places_of([key for results in tables.values() for key in results])
    if not places:
        return None
    figure = canvas(10.0, 5.0)
    axis = figure.subplots()
    plain(axis)
    for key, place in places.items():
        _draw_published(axis, place, key, data)
        for experiment, results in tables.items():
            if key in results:
                _draw_ours(axis, place, key[0], results[key], experiment)
    _limit(axis, places, data, tables)
    name_groups(axis, places)
    marks: dict[str, dict[str, Any]] = {
        "the paper's": {"fillstyle": "none"},
        "ours, length scale chosen on validation rows": {},
        "ours, variance and nugget chosen too": {"markersize": 4.5, "alpha": 0.6},
    }
    there = marks if tables["tuned"] else dict(list(marks.items())[:2])
    key_to_marks(axis, there, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.0)
    axis.set_ylabel("negative log density per test row")
    below = f"lower is better; {of_splits(*tables.values()).replace('mean', 'mean and standard error')}"
    if any(map(_was_cut, (*tables["paper"].values(), *tables["tuned"].values()))):
        below += "; †: the time ended"
    title(axis, f"{DATA[data][0]}: test scores of all methods", below)
    return save(figure, folder / f"scores-{data.replace('_', '-')}.png")


def _mean(results: list[dict[str, Any]]) -> float:
    return float(np.mean([result["test"] for result in results]))


def _was_cut(results: list[dict[str, Any]]) -> bool:
    return any(result["out_of_time"] for result in results)


def _draw_ours(axis: Any, place: float, method: str, results: list[dict[str, Any]], experiment: str) -> None:
    scores = [result["test"] for result in results]
    error = np.std(scores, ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None
    look, first = LOOKS[method], experiment == "paper"
    place += 0.0 if first else _ASIDE
    drawn: dict[str, Any] = {"markersize": 7} if first else {"markersize": 4.5, "alpha": 0.6}
    axis.errorbar(place, _mean(results), error, color=look.colour, marker=look.marker, capsize=2.5, **drawn)
    if _was_cut(results):
        aside = (5 if first else 3, 1)
        dagger: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "annotation_clip": True}
        axis.annotate("†", (place, _mean(results)), aside, color=look.colour, **dagger)


def _draw_published(axis: Any, place: float, key: Number, data: str) -> None:
    paper, look = published(data, *key), LOOKS[key[0]]
    if paper is not None:
        drawn: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markerfacecolor": "white"}
        axis.errorbar(place - _ASIDE, paper.nlpd, paper.error, markersize=6.5, linewidth=1.0, capsize=2.5, **drawn)


def _limit(axis: Any, places: dict[Number, float], data: str, tables: dict[str, Results]) -> None:
    """Leave out what is far above the rest, and write its score at the edge."""
    ours = [(key, experiment, _mean(found)) for experiment in tables for key, found in tables[experiment].items()]
    theirs = [paper.nlpd for key in places if (paper := published(data, *key)) is not None]
    every = [*(score for _, _, score in ours), *theirs]
    highest = top(every)
    if highest is None:
        return
    axis.set_ylim(min(every) - 0.08 * (highest - min(every)), highest)
    for (method, size), experiment, score in ours:
        if score > highest:
            place = places[method, size] + (0.0 if experiment == "paper" else 1.3 * _ASIDE)
            written: dict[str, Any] = {"ha": "center", "va": "top", "rotation": 90, "color": LOOKS[method].colour}
            axis.annotate(
                f"{score:.3g} →", (place, highest), (0, -3), textcoords="offset points", fontsize=8.5, **written
            )
