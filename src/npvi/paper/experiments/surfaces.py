"""The paper's maps: what each method makes of the bird counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from npvi.datasets import Split
from npvi.kernels import RBF
from npvi.paper.experiments.methods import LIKELIHOODS, fit_within, nlpd
from npvi.paper.experiments.paper import LENGTH_SCALES
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.speed import chosen_length_scale, middle
from npvi.paper.experiments.store import Cell, Store

__all__ = ["DATA", "Grid", "cells", "compute", "grid_over"]

DATA = "bird_counts"
_METHODS = ("npvi", "full", "npvi-nn", "gcn", "svgp")
#: the prior's, as in the first table
_VARIANCE, _NUGGET = 1.0, 0.01
#: places further than this from all observations are left blank: 60 miles
_REACH = 0.3


class Grid(NamedTuple):
    """Places in the middle of equal squares, row by row from the south-west.

    >>> grid = Grid(west=0.0, south=0.0, step=0.5, shape=(2, 3))
    >>> grid.places[-1].tolist(), grid.extent
    ([1.25, 0.75], (0.0, 1.5, 0.0, 1.0))
    """

    west: float
    south: float
    step: float
    shape: tuple[int, int]

    @property
    def places(self) -> NDArray[np.float64]:
        """Their coordinates, shape (rows · columns, 2)."""
        north, east = (0.5 + np.arange(count) for count in self.shape)
        across, along = np.meshgrid(self.west + self.step * east, self.south + self.step * north)
        return np.column_stack([across.ravel(), along.ravel()])

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south and north."""
        rows, columns = self.shape
        return self.west, self.west + columns * self.step, self.south, self.south + rows * self.step


def grid_over(X: NDArray[np.float64], columns: int) -> Grid:
    """A grid with so many columns that reaches a little beyond all places.

    >>> grid_over(np.array([[0.0, 0.0], [7.4, 3.0]]), columns=40)
    Grid(west=-0.3, south=-0.3, step=0.2, shape=(18, 40))
    """
    (west, south), (east, north) = X.min(axis=0) - _REACH, X.max(axis=0) + _REACH
    step = (east - west) / columns
    return Grid(float(west), float(south), float(step), (int(np.ceil((north - south) / step)), columns))


def cells(plan: Plan) -> list[Cell]:
    """A cell per method, at the middle one of its sizes.

    >>> from npvi.paper.experiments.plan import FULL
    >>> [(cell.method, cell.size) for cell in cells(FULL)][-2:]
    [('gcn', 20), ('svgp', 1000)]
    """
    settings = (*plan.table_settings, ("map_columns", plan.map_columns))
    return [
        Cell("surface", DATA, method, middle(plan.sizes(method)), plan.seeds[0], settings)
        for method in _METHODS
        if method in plan.methods
    ]


def compute(cell: Cell, plan: Plan, store: Store | None = None) -> dict[str, Any]:
    """Mean and standard deviation of the rate, E[λ(f)] and that of λ(f), on a grid.

    Parameters
    ----------
    cell, plan : what is computed.
    store : where the first table's length scale is looked up; without it, or where it isn't there yet, the paper's
        choice is used.

    Returns
    -------
    dict
        with ``west``, ``south``, ``step`` and ``shape`` of the grid, ``mean`` and ``std`` row by row, None where no
        observation is near, and ``observed``: places and mean counts.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from npvi.datasets import Dataset
    >>> from npvi.paper.experiments.plan import TINY
    >>> rng = np.random.default_rng(0)
    >>> birds = Dataset("birds", rng.uniform(0.0, 3.0, (150, 2)), rng.poisson(2.0, 150) * 1.0, (), "", "", "")
    >>> plan = replace(TINY, load=lambda name: birds, methods=("npvi",))
    >>> result = compute(cells(plan)[0], plan)
    >>> len(result["mean"]), result["shape"]
    (110, (11, 10))
    """
    split = plan.split(cell.data, cell.seed)
    theirs = LENGTH_SCALES["npvi-nn" if cell.method == "gcn" else cell.method if cell.method != "full" else "npvi"]
    length_scale = chosen_length_scale(store, cell, plan, next(iter(theirs.values())))
    kernel, likelihood = RBF(length_scale, variance=_VARIANCE), LIKELIHOODS[cell.data]
    fitted = fit_within(cell.method, split, likelihood, kernel, _NUGGET, cell.size, cell.seed, plan.budget)
    grid = grid_over(split.X_train, plan.map_columns)
    near = np.asarray(cKDTree(split.X_train).query(grid.places)[0] <= _REACH)
    predicted = fitted.model.predict_dist(grid.places[near])
    # a count's variance is that of the rate and the Poisson noise's, which is the mean
    std = np.sqrt(np.maximum(predicted.var - predicted.mean, 0.0))
    return {
        "length_scale": length_scale,
        **grid._asdict(),
        "mean": _on_grid(predicted.mean, near),
        "std": _on_grid(std, near),
        "observed": _observed(split),
        "test": nlpd(fitted.model, split.X_test, split.y_test),
        "seconds": fitted.seconds,
        "out_of_time": fitted.outcome == "out of time",
        "n_train": len(split.y_train),
    }


def _on_grid(values: NDArray[np.float64], near: NDArray[np.bool_]) -> list[float | None]:
    """Four digits are enough to draw."""
    given = iter(values)
    return [float(f"{next(given):.4g}") if there else None for there in near]


def _observed(split: Split) -> dict[str, list[float]]:
    """Mean count at each place of the training rows, some of which were visited every year."""
    places, visits = np.unique(split.X_train, axis=0, return_inverse=True)
    counts = np.bincount(visits, weights=split.y_train) / np.bincount(visits)
    names = {"east": places[:, 0], "north": places[:, 1], "count": counts}
    return {name: [float(f"{value:.5g}") for value in values] for name, values in names.items()}
