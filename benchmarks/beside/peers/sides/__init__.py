"""One program each: how it is fitted, what it predicts, and which distribution of y that means."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from benchmarks.beside.peers.sides.base import Side

__all__ = ["SOFTWARE", "Side", "Software", "make"]


class Software(NamedTuple):
    """A program: its name in tables, the module and class of its side, the packages whose versions matter."""

    name: str
    module: str
    side: str
    packages: tuple[str, ...]


SOFTWARE = {
    "npvi": Software("npvi", "ours", "Ours", ("npvi", "jax")),
    "gpboost": Software("GPBoost, Vecchia", "vecchia", "Vecchia", ("gpboost",)),
    "svgp": Software("GPyTorch, SVGP", "variational", "InducingPoints", ("gpytorch", "torch")),
    "vnngp": Software("GPyTorch, VNNGP", "variational", "NearestNeighbours", ("gpytorch", "torch", "faiss-cpu")),
    "knn": Software("scikit-learn, k-NN", "neighbours", "Neighbours", ("scikit-learn",)),
    "trees": Software("scikit-learn, gradient boosting", "trees", "Trees", ("scikit-learn",)),
    "subset": Software("scikit-learn, GP on a subset", "subset", "Subset", ("scikit-learn",)),
}


def make(software: str, noise: str, threads: int, **options: Any) -> Side:
    """The side of a program for one kind of noise.

    Its module is imported only now, so that a process holds, and its memory counts, no other program.
    """
    entry = SOFTWARE[software]
    module = importlib.import_module(f"{__name__}.{entry.module}")
    return getattr(module, entry.side)(noise, threads, **options)
