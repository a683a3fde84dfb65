"""The figures, from stored cells: PNG files for a page or a slide."""

from __future__ import annotations

from pathlib import Path

from npvi.paper.experiments.figures import lengths, maps, orders, scores, traces
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import DATA

__all__ = ["draw"]


def draw(store: Store, plan: Plan, folder: Path) -> list[Path]:
    """Draw whatever there are results for.

    Cells that are missing or failed are absent; a figure without any isn't drawn.

    Parameters
    ----------
    store : finished cells.
    plan : which of them.
    folder : where files go; it is made where it is missing.

    Returns
    -------
    list of Path
        What was written.

    Examples
    --------
    >>> import tempfile
    >>> from npvi.paper.experiments.plan import TINY
    >>> from npvi.paper.experiments.store import Cell
    >>> folder = Path(tempfile.mkdtemp())
    >>> store = Store(folder / "cells")
    >>> store.put(Cell("paper", "bird_counts", "full", 5, 0, TINY.tuned_settings), {"error": "out of memory"})
    >>> draw(store, TINY, folder)
    []
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    by_data = (scores.draw, lengths.draw_chosen, lengths.draw_scores)
    drawn = [make(store, plan, data, Path(folder)) for data in DATA for make in by_data]
    others = (traces.draw, maps.draw_means, maps.draw_deviations, orders.draw)
    drawn += [make(store, plan, Path(folder)) for make in others]
    return [path for path in drawn if path is not None]
