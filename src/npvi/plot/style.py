"""How pictures look: colours that the colour-blind can tell apart, titles, plain numbers on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["ALERT", "INK", "ORANGE", "SOFT", "axes_for", "plain_ticks", "tidy", "title"]

INK, SOFT, ALERT, ORANGE = "#1f5a8c", "#c9d8e6", "#b5402a", "#d9822b"


def axes_for(ax: Any, count: int = 1, size: tuple[float, float] = (5.2, 4.2)) -> Any:
    """The axes to draw on: those that were given, checked, or new ones side by side."""
    given: Sequence[Any] = ()
    if ax is not None:
        given = list(ax.flat) if isinstance(ax, np.ndarray) else list(ax) if isinstance(ax, list | tuple) else [ax]
    if ax is None:
        import matplotlib.pyplot as plt

        _, made = plt.subplots(1, count, figsize=(count * size[0], size[1]), layout="constrained", squeeze=False)
        given = list(made[0])
    if len(given) != count or not all(hasattr(one, "transAxes") for one in given):
        wanted = "axes of matplotlib" if count == 1 else f"{count} axes of matplotlib"
        raise ValueError(f"ax must be {wanted}, got {type(ax).__name__}")
    return given[0] if count == 1 else given


def tidy(axis: Any) -> None:
    """Without the lines above and to the right."""
    axis.spines[["top", "right"]].set_visible(False)


def title(axis: Any, words: str, below: str) -> None:
    """A title with a line below it."""
    axis.set_title(words, loc="left", fontsize=12, fontweight="bold", pad=20)
    line = axis.text(0.0, 1.02, below, transform=axis.transAxes, fontsize=9.5, color="0.35")
    line.set_in_layout(False)  # however long it is, the axes stay wide


def plain_ticks(axis: Any, low: float, high: float, zero: float | None = None) -> None:
    """1, 2, 5, 10 … instead of powers of ten on a logarithmic x axis, and 0 at `zero`."""
    digits = (1, 2, 5) if high < 200.0 * low else (1,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [tick for power in powers for digit in digits if low <= (tick := digit * 10.0**power) <= high]
    labels = [f"{tick:g}" for tick in ticks]
    if zero is not None:
        ticks, labels = [zero, *ticks], ["0", *labels]
    axis.set_xticks(ticks, labels=labels)
    axis.minorticks_off()
