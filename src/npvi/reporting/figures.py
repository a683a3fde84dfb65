"""What the plots of a report have in common: how they look, and rasters that switch between layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.reporting.page import plain
from npvi.runtime.extras import needed

__all__ = ["ALERT", "INK", "ORANGE", "SOFT", "Layer", "colour_bar", "colours_of", "figure", "raster", "short_name"]

INK, SOFT, ALERT, ORANGE = "#1f5a8c", "#c9d8e6", "#a8431f", "#d9822b"
#: share of values that is beyond either end of the colours
_CLIPPED = 0.005
#: from which range on, largest over smallest, positive numbers have a logarithmic scale
_WIDE = 20.0


@dataclass(frozen=True)
class Layer:
    """One surface: its name, what it is in words, and its values, (rows, columns) from the south to the north."""

    name: str
    words: str
    values: NDArray[np.float64]


def figure(x_label: str, y_label: str, dragged: bool = False, **settings: Any) -> Any:
    """An empty plot in the report's style; only where it is `dragged` does a finger on it not scroll the page."""
    needed("bokeh", "report", "reports")
    from bokeh.models import PlainText
    from bokeh.plotting import figure as bokeh_figure

    tools = "pan,zoom_in,zoom_out,reset,save" if dragged else "save"
    found = bokeh_figure(
        sizing_mode="stretch_both", tools=tools, active_drag="pan" if dragged else None, min_width=200, **settings
    )
    if dragged:
        from bokeh.models import WheelZoomTool

        found.add_tools(WheelZoomTool(modifiers={"ctrl": True}))
        found.toolbar.active_scroll = found.tools[-1]
    found.toolbar.logo = None
    found.toolbar.autohide = not dragged
    found.toolbar_location = "above" if dragged else "right"
    found.outline_line_color = None
    found.background_fill_color = None
    found.border_fill_color = None
    for axes, label in ((found.xaxis, x_label), (found.yaxis, y_label)):
        axes.axis_label = PlainText(text=plain(label, 60))
        axes.axis_label_text_font_style = "normal"
        axes.axis_label_text_font_size = "13px"
        axes.major_label_text_font_size = "12px"
        axes.axis_line_color = "#9aa6b2"
        axes.major_tick_line_color = "#9aa6b2"
        axes.minor_tick_line_color = None
        axes.axis_label_text_color = axes.major_label_text_color = "#3d4a57"
    if dragged:
        found.axis.formatter.use_scientific = False  # coordinates of millions of metres
    found.grid.grid_line_color = None if dragged else "#e7ebef"
    return found


def colours_of(name: str, values: NDArray[np.float64]) -> Any:
    """Colours that the colour-blind can read, from the dark to the light; single outliers don't decide on the ends."""
    from bokeh.models import LinearColorMapper, LogColorMapper
    from bokeh.palettes import Cividis256, Magma256, Viridis256

    known = values[np.isfinite(values)]
    if name.startswith(("P(>", "p_", "probability")):
        return LinearColorMapper(Cividis256, low=0.0, high=1.0, nan_color="rgba(0, 0, 0, 0)")
    low, high = (float(end) for end in np.quantile(known, [_CLIPPED, 1.0 - _CLIPPED])) if len(known) else (0.0, 1.0)
    palette = Magma256 if name == "sd" else Viridis256
    if low > 0.0 and high > _WIDE * low:
        return LogColorMapper(palette, low=low, high=high, nan_color="rgba(0, 0, 0, 0)")
    low = 0.0 if name == "sd" else low
    return LinearColorMapper(palette, low=low, high=high if high > low else low + 1.0, nan_color="rgba(0, 0, 0, 0)")


def raster(
    found: Any, box: tuple[float, float, float, float], layers: Sequence[Layer], hide: NDArray[np.bool_] | None = None
) -> tuple[list[list[Any]], Any, Any]:
    """Draw layers over each other into a figure, of which the first is visible.

    Parameters
    ----------
    box : left, bottom, right, top of the outer cells' edges.
    hide : (rows, columns) cells to cover.

    Returns
    -------
    per layer the models that show it; what covers the cells, or None; the mapper of the first layer's colours.
    """
    from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper

    left, bottom, right, top = box
    # keys of our own: names may hold whatever a user's columns and thresholds do
    keys = [f"v{number}" for number in range(len(layers))]
    source = ColumnDataSource({key: [layer.values.astype(np.float32)] for key, layer in zip(keys, layers)})
    where = {"x": left, "y": bottom, "dw": right - left, "dh": top - bottom}
    shows, first = [], None
    for number, (key, layer) in enumerate(zip(keys, layers)):
        mapper = colours_of(layer.name, layer.values)
        first = mapper if first is None else first
        image = found.image(image=key, source=source, color_mapper=mapper, level="image", **where)
        bar = colour_bar(found, mapper, layer.words)
        image.visible = bar.visible = number == 0
        shows.append([image, bar])
    cover = None
    if hide is not None and hide.any():
        veil = LinearColorMapper(["rgba(0, 0, 0, 0)", "#eceff2"], low=0, high=1)
        cover = found.image(image=[hide.astype(np.uint8)], color_mapper=veil, level="image", **where)
    tips = [("x", "$x{0.000}"), ("y", "$y{0.000}")]
    tips += [(plain(layer.name, 40), f"@{key}{{%.5g}}") for key, layer in zip(keys, layers)]
    # every layer has all numbers: that of the one which is visible answers
    formatters = {f"@{key}": "printf" for key in keys}
    found.add_tools(HoverTool(renderers=[one[0] for one in shows], tooltips=tips, formatters=formatters))
    return shows, cover, first


def colour_bar(found: Any, mapper: Any, words: str) -> Any:
    """What the colours of a figure mean, below it; with plain numbers on a logarithmic scale."""
    from bokeh.models import ColorBar, FixedTicker, LogColorMapper, PlainText, PrintfTickFormatter

    scale: dict[str, Any] = {}
    if isinstance(mapper, LogColorMapper):
        digits = (1, 2, 5) if mapper.high < 200.0 * mapper.low else (1,)
        powers = range(int(np.floor(np.log10(mapper.low))), int(np.ceil(np.log10(mapper.high))) + 1)
        ticks = [
            tick for power in powers for digit in digits if mapper.low <= (tick := digit * 10.0**power) <= mapper.high
        ]
        scale = {"ticker": FixedTicker(ticks=ticks), "formatter": PrintfTickFormatter(format="%g")}
    bar = ColorBar(
        color_mapper=mapper,
        title=PlainText(text=plain(words, 70)),
        title_text_font_style="normal",
        title_text_font_size="12px",
        orientation="horizontal",
        height=12,
        padding=4,
        major_label_text_font_size="12px",
        **scale,
    )
    found.add_layout(bar, "below")
    return bar


def short_name(name: str) -> str:
    """A surface's name as a button has it.

    >>> short_name("exceed_5"), short_name("q95"), short_name("std")
    ('P(> 5)', '95 % quantile', 'sd')
    """
    if name.startswith("exceed_"):
        return f"P(> {name.removeprefix('exceed_')})"
    if name[0] == "q" and name[1:2].isdigit():
        return f"{name[1:]} % quantile"
    return {"std": "sd"}.get(name, name)
