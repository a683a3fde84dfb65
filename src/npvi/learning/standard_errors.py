"""What was learned, as a table: every hyper-parameter with its value and standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference import Start
from npvi.kernels import Kernel, Matern
from npvi.learning.learner import Learner
from npvi.learning.objective import Model, information
from npvi.learning.space import SearchSpace
from npvi.learning.table import Table
from npvi.parameters import Parameter

__all__ = ["TWO_SIDED", "parameter_table", "with_smoothness"]

TWO_SIDED = 1.96
"""Standard deviations to either side that hold 95 % of a normal distribution."""


def parameter_table(
    table: Table,
    model: Model,
    said: Mapping[str, Parameter],
    graph: Graph,
    start: Start | None,
    standard_errors: bool,
    weak: bool = True,
) -> list[dict[str, Any]]:
    """A row for every hyper-parameter: its name, value and standard error; `table` is in the graph's order, and `weak`
    says whether there are weak priors."""
    learner = Learner(said, lambda X: graph, weak=weak)
    space = learner.space(table, model)
    errors = np.full(len(space), np.nan)
    if standard_errors and len(space):
        errors = _standard_errors(learner, table, model, space, graph, start)
    z = space.vector()
    slopes = np.abs(space.slopes(z))
    ends = [space.numbers(np.clip(z + side * TWO_SIDED * errors, space.low, space.high)) for side in (-1.0, 1.0)]
    known = {
        (c.name, c.entry): {"standard_error": slope * error, "lower": low, "upper": high}
        for c, slope, error, low, high in zip(space.coordinates, slopes, errors, *ends)
    }
    nothing = dict.fromkeys(("standard_error", "lower", "upper"), np.nan)
    rows = []
    for name, value in model.named().items():
        for entry, number in enumerate(np.atleast_1d(value)):
            place = None if np.ndim(value) == 0 else entry
            label = name if place is None else f"{name}[{entry}]"
            rows.append({"parameter": label, "value": float(number), **known.get((name, place), nothing)})
    return rows


def with_smoothness(rows: list[dict[str, Any]], kernel: Kernel, X: NDArray[np.float64]) -> list[dict[str, Any]]:
    """The same rows, with the smoothness of each `Matern` of a kernel after its other numbers.

    >>> from npvi.kernels import Matern
    >>> rows = [{"parameter": "kernel__variance", "value": 1.0}, {"parameter": "mean__constant", "value": 0.0}]
    >>> [row["parameter"] for row in with_smoothness(rows, Matern(smoothness=1.5), np.zeros((1, 1)))]
    ['kernel__variance', 'kernel__smoothness', 'mean__constant']
    """
    for part in kernel.parts(X[:1]):
        if isinstance(part.kernel, Matern):
            smoothness = 1.5 if part.kernel.smoothness is None else part.kernel.smoothness  # where none is learned
            nothing = dict.fromkeys(("standard_error", "lower", "upper"), np.nan)
            named = {"parameter": f"kernel__{part.name}smoothness", "value": float(smoothness), **nothing}
            place = [row["parameter"] for row in rows].index(f"kernel__{part.name}variance") + 1
            rows = [*rows[:place], named, *rows[place:]]
    return rows


def _standard_errors(
    learner: Learner, table: Table, model: Model, space: SearchSpace, graph: Graph, start: Start | None
) -> NDArray[np.float64]:
    """Of what is learned, on the scale of z, from second derivatives of the objective."""
    # with the graph's own order, by which each row has its random numbers: those of the fit
    unsorted = table.take(np.argsort(graph.order))
    objective = learner.objective(unsorted, graph, start, careful=True)
    values, vectors = np.linalg.eigh(information(objective, model, space, 0.05))
    # a direction that the data say nothing about has a standard error of 10 on the scale of z: about anything
    return np.sqrt((vectors**2 / (np.maximum(values, 0.0) + 0.01)).sum(axis=1))
