"""Learning what the parts of a predictor are like: standard deviations of groups, smoothing, kernels, nuggets.

The bound at its best q is climbed as a function of them all, on the logarithmic scale. At the optimum of q its
derivative is that of E log p(z_j | θ_j) alone for each part (the envelope theorem), found from its own moments.

A group may have no variation between its levels. There the derivative in log σ vanishes, and a climb ends wherever it
becomes flat; so what has become small is tried at its end too, and a group that isn't worse there is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.components import Component, Dense, Group, Parts, Process, Recent, Rows, Spline
from npvi.graph import Graph, build_graph
from npvi.inference import AllOfParts, Data, Fit, Start, fit_posterior
from npvi.kernels import Kernel
from npvi.learning.bfgs import Ascent, Information, climb, of_more_rows
from npvi.learning.objective import with_values
from npvi.learning.space import SearchSpace, learnable, unwrapped
from npvi.learning.start import limits_of_noise
from npvi.learning.table import telling_rows
from npvi.likelihoods import Likelihood, parameter_gradient
from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, inside
from npvi.priors import NNGP, NotPositiveDefiniteError

__all__ = [
    "GroupModel",
    "Held",
    "LearnedParts",
    "PartModel",
    "PartsObjective",
    "ProcessModel",
    "Sought",
    "SplineModel",
    "learn_parts",
]

Vector = NDArray[np.float64]

#: how far a standard deviation may go from its start, and a smoothing parameter, which is like one over its square
_FURTHEST_SD, _FURTHEST_SMOOTHING = 1e4, 1e8
#: a correlation is this far from ±1 at least
_APART = 1e-5
#: nats that the bound may be off by, and that a step must promise: where all is exact, and where draws tell variances.
#: The draws are always the same, so that differences of the bound are far nearer than the bound itself.
_EXACT, _DRAWN = (1e-7, 1e-7), (0.05, 0.005)
#: nats that an iteration must gain on the way
_ENOUGH = 0.05
#: rows of the parts of the data that learning looks at first, where there are more than twice as many; nats that a step
#: there must promise, and evaluations at most
_SIZES, _ROUGHLY, _MOST = (4096, 65_536), 0.05, 60
#: nats that a part of the predictor must gain on a part of the rows to be there for sure, and how far towards nothing
#: (in logarithms) others begin with all rows
_SURE, _FAR = 10.0, 2.0
#: steps of differences
_APART_BY = 0.1
#: nats below the best bound so far from which on a start is to blame
_LOST = 100.0


@dataclass(frozen=True)
class Sought:
    """A parameter of a part.

    Attributes
    ----------
    start : where learning starts: a number, several, or a `Parameter` with bounds and a prior.
    interval : what it may be.
    low, high : how far it may go: beyond, nothing changes any more.
    simplest : at which of these ends the part is simplest, if at any.
    """

    start: Any
    interval: Interval = POSITIVE_NUMBER
    low: Any = -np.inf
    high: Any = np.inf
    simplest: Literal["low", "high"] | None = None

    @property
    def value(self) -> Any:
        """The start itself."""
        return inside(self.start) if isinstance(self.start, Parameter) else self.start

    @property
    def reaches_simplest(self) -> bool:
        """Whether it may go as far as the part is simplest: not where a user's bound comes first."""
        said = self.start if isinstance(self.start, Parameter) else Parameter(self.start)
        if self.simplest == "low":
            return bool(np.all(said.lower <= np.asarray(self.low)))
        return self.simplest == "high" and bool(np.all(said.upper >= np.asarray(self.high)))


class PartModel(Protocol):
    """A component as a function of its parameters."""

    @property
    def name(self) -> str: ...

    @property
    def sought(self) -> Mapping[str, Sought]:
        """Its parameters by name."""
        ...

    def component(self, values: Mapping[str, Any]) -> Component[Any]:
        """What it is for some values."""
        ...

    def gradient(
        self, component: Any, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        """∂/∂θ of E log p(z) by name: for E zzᵀ = `factor`⁻¹ + functions functionsᵀ."""
        ...

    def nothing(self, at_end: Collection[str]) -> bool:
        """Whether it says nothing any more where these of its parameters are at their simplest."""
        ...

    @property
    def alike(self) -> NDArray[Any] | None:
        """What rows that tell of it together have in common, as `npvi.learning.table.telling_rows` asks for it."""
        ...

    def of_rows(self, rows: NDArray[np.intp]) -> PartModel:
        """The same for some of the rows, which learning looks at first."""
        ...


@dataclass(frozen=True)
class Held:
    """A part without parameters to learn, such as coefficients."""

    name: str
    held: Component[Any]

    @property
    def sought(self) -> dict[str, Sought]:
        return {}

    def component(self, values: Mapping[str, Any]) -> Component[Any]:
        return self.held

    def gradient(self, component: Any, values: Mapping[str, Any], functions: Any, factor: Any) -> dict[str, Any]:
        return {}

    def nothing(self, at_end: Collection[str]) -> bool:
        return False

    @property
    def alike(self) -> None:
        return None

    def of_rows(self, rows: NDArray[np.intp]) -> Held:
        return Held(self.name, self.held.of_rows(rows))


@dataclass(frozen=True)
class GroupModel:
    """Effects of levels: ``sd``, one for an intercept or as many as there are effects of a level, and ``correlation``.

    Of more than two effects the correlations are partial ones, row by row, each given those before it in its row: any
    numbers between −1 and 1 then make a correlation matrix.

    Attributes
    ----------
    name : of the part.
    levels : how many there are.
    at : the level of each row, shape (rows,).
    sd : where learning starts, a number or d of them; a `Parameter` says more.
    weight : shape (rows, d); None for 1.
    correlation : where learning starts, d (d − 1)/2 numbers; a `Parameter` says more.

    Examples
    --------
    >>> weight = np.array([[1.0, 0.0], [1.0, 3.0]])
    >>> slopes = GroupModel("subject", 2, np.array([0, 1]), [2.0, 1.0], weight)
    >>> slopes.component({"sd": [2.0, 1.0], "correlation": [0.5]}).covariance.round(3)
    array([[4., 1.],
           [1., 1.]])
    """

    name: str
    levels: int
    at: NDArray[np.intp]
    sd: Any
    weight: NDArray[np.float64] | None = None
    correlation: Any = 0.0

    @property
    def sought(self) -> dict[str, Sought]:
        sd = Sought(self.sd)
        sd = replace(sd, low=np.divide(sd.value, _FURTHEST_SD), high=np.multiply(sd.value, _FURTHEST_SD))
        sd = replace(sd, simplest="low")
        d = 1 if self.weight is None or self.weight.ndim == 1 else self.weight.shape[1]
        if d == 1:
            return {"sd": sd}
        start = self.correlation
        if not isinstance(start, Parameter):
            start = np.broadcast_to(np.asarray(start, dtype=np.float64), d * (d - 1) // 2)
        correlation = Sought(start, Interval(-1.0, 1.0), _APART - 1.0, 1.0 - _APART)
        return {"sd": sd, "correlation": correlation}

    def component(self, values: Mapping[str, Any]) -> Group:
        covariance = _covariance(np.atleast_1d(values["sd"]), np.atleast_1d(values.get("correlation", [])))
        return Group(self.levels, self.at, covariance, self.weight)

    def gradient(
        self, component: Group, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        in_covariance = component.gradient(functions, factor)
        sd, correlation = np.atleast_1d(values["sd"]), np.atleast_1d(values.get("correlation", []))
        both = np.concatenate([sd, correlation]).astype(complex)
        slopes = np.empty(len(both))
        for k in range(len(both)):
            moved = both.copy()
            moved[k] += 1e-30j  # a complex step: exact derivatives of what is analytic
            along = np.imag(_covariance(moved[: len(sd)], moved[len(sd) :])) / 1e-30
            slopes[k] = np.sum(in_covariance * along)
        return {"sd": slopes[: len(sd)], "correlation": slopes[len(sd) :]}

    def nothing(self, at_end: Collection[str]) -> bool:
        return "sd" in at_end

    @property
    def alike(self) -> NDArray[np.intp]:
        return self.at

    def of_rows(self, rows: NDArray[np.intp]) -> GroupModel:
        levels, at = np.unique(self.at[rows], return_inverse=True)
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, levels=len(levels), at=at, weight=weight)


def _covariance(sd: NDArray, correlation: NDArray) -> NDArray:
    """diag(sd) C Cᵀ diag(sd), C having rows of length 1, by partial correlations."""
    d = len(sd)
    root = np.zeros((d, d), dtype=np.result_type(sd, correlation))
    at = 0
    for i in range(d):
        left: Any = 1.0
        for j in range(i):
            root[i, j] = correlation[at] * np.sqrt(left)
            left = left * (1.0 - correlation[at] ** 2)
            at += 1
        root[i, i] = np.sqrt(left)
    root = sd[:, None] * root
    return root @ root.T


@dataclass(frozen=True)
class SplineModel:
    """A smooth of one covariate: ``smoothing``, of which so much that nothing but a straight line is left may be best.

    Attributes
    ----------
    name : of the part.
    spline : its functions.
    x : the covariate, shape (rows,).
    smoothing : where learning starts; a `Parameter` says more.
    line_precision : prior precision of the straight line's coefficient; 0 is a flat prior.
    """

    name: str
    spline: Spline
    x: Vector
    smoothing: Any
    line_precision: float = 0.0

    @property
    def sought(self) -> dict[str, Sought]:
        start = Sought(self.smoothing)
        ends = (start.value / _FURTHEST_SMOOTHING, start.value * _FURTHEST_SMOOTHING)
        return {"smoothing": Sought(self.smoothing, POSITIVE_NUMBER, *ends, "high")}

    def component(self, values: Mapping[str, Any]) -> Dense:
        return self.spline.part(self.x, float(values["smoothing"]), self.line_precision)

    def gradient(
        self, component: Dense, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        return {"smoothing": component.gradient(self.spline.penalty, functions, factor)}

    def nothing(self, at_end: Collection[str]) -> bool:
        return False

    @property
    def alike(self) -> None:
        return None

    def of_rows(self, rows: NDArray[np.intp]) -> SplineModel:
        return replace(self, x=self.x[rows])


class ProcessModel:
    """A nearest-neighbour process: ``kernel__…`` and ``nugget``. Its graph is that of the kernel it starts from.

    Parameters
    ----------
    name : of the part.
    X : its points, shape (M, d), each once.
    kernel, nugget : where learning starts; a `Parameter` says more, `npvi.fixed` that something isn't learned.
    n_neighbors : parents of each point.
    at : which of its points each row sees, shape (rows,); None where row i sees point i.
    weight : what it is multiplied with, shape (rows,); None for 1.
    """

    def __init__(
        self,
        name: str,
        X: NDArray[np.float64],
        kernel: Kernel,
        nugget: Any,
        n_neighbors: int = 20,
        at: NDArray[np.intp] | None = None,
        weight: Vector | None = None,
    ) -> None:
        self.name, self.nugget = name, nugget
        self.kernel, self._said = unwrapped(kernel, "kernel")
        self.graph = build_graph(self.kernel.coordinates(X), n_neighbors)
        self.X = X[self.graph.order]
        position = np.argsort(self.graph.order)
        self.rows = Rows(len(X), position if at is None else position[at], weight)

    @property
    def sought(self) -> dict[str, Sought]:
        limits = {f"kernel__{name}": ends for name, ends in self.kernel.limits(self.X).items()}
        values, found = self.kernel.get_params(deep=True), {}
        for name, interval in learnable(self.kernel, "kernel").items():
            start = self._said.get(name, values[name.removeprefix("kernel__")])
            found[name] = Sought(start, interval, *limits.get(name, (-np.inf, np.inf)))
        nugget = Sought(self.nugget).value
        return found | {"nugget": Sought(self.nugget, POSITIVE_NUMBER, 1e-3 * nugget)}

    def component(self, values: Mapping[str, Any]) -> Process:
        inner = {name.removeprefix("kernel__"): value for name, value in values.items() if name != "nugget"}
        prior = NNGP(with_values(self.kernel, inner), float(values["nugget"]), self.X, self.graph)
        return Process(prior, self.rows)

    def gradient(
        self, component: Process, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        found = component.gradient(functions, factor)
        deep = found.kernel.get_params(deep=True)
        slopes = {name: deep[name.removeprefix("kernel__")] for name in learnable(self.kernel, "kernel")}
        return slopes | {"nugget": found.nugget}

    def nothing(self, at_end: Collection[str]) -> bool:
        return False

    @property
    def alike(self) -> NDArray[np.float64]:
        return self.kernel.coordinates(self.X)[self.rows.positions]

    def of_rows(self, rows: NDArray[np.intp]) -> ProcessModel:
        some = copy(self)
        some.X, some.graph, some.rows = seen_by(rows, self.rows, self.X, self.graph, self.kernel.coordinates)
        return some


def seen_by(
    chosen: NDArray[np.intp],
    rows: Rows,
    X: NDArray[np.float64],
    graph: Graph,
    coordinates: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[NDArray[np.float64], Graph, Rows]:
    """The points that some rows see, in the order of a graph of their own, and what these rows see of them."""
    positions, at = np.unique(rows.positions[chosen], return_inverse=True)
    graph = build_graph(coordinates(X[positions]), graph.parents.shape[1])
    weight = None if rows.weight is None else rows.weight[chosen]
    return X[positions][graph.order], graph, Rows(len(positions), np.argsort(graph.order)[at], weight)


class PartsObjective:
    """The bound of the best Gaussian and its gradient, as functions of all parameters; by the same random numbers.

    Parameters
    ----------
    models : of the parts.
    data : with the likelihood that learning starts from.
    offset : of the predictor, shape (rows,).
    dense : up to so many numbers in all everything is dense, and exact.
    same : full names of parameters that are another one's, and whose.
    weak : whether what the responses leave open of the likelihood has a weak prior.
    """

    def __init__(
        self,
        models: Sequence[PartModel],
        data: Data,
        offset: Vector | None = None,
        dense: int | None = None,
        same: Mapping[str, str] | None = None,
        weak: bool = True,
    ) -> None:
        self.models, self.offset, self.same = tuple(models), offset, dict(same or {})
        self._dense = {} if dense is None else {"dense": dense}
        likelihood, said = unwrapped(data.likelihood, "likelihood")
        self.data = replace(data, likelihood=likelihood)
        unseen = likelihood.unseen(data.y) if weak else {}
        self.space = _space(self.models, likelihood, said, self.same, unseen)
        self._start: Start | None = None
        self._seen: Start | None = None
        self._recent = Recent()
        self._best = -np.inf
        #: of all fits so far, each of which begins where the last one has ended
        self.iterations = 0

    def __call__(self, values: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        """The bound, and its gradient by full names, ``part__parameter`` and ``likelihood__parameter``."""
        fit, data = self.fit(values, rough=True)
        found = parameter_gradient(
            data.likelihood,
            data.y,
            fit.stack.seen(fit.posterior.mean),
            fit.posterior.variance,
            data.row,
            data.weight,
            data.coarse,
        )
        gradient = {f"likelihood__{name}": slope for name, slope in found.items()}
        posterior: Any = fit.posterior
        means = fit.stack.split(posterior.mean)
        for model, component, mean, own in zip(self.models, fit.stack.components, means, posterior.moments):
            functions = np.column_stack([mean, own.columns])
            slopes = model.gradient(component, self._of(model.name, values), functions, own.factor)
            gradient |= {f"{model.name}__{name}": slope for name, slope in slopes.items()}
        for name, other in self.same.items():
            gradient[other] = np.add(gradient[other], gradient.pop(name))
        return fit.elbo, gradient

    def of_rows(self, rows: NDArray[np.intp]) -> PartsObjective:
        """The same for some of the rows."""
        some = copy(self)
        some.models = tuple(model.of_rows(rows) for model in self.models)
        some.data = self.data.take(rows)
        some.offset = None if self.offset is None else self.offset[rows]
        some._start, some._seen, some._recent, some._best = None, None, Recent(), -np.inf
        return some

    def _of(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of one part, by its own names."""
        return _of(name, {**values, **{alias: values[other] for alias, other in self.same.items()}})

    def fit(self, values: Mapping[str, Any], without: Collection[str] = (), rough: bool = False) -> tuple[Fit, Data]:
        """The best Gaussian for some values, perhaps without some parts; `rough` as on the way to others."""
        chosen = [model for model in self.models if model.name not in without]
        components = [model.component(self._of(model.name, values)) for model in chosen]
        parts = Parts(components, self.offset, **self._dense)
        data = replace(self.data, likelihood=with_values(self.data.likelihood, _of("likelihood", values)))
        recent = self._recent if rough else Recent()
        family: Any = AllOfParts(parts, rough=rough, recent=recent)
        enough = _ENOUGH if rough and not family.exact else -np.inf
        start = self._start
        if start is not None and start.site_precision is not None and len(start.mean) != parts.size:
            start = self._seen
        fit = fit_posterior(family, data, parts, start, enough=enough).unless_interrupted()
        global_one = data.likelihood.log_concave and fit.info["converged"]
        if start is not None and not global_one and not fit.elbo > self._best - _LOST:  # the start has led astray
            again = fit_posterior(family, data, parts, enough=enough).unless_interrupted()
            fit = again if again.elbo > fit.elbo else fit
        if not rough:
            recent.forget()
        self._best = max(self._best, fit.elbo)
        self.iterations += fit.info["n_iter"]
        posterior: Any = fit.posterior
        self._seen = self._start = Start(parts.seen(posterior.mean), posterior.variance)
        if not family.exact:
            self._start = Start(posterior.mean, posterior.variance, posterior.site_precision)
        return fit, data

    def on_vector(self, z: Vector) -> tuple[float, Vector]:
        """Bound + log prior at a vector of the search space, and its gradient there."""
        value, gradient = self(self.space.named(z))
        return value + self.space.log_prior(z), self.space.pull_back(z, gradient)

    def scale(self, fit: Fit) -> Vector:
        """What counts as a short step for each coordinate, squared: a part of many numbers tells more of itself."""
        sizes = {model.name: part.size for model, part in zip(self.models, fit.stack.components)}
        sizes["likelihood"] = len(self.data.y)
        owner = [
            max((name for name in sizes if c.name.startswith(name + "__")), key=len) for c in self.space.coordinates
        ]
        return np.array([1.0 / sizes[name] for name in owner])

    def simplest(self, model: PartModel, z: Vector) -> tuple[Vector, list[str]]:
        """z with the part as simple as it may become, and which of its parameters are at their end there."""
        z, at_end, free = z.copy(), [], {c.name for c in self.space.coordinates}
        for name, sought in model.sought.items():
            full = f"{model.name}__{name}"
            if full not in free or not sought.reaches_simplest:
                continue
            ends = self.space.low if sought.simplest == "low" else self.space.high
            here = np.array([c.name == full for c in self.space.coordinates])
            z[here] = ends[here]
            at_end.append(name)
        return z, at_end


def _say_nothing(**numbers: Any) -> None:
    return None


@dataclass(frozen=True)
class LearnedParts:
    """What was learned.

    Attributes
    ----------
    values : by full name, such as ``observer__sd``, ``likelihood__variance``; numbers or lists.
    fit : the best Gaussian with them; its stack has the components of `names`.
    data : the observations, with the likelihood that was learned.
    names : of the parts that are left.
    dropped : parts that say nothing, because there is no variation between their levels.
    at_bound : names of parameters at the end of what they may be.
    value : bound + log prior.
    gradient : of it, in the logarithm of each parameter (in the log-odds of where it is between its ends where it has
        two), by name; an array of all its entries.
    evaluations : of the bound, on the way.
    objective : what was climbed.
    z : where it ended, in the coordinates of ``objective.space``.
    """

    values: dict[str, Any]
    fit: Fit
    data: Data
    names: tuple[str, ...]
    dropped: tuple[str, ...]
    at_bound: tuple[str, ...]
    value: float
    gradient: dict[str, Vector]
    evaluations: int
    objective: PartsObjective
    z: Vector


def learn_parts(
    models: Sequence[PartModel],
    data: Data,
    offset: Vector | None = None,
    max_evaluations: int = 100,
    dense: int | None = None,
    same: Mapping[str, str] | None = None,
    weak: bool = True,
    report: Callable[..., None] = _say_nothing,
) -> LearnedParts:
    """The parameters of all parts, and of the likelihood, with the largest bound (+ log prior).

    Parameters
    ----------
    models : of the parts, with names of their own.
    data : responses with the likelihood that learning starts from; what is `npvi.fixed` in it stays.
    offset : what is added to the predictor of each row, shape (rows,).
    max_evaluations : of the bound, in a climb.
    dense : up to so many numbers in all everything is dense, and exact.
    same : full names of parameters that are another one's, and whose.
    weak : whether what the responses leave open of the likelihood has a weak prior.
    report : is told the number of evaluations and the bound after each.

    Examples
    --------
    >>> from npvi.components import Coefficients
    >>> from npvi.likelihoods import Gaussian
    >>> at, y = np.repeat(np.arange(4), 3), np.array([1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 3.0, 4.0, 5.0, 8.0, 9.0, 10.0])
    >>> parts = [GroupModel("level", 4, at, 1.0), Held("mean", Coefficients(np.ones((12, 1))))]
    >>> found = learn_parts(parts, Data(Gaussian(variance=3.0), y))
    >>> sd, variance = found.values["level__sd"], found.values["likelihood__variance"]
    >>> round(sd**2, 2), round(variance, 2)  # means 2, 7, 4, 9: their variance, 29/3, less 1/3
    (9.33, 1.0)
    """
    objective = PartsObjective(models, data, offset, dense, same, weak)
    space, count = objective.space, itertools.count(1)
    begin, ends = space.vector(), (space.low, space.high)
    begun = _begun(objective, report, count)
    function = _reported(objective, report, count)
    fit, _ = objective.fit(space.named(begun.z), rough=True)  # what can't be fitted at all says so here
    noise, enough = _EXACT if fit.stack.size <= fit.stack.dense else _DRAWN
    found = climb(
        function,
        begun.z,
        *ends,
        noise=noise,
        enough=enough,
        max_evaluations=max_evaluations,
        curvature=begun.curvature,
        scale=objective.scale(fit),
    )
    evaluations = found.evaluations
    gone = []
    for model in objective.models:
        z, at_end = objective.simplest(model, found.z)
        if not at_end or model.name in begun.sure or not _nearer(found.z, z, begin):
            continue
        if not np.array_equal(z, found.z):
            value, _ = function(z)
            evaluations += 1
            if not value >= found.value - noise:
                continue
            # without it the others may go on
            known = found.curvature
            found = climb(
                function, z, *ends, noise=noise, enough=enough, max_evaluations=max_evaluations, curvature=known
            )
            evaluations += found.evaluations
        if model.nothing(at_end):
            gone.append(model.name)
    if len(gone) == len(objective.models):
        gone = gone[1:]  # a predictor is made of something
    values = space.named(found.z)
    fit, learned_data = objective.fit(values, without=gone)
    names = tuple(model.name for model in objective.models if model.name not in gone)
    coordinates = [c.name for c in space.coordinates]
    gradient = {name: found.gradient[[c == name for c in coordinates]] for name in coordinates}
    at_bound = tuple(space.at_bound(found.z))
    where = (found.value, gradient, evaluations, objective, found.z)
    return LearnedParts(values, fit, learned_data, names, tuple(gone), at_bound, *where)


@dataclass(frozen=True)
class _Begun:
    """What some of the rows say.

    Attributes
    ----------
    z : where the best is, about; not at an end where a part would be nothing, from which nothing leads away.
    curvature : the inverse of minus the second derivatives for all rows, about.
    sure : names of parts that there are for sure.
    """

    z: Vector
    curvature: NDArray[np.float64] | None = None
    sure: frozenset[str] = frozenset()


def _begun(objective: PartsObjective, report: Callable[..., None], count: Iterator[int]) -> _Begun:
    """Where to begin with all rows: where a part of them leads, and from there a larger one, if there are many."""
    rows, before = len(objective.data.y), 0
    found = _Begun(objective.space.vector())
    for size in _SIZES:
        if rows > 2 * size:
            try:
                found = _on_a_part(objective, size, found, before, report, count)
            except (NotPositiveDefiniteError, np.linalg.LinAlgError):
                break
            before = size
    if found.curvature is None:
        return found
    return replace(found, curvature=of_more_rows(found.curvature, rows / before))


def _on_a_part(
    objective: PartsObjective,
    size: int,
    begun: _Begun,
    before: int,
    report: Callable[..., None],
    count: Iterator[int],
) -> _Begun:
    """From where so many rows `before` have led to what more of them say."""
    space, begin = objective.space, objective.space.vector()
    ends = (space.low, space.high)
    part = objective.of_rows(telling_rows([model.alike for model in objective.models], len(objective.data.y), size))
    function = _reported(part, report, count)
    fit, _ = part.fit(space.named(begun.z), rough=True)
    known = None if begun.curvature is None else of_more_rows(begun.curvature, size / before)
    found = climb(
        function,
        begun.z,
        *ends,
        noise=_DRAWN[0],
        enough=_ROUGHLY,
        max_evaluations=_MOST,
        curvature=known,
        scale=part.scale(fit),
    )
    sure, faint = set(begun.sure), found.z.copy()
    for model in objective.models:
        z, at_end = objective.simplest(model, found.z)
        if not at_end or model.name in sure:
            continue
        if _nearer(found.z, z, begin) and function(z)[0] < found.value - _SURE:
            sure.add(model.name)
        towards = np.sign(z - begin)
        faint = np.where(towards * (faint - begin) > _FAR, begin + towards * _FAR, faint)
    return _Begun(faint, known if known is not None else _curvature(function, found, space), frozenset(sure))


def _curvature(
    function: Callable[[Vector], tuple[float, Vector]], found: Ascent, space: SearchSpace
) -> NDArray[np.float64]:
    """The inverse of minus the second derivatives where a climb has ended, by differences of gradients."""
    rows = []
    for step in _APART_BY * np.eye(len(found.z)):
        step = np.where(found.z + step > space.high, -step, step)
        value, gradient = function(found.z + step)
        rows.append((found.gradient - gradient) / step.sum() if np.isfinite(value) else np.zeros(len(step)))
    matrix = np.array(rows)
    return Information(0.5 * (matrix + matrix.T), 1).curvature(1)


def _reported(
    objective: PartsObjective, report: Callable[..., None], count: Iterator[int]
) -> Callable[[Vector], tuple[float, Vector]]:
    """The objective as a function that is −∞ where nothing can be fitted."""

    def function(z: Vector) -> tuple[float, Vector]:
        try:
            found = objective.on_vector(z)
            report(evaluation=next(count), bound=found[0])
            return found
        except (NotPositiveDefiniteError, FloatingPointError, np.linalg.LinAlgError):
            return -np.inf, np.zeros(len(z))

    return function


def _nearer(z: Vector, end: Vector, begin: Vector) -> bool:
    """Whether z has moved towards an end in all that is different, or is there."""
    moving = end != begin
    return bool(np.all(np.abs(end - z)[moving] < np.abs(end - begin)[moving]))


def _of(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of one part, by its own names."""
    return {full[len(name) + 2 :]: value for full, value in values.items() if full.startswith(name + "__")}


def _space(
    models: Sequence[PartModel],
    likelihood: Likelihood,
    said: Mapping[str, Parameter],
    same: Mapping[str, str],
    unseen: Mapping[str, Sequence[Any]],
) -> SearchSpace:
    """All parameters as one vector."""
    names = [model.name for model in models]
    if len(set(names)) < len(names) or "likelihood" in names:
        raise ValueError(f"models must have names of their own, and not 'likelihood'; got {names}: change some")
    sought = {f"{model.name}__{name}": one for model in models for name, one in model.sought.items()}
    sought = {name: one for name, one in sought.items() if name not in same}
    ends = limits_of_noise(likelihood)
    for name, interval in learnable(likelihood, "likelihood").items():
        start = getattr(likelihood, name.removeprefix("likelihood__"))
        sought[name] = Sought(said.get(name, start), interval, *ends.get(name, (-np.inf, np.inf)))
    return SearchSpace(
        {name: one.value for name, one in sought.items()},
        {name: one.interval for name, one in sought.items()},
        {name: one.start for name, one in sought.items() if isinstance(one.start, Parameter)} | dict(said),
        {name: (one.low, one.high) for name, one in sought.items()},
        {f"likelihood__{name}": priors for name, priors in unseen.items()},
    )
