"""What is computed, at which size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from npvi.datasets import Dataset, Split, load
from npvi.paper.experiments.methods import METHODS, RIVALS
from npvi.selection import PAPER_LENGTH_SCALES

__all__ = ["FULL", "QUICK", "TINY", "Plan"]


@dataclass(frozen=True)
class Plan:
    """The paper's protocol, or a smaller version of it.

    Attributes
    ----------
    rows : so many rows of each data set, at random; None: all.
    n_inducing, n_neighbors : values of M and K, the rows of the tables.
    length_scales : candidates in both tables.
    variances, nugget_shares : further candidates in the second table; a nugget is given as a share of the variance.
    seeds : one split each.
    methods : of the tables and figures.
    budget : seconds that a cell may take.
    n_orders : random orders of the training rows.
    map_columns : places from west to east on the maps.
    load : where data come from.

    Examples
    --------
    >>> QUICK.sizes("svgp"), FULL.sizes("npvi")
    ((200,), (10, 20, 40))
    """

    rows: int | None = None
    n_inducing: tuple[int, ...] = (200, 1000, 2000)
    n_neighbors: tuple[int, ...] = (10, 20, 40)
    length_scales: tuple[float, ...] = PAPER_LENGTH_SCALES
    variances: tuple[float, ...] = (1.0, 5.0, 20.0, 50.0)
    nugget_shares: tuple[float, ...] = (0.01, 0.1, 0.5)
    seeds: tuple[int, ...] = (0, 1, 2)
    methods: tuple[str, ...] = tuple(METHODS)
    budget: float = 600.0
    n_orders: int = 10
    map_columns: int = 160
    load: Callable[[str], Dataset] = load

    def sizes(self, method: str) -> tuple[int, ...]:
        """The values of M or K for a method."""
        return self.n_inducing if method in RIVALS else self.n_neighbors

    def dataset(self, data: str) -> Dataset:
        """All of its rows; what was asked for last is kept in memory, here and below."""
        return _dataset(self.load, data)

    def split(self, data: str, seed: int) -> Split:
        """The rows for training, validation and testing."""
        return _split(self.load, data, seed, self.rows)

    @property
    def table_settings(self) -> tuple[tuple[str, Any], ...]:
        """What a cell of the first table depends on."""
        return (("rows", self.rows), ("length_scales", self.length_scales))

    @property
    def tuned_settings(self) -> tuple[tuple[str, Any], ...]:
        """What a cell of the second table depends on."""
        return (*self.table_settings, ("variances", self.variances), ("nugget_shares", self.nugget_shares))


#: the paper's tables and figures
FULL = Plan()
#: everything once, small: minutes instead of days
QUICK = Plan(
    rows=2_000,
    n_inducing=(200,),
    n_neighbors=(10,),
    length_scales=(0.1, 0.5, 1.5),
    variances=(1.0, 20.0),
    nugget_shares=(0.01, 0.1),
    seeds=(0,),
    budget=2.0,
    n_orders=3,
    map_columns=80,
)
#: what tests can afford
TINY = Plan(
    rows=150,
    n_inducing=(10,),
    n_neighbors=(5,),
    length_scales=(0.5, 1.0),
    variances=(1.0, 5.0),
    nugget_shares=(0.01,),
    seeds=(0,),
    budget=1.0,
    n_orders=2,
    map_columns=10,
)


@lru_cache(maxsize=1)
def _dataset(load: Callable[[str], Dataset], name: str) -> Dataset:
    return load(name)


@lru_cache(maxsize=2)
def _split(load: Callable[[str], Dataset], name: str, seed: int, rows: int | None) -> Split:
    dataset = _dataset(load, name)
    return dataset.split(seed, None if rows is None else min(rows, len(dataset.y)))
