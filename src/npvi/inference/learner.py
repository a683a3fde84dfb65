"""Learning as a whole: which rows, which smoothness, and when to build the graph anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference.data import Data
from npvi.inference.family import Start
from npvi.inference.learning import (
    BoundObjective,
    CollapsedObjective,
    Model,
    Objective,
    can_collapse,
    information,
    optimise,
)
from npvi.inference.search_space import SearchSpace, learnable
from npvi.inference.stacking import Stacked, stacking
from npvi.inference.starting import limits
from npvi.inference.table import Table
from npvi.kernels import Matern
from npvi.likelihoods.softmax import Softmax
from npvi.parameters import POSITIVE_NUMBER, Parameter

__all__ = ["Learned", "Learner", "learn"]

#: rows that a sum over conditionals is estimated from
_ROWS = 20_000
#: points of the parts of the data that exploring looks at and that smoothness is chosen on
_PART, _SCREEN = 8192, 2048
#: information about a parameter in the part, below which it counts as hardly known
_WEAK = 10.0
#: nats per observation that a mixture must gain for a second smoothness to be worth its cost
_WORTH = 0.002
#: length scales relative to each other must move by this factor before neighbours are looked for again
_MOVED = 1.3
#: rounds of climbing, each on a graph of its own
_ROUNDS = 4
#: fewer rows say too little to learn from
_FEWEST = 5


@dataclass(frozen=True)
class Learned:
    """The model that was found, the graph it was found on, where its posterior may start, and how it went."""

    model: Model
    graph: Graph
    start: Start | None
    info: dict[str, Any]
    second: Learned | None = None
    """Another model, where a mixture of both predicts better than either."""
    weight: float = 0.0
    """The share of the second in that mixture."""


class Learner:
    """What learning is made of: an objective for some rows, climbs on it, and from one climb to the next.

    Parameters
    ----------
    said : what the user said about parameters, by full name.
    build : from coordinates to a graph.
    report : called with the numbers of each evaluation.
    """

    def __init__(self, said: Mapping[str, Parameter], build: Callable[[NDArray], Graph], report: Callable) -> None:
        self.said, self.build, self.report = said, build, report
        self.history: list[float] = []
        self.limits: dict[str, Any] | None = None
        self.at_bound: list[str] = []
        self.gradient: NDArray = np.zeros(0)

    def space(self, table: Table, model: Model) -> SearchSpace:
        """What is learned; how far it may go is settled by the first model and the first table."""
        if self.limits is None:
            self.limits = limits(model, table.X)
        domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
        said = dict(self.said)
        if can_collapse(table.data):  # noise and nugget are one
            said["nugget"] = Parameter(model.nugget, fixed=True)
        if model.nugget == 0.0:
            said["nugget"] = Parameter(0.0, fixed=True)
        return SearchSpace(model.named(), domains | {"nugget": POSITIVE_NUMBER}, said, self.limits)

    def objective(self, table: Table, graph: Graph, start: Start | None, careful: bool = False) -> Objective:
        sorted_ = table.take(graph.order)
        if can_collapse(table.data):
            n = graph.n_points
            rows = graph.spatial
            if n > _ROWS and not careful:  # the same for every graph
                chosen = np.zeros(n, dtype=bool)
                chosen[np.random.default_rng(0).choice(n, _ROWS, replace=False)] = True
                rows = rows[chosen[graph.order[rows]]]
            return CollapsedObjective(sorted_.X, sorted_.data, sorted_.basis, graph, rows)
        if isinstance(table.data.likelihood, Softmax):
            from npvi.inference.softmax_learning import SoftmaxObjective  # rarely needed

            return SoftmaxObjective(sorted_.X, sorted_.data, sorted_.basis, graph, start)
        return BoundObjective(sorted_.X, sorted_.data, sorted_.basis, graph, start, careful)

    def climb(
        self,
        table: Table,
        found: _Found,
        max_evaluations: int = 25,
        enough: float = 0.05,
        objective: Objective | None = None,
    ) -> _Found:
        """Uphill from what was found before, on its graph."""
        objective = objective or self.objective(table, found.graph, found.start)

        def report(count: int, value: float) -> None:
            self.history.append(value)
            self.report(evaluation=len(self.history), bound=value)

        model, ascent, space = optimise(
            objective,
            found.model,
            lambda model: self.space(table, model),
            max_evaluations=max_evaluations,
            enough=enough,
            curvature=found.curvature,
            report=report,
        )
        self.at_bound, self.gradient = space.at_bound(ascent.z), ascent.gradient
        start = getattr(objective, "start", None)
        return _Found(model, found.graph, start, ascent.curvature, ascent.value, ascent.gradient)

    def choose_smoothness(self, table: Table, model: Model) -> list[_Found]:
        """A climb with the middle one, from there with a rougher one, and with a smoother one if that was no better.

        The better two count if predictions gain from both, as leaving out one observation after the other tells.
        """
        middle, rougher, smoother = (model.kernel.replace(smoothness=nu) for nu in (1.5, 0.5, 2.5))
        graph = self.build(middle.coordinates(table.X))
        first = self.climb(table, _Found(replace(model, kernel=middle), graph), 15, enough=0.5)
        tried = [first]
        for kernel in (rougher, smoother):
            kernel = kernel.replace(length_scale=first.model.kernel.length_scale, variance=first.model.kernel.variance)
            tried.append(self.climb(table, replace(first, model=replace(first.model, kernel=kernel)), 15, enough=0.5))
            if tried[-1].value > first.value:
                break
        best, second = sorted(tried, key=lambda found: -found.value)[:2]
        # few draws make a mixture look better than it is, never worse
        worth = all(_worth(self.stacked(table, best, second, careful)) for careful in (False, True))
        return [best, second] if worth else [best]

    def stacked(self, table: Table, best: _Found, second: _Found, careful: bool = True) -> Stacked:
        """The mixture of both that predicts best."""
        scores = []
        for found in (best, second):
            objective = self.objective(table, found.graph, found.start, careful)
            leave_one_out = getattr(objective, "leave_one_out", None)
            if leave_one_out is None:
                return Stacked(0.0, 0.0)
            score = np.empty(len(table))
            score[found.graph.order] = leave_one_out(found.model)
            scores.append(score[np.isfinite(score)])
        return stacking(*scores)

    def screen(self, table: Table, model: Model) -> list[tuple[Model, _Information]]:
        """A rough climb on a part of the data: one model or two, and what the part tells about their parameters."""
        part = table if len(table) <= 2 * _SCREEN else table.patches(model.kernel, _SCREEN)
        if isinstance(model.kernel, Matern) and model.kernel.smoothness is None:
            chosen = self.choose_smoothness(part, model)
        else:
            graph = self.build(model.kernel.coordinates(part.X))
            chosen = [self.climb(part, _Found(model, graph), 15, enough=0.5)]
        screened = []
        for found in chosen:
            objective, space = self.objective(part, found.graph, found.start), self.space(part, found.model)
            matrix = information(objective, found.model, space, 0.1, here=found.gradient)
            screened.append((found.model, _Information(matrix, len(part))))
        return screened

    def rounds(self, table: Table, model: Model, known: _Information) -> _Found:
        """Climb, and look for neighbours again where the metric moved."""
        graph = self.build(model.kernel.coordinates(table.X))
        found = _Found(model, graph, None, known.curvature(len(table)))
        for number in range(_ROUNDS):
            before = found.model
            found = self.climb(table, found, max_evaluations=25 if number == 0 else 15)
            if number + 1 == _ROUNDS or not _metric_moved(before, found.model, table.X):
                break
            graph = self.build(found.model.kernel.coordinates(table.X))
            found = replace(found, graph=graph, start=_reordered(found.start, found.graph, graph))
        return found

    def finish(self, table: Table, model: Model, known: _Information) -> _Found:
        """From a rough model to the best one for all rows; where there are many, by way of some."""
        n = len(table)
        if can_collapse(table.data):
            found = self.rounds(table, model, known)
            if n > _ROWS:  # so far by a sample of the rows
                every = self.objective(table, found.graph, None, careful=True)
                found = self.climb(table, found, 8, objective=every)
                found = replace(found, graph=self.build(found.model.kernel.coordinates(table.X)))
            return found
        if n <= 2 * _PART:
            return self.rounds(table, model, known)
        found = self.rounds(table.patches(model.kernel, _PART), model, known)
        graph = self.build(found.model.kernel.coordinates(table.X))
        curvature = None if found.curvature is None else found.curvature * _PART / n
        return self.climb(table, _Found(found.model, graph, None, curvature), 12)


@dataclass(frozen=True)
class _Found:
    """A model on the way, its graph, where its posterior may start, and what is known of the objective there."""

    model: Model
    graph: Graph
    start: Start | None = None
    curvature: NDArray | None = None
    value: float = -np.inf
    gradient: NDArray | None = None


@dataclass(frozen=True)
class _Information:
    """Minus the second derivatives of the objective over a number of rows."""

    matrix: NDArray[np.float64]
    rows: int

    def curvature(self, rows: int) -> NDArray[np.float64]:
        """The inverse of what it would be for other rows.

        More of them in the same place say no more about what these don't tell, such as variance and length scale apart.
        """
        values, vectors = np.linalg.eigh(self.matrix)
        more = np.where(values > _WEAK, rows / self.rows, 1.0)
        return (vectors / (more * np.maximum(np.abs(values), 1.0))) @ vectors.T


def _reordered(start: Start | None, before: Graph, after: Graph) -> Start | None:
    """Means and variances for another order of the same rows."""
    if start is None:
        return None
    place = np.argsort(before.order)[after.order]
    return Start(start.mean[place], start.variance[place])


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
    learner = Learner(said, build, report)
    if not _can_learn(table.data):
        return Learned(model, build(model.kernel.coordinates(table.X)), None, _info(learner, started))
    learner.space(table, model)  # settles how far parameters may go
    found = [learner.finish(table, *one) for one in learner.screen(table, model)]
    stacked = learner.stacked(table, found[0], found[1]) if len(found) > 1 else Stacked(0.0, 0.0)
    info = _info(learner, started)
    best, *others = (Learned(one.model, one.graph, one.start, info) for one in found)
    return replace(best, second=others[0], weight=stacked.weight) if _worth(stacked) else best


def _worth(stacked: Stacked) -> bool:
    """Whether a second model joins the one that the bound prefers: where predictions gain, and as the lesser part.

    Leaving out one observation at a time asks for predictions next to the data. Where that would turn the order of the
    models around, the bound, which also sees how far apart things go together, is right further away: on the MODIS
    temperatures Matérn-3/2 wins next to the data and has 1.6 times the error in the gap.
    """
    return stacked.gain > _WORTH and stacked.weight <= 0.5


def _info(learner: Learner, started: float) -> dict[str, Any]:
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
