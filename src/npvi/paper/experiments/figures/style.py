"""How all figures look: one colour and one marker per method, plain axes, titles that say what is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npvi.runtime.files import replacing

__all__ = ["LOOKS", "Look", "canvas", "key_to_marks", "limit", "plain", "plain_ticks", "save", "shades", "title", "top"]

#: of a figure, and of a small legend or note in it
_DPI, _SMALL = 150, 9.5
#: an axis that is so many times as long as what most values need is cut
_FAR = 6.0


@dataclass(frozen=True)
class Look:
    """How a method is called where there is little room, and how it is drawn.

    >>> LOOKS["npvi-nn"].name
    'NPVI-NN'
    """

    name: str
    colour: str
    marker: str


#: the palette of Okabe and Ito, which colour-blind readers can tell apart: warm for rivals, cool for ours
LOOKS = {
    "svgp": Look("SVGP", "#d55e00", "v"),
    "savigp": Look("SAVIGP", "#e69f00", "^"),
    "dgp": Look("DGP", "#cc79a7", "s"),
    "npvi": Look("NPVI", "#0072b2", "o"),
    "npvi-nn": Look("NPVI-NN", "#009e73", "D"),
    "gcn": Look("NPVI-NN\nas published", "#56b4e9", "P"),
    "npvi-sgd": Look("NPVI\nby AdaGrad", "#8a8a3c", "X"),
    "full": Look("full", "#222222", "p"),
}


def shades(colour: str, count: int) -> list[str]:
    """So many versions of a colour, from light to dark.

    >>> shades("#0072b2", 1), shades("#0072b2", 3)
    (['#0072b2'], ['#8cc0dc', '#0072b2', '#004a74'])
    """
    from matplotlib.colors import to_hex, to_rgb

    pure, white = np.array(to_rgb(colour)), np.ones(3)
    steps = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
    mixed = [pure - 0.55 * step * (white - pure) if step < 0.0 else (1.0 - 0.35 * step) * pure for step in steps]
    return [to_hex(tuple(rgb)) for rgb in mixed]


def canvas(width: float, height: float) -> Any:
    """An empty figure of so many inches, which needs no display and touches nothing global."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", rect=(0.008, 0.01, 0.984, 0.98))  # or text touches the edge
    return figure


def title(axis: Any, text: str, below: str = "") -> None:
    """A bold line above an axis, and a smaller one that says how to read it."""
    axis.set_title(text, loc="left", fontsize=12, fontweight="bold", pad=10 + 14 * (below.count("\n") + bool(below)))
    axis.annotate(
        below, (0.0, 1.0), (0, 7), xycoords="axes fraction", textcoords="offset points", fontsize=_SMALL, color="0.35"
    )


def plain(axis: Any) -> None:
    """No box around, and light lines to read values by."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)


def plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """These numbers on the x or y axis, written as people write them."""
    axis.set_ticks(values, labels=[f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def key_to_marks(axis: Any, marks: dict[str, dict[str, Any]], **settings: Any) -> None:
    """A legend of grey marks, for what is the same with every method."""
    from matplotlib.lines import Line2D

    common: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": "0.35", "markersize": 7}
    lines = [Line2D([], [], label=label, **{**common, **mark}) for label, mark in marks.items()]
    axis.legend(handles=lines, frameon=False, fontsize=_SMALL, **settings)


def top(values: ArrayLike) -> float | None:
    """Where to cut an axis, so that at most a quarter of the values doesn't flatten all others; None: nowhere.

    >>> top([1.0, 1.1, 1.2, 3.0, 3.0]) is None
    True
    >>> round(top([1.0, 1.1, 1.2, 1.3, 90.0]), 2)
    1.6
    """
    lowest, highest = np.min(values), np.max(values)
    upper = np.quantile(np.asarray(values, dtype=np.float64), 0.75, method="higher")
    return float(2.0 * upper - lowest) if highest - lowest > _FAR * (upper - lowest) > 0.0 else None


def limit(axis: Any, values: ArrayLike, finals: ArrayLike) -> float:
    """Let an axis show where lines end, not how far away they start; what is above the number returned isn't seen."""
    lowest, end = float(np.min(values)), top(finals) or float(np.max(finals))
    highest = end + 0.4 * (end - lowest)
    if np.max(values) <= highest or end <= lowest:
        return np.inf
    axis.set_ylim(lowest - 0.06 * (highest - lowest), highest)
    return highest


def save(figure: Any, path: Path) -> Path:
    """Write a PNG, whole or not at all."""
    with replacing(path) as file:
        figure.savefig(file, format="png")
    return path
