"""The picture of a diagnosis."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npvi.diagnostics.diagnosis import Diagnosis

__all__ = ["draw", "format_of"]

_ALERT = "#b5402a"


def draw(found: Diagnosis) -> Any:
    """Coverage, PIT and residual correlation, observed against predicted, a map of residuals, warnings below; a
    matplotlib Figure."""
    # the classes behind pyplot: nothing global is touched, and no display is needed
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from npvi.plot import calibration, residuals

    sentences = [textwrap.fill(f"• {sentence}", 150, subsequent_indent="   ") for sentence in found.warnings]
    lines = sum(sentence.count("\n") + 1 for sentence in sentences)
    foot = 0.25 + 0.18 * lines if sentences else 0.0  # inches
    height = 8.6 + foot
    figure = Figure(figsize=(13.0, height), dpi=120)
    FigureCanvasAgg(figure)
    rect = (0.005, foot / height, 0.99, 0.99 - foot / height)
    figure.set_layout_engine("constrained", rect=rect, wspace=0.06, hspace=0.06)
    cells = figure.add_gridspec(2, 6)
    above = [figure.add_subplot(cells[0, start : start + 2]) for start in (0, 2, 4)]
    calibration(found, above[:2])
    residuals(found, "distance", above[2])
    wide = 4 if found.places is not None else 6
    residuals(found, "mean", figure.add_subplot(cells[1, : 6 - wide] if wide < 6 else cells[1, :]))
    if found.places is not None:
        residuals(found, "place", figure.add_subplot(cells[1, 2:]))
    if sentences:
        figure.text(0.012, (foot - 0.1) / height, "\n".join(sentences), va="top", color=_ALERT, fontsize=10)
    return figure


def format_of(path: str | os.PathLike[str]) -> str:
    """The kind of picture that a file's name asks for; PNG where it ends in nothing.

    >>> format_of("a.xyz")
    Traceback (most recent call last):
    ValueError: path must end in one of .png, .pdf, .svg and the like, or in nothing for a PNG; got 'a.xyz'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kinds = FigureCanvasAgg.get_supported_filetypes()
    kind = os.path.splitext(os.fspath(path))[1][1:].lower() or "png"
    if kind not in kinds:
        raise ValueError(
            f"path must end in one of .png, .pdf, .svg and the like, or in nothing for a PNG; got {os.fspath(path)!r}"
        )
    return kind
