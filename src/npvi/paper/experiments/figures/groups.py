"""An axis on which every method has its sizes side by side."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from npvi.paper.experiments.figures.stored import Number, letter
from npvi.paper.experiments.figures.style import LOOKS

__all__ = ["name_groups", "places_of"]

#: from one size to the next: for those of two digits, and for longer ones; and what comes between two methods
_STEP, _LONGER, _GAP = 1.0, 1.35, 1.1


def places_of(numbers: Collection[Number]) -> dict[Number, float]:
    """Where each number stands from left to right: sizes side by side, methods apart.

    >>> places_of([("npvi", 20), ("svgp", 200), ("npvi", 10)])
    {('svgp', 200): 0.0, ('npvi', 10): 2.1, ('npvi', 20): 3.1}
    """
    places: dict[Number, float] = {}
    right = 0.0
    for method in LOOKS:
        sizes = sorted(size for other, size in set(numbers) if other == method)
        step = _LONGER if max(sizes, default=0) >= 1000 else _STEP
        places |= {(method, size): right + step * number for number, size in enumerate(sizes)}
        right += step * len(sizes) + _GAP if sizes else 0.0
    return places


def name_groups(axis: Any, places: dict[Number, float]) -> None:
    """M or K below each place, and below those the method."""
    axis.set_xticks(list(places.values()), labels=[str(size) for _, size in places], fontsize=9)
    axis.tick_params(axis="x", length=0)
    for method in dict.fromkeys(method for method, _ in places):
        own = [place for (other, _), place in places.items() if other == method]
        below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
        name: dict[str, Any] = {"fontsize": 10, "fontweight": "bold", "color": LOOKS[method].colour}
        axis.annotate(LOOKS[method].name, (float(np.mean(own)), 0.0), (0, -22), ha="center", **below, **name)
        axis.annotate(letter(method), (min(own) - 0.85, 0.0), (0, -3.5), ha="center", fontsize=9, color="0.45", **below)
    axis.set_xlim(-1.1, max(places.values()) + 0.7)
