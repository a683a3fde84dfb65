"""Learning as a whole: which rows, which smoothness, and when to build the graph anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from npvi.graph import Graph
from npvi.inference import Data, Start
from npvi.learning.bfgs import Information, newton_step, of_more_rows
from npvi.learning.integration import Evaluation
from npvi.learning.links import Comparison, compare, foretell
from npvi.learning.objective import (
    BoundObjective,
    CollapsedObjective,
    Model,
    Objective,
    can_collapse,
    information,
    optimise,
    with_values,
)
from npvi.learning.space import SearchSpace, learnable
from npvi.learning.start import identifies_nugget, limits, weak_priors, wider
from npvi.learning.table import Table
from npvi.likelihoods import Rates, Softmax
from npvi.parameters import POSITIVE_NUMBER, Parameter

__all__ = ["Learned", "Learner", "Stacked", "learn", "stacking"]


Vector = NDArray[np.float64]

#: rows that a sum over conditionals is estimated from
_ROWS = 20_000
#: rows up to which the process is on f where it could be on y: all is dense there, and the likelihood of surfaces that
#: hardly change over many rows, of which K noisy neighbours say little, is exact
_ON_F = 400
#: points of the parts of the data that exploring looks at and that smoothness is chosen on
_PART, _SCREEN = 8192, 2048
#: points of the part on the way to very many, and nats a row below which a step isn't worth making
_LARGE, _NATS = 65_536, 1e-6
#: times the rows of a part from which on it is asked how the bound bends, and how that has grown: of 100,000 counts the
#: standard deviations of log variance and log length scale are .21 and .08, of a part of 8,192 .24 and .12. Taken for
#: .06 and .03, climbs ended two of them short of the best
_MEASURED = 3.0
#: nats that a step of a climb must promise: parameters are then within .6 of their standard errors of the best ones
_ENOUGH = 0.2
#: the same of climbs on a part, which others on more rows follow
_ROUGH = 1.0
#: nats per observation that a mixture must gain for a second smoothness to be worth its cost
_WORTH = 0.002
#: evaluations after which a companion that gains nothing is given up
_TRIED = 8
#: length scales relative to each other must move by this factor before neighbours are looked for again
_MOVED = 1.3
#: rounds of climbing, each on a graph of its own
_ROUNDS = 4
#: parameters beyond which a rough climb takes two more evaluations for each
_MANY = 5
#: rows that are few enough for several starts, and length scales there, relative to those that were found first
_FEW, _STARTS = 512, (0.25, 4.0)
#: places that are left out, one after the other, to choose a link
_PLACES = 256
#: what smoothness may be
_SMOOTHNESS = (0.5, 1.5, 2.5)
#: where their correlations are a half, in length scales
_HALF = {0.5: 0.6931, 1.5: 0.9690, 2.5: 1.0421}
#: nats between two smoothnesses below which the part can't tell, and below which a larger one can't
_TELLS, _DOUBT = 50.0, 10.0
#: rows from which on there is something to learn: with priors as soon as responses can have a scale, since what the
#: data leave open is integrated over; and by maximum likelihood
_FEWEST, _FEWEST_FLAT = 2, 5


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
    learner: Learner | None = None
    """What it was learned by, with its limits and priors; None where nothing was."""


class Learner:
    """What learning is made of: an objective for some rows, climbs on it, and from one climb to the next.

    Parameters
    ----------
    said : what the user said about parameters, by full name.
    build : from coordinates to a graph.
    report : called with the numbers of each evaluation.
    weak : whether there are weak priors of what the user said nothing about.
    other_start : the model at the data's own scales, where it was given at others.
    """

    def __init__(
        self,
        said: Mapping[str, Parameter],
        build: Callable[[NDArray], Graph],
        report: Callable[..., None] = lambda **numbers: None,
        weak: bool = True,
        other_start: Model | None = None,
    ) -> None:
        self.said, self.build, self.report, self.weak, self.other_start = said, build, report, weak, other_start
        self.history: list[float] = []
        self.link: Comparison | None = None
        self._settled: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._visited: dict[Any, list[tuple[Graph, Evaluation]]] = {}

    def space(self, table: Table, model: Model) -> SearchSpace:
        """What is learned; how far it may go, and what is likely, is settled by the first model and the first table."""
        link = getattr(model.likelihood, "link", None)
        if link not in self._settled:
            X, y, weight = table.X, table.data.y, table.data.weight
            if weight is not None and np.any(weight > 0.0):
                X, y = X[weight > 0.0], y[weight > 0.0]
            unit = replace(table.data, likelihood=model.likelihood).latent_unit
            priors = weak_priors(model, X, y, unit) if self.weak else {}
            ends = limits(model, X)
            if self.other_start is not None:
                ends = wider(ends, limits(self.other_start, X))
            self._settled[link] = ends, priors
        domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
        said = dict(self.said)
        if can_collapse(table.data):  # noise and nugget are one
            said["nugget"] = Parameter(model.nugget, fixed=True)
        if model.nugget == 0.0 or ("nugget" not in said and not identifies_nugget(model.likelihood)):
            said["nugget"] = Parameter(model.nugget, fixed=True)
        return SearchSpace(model.named(), domains | {"nugget": POSITIVE_NUMBER}, said, *self._settled[link])

    def objective(self, table: Table, graph: Graph, start: Start | None, careful: bool = False) -> Objective:
        sorted_ = table.take(graph.order)
        n = graph.n_points
        if can_collapse(table.data) and n > _ON_F:
            rows = graph.spatial
            if n > _ROWS and not careful:  # the same for every graph
                chosen = np.zeros(n, dtype=bool)
                chosen[np.random.default_rng(0).choice(n, _ROWS, replace=False)] = True
                rows = rows[chosen[graph.order[rows]]]
            return CollapsedObjective(sorted_.X, sorted_.data, sorted_.basis, graph, rows)
        if isinstance(table.data.likelihood, Softmax):
            from npvi.learning.softmax import SoftmaxObjective  # rarely needed

            return SoftmaxObjective(sorted_.X, sorted_.data, sorted_.basis, graph, start)
        return BoundObjective(sorted_.X, sorted_.data, sorted_.basis, graph, start, careful)

    def climb(
        self,
        table: Table,
        found: _Found,
        max_evaluations: int = 25,
        enough: float = _ENOUGH,
        objective: Objective | None = None,
        least: float = -np.inf,
    ) -> _Found:
        """Uphill from what was found before, on its graph, as long as there is hope to come to `least`."""
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
            visited=self._remember(table, found),
            least=least,
        )
        start = getattr(objective, "start", None)
        at_bound = tuple(space.at_bound(ascent.z))
        return _Found(model, found.graph, start, ascent.curvature, ascent.value, ascent.gradient, at_bound, found.fewer)

    def visited(self, table: Table, model: Model, graph: Graph) -> list[Evaluation]:
        """Where the bound of these rows is known for models like this one. With other neighbours it is another bound,
        which counts where both are about the same at a model that both know."""
        known = self._visited.get(_kind(table, model), [])
        same = [one for where, one in known if where is graph]
        others: dict[int, list[Evaluation]] = {}
        for where, one in known:
            if where is not graph:
                others.setdefault(id(where), []).append(one)
        return same + [one for other in others.values() if _agree(same, other) for one in other]

    def _remember(self, table: Table, found: _Found) -> Callable[[Vector, float, Vector], None]:
        known = self._visited.setdefault(_kind(table, found.model), [])
        return lambda z, value, gradient: known.append((found.graph, Evaluation(z, value, gradient)))

    def explore(self, table: Table, model: Model, enough: float) -> list[_Found]:
        """Rough climbs, which end where a step promises less than `enough`, the best first: with the middle smoothness,
        from there with a rougher one, and with a smoother one if that was no better; with another start or two, where
        there are few rows."""
        if self.other_start is not None:
            model = max((model, self.other_start), key=lambda start: self._value(table, start))
        graph = self.build(model.kernel.coordinates(table.X))
        most = 15 + 2 * max(0, len(self.space(table, model)) - _MANY)
        if not model.kernel.choices(table.X):
            tried = [self.climb(table, _Found(model, graph), most, enough)]
        else:
            middle = with_smoothness(model, table.X, 1.5)
            first = self.climb(table, _Found(middle, graph), most, enough)
            tried = [first]
            for smoothness in (0.5, 2.5):
                other = replace(first, model=self._as_far(table, first.model, smoothness))
                tried.append(self.climb(table, other, most, enough))
                if tried[-1].value > first.value:
                    break
        tried.sort(key=lambda found: -found.value)
        if len(table) <= _FEW:
            tried[0] = max([tried[0], *self._other_starts(table, tried[0])], key=lambda found: found.value)
        return tried

    def _as_far(self, table: Table, model: Model, smoothness: float) -> Model:
        """The same model with another smoothness, and correlations of a half as far away as before."""
        after, values = with_smoothness(model, table.X, smoothness), model.named()
        free = {coordinate.name for coordinate in self.space(table, model).coordinates}
        for one in model.open_smoothness:
            name = "kernel__" + one.removesuffix("smoothness") + "length_scale"
            if name in free:
                before = model.kernel.get_params(deep=True)[one]
                values[name] = (_HALF[before] / _HALF[smoothness] * np.asarray(values[name])).tolist()
        return after.at(values)

    def _value(self, table: Table, model: Model) -> float:
        """The objective at a model."""
        if model.kernel.choices(table.X):
            model = with_smoothness(model, table.X, 1.5)
        return self.climb(table, _Found(model, self.build(model.kernel.coordinates(table.X))), 1).value

    def _other_starts(self, table: Table, found: _Found) -> Iterator[_Found]:
        """Climbs from shorter and from longer length scales."""
        free = {c.name for c in self.space(table, found.model).coordinates if c.name.endswith("length_scale")}
        for factor in _STARTS if free else ():
            values = found.model.named()
            values |= {name: (factor * np.asarray(values[name])).tolist() for name in free}
            yield self.climb(table, replace(found, model=found.model.at(values), curvature=None), 15, enough=0.5)

    def rival(self, table: Table, learned: Learned) -> Learned | None:
        """The best model of another smoothness, from where one was learned; None where that is held."""
        model, tried = learned.model, []
        for smoothness in _SMOOTHNESS if model.open_smoothness else ():
            other = with_smoothness(model, table.X, smoothness)
            if _kind(table, other) != _kind(table, model):
                tried.append(self.climb(table, _Found(other, learned.graph, learned.start), 8, enough=0.5))
        if not tried:
            return None
        best = _by_value(tried)[0]
        return Learned(best.model, best.graph, best.start, learned.info)

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
            scores.append(score)
        both = np.isfinite(scores).all(axis=0)
        return stacking(*(score[both] for score in scores)) if both.any() else Stacked(0.0, 0.0)

    def joins(self, table: Table, best: _Found, others: list[_Found]) -> bool:
        """Whether the next best joins in a mixture, as some of all rows have it."""
        # few draws make a mixture look better than it is, never worse
        return bool(others) and all(_worth(self.stacked(table, best, others[0], c)) for c in (False, True))

    def other_link(self, table: Table, found: _Found, other: Model) -> tuple[_Found, Comparison] | None:
        """What was found with the link of another model, and how it compares at places that are left out; None where
        nothing was found."""
        linked = self.with_link(table, found, other)
        if linked is None:
            return None
        climbed = self.climb(table, linked, 10, enough=_ROUGH)
        foretold = []
        for one in (found, climbed):
            objective = self.objective(table, one.graph, one.start)
            assert isinstance(objective, BoundObjective)
            left_out = objective.leave_place_out(one.model, _PLACES)
            if left_out is None:
                return None
            data = replace(table.take(one.graph.order).data, likelihood=one.model.likelihood)
            foretold.append(foretell(data, left_out))
        return climbed, compare(foretold[0], foretold[1])

    def with_link(self, table: Table, found: _Found, other: Model) -> _Found | None:
        """What was found, with the link of another model: f is what has the same rate at the posterior mean, variances
        are those of small changes there. None where nothing was found."""
        before, start = found.model.likelihood, found.start
        assert isinstance(before, Rates)
        assert isinstance(other.likelihood, Rates)
        if start is None:
            return None
        likelihood = before.replace(link=other.likelihood.link, knee=other.likelihood.knee)
        model = replace(found.model, likelihood=likelihood, coefficient_precision=other.coefficient_precision)
        step = 1e-3
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            rates = (before.rate_numpy(start.mean + s, 1.0) for s in (-step, 0.0, step))
            low, f, high = (likelihood.latent_of(rate) for rate in rates)
            good = bool(np.isfinite([low, f, high]).all())
            slope = (high - low) / (2.0 * step) if good else np.ones_like(f)
        scaled = {
            "nugget",
            *(f"kernel__{part.name}variance" for part in model.kernel.parts(table.X) if not part.factor),
        }
        free = {coordinate.name for coordinate in self.space(table, model).coordinates}
        values = model.named()
        values |= {name: float(slope.mean()) ** 2 * values[name] for name in scaled & free}
        # where one link has led to rates that are no numbers the other begins at the data's own sites
        linked = Start(f, slope**2 * start.variance) if good else None
        return replace(found, model=model.at(values), start=linked)

    def known(self, table: Table, found: _Found) -> Information:
        """What some rows tell about the parameters of a model that was found on them."""
        objective, space = self.objective(table, found.graph, found.start), self.space(table, found.model)
        matrix = information(objective, found.model, space, 0.1, here=found.gradient)
        # where a step leads to where the bound is no number, nothing is known
        return Information(np.where(np.isfinite(matrix), matrix, 0.0), len(table))

    def begun(self, table: Table, part: Table, found: _Found) -> _Found:
        """What was found on a part, to be climbed from on more rows."""
        information = self.known(part, found)
        graph = self.build(found.model.kernel.coordinates(table.X))
        return _Found(found.model, graph, None, information.curvature(len(table)), fewer=information)

    def moved_along(self, table: Table, found: _Found, part: _Found, other: _Found) -> _Found:
        """Another model of the part, to be climbed from on more rows: what they changed of one they change of the
        other, about, and they bend as much."""
        space = self.space(table, other.model)
        before, after = (self.space(table, one.model).vector() for one in (part, found))
        z = np.clip(space.vector() + after - before, space.low, space.high)
        model = other.model.at(space.named(z))
        return _Found(model, self.build(model.kernel.coordinates(table.X)), None, found.curvature)

    def companion(self, table: Table, best: _Found, second: _Found, in_doubt: bool) -> list[_Found]:
        """Both, if the second, of which a few steps tell, is worth its cost; else the one. Which of them comes first is
        for these rows to say where it is `in_doubt`."""
        second = self.climb(table, second, _TRIED)
        first, other = _by_value([best, second]) if in_doubt else [best, second]
        # of a sum over some rows, some of what others say is missing
        if not _worth(self.stacked(table, first, other, careful=can_collapse(table.data))):
            return [best]
        second = self.rounds(table, second)
        return _by_value([best, second]) if in_doubt else [best, second]

    def rounds(self, table: Table, found: _Found) -> _Found:
        """Climb, and look for neighbours again where the metric moved."""
        for number in range(_ROUNDS):
            before = found.model
            found = self.climb(table, found, max_evaluations=25 if number == 0 else 15)
            if number + 1 == _ROUNDS or not _metric_moved(before, found.model, table.X):
                break
            graph = self.build(found.model.kernel.coordinates(table.X))
            found = replace(found, graph=graph, start=_reordered(found.start, found.graph, graph))
        return found

    def confirm(self, table: Table, found: _Found, others: list[_Found]) -> list[_Found]:
        """All on more rows than couldn't tell them apart, the best first; `found` is what it is on these rows. Those
        that they can tell from it are given up on the way."""
        least = found.value - _DOUBT
        return _by_value([found, *(self.climb(table, other, 6, enough=0.5, least=least) for other in others)])

    def every_row(self, table: Table, found: _Found, part: Table) -> _Found:
        """From a model that was found on a part to the best one for all rows; where there are very many, by way of a
        larger part, and in a few steps."""
        if can_collapse(table.data):  # so far by a sample of the sum
            every = self.objective(table, found.graph, None, careful=True)
            found = self.climb(table, found, 8, objective=every)
            return replace(found, graph=self.build(found.model.kernel.coordinates(table.X)))
        if len(table) > 2 * _LARGE and len(part) < _LARGE:
            larger = table.patches(found.model.kernel, _LARGE)
            found, part = self.every_row(larger, found, part), larger
        times = len(table) / len(part)
        information, curvature = None, found.curvature
        if found.fewer is not None and times > _MEASURED:
            information = self.known(part, found)
            curvature = information.grown(found.fewer, len(table))
        elif curvature is not None:
            curvature = of_more_rows(curvature, times)
        graph = self.build(found.model.kernel.coordinates(table.X))
        return self._last(table, _Found(found.model, graph, None, curvature, fewer=information))

    def beside(self, table: Table, found: _Found, part: _Found, other: _Found) -> _Found:
        """The other model of a part for all rows, beside one that was found for them; given up on the way where it
        isn't going to be the better one."""
        return self._last(table, self.moved_along(table, found, part, other), found.value)

    def taken(self, table: Table, found: _Found) -> _Found:
        """What was found, and the step with which its climb ended since that promised too little to be looked at: it
        costs nothing, and takes most of what is left to the best model."""
        if found.curvature is None or found.gradient is None:
            return found
        space = self.space(table, found.model)
        z = space.vector()
        step = newton_step(found.curvature, found.gradient, z, space.low, space.high)
        if not 0.0 < 0.5 * float(step @ found.gradient) < self._enough(table):
            return found
        model = found.model.at(space.named(np.clip(z + step, space.low, space.high)))
        return replace(found, model=model, gradient=None)

    @staticmethod
    def _enough(table: Table) -> float:
        """Nats that a step on all rows must promise."""
        return max(_ENOUGH, _NATS * len(table))

    def _last(self, table: Table, found: _Found, least: float = -np.inf) -> _Found:
        """The climb on all rows."""
        most = 12 if len(table) <= 2 * _LARGE else 3
        return self.climb(table, found, most, self._enough(table), least=least)


@dataclass(frozen=True)
class _Found:
    """A model on the way, its graph, where its posterior may start, and what is known of the objective there."""

    model: Model
    graph: Graph
    start: Start | None = None
    curvature: NDArray | None = None
    value: float = -np.inf
    gradient: NDArray | None = None
    at_bound: tuple[str, ...] = ()
    """Parameters that ended at the end of what they may be."""
    fewer: Information | None = None
    """What a part of these rows has known, before."""


def _kind(table: Table, model: Model) -> tuple:
    """What the bound is of, besides the numbers that are learned."""
    smoothness = tuple(model.kernel.get_params(deep=True).get(name) for name in model.open_smoothness)
    return len(table), getattr(model.likelihood, "link", None), smoothness


def _agree(some: list[Evaluation], others: list[Evaluation]) -> bool:
    """Whether two bounds are the same, as far as a climb tells, where both are known; False where that is nowhere."""
    off = [abs(a.value - b.value) for a in some for b in others if np.allclose(a.z, b.z, rtol=0.0, atol=1e-9)]
    return bool(off) and max(off) < some[0].error


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
    weak: bool = True,
    other_link: Model | None = None,
    other_start: Model | None = None,
) -> Learned:
    """The model with the largest bound (the largest likelihood where f can be integrated out).

    Of one row nothing is learned: the model stays where it starts. (Without priors of fewer than five, or equal ones.)

    Parameters
    ----------
    table : the data.
    model : where to start.
    said : what the user said about parameters, by full name.
    build : from coordinates to a graph.
    report : called with the numbers of each evaluation.
    weak : whether there are weak priors of what the user said nothing about.
    other_link : the model with another link, where the data are to choose.
    other_start : the model at the data's own scales, where `model` is at others.
    """
    started = time.perf_counter()
    learner = Learner(said, build, report, weak, other_start)
    if not _can_learn(table.data, weak):
        return Learned(model, build(model.kernel.coordinates(table.X)), None, _info(learner, started))
    learner.space(table, model)  # settles how far parameters may go
    found = _found(learner, table, model, other_link)
    stacked = learner.stacked(table, found[0], found[1]) if len(found) > 1 else Stacked(0.0, 0.0)
    info = _info(learner, started, found[0])
    best, *others = (Learned(one.model, one.graph, one.start, info, learner=learner) for one in found)
    if _worth(stacked):
        return replace(best, second=others[0], weight=stacked.weight)
    return best


def _found(learner: Learner, table: Table, model: Model, other_link: Model | None) -> list[_Found]:
    """The best model for all rows, and perhaps a second one that is worth its cost."""
    n, collapsed = len(table), can_collapse(table.data)
    part = table if n <= 2 * _SCREEN else table.patches(model.kernel, _SCREEN)
    best, *others = learner.explore(part, model, _ROUGH if part is not table else 0.5)
    if other_link is not None:
        learner.space(table, other_link)
        compared = learner.other_link(part, best, other_link)
        if compared is not None:
            learner.link = compared[1]
            if compared[1].second:
                # what one link rules out the other does
                open_ = others[:1] if _in_doubt(best, others[:1]) or learner.joins(part, best, others) else []
                linked = (learner.with_link(part, one, other_link) for one in open_)
                rivals = [learner.climb(part, one, 10, enough=_ROUGH) for one in linked if one is not None]
                best, *others = _by_value([compared[0], *rivals])
    worth = learner.joins(part, best, others)
    larger = table if collapsed or n <= 2 * _PART else table.patches(model.kernel, _PART)
    found = [learner.rounds(larger, learner.begun(larger, part, best))]
    # a part sees near and far alike; all rows see near ones most, and are asked where the part can't tell
    rivals = _in_doubt(best, others) if part is not table else []
    settled = worth and part is not table and not _in_doubt(best, others[:1])
    if worth:
        found = learner.companion(larger, found[0], learner.moved_along(larger, found[0], best, others[0]), not settled)
    elif rivals:
        rivals = [learner.moved_along(larger, found[0], best, one) for one in rivals]
        found = learner.confirm(larger, found[0], rivals)[:2]
        if larger is table or found[0].value - found[1].value >= _DOUBT:
            found = found[:1]
    if larger is not table or (collapsed and n > _ROWS):
        first = learner.every_row(table, found[0], larger)
        if worth:
            others = [learner.every_row(table, one, larger) for one in found[1:]]
        else:
            others = [learner.beside(table, first, found[0], one) for one in found[1:]]
        found = [first, *others]
    found = found if settled else _by_value(found)
    found = found if worth else found[:1]
    # few rows are explored around what was found
    return found if part is table else [learner.taken(table, one) for one in found]


def _by_value(found: list[_Found]) -> list[_Found]:
    """The best first."""
    return sorted(found, key=lambda one: -one.value)


def _in_doubt(best: _Found, others: list[_Found]) -> list[_Found]:
    """Those that the part can't tell from the best."""
    return [one for one in others if best.value - one.value < _TELLS]


def _worth(stacked: Stacked) -> bool:
    """Whether a second model joins the one that the bound prefers: where predictions gain, and as the lesser part.

    Leaving out one observation at a time asks for predictions next to the data. Where that would turn the order of the
    models around, the bound, which also sees how far apart things go together, is right further away: on the MODIS
    temperatures Matérn-3/2 wins next to the data and has 1.6 times the error in the gap.
    """
    return stacked.gain > _WORTH and stacked.weight <= 0.5


def _info(learner: Learner, started: float, found: _Found | None = None) -> dict[str, Any]:
    return {
        "evaluations": len(learner.history),
        "objective": list(learner.history),
        "at_bound": [] if found is None else list(found.at_bound),
        "gradient": [] if found is None or found.gradient is None else found.gradient.tolist(),
        "link": None if learner.link is None else learner.link.as_dict(),
        "seconds": time.perf_counter() - started,
    }


def _can_learn(data: Data, weak: bool) -> bool:
    """Whether there are rows enough among those that have weight."""
    y = data.y if data.weight is None else data.y[data.weight > 0.0]
    return len(y) >= _FEWEST if weak else len(y) >= _FEWEST_FLAT and bool(np.ptp(y) > 0.0)


def with_smoothness(model: Model, X: NDArray, smoothness: float) -> Model:
    """The same model, with another smoothness of each Matérn that isn't held."""
    names = model.open_smoothness or tuple(model.kernel.choices(X))
    kernel = with_values(model.kernel, dict.fromkeys(names, smoothness))
    return replace(model, kernel=kernel, open_smoothness=names)


def _metric_moved(before: Model, after: Model, X: NDArray) -> bool:
    """Whether length scales changed relative to each other, so that other points may be nearest."""
    ratios = []
    for old, new in zip(_precisions(before, X), _precisions(after, X)):
        ratios.append(np.sqrt(new / old))
    ratio = np.concatenate(ratios) if ratios else np.ones(1)
    return bool(ratio.max() / ratio.min() > _MOVED)


def _precisions(model: Model, X: NDArray) -> list[NDArray]:
    return [frame.precision for frame in model.kernel.frames(X[:1]).values()]


# -- how much weight each of two models should have in a mixture of their predictions ---------------------------------


class Stacked(NamedTuple):
    """The best mixture of two models."""

    weight: float
    """The share of the second."""
    gain: float
    """By how much the mean log density is higher than that of the better one alone."""


def stacking(first: Vector, second: Vector) -> Stacked:
    """The mixture with the largest Σ log((1 − w) exp(first) + w exp(second)).

    Both are log densities of the same held-out observations, under one model and the other (Yao et al. 2018, "Using
    stacking to average Bayesian predictive distributions"). The sum is concave in w.

    >>> rng = np.random.default_rng(0)
    >>> good, bad = -0.1 * rng.random(100), -3.0 * rng.random(100)
    >>> round(stacking(good, bad).weight, 3), round(stacking(bad, good).weight, 3), round(stacking(good, bad).gain, 3)
    (0.0, 1.0, 0.0)
    """

    def loss(w: float) -> float:
        return -float(np.logaddexp(np.log1p(-w) + first, np.log(w) + second).mean())

    found = minimize_scalar(loss, bounds=(1e-9, 1.0 - 1e-9), method="bounded")
    return Stacked(float(found.x), max(0.0, -float(found.fun) - max(float(first.mean()), float(second.mean()))))
