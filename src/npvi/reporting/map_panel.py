"""The map of a report: layers that switch, observations over them, borders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.maps import borders, described, is_geographic, predict_grid
from npvi.maps.projections import transform
from npvi.predictive import Reach
from npvi.reporting.figures import Layer, colour_bar, figure, raster, short_name
from npvi.reporting.page import Choice, Panel, checkboxes, plain, plot, radios, text
from npvi.reporting.study import Study

__all__ = ["Observations", "map_panel", "observations_of"]

#: observations that are drawn one by one; more are averaged in cells
_MOST = 20_000
#: observations from which on their places are dots
_CIRCLES = 3000
#: cells along the longer side that observations are averaged in
_ACROSS = 80
#: bytes of all layers in the file
_BYTES = 5_000_000
#: of a number in base64
_NUMBER = 16.0 / 3.0

Vector = NDArray[np.float64]


def map_panel(study: Study) -> Panel | None:
    """The panel, or None where inputs are no places."""
    if study.places is None:
        return None
    mapped, covariates, box_of_map, said = study.on_map
    # of a wrapped model neither axes nor system are known
    axes, system = (study.places.axes, study.places.crs) if study.summed else (study.axes, study.crs)
    found = predict_grid(
        mapped, study.grid, list(study.quantiles), list(study.exceed), covariates, box_of_map, axes, system, **study.row
    )
    layers, box, beyond, kept = _layers(found, study)
    crs = _system(study, found)
    y_name, x_name = (str(dim) for dim in next(iter(found.data_vars.values())).dims)
    from bokeh.models import DataRange1d

    plotted = figure(x_name, y_name, dragged=True, match_aspect=True, aspect_scale=1.0 / _stretch(crs, box))
    shows, cover, mapper = raster(plotted, box, layers, beyond)
    checks: list[tuple[str, list[Any], bool]] = []
    lines = [] if crs is None else borders(box, crs)
    if lines:
        at = [line[:, 0] for line in lines], [line[:, 1] for line in lines]
        # dark on a light rim: to be seen on any colour
        rim = plotted.multi_line(*at, line_color="white", line_width=2.2, line_alpha=0.55)
        drawn = plotted.multi_line(*at, line_color="#39444f", line_width=0.9)
        checks.append(("borders and coasts", [rim, drawn], True))
    seen = observations_of(study)
    places = seen.on(study, found)
    marks = _draw(plotted, places, seen, mapper, study, found)
    if cover is not None:
        checks.append(("leave out what lies beyond the reach of the data", [cover], True))
    checks.insert(0, (seen.words, [marks["where"]], True))
    # of the cells alone: observations elsewhere, and borders, don't widen the map
    plotted.x_range, plotted.y_range = (DataRange1d(range_padding=0.0, renderers=[shows[0][0]]) for _ in range(2))
    choices = [Choice(layer.name, show) for layer, show in zip(layers, shows)]
    values = f"What was observed at each place ({study.unit_words}), in the colours of the {layers[0].name}."
    choices.append(Choice("observations", [marks["values"], shows[0][1]], values))
    if "residuals" in marks:
        words = (
            "Residuals: by how many standard deviations a response is above (orange) or below (blue) what was "
            f"predicted {_how(study)}. Without structure is right."
        )
        choices.append(Choice("residuals", [marks["residuals"], marks["bar"]], words))
    width = (box[2] - box[0]) / (box[3] - box[1]) / _stretch(crs, box)
    body = (
        '<p class="hint">Drag to move, use the magnifiers (or Ctrl and the wheel) to zoom; point at a cell for all '
        f"its numbers.</p>{radios('map-layer', 'Show', choices)}"
        f"{plot('map', 'map of what the model predicts', float(np.clip(width, 0.6, 2.6)), 130)}"
        f"{checkboxes('map-over', checks)}"
        f'<p class="caption">{text(_cells(found, kept), 400)}{text(said, 2000)}</p>'
    )
    small = [marks[name].id for name in ("where", "values", "residuals") if name in marks]
    return Panel("map-of-the-surface", "Map", body, {"map": plotted}, {"smaller": small})


def _cells(found: Any, kept: int) -> str:
    rows, columns = next(iter(found.data_vars.values())).shape
    words = f"{columns:,} × {rows:,} cells were predicted"
    if kept > 1:
        words += f"; every {kept}. column and row of them is drawn, to keep this file small"
    return f"{words}. Numbers are those of a cell's centre. "


def _how(study: Study) -> str:
    return "for test rows" if study.test is not None else "from all other rows"


def _layers(found: Any, study: Study) -> tuple[list[Layer], tuple[float, float, float, float], Any, int]:
    """Layers from the south to the north, the outer edges of their cells, which of these are beyond reach, and which
    part of rows and columns was kept."""
    unit = study.unit_words
    names = [
        str(name)
        for name in found.data_vars
        if name not in ("reach_distance", "prior_share", "label", "spatial_ref") and found[name].ndim == 2
    ]
    y_name, x_name = found[names[0]].dims
    x, y = found[x_name].to_numpy(), found[y_name].to_numpy()
    kept = 1
    while len(names) * _NUMBER * -(-len(x) // kept) * -(-len(y) // kept) > _BYTES:
        kept += 1
    some = slice(kept // 2, None, kept)
    x, y = x[some] if len(x) > kept else x[:1], y[some] if len(y) > kept else y[:1]
    across, up = (1 if x[-1] >= x[0] else -1), (1 if y[-1] >= y[0] else -1)

    def oriented(values: Any) -> Any:
        return np.asarray(values)[some, some][::up, ::across]

    layers = [
        Layer(short_name(name), described(name, unit), oriented(found[name].to_numpy()).astype(float)) for name in names
    ]
    reach = Reach(oriented(found["reach_distance"].to_numpy()), oriented(found["prior_share"].to_numpy()))
    edges = []
    for axis in (np.sort(x), np.sort(y)):
        half = 0.5 * (axis[-1] - axis[0]) / max(1, len(axis) - 1) if len(axis) > 1 else 0.5
        edges.append((float(axis[0] - half), float(axis[-1] + half)))
    (left, right), (bottom, top) = edges
    return layers, (left, bottom, right, top), reach.beyond, kept


def _stretch(crs: str | None, box: tuple[float, float, float, float]) -> float:
    """Of a unit of y beside one of x: a degree of longitude is shorter than one of latitude."""
    middle = 0.5 * (box[1] + box[3])
    degrees = crs is not None and is_geographic(crs)
    return 1.0 / float(np.cos(np.deg2rad(middle))) if degrees and abs(middle) < 85.0 else 1.0


def _system(study: Study, found: Any) -> str | None:
    """The coordinate system of the map."""
    assert study.places is not None
    if "spatial_ref" in found.coords:
        return str(found["spatial_ref"].attrs["crs_wkt"])
    return study.places.crs


class Observations:
    """Places with what was observed there: each row, or means of many.

    Attributes
    ----------
    X : (n, 2), in the model's system.
    value, residual : per unit of exposure; of the rows that were judged, NaN elsewhere.
    count : rows behind each.
    row : number of the row where it is one, else −1.
    words : for the legend.
    """

    def __init__(self, X: Vector, value: Vector, residual: Vector, rows: NDArray[np.int64]) -> None:
        total = len(X)
        self.row, self.count = rows, np.ones(total, dtype=np.int64)
        self.X, self.value, self.residual = X, value, residual
        self.words = f"{total:,} observations"
        if total <= _MOST:
            return
        low, high = X.min(axis=0), X.max(axis=0)
        size = max(float((high - low).max()) / _ACROSS, np.finfo(float).tiny)
        cells = np.floor((X - low) / size).astype(np.int64)
        _, cell = np.unique(cells[:, 0] * (_ACROSS + 2) + cells[:, 1], return_inverse=True)
        self.count = np.bincount(cell)
        self.X = np.column_stack([np.bincount(cell, X[:, axis]) / self.count for axis in range(2)])
        self.value = np.bincount(cell, value) / self.count
        known = np.isfinite(residual)
        behind = np.bincount(cell, known, minlength=len(self.count))
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = np.bincount(cell, np.where(known, residual, 0.0), minlength=len(self.count))
            self.residual = np.where(behind > 0, sums / behind, np.nan)
        self.row = np.full(len(self.count), -1)
        self.words = f"{total:,} observations, averaged in {len(self.count):,} cells"

    def on(self, study: Study, found: Any) -> Vector:
        """Where they are on a map."""
        assert study.places is not None
        system = _system(study, found)
        if study.places.crs is None or system is None:
            return self.X
        return np.column_stack(transform(self.X[:, 0], self.X[:, 1], study.places.crs, system))


def observations_of(study: Study) -> Observations:
    """The training rows; where the model was judged by test rows, residuals are those of the nearest places."""
    assert study.places is not None
    X = study.X[:, list(study.places.places)]
    residual = np.full(len(X), np.nan)
    judged = study.judged
    if judged is not None and not judged.tested:
        residual[judged.numbers] = judged.residuals
    return Observations(X, study.per_unit, residual, np.arange(len(X)))


def _draw(plotted: Any, places: Vector, seen: Observations, mapper: Any, study: Study, map_of: Any) -> dict[str, Any]:
    """Where they are; their values; their residuals and the bar of these colours."""
    from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper
    from bokeh.palettes import diverging_palette

    size = float(np.clip(260.0 / np.sqrt(len(places)), 3.0, 9.0))
    columns = {
        "x": places[:, 0],
        "y": places[:, 1],
        "value": seen.value,
        "residual": seen.residual,
        "row": seen.row,
        "count": seen.count,
    }
    source = ColumnDataSource(columns)
    found: dict[str, Any] = {}
    # circles while there is room for them, else fine dots
    look: dict[str, Any] = {"size": 0.7 * size, "fill_color": None, "line_color": "white", "line_alpha": 0.75}
    if len(places) > _CIRCLES:
        look = {"size": 1.6, "fill_color": "white", "fill_alpha": 0.5, "line_color": None}
    found["where"] = plotted.scatter("x", "y", source=source, line_width=1.0, **look)
    found["values"] = plotted.scatter(
        "x",
        "y",
        source=source,
        size=1.3 * size,
        line_color="#1c2733",
        line_width=0.4,
        fill_color={"field": "value", "transform": mapper},
        visible=False,
    )
    tips = [(plain(study.unit_words, 40), "@value{%.5g}")]
    many = bool(np.any(seen.count > 1))
    tips.append(("observations", "@count") if many else ("row", "@row"))
    hovered = [found["values"]]
    judged = study.judged
    if judged is not None and not judged.tested:
        at, residual, own = places, seen.residual, source
    elif judged is not None:
        of_test = Observations(study.tested_places, judged.y, judged.residuals, np.arange(len(judged.y)))
        at, residual = of_test.on(study, map_of), of_test.residual
        own = ColumnDataSource({"x": at[:, 0], "y": at[:, 1], "residual": residual, "value": of_test.value})
    else:
        at = np.empty((0, 2))
    if len(at):
        blues_to_oranges = diverging_palette(_shades("#1f5a8c"), _shades("#b35806"), 11, 0.5)
        scale = LinearColorMapper(blues_to_oranges, low=-3.0, high=3.0, nan_color="rgba(0, 0, 0, 0)")
        found["residuals"] = plotted.scatter(
            "x",
            "y",
            source=own,
            size=1.3 * size,
            line_color="#8b96a1",
            line_width=0.4,
            fill_color={"field": "residual", "transform": scale},
            visible=False,
        )
        found["bar"] = colour_bar(plotted, scale, "residual, in standard deviations")
        found["bar"].visible = False
        residual_tips = [("residual", "@residual{%.3g}"), (plain(study.unit_words, 40), "@value{%.5g}")]
        formats = {"@residual": "printf", "@value": "printf"}
        plotted.add_tools(HoverTool(renderers=[found["residuals"]], tooltips=residual_tips, formatters=formats))
    plotted.add_tools(HoverTool(renderers=hovered, tooltips=tips, formatters={"@value": "printf"}))
    return found


def _shades(colour: str) -> tuple[str, ...]:
    """From a colour to nearly white."""
    from bokeh.colors import RGB

    ends = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    steps = np.linspace(0.0, 0.92, 128)[:, None]
    return tuple(RGB(*row).to_hex() for row in np.rint(ends + steps * (255 - ends)).astype(int).tolist())
