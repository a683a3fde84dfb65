"""Learning as a whole: which rows, which smoothness, and when to build the graph anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.graph.tree import build_tree
from npvi.inference.data import Data
from npvi.inference.fit import Start
from npvi.inference.learning import BoundObjective, CollapsedObjective, Model, Objective, can_collapse, optimise
from npvi.inference.search_space import SearchSpace, learnable
from npvi.inference.starting import limits
from npvi.kernels import Matern
from npvi.parameters import POSITIVE_NUMBER, Parameter

__all__ = ["Learned", "Table", "learn", "parameter_table"]

#: rows that a sum over conditionals is estimated from
_ROWS = 20_000
#: points of the parts of the data that exploring looks at and that smoothness is chosen on; patches in each
_PART, _SCREEN, _PATCHES = 8192, 2048, 16
#: length scales relative to each other must move by this factor before neighbours are looked for again
_MOVED = 1.3
#: rounds of climbing, each on a graph of its own
_ROUNDS = 4
#: fewer rows say too little to learn from
_FEWEST = 5


@dataclass(frozen=True)
class Table:
    """Data of one fit, in the caller's order."""

    X: NDArray[np.float64]
    data: Data
    basis: NDArray[np.float64]

    def take(self, rows: NDArray) -> Table:
        """Some rows, in some order."""
        return Table(self.X[rows], self.data.take(rows), self.basis[rows])


@dataclass(frozen=True)
class Learned:
    """The model that was found, the graph it was found on, where its posterior may start, and how it went."""

    model: Model
    graph: Graph
    start: Start | None
    info: dict[str, Any]


class _Learner:
    def __init__(self, said: Mapping[str, Parameter], build: Callable[[NDArray], Graph], report: Callable) -> None:
        self.said, self.build, self.report = said, build, report
        self.history: list[float] = []
        self.at_bound: list[str] = []
        self.gradient: NDArray = np.zeros(0)

    def space(self, table: Table) -> Callable[[Model], SearchSpace]:
        first: dict[str, Any] = {}

        def make(model: Model) -> SearchSpace:
            first.update(limits(model, table.X) if not first else {})
            domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
            said = dict(self.said)
            if can_collapse(table.data):  # noise and nugget are one
                said["nugget"] = Parameter(model.nugget, fixed=True)
            if model.nugget == 0.0:
                said["nugget"] = Parameter(0.0, fixed=True)
            return SearchSpace(model.named(), domains | {"nugget": POSITIVE_NUMBER}, said, first)

        return make

    def objective(self, table: Table, graph: Graph, start: Start | None) -> Objective:
        sorted_ = table.take(graph.order)
        if can_collapse(table.data):
            n = graph.n_points
            rows = graph.spatial
            if n > _ROWS:
                chosen = np.random.default_rng(0).choice(n, _ROWS, replace=False)
                rows = graph.spatial[np.sort(chosen)]
            return CollapsedObjective(sorted_.X, sorted_.data, sorted_.basis, graph, rows)
        return BoundObjective(sorted_.X, sorted_.data, sorted_.basis, graph, start)

    def climb(
        self,
        table: Table,
        found: _Found,
        max_evaluations: int = 25,
        enough: float = 0.05,
    ) -> _Found:
        """Uphill from what was found before, on its graph."""
        objective = self.objective(table, found.graph, found.start)

        def report(count: int, value: float) -> None:
            self.history.append(value)
            self.report(evaluation=len(self.history), bound=value)

        model, ascent, space = optimise(
            objective,
            found.model,
            self.space(table),
            max_evaluations=max_evaluations,
            enough=enough,
            curvature=found.curvature,
            report=report,
        )
        self.at_bound, self.gradient = space.at_bound(ascent.z), ascent.gradient
        return _Found(model, found.graph, getattr(objective, "start", None), ascent.curvature, ascent.value)

    def choose_smoothness(self, table: Table, model: Model) -> _Found:
        """A climb with the middle one, from there with a rougher one, and with a smoother one if that was no better."""
        middle, rougher, smoother = (model.kernel.replace(smoothness=nu) for nu in (1.5, 0.5, 2.5))
        graph = self.build(middle.coordinates(table.X))
        first = self.climb(table, _Found(replace(model, kernel=middle), graph), 15, enough=0.5)
        best = first
        for kernel in (rougher, smoother):
            kernel = kernel.replace(length_scale=first.model.kernel.length_scale, variance=first.model.kernel.variance)
            other = self.climb(table, replace(first, model=replace(first.model, kernel=kernel)), 15, enough=0.5)
            if other.value > best.value:
                return other
        return best

    def explore(self, table: Table, model: Model) -> _Found:
        """From a rough start: climb, and look for neighbours again where the metric moved."""
        n = len(table.X)
        curvature = None
        if isinstance(model.kernel, Matern) and model.kernel.smoothness is None:
            part = table if n <= 2 * _SCREEN else table.take(_patches(model, table.X, _SCREEN))
            screened = self.choose_smoothness(part, model)
            model, curvature = screened.model, screened.curvature_for(len(part.X) / n)
        found = _Found(model, self.build(model.kernel.coordinates(table.X)), None, curvature)
        for number in range(_ROUNDS):
            before = found.model
            found = self.climb(table, found, max_evaluations=25 if number == 0 else 15)
            if number + 1 == _ROUNDS or not _metric_moved(before, found.model, table.X):
                break
            found = replace(found, graph=self.build(found.model.kernel.coordinates(table.X)), start=None)
        return found


@dataclass(frozen=True)
class _Found:
    """A model on the way, its graph, where its posterior may start, and what is known of the objective there."""

    model: Model
    graph: Graph
    start: Start | None = None
    curvature: NDArray | None = None
    value: float = -np.inf

    def curvature_for(self, share: float) -> NDArray | None:
        """That of an objective over more rows, of which this one's are a `share`."""
        return None if self.curvature is None else self.curvature * share


def learn(
    table: Table,
    model: Model,
    said: Mapping[str, Parameter],
    build: Callable[[NDArray], Graph],
    report: Callable[..., None] = lambda **numbers: None,
) -> Learned:
    """The model with the largest bound (the largest likelihood where f can be integrated out).

    Where there are a few rows only, or all responses are equal, nothing is learned: the model stays where it starts.

    Parameters
    ----------
    table : the data.
    model : where to start.
    said : what the user said about parameters, by full name.
    build : from coordinates to a graph.
    report : called with the numbers of each evaluation.
    """
    started = time.perf_counter()
    learner = _Learner(said, build, report)
    n = len(table.X)
    if not _can_learn(table.data):
        return Learned(model, build(model.kernel.coordinates(table.X)), None, _info(learner, started))
    if can_collapse(table.data) or n <= 2 * _PART:
        found = learner.explore(table, model)
    else:
        part = table.take(_patches(model, table.X, _PART))
        found = learner.explore(part, model)
        graph = learner.build(found.model.kernel.coordinates(table.X))
        found = learner.climb(table, _Found(found.model, graph, None, found.curvature_for(len(part.X) / n)), 12)
    return Learned(found.model, found.graph, found.start, _info(learner, started))


def _info(learner: _Learner, started: float) -> dict[str, Any]:
    return {
        "evaluations": len(learner.history),
        "objective": learner.history,
        "at_bound": learner.at_bound,
        "gradient": np.asarray(learner.gradient).tolist(),
        "seconds": time.perf_counter() - started,
    }


def _can_learn(data: Data) -> bool:
    """Whether there are rows enough, and responses that differ, among those that have weight."""
    y = data.y if data.weight is None else data.y[data.weight > 0.0]
    return len(y) >= _FEWEST and bool(np.ptp(y) > 0.0)


def _metric_moved(before: Model, after: Model, X: NDArray) -> bool:
    """Whether length scales changed relative to each other, so that other points may be nearest."""
    ratios = []
    for old, new in zip(_precisions(before, X), _precisions(after, X)):
        ratios.append(np.sqrt(new / old))
    ratio = np.concatenate(ratios) if ratios else np.ones(1)
    return bool(ratio.max() / ratio.min() > _MOVED)


def _precisions(model: Model, X: NDArray) -> list[NDArray]:
    return [frame.precision for frame in model.kernel.frames(X[:1]).values()]


def _patches(model: Model, X: NDArray, size: int) -> NDArray:
    """Rows of a few compact patches of the points: near neighbours and far ones are both there."""
    rows = build_tree(model.kernel.coordinates(X)).rows
    patch = size // _PATCHES
    starts = (np.arange(_PATCHES) + 0.5) / _PATCHES * (len(rows) - patch)
    return np.concatenate([rows[int(start) : int(start) + patch] for start in starts])


def parameter_table(
    table: Table,
    model: Model,
    said: Mapping[str, Parameter],
    graph: Graph,
    start: Start | None,
    standard_errors: bool,
) -> list[dict[str, Any]]:
    """A row for every hyper-parameter: its name, value and standard error; `table` is in the graph's order."""
    learner = _Learner(said, lambda X: graph, lambda **numbers: None)
    space = learner.space(table)(model)
    errors = np.full(len(space), np.nan)
    if standard_errors and len(space):
        errors = _standard_errors(learner, table, model, space, graph, start)
    by_place = {(c.name, c.entry): error for c, error in zip(space.coordinates, errors)}
    rows = []
    for name, value in model.named().items():
        for entry, number in enumerate(np.atleast_1d(value)):
            place = None if np.ndim(value) == 0 else entry
            label = name if place is None else f"{name}[{entry}]"
            rows.append(
                {"parameter": label, "value": float(number), "standard_error": by_place.get((name, place), np.nan)}
            )
    return rows


def _standard_errors(
    learner: _Learner, table: Table, model: Model, space: SearchSpace, graph: Graph, start: Start | None
) -> NDArray[np.float64]:
    """Of the learned numbers, from second derivatives of the objective, by differences of its gradient."""
    objective = learner.objective(
        Table(table.X, table.data, table.basis), replace(graph, order=np.arange(len(table.X))), start
    )
    z = space.vector()

    def gradient(z: NDArray) -> NDArray:
        here = model.at(space.named(z))
        objective(here)  # brings the warm start near
        return space.pull_back(z, objective(here)[1])

    step = 0.05
    information = np.empty((len(z), len(z)))
    for i in range(len(z)):
        e = np.zeros(len(z))
        e[i] = step
        information[i] = (gradient(z - e) - gradient(z + e)) / (2.0 * step)
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    # a direction that the data say nothing about has a standard error of 10 on the scale of z: about anything
    variance = (vectors**2 / (np.maximum(values, 0.0) + 0.01)).sum(axis=1)
    return np.sqrt(variance) * np.abs(space.slopes(z))
