"""Finished cells, as figures need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npvi.paper.experiments.methods import RIVALS
from npvi.paper.experiments.store import Cell, Store

__all__ = ["Number", "Results", "by_number", "finished", "letter", "of_splits"]

#: a method and its M or K
Number = tuple[str, int]
#: results of all splits or orders
Results = dict[Number, list[dict[str, Any]]]


def finished(store: Store, cells: Iterable[Cell]) -> list[tuple[Cell, dict[str, Any]]]:
    """Those of the cells that are stored and didn't fail, with their results."""
    results = ((cell, store.get(cell)) for cell in cells)
    return [(cell, result) for cell, result in results if result is not None and "error" not in result]


def by_number(store: Store, cells: Iterable[Cell]) -> Results:
    """The results of finished cells, by method and size."""
    found: Results = {}
    for cell, result in finished(store, cells):
        found.setdefault((cell.method, cell.size), []).append(result)
    return found


def letter(method: str) -> str:
    """What the size of a method is called.

    >>> letter("svgp"), letter("npvi-sgd")
    ('M', 'K')
    """
    return "M" if method in RIVALS else "K"


def of_splits(*tables: Results) -> str:
    """What a number is the mean of: the splits that are there, which may be fewer than the plan has.

    >>> of_splits({("npvi", 10): [{}], ("full", 10): [{}]}), of_splits({("npvi", 10): [{}], ("full", 10): [{}, {}]})
    ('one split', 'mean of 1 to 2 splits')
    """
    counts = [len(found) for results in tables for found in results.values()]
    few, many = min(counts), max(counts)
    if many == 1:
        return "one split"
    return f"mean of {many} splits" if few == many else f"mean of {few} to {many} splits"
