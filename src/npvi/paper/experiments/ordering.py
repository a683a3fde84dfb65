"""The paper's appendix: how much the order of the training points matters on the bird counts."""

from __future__ import annotations

import warnings
from statistics import mean, stdev
from typing import Any

from npvi.kernels import RBF
from npvi.paper.experiments.methods import LIKELIHOODS, METHODS, fit_ours, nlpd, our_model
from npvi.paper.experiments.paper import ORDER_DEVIATION
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Cell, Store
from npvi.paper.experiments.tables import Table

__all__ = ["DATA", "KERNELS", "cells", "compute", "kernel_of", "order_table"]

DATA = "bird_counts"

#: length scale, variance and nugget: the paper's, and those that suit these data better
KERNELS = ((0.1, 1.0, 0.01), (0.5, 50.0, 5.0))

#: those that depend on an order; trained networks take minutes for each, so only the paper's kernel is theirs
_METHODS = ("npvi-nn", "npvi", "full", "gcn")


def cells(plan: Plan) -> list[Cell]:
    """A cell per kernel, method, K and order; the seed of a cell is that of the order.

    >>> from npvi.paper.experiments.plan import TINY
    >>> [cell.method for cell in cells(TINY) if cell.seed == 0]
    ['npvi-nn', 'npvi', 'full', 'gcn', 'npvi-nn', 'npvi', 'full']
    """
    return [
        Cell("ordering", DATA, method, size, order, _settings(plan, kernel))
        for kernel in KERNELS
        for method in _METHODS
        if method in plan.methods and (method != "gcn" or kernel == KERNELS[0])
        for size in plan.sizes(method)
        for order in range(plan.n_orders)
    ]


def kernel_of(cell: Cell) -> tuple[float, float, float]:
    """Which one of `KERNELS` a cell has."""
    numbers = dict(cell.settings)
    return numbers["length_scale"], numbers["variance"], numbers["nugget"]


def compute(cell: Cell, plan: Plan) -> dict[str, Any]:
    """The score of test rows, from a fit in one random order: the split stays the same.

    Returns
    -------
    dict
        with ``test``, the mean negative log density, and how it came about.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import replace
    >>> from npvi.datasets import Dataset
    >>> from npvi.paper.experiments.plan import TINY
    >>> rng = np.random.default_rng(0)
    >>> birds = Dataset("birds", rng.uniform(0.0, 3.0, (150, 2)), rng.poisson(2.0, 150) * 1.0, (), "", "", "")
    >>> plan = replace(TINY, load=lambda name: birds, methods=("npvi",))
    >>> sorted(compute(cells(plan)[0], plan))
    ['n_train', 'out_of_time', 'seconds', 'test']
    """
    length_scale, variance, nugget = kernel_of(cell)
    split = plan.split(cell.data, dict(cell.settings)["split"])
    kernel = RBF(length_scale, variance=variance)
    model = our_model(cell.method, LIKELIHOODS[cell.data], kernel, nugget, cell.size, cell.seed)
    with warnings.catch_warnings():  # about what a budget cuts short
        warnings.simplefilter("ignore", UserWarning)
        fitted = fit_ours(model.set_params(order="random"), split, plan.budget)
    return {
        "test": nlpd(fitted.model, split.X_test, split.y_test),
        "seconds": fitted.seconds,
        "out_of_time": fitted.outcome == "out of time",
        "n_train": len(split.y_train),
    }


def order_table(store: Store, plan: Plan) -> Table | None:
    """Standard deviations over orders beside the paper's; None where nothing is stored."""
    scores: dict[tuple[str, tuple[float, float, float], int], list[float]] = {}
    for cell in cells(plan):
        result = store.get(cell)
        if result is not None and "error" not in result:
            scores.setdefault((cell.method, kernel_of(cell), cell.size), []).append(result["test"])
    if not scores:
        return None
    header = [
        "method",
        "K",
        "length scale",
        "variance",
        "nugget",
        "orders",
        "mean score",
        "standard deviation",
        "paper",
    ]
    rows, records = [], []
    for (method, kernel, size), found in scores.items():
        deviation = stdev(found) if len(found) > 1 else None
        theirs = ORDER_DEVIATION if method in ("npvi-nn", "gcn") else None
        values = [*kernel, len(found), mean(found), deviation, theirs]
        records.append(dict(zip(header, [method, size, *values])))
        texts = ["–" if value is None else f"{value:.3f}" for value in values[4:6]]
        paper = "–" if theirs is None else f"about {theirs:g}"
        rows.append([METHODS[method], str(size), *(f"{value:g}" for value in values[:4]), *texts, paper])
    notes = ["Negative log density per test row, lower is better, of one split in random orders of its training rows."]
    short = [[line[0], line[1], line[2], *line[6:]] for line in [header, *rows]]
    title = "Bird counts: how much the order of the training rows matters"
    return Table("ordering", title, header, rows, short, records, notes)


def _settings(plan: Plan, kernel: tuple[float, float, float]) -> tuple[tuple[str, Any], ...]:
    length_scale, variance, nugget = kernel
    return (
        ("rows", plan.rows),
        ("split", plan.seeds[0]),
        ("length_scale", length_scale),
        ("variance", variance),
        ("nugget", nugget),
    )
