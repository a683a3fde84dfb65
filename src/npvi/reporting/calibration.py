"""Do intervals hold what they promise, and what is left in the residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.diagnostics import Diagnosis
from npvi.reporting.figures import ALERT, INK, ORANGE, figure
from npvi.reporting.page import Panel, plot, table, text
from npvi.reporting.study import Study

__all__ = ["calibration_panel", "residuals_panel"]

#: most groups of rows with like predictions
_GROUPS = 20


def calibration_panel(study: Study) -> Panel | None:
    """The PIT and what intervals hold, with what a good one looks like; None where nothing was judged."""
    judged = study.judged
    if judged is None:
        return None
    promised = [f"{100 * level:.0f} %" for level in judged.coverage]
    held = [f"{100 * share:.1f} %" for share in judged.coverage.values()]
    words = (
        f"{len(judged.y):,} rows that the model hasn't seen"
        if judged.tested
        else f"{len(judged.y):,} rows of the data, each predicted from all others"
    )
    body = (
        f'<p class="hint">Judged by {text(words)}. <b>What a good one looks like:</b> bars on the left within the '
        "band, the line on the right on the diagonal. Bars high at both ends: intervals are too narrow; high in the "
        "middle: too wide; a slope: predictions are too high or too low.</p>"
        f'<div class="pair">{plot("pit", "histogram of the PIT", 1.5, 40)}'
        f"{plot('coverage', 'what intervals hold', 1.5, 40)}</div>"
        f"{table(['intervals of', *promised], [['hold', *held]], range(1, len(held) + 1))}"
    )
    return Panel("calibration", "Calibration", body, {"pit": _pit(judged), "coverage": _coverage(judged)})


def residuals_panel(study: Study) -> Panel | None:
    """Residuals by distance, and means beside responses."""
    judged = study.judged
    if judged is None:
        return None
    found = judged.correlogram
    plots: dict[str, Any] = {"means": _means(judged, study)}
    parts = [plot("means", "predicted means and responses", 1.5, 40)]
    if len(found):
        plots["correlogram"] = _correlogram(judged, judged.unit)
        parts.insert(0, plot("correlogram", "correlation of residuals by distance", 1.5, 40))
    body = (
        '<p class="hint">Residuals are normal scores: by how many standard deviations a response is above or below '
        "what was predicted. <b>What a good one looks like:</b> on the left, correlations near 0 at all distances "
        "(bars: two standard errors), else the model has missed structure at that distance. On the right, means of "
        "groups of rows with like predictions (bars: two standard errors) on the line.</p>"
        f'<div class="pair">{"".join(parts)}</div>'
    )
    return Panel("residuals", "What is left", body, plots)


def _pit(judged: Diagnosis) -> Any:
    bins = int(np.clip(len(judged.pit) // 20, 5, 20))
    heights, edges = np.histogram(judged.pit, bins=bins, range=(0.0, 1.0), density=True)
    error = 2.0 * np.sqrt((bins - 1) / len(judged.pit))
    found = figure("where responses fall in their distribution (PIT)", "density", x_range=(0.0, 1.0))
    found.quad(left=edges[:-1], right=edges[1:], bottom=0.0, top=heights, fill_color="#6f9fc4", line_color="white")
    found.varea([0.0, 1.0], [1.0 - error] * 2, [1.0 + error] * 2, fill_color=ORANGE, fill_alpha=0.3)
    found.line([0.0, 1.0], [1.0, 1.0], line_color=ALERT, line_dash="dashed")
    found.y_range.start = 0.0
    return found


def _coverage(judged: Diagnosis) -> Any:
    levels = np.linspace(0.0, 1.0, 101)
    distance = np.sort(np.abs(judged.pit - 0.5))
    held = np.searchsorted(distance, 0.5 * levels, side="right") / len(distance)
    error = 2.0 * np.sqrt(levels * (1.0 - levels) / len(judged.pit))
    found = figure("intervals of … %", "hold … % of the responses", x_range=(0.0, 100.0), y_range=(0.0, 100.0))
    found.varea(100 * levels, 100 * (levels - error), 100 * (levels + error), fill_color=ORANGE, fill_alpha=0.3)
    found.line([0.0, 100.0], [0.0, 100.0], line_color=ALERT, line_dash="dashed")
    found.line(100 * levels, 100 * held, line_color=INK, line_width=2.5)
    return found


def _correlogram(judged: Diagnosis, unit: str) -> Any:
    table = judged.correlogram
    shown = table.distance.copy()
    if shown[0] == 0.0:
        shown[0] = 0.5 * shown[1] if len(shown) > 1 else 1.0  # a place for 0 on a logarithmic axis
    ends = np.abs(table.correlation) + 2.0 * table.error
    limit = float(min(1.05, max(0.2, 1.1 * np.max(ends))))
    settings: dict[str, Any] = {"x_axis_type": "log", "y_range": (-limit, limit)}
    found = figure(f"distance between rows ({unit})", "correlation of residuals", **settings)
    found.xaxis.ticker.desired_num_ticks = 4
    found.line([shown.min() * 0.7, shown.max() * 1.4], [0.0, 0.0], line_color="#5b6875", line_dash="dashed")
    if shown.min() < judged.range.distance < shown.max():
        from bokeh.models import Label, Span

        far = judged.range.distance
        found.add_layout(Span(location=far, dimension="height", line_color=ORANGE, line_dash="dotted", line_width=2))
        found.add_layout(
            Label(
                x=far, y=-0.97 * limit, text="range of the kernel", text_font_size="12px", x_offset=4, text_color=ALERT
            )
        )
    found.segment(
        shown, table.correlation - 2.0 * table.error, shown, table.correlation + 2.0 * table.error, line_color=INK
    )
    found.line(shown, table.correlation, line_color=INK, line_alpha=0.5)
    found.scatter(shown, table.correlation, size=7, fill_color=INK, line_color="white")
    return found


def _means(judged: Diagnosis, study: Study) -> Any:
    """Rows in groups of like predictions: what was predicted and what was seen, on average."""
    order = np.argsort(judged.mean, kind="stable")
    groups = np.array_split(order, int(np.clip(len(order) // 25, 2, _GROUPS)))
    mean, seen = (np.array([values[rows].mean() for rows in groups]) for values in (judged.mean, judged.y))
    error = np.array([judged.y[rows].std() / np.sqrt(max(1, len(rows) - 1)) for rows in groups])
    low, high = seen - 2.0 * error, seen + 2.0 * error
    settings: dict[str, Any] = {}
    if mean[0] > 0.0 and mean[-1] > 50.0 * mean[0] and np.all(judged.y >= 0.0):
        settings = {"x_axis_type": "log", "y_axis_type": "log"}
        shown = seen > 0.0  # others have no place on a logarithmic axis
        mean, seen, low, high = mean[shown], seen[shown], low[shown], high[shown]
        low = np.maximum(low, 0.2 * seen)
    found = figure("predicted mean", "observed mean", **settings)
    ends = [float(min(mean.min(), seen.min())), float(max(mean.max(), seen.max()))] if len(mean) else [0.0, 1.0]
    found.line(ends, ends, line_color=ALERT, line_dash="dashed")
    found.segment(mean, low, mean, high, line_color=INK)
    found.scatter(mean, seen, size=7, fill_color=INK, line_color="white")
    return found
