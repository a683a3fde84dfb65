"""Effects and slices, where inputs are not places: what each input does, and pairs of them with the others held."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.maps import described, surfaces
from npvi.reporting.figures import INK, SOFT, Layer, figure, raster, short_name
from npvi.reporting.page import Choice, Panel, plain, plot, radios, text
from npvi.reporting.study import Study
from npvi.reporting.summed import effects_of_terms

__all__ = ["effects_panel", "slices_panel"]

#: values of an input that its effect is found at, rows that this is averaged over, and inputs that are shown
_STEPS, _ROWS, _INPUTS = 40, 100, 12
#: cells along each side of a slice, and inputs whose pairs have one
_SIDE, _PAIRED = 80, 3
#: share of the values that are beyond either end of an axis
_BEYOND = 0.01
#: observations behind a curve
_POINTS = 2000

Vector = NDArray[np.float64]


def effects_panel(study: Study) -> Panel | None:
    """How the predicted mean moves with each input that is no place on a map; None where all are."""
    if study.summed:
        return effects_of_terms(study)
    columns = list(range(study.X.shape[1]))
    if study.places is not None:
        columns = [column for column in columns if column not in study.places.places]
    if not columns or study.several:
        return None
    columns = columns[:_INPUTS]
    rng = np.random.default_rng(study.seed)
    some = study.X[rng.choice(len(study.X), min(_ROWS, len(study.X)), replace=False)]
    single = study.X.shape[1] == 1
    plots, places = {}, []
    for column in columns:
        key = f"effect-{column}"
        plots[key] = _curve(study, column) if single else _effect(study, column, some)
        ratio = 2.2 if single else 1.7
        places.append(plot(key, f"effect of input {study.names[column]}", ratio, 40))
    inside = places[0] if single else f'<div class="pair">{"".join(places)}</div>'
    if single:
        words = (
            "The line is the mean of a new response, the band holds 90 % of new responses. Dots are observations"
            f"{', a sample of them' if len(study.X) > _POINTS else ''}."
        )
    else:
        words = (
            f"How the predicted mean moves when one input does and all others stay as they are, averaged over "
            f"{len(some):,} rows of the data (line). The band holds the middle 90 % of these rows: where it is wide, "
            "the effect depends on the other inputs. Ticks are values that were observed."
        )
    left = study.X.shape[1] - len(columns) - (2 if study.places is not None else 0)
    more = f" {left} more inputs aren't shown." if left > 0 else ""
    return Panel("effects", "Effects", f'<p class="hint">{text(words + more, 600)}</p>{inside}', plots)


def slices_panel(study: Study) -> Panel | None:
    """Two inputs at a time, all others at their medians; None with a map, or a single input."""
    if study.summed or study.places is not None or study.X.shape[1] < 2 or study.several:
        return None
    rng = np.random.default_rng(study.seed)
    some = study.X[rng.choice(len(study.X), min(_ROWS, len(study.X)), replace=False)]
    moves = [float(np.ptp(_averages(study, column, some)[1].mean(axis=1))) for column in range(study.X.shape[1])]
    chosen = sorted(np.argsort(moves)[::-1][:_PAIRED].tolist())
    plots, parts = {}, []
    for first, second in combinations(chosen, 2):
        key = f"slice-{first}-{second}"
        drawn, choices = _slice(study, first, second)
        plots[key] = drawn
        heading = f"{plain(study.names[first], 60)} and {plain(study.names[second], 60)}"
        buttons = radios(f"{key}-layer", "Show", choices)
        ratio = 2.0 if len(chosen) == 2 else 1.5
        parts.append(f"<div><h3>{text(heading)}</h3>{buttons}{plot(key, f'slice: {heading}', ratio, 110)}</div>")
    how = "" if study.X.shape[1] == 2 else ", all others at their medians"
    best = " Of all inputs those are shown whose effects are largest." if study.X.shape[1] > _PAIRED else ""
    words = f"What the model predicts for two inputs at a time{how}. Dots are observations.{best}"
    inside = parts[0] if len(parts) == 1 else f'<div class="pair">{"".join(parts)}</div>'
    return Panel("slices", "Slices", f'<p class="hint">{text(words, 600)}</p>{inside}', plots)


def _ends(values: Vector) -> tuple[float, float]:
    low, high = (float(end) for end in np.quantile(values, [_BEYOND, 1.0 - _BEYOND]))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _averages(study: Study, column: int, some: Vector) -> tuple[Vector, Vector]:
    """Values of an input, and the predicted means of all rows of `some` there, (values, rows)."""
    values = np.linspace(*_ends(study.X[:, column]), _STEPS)
    rows = np.tile(some, (_STEPS, 1))
    rows[:, column] = np.repeat(values, len(some))
    return values, study.predict(rows).mean.reshape(_STEPS, len(some))


def _effect(study: Study, column: int, some: Vector) -> Any:
    values, means = _averages(study, column, some)
    found = figure(study.names[column], study.unit_words)
    low, high = np.quantile(means, [0.05, 0.95], axis=1)
    found.varea(values, low, high, fill_color=SOFT, fill_alpha=0.7)
    found.line(values, means.mean(axis=1), line_color=INK, line_width=2.5)
    seen = np.unique(study.X[:, column])
    seen = seen[(seen >= values[0]) & (seen <= values[-1])]
    seen = seen[:: max(1, len(seen) // 200)]
    bottom = float(low.min() - 0.04 * max(np.ptp(means), 1e-12))
    found.scatter(seen, np.full(len(seen), bottom), marker="dash", angle=np.pi / 2, size=7, line_color="#5b6875")
    return found


def _curve(study: Study, column: int) -> Any:
    """Of a single input: mean, interval and data."""
    values = np.linspace(study.X.min(), study.X.max(), 300)
    dist = study.predict(values[:, None])
    found = figure(study.names[column], study.unit_words)
    if study.classes is None:
        low, high = dist.interval(0.9)
        found.varea(values, low, high, fill_color=SOFT, fill_alpha=0.8)
    rows = np.random.default_rng(study.seed).permutation(len(study.X))[:_POINTS]
    x, y = study.X[rows, 0], study.per_unit[rows]
    found.scatter(x, y, size=4, line_color=None, fill_color="#3d4a57", fill_alpha=0.45)
    found.line(values, dist.mean, line_color=INK, line_width=2.5)
    return found


def _slice(study: Study, first: int, second: int) -> tuple[Any, list[Choice]]:
    middle = np.median(study.X, axis=0)
    axes = []
    for column in (first, second):
        low, high = _ends(study.X[:, column])
        step = (high - low) / _SIDE
        axes.append((low, high, low + step * (np.arange(_SIDE) + 0.5)))
    rows = np.tile(middle, (_SIDE * _SIDE, 1))
    rows[:, first] = np.tile(axes[0][2], _SIDE)
    rows[:, second] = np.repeat(axes[1][2], _SIDE)
    shown = surfaces(study.predict(rows), study.quantiles, study.exceed, study.classes)
    layers = [
        Layer(
            short_name(name), described(name, study.unit_words), np.asarray(values, dtype=float).reshape(_SIDE, _SIDE)
        )
        for name, values in shown.items()
        if name not in ("label", "probability", "reach_distance", "prior_share")
    ]
    found = figure(study.names[first], study.names[second], dragged=True)
    box = (axes[0][0], axes[1][0], axes[0][1], axes[1][1])
    shows, _, _ = raster(found, box, layers)
    some = np.random.default_rng(study.seed).permutation(len(study.X))[:_POINTS]
    x, y = study.X[some, first], study.X[some, second]
    inside = (x >= box[0]) & (x <= box[2]) & (y >= box[1]) & (y <= box[3])
    found.scatter(x[inside], y[inside], size=3.5, fill_color=None, line_color="white", line_alpha=0.6)
    found.x_range.range_padding = found.y_range.range_padding = 0.0
    return found, [Choice(layer.name, show) for layer, show in zip(layers, shows)]
