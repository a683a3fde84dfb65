"""Who informs whom: an observation's parents in the graph, and the weights of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.priors import NNGP
from npvi.reporting.figures import INK, ORANGE, figure
from npvi.reporting.page import Panel, plot
from npvi.reporting.study import Study

__all__ = ["neighbourhood_panel"]

#: observations that can be chosen, and those that are drawn behind them
_CHOICES, _BEHIND = 150, 4000


def neighbourhood_panel(study: Study) -> Panel | None:
    """The panel, or None where the prior has no parents."""
    fitted = study.core.fitted_
    prior = getattr(fitted, "prior", None)
    if not isinstance(prior, NNGP):
        return None
    from bokeh.models import ColumnDataSource, HoverTool, TapTool

    graph = fitted.graph  # whose rows are the caller's
    where, labels = _positions(study)
    rng = np.random.default_rng(study.seed)
    # of those that come early, few others are known
    late = np.arange(min(graph.n_points - 1, 2 * graph.n_neighbors), graph.n_points)
    chosen = np.sort(rng.choice(late, min(_CHOICES, len(late)), replace=False))
    chosen = chosen[np.argsort(graph.order[chosen])]
    observations = [_one(graph, prior.conditional_mean_weights, where, int(position)) for position in chosen]
    settings: dict[str, Any] = {"match_aspect": True} if study.places is not None else {}
    if study.degrees:
        middle = float(np.median(where[:, 1]))
        settings["aspect_scale"] = float(np.cos(np.deg2rad(np.clip(middle, -80, 80))))
    plotted = figure(*labels, dragged=True, **settings)
    behind = where if len(where) <= _BEHIND else where[rng.choice(len(where), _BEHIND, replace=False)]
    plotted.scatter(behind[:, 0], behind[:, 1], size=3, fill_color="#aab4bf", line_color=None)
    candidates = ColumnDataSource({"x": where[graph.order[chosen], 0], "y": where[graph.order[chosen], 1]})
    plain = {"fill_color": "white", "line_color": INK, "size": 7}
    marks = plotted.scatter(
        "x", "y", source=candidates, nonselection_fill_alpha=1.0, nonselection_line_alpha=1.0, **plain
    )
    links = ColumnDataSource({name: [] for name in ("x0", "y0", "x1", "y1", "width", "colour", "weight", "row")})
    plotted.segment("x0", "y0", "x1", "y1", source=links, line_width="width", line_color="colour", line_alpha=0.75)
    parents = plotted.scatter("x1", "y1", source=links, size=8, fill_color="colour", line_color="white")
    own = ColumnDataSource({"x": [], "y": [], "row": []})
    plotted.scatter("x", "y", source=own, size=15, marker="star", fill_color="#c1272d", line_color="white")
    plotted.add_tools(
        TapTool(renderers=[marks]),
        HoverTool(renderers=[parents], tooltips=[("row", "@row"), ("weight", "@weight{0.000}")]),
    )
    options = "".join(
        f'<option value="{number}">row {one["row"]:,}</option>' for number, one in enumerate(observations)
    )
    body = (
        '<p class="hint">Before the data, the value of f at an observation (star) is a weighted sum of its values at '
        f"its <em>parents</em>, at most {graph.n_neighbors} near ones that come before it in the order, and something "
        "new. Early ones are far apart. Thick lines are large weights, blue ones positive and orange ones negative. "
        "Tap a circle for another observation. Rows are counted from 0.</p>"
        '<div class="chooser"><label for="neighbourhood-choice">Observation</label>'
        f'<select id="neighbourhood-choice">{options}</select>'
        '<button type="button" id="neighbourhood-before">previous</button>'
        '<button type="button" id="neighbourhood-after">next</button></div>'
        f"{plot('neighbourhood-plot', 'an observation and its parents', _ratio(where, study), 60)}"
        '<details><summary>Parents and their weights</summary><div class="wide"><table><thead><tr>'
        '<th class="number">row</th><th class="number">weight</th></tr></thead><tbody id="neighbourhood-rows"></tbody>'
        "</table></div></details>"
    )
    facts = {
        "observations": observations,
        "candidates": candidates.id,
        "links": links.id,
        "chosen": own.id,
        "positive": INK,
        "negative": ORANGE,
        "first": _telling(observations, where),
    }
    return Panel("neighbourhood", "Who informs whom", body, {"neighbourhood-plot": plotted}, {"neighbourhood": facts})


def _positions(study: Study) -> tuple[NDArray[np.float64], tuple[str, str]]:
    """Where rows are drawn: at their places, or by the first inputs of the process."""
    if study.places is not None:
        return study.X[:, list(study.places.places)], study.places.axes
    columns = study.core.fitted_.linear_part.coords
    X, names = study.inner
    if len(columns) == 1:
        return np.column_stack([X[:, columns[0]], study.per_unit]), (names[columns[0]], study.unit_words)
    return X[:, columns[:2]], (names[columns[0]], names[columns[1]])


def _telling(observations: list[dict[str, Any]], where: NDArray[np.float64]) -> int:
    """The observation whose parents can be told apart on a plot of all: they take about a quarter of it."""
    whole = max(float(np.ptp(where, axis=0).max()), 1e-300)
    extents = [max(np.ptp(one[axis]) for axis in ("x", "y")) if one["x"] else 0.0 for one in observations]
    return int(np.argmin(np.abs(np.array(extents) / whole - 0.25)))


def _ratio(where: NDArray[np.float64], study: Study) -> float:
    """Width over height of the plot."""
    if study.places is None:
        return 2.2
    width, height = np.ptp(where, axis=0)
    shorter = np.cos(np.deg2rad(np.clip(np.median(where[:, 1]), -80, 80))) if study.degrees else 1.0
    return float(np.clip(width * shorter / max(height, 1e-300), 0.7, 2.4))


def _one(graph: Any, weights: Any, where: NDArray[np.float64], position: int) -> dict[str, Any]:
    parents = graph.parents[position]
    kept = parents >= 0
    rows = graph.order[parents[kept]]
    own = weights[position][kept]
    order = np.argsort(-np.abs(own))
    digits = [float(f"{value:.4g}") for value in own[order]]
    row = int(graph.order[position])
    return {
        "row": row,
        "own": [float(value) for value in where[row]],
        "rows": [int(value) for value in rows[order]],
        "x": where[rows[order], 0].tolist(),
        "y": where[rows[order], 1].tolist(),
        "weights": digits,
    }
