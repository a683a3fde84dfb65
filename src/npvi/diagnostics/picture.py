"""The picture of a diagnosis."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from npvi.diagnostics.diagnosis import Diagnosis

__all__ = ["draw", "format_of"]

_INK, _SOFT, _ALERT = "#1f5a8c", "#c9d8e6", "#b5402a"


def draw(found: Diagnosis) -> Any:
    """Coverage, PIT and residual correlation side by side, warnings below; a matplotlib Figure."""
    # the classes behind pyplot: nothing global is touched, and no display is needed
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sentences = [textwrap.fill(f"• {sentence}", 150, subsequent_indent="   ") for sentence in found.warnings]
    lines = sum(sentence.count("\n") + 1 for sentence in sentences)
    foot = 0.25 + 0.18 * lines if sentences else 0.0  # inches
    height = 4.3 + foot
    figure = Figure(figsize=(13.0, height), dpi=120)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", rect=(0.005, foot / height, 0.99, 0.99 - foot / height), wspace=0.06)
    left, middle, right = figure.subplots(1, 3)
    _draw_coverage(left, found)
    _draw_pit(middle, found)
    _draw_correlogram(right, found)
    for axis in (left, middle, right):
        axis.spines[["top", "right"]].set_visible(False)
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


def _draw_coverage(axis: Any, found: Diagnosis) -> None:
    levels = np.linspace(0.0, 1.0, 101)
    distance = np.sort(np.abs(found.pit - 0.5))
    held = np.searchsorted(distance, 0.5 * levels, side="right") / len(distance)
    error = 2.0 * np.sqrt(levels * (1.0 - levels) / found.rows)
    axis.fill_between(100 * levels, 100 * (levels - error), 100 * (levels + error), color=_SOFT, linewidth=0)
    axis.plot([0, 100], [0, 100], color="0.5", linewidth=1)
    axis.plot(100 * levels, 100 * held, color=_INK, linewidth=2)
    axis.plot([100 * level for level in found.coverage], [100 * s for s in found.coverage.values()], "o", color=_INK)
    axis.set(xlim=(0, 100), ylim=(0, 100), xlabel="intervals of … %", ylabel="contain … % of the responses")
    share = f"90 % intervals contain {100 * found.coverage[0.9]:.0f} %"
    _title(axis, "Intervals", f"{share}; band: chance")


def _draw_pit(axis: Any, found: Diagnosis) -> None:
    bins = int(np.clip(found.rows // 20, 5, 20))
    error = 2.0 * np.sqrt((bins - 1) / found.rows)
    axis.hist(found.pit, bins=bins, range=(0.0, 1.0), density=True, color=_INK, edgecolor="white")
    axis.axhspan(1.0 - error, 1.0 + error, color=_SOFT, alpha=0.6, linewidth=0)
    axis.axhline(1.0, color="0.5", linewidth=1)
    axis.set(xlim=(0, 1), xlabel="where responses fall in their distribution (PIT)", ylabel="density")
    axis.set_ylim(0.0, 1.1 * max(axis.get_ylim()[1], 1.0 + error))
    p = f"= {found.pit_pvalue:.2g}" if found.pit_pvalue >= 1e-4 else "< 0.0001"
    _title(axis, "Is the PIT flat?", f"Kolmogorov-Smirnov p {p}; band: chance")


def _draw_correlogram(axis: Any, found: Diagnosis) -> None:
    table = found.correlogram
    axis.axhline(0.0, color="0.5", linewidth=1)
    if len(table):
        same_place = table.distance[0] == 0.0 and len(table) > 1
        shown = table.distance.copy()
        if same_place:
            shown[0] = 0.5 * shown[1]  # a place for 0 on a logarithmic axis
        axis.errorbar(shown, table.correlation, 2.0 * table.error, fmt="o-", color=_INK, capsize=3)
        axis.set_xscale("log")
        limit = min(1.05, max(0.2, 1.1 * float(np.max(np.abs(table.correlation) + 2.0 * table.error))))
        axis.set_ylim(-limit, limit)
        low, high = axis.get_xlim()
        _mark_range(axis, found.range.distance, low, high)
        _plain_ticks(axis, 1.4 * shown[0] if same_place else low, high, shown[0] if same_place else None)
    axis.set(xlabel="distance between rows", ylabel="correlation of residuals")
    _title(axis, "What is left in the residuals", "0 is right; bars: two standard errors")


def _mark_range(axis: Any, distance: float, low: float, high: float) -> None:
    if not low < distance < high:
        return
    axis.axvline(distance, color=_ALERT, linestyle=":")
    left = distance**2 > low * high  # in the right half there is no room on the right
    axis.annotate(
        "range of the kernel",
        (distance, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if left else 4, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        color=_ALERT,
        fontsize=9,
    )


def _plain_ticks(axis: Any, low: float, high: float, zero: float | None) -> None:
    """1, 2, 5, 10 … instead of powers of ten, and 0 at `zero`."""
    digits = (1, 2, 5) if high < 200.0 * low else (1,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [tick for power in powers for digit in digits if low <= (tick := digit * 10.0**power) <= high]
    labels = [f"{tick:g}" for tick in ticks]
    if zero is not None:
        ticks, labels = [zero, *ticks], ["0", *labels]
    axis.set_xticks(ticks, labels=labels)
    axis.minorticks_off()


def _title(axis: Any, title: str, subtitle: str) -> None:
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=20)
    axis.text(0.0, 1.02, subtitle, transform=axis.transAxes, fontsize=9.5, color="0.35")
