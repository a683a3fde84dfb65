"""Fitting: numbers are learned or taken as given, then the posterior is found, then what isn't known is put beside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph, build_graph
from npvi.inference import Data, Start
from npvi.inference.stochastic import SGD
from npvi.learning import Learned, Model, Table, in_units_of_data, learn, starting_model
from npvi.likelihoods import REAL, Rates, Softmax, hardly_varies, typical_count
from npvi.model.canonical import naming_rows, rows_of_fit
from npvi.model.fitted import Fitted, Interrupted, warn_about_presences
from npvi.model.hyper import settle
from npvi.model.inferring import Clock, Task, fitted_at, not_converged
from npvi.model.linear_part import coefficient_precision, constant_scale, linear_part
from npvi.model.spec import Spec
from npvi.priors import LOW_RANK, InducingPoints, NearestNeighbors, Structure
from npvi.priors.low_rank import choose_inducing
from npvi.runtime import progress
from npvi.runtime.warn import warn

__all__ = ["fit"]

#: the nugget where none is given and nothing is learned
_NUGGET = 1e-4
#: sizes of responses of any sign whose fourth powers, times other numbers, are numbers
_LOWEST, _HIGHEST = 1e-50, 1e75


def fit(spec: Spec, X: NDArray[np.float64], data: Data, previous: Fitted | None = None) -> Fitted:
    """The model with its numbers, learned or given, and its posterior.

    Parameters
    ----------
    spec : what is fitted.
    X : (N, d) inputs, all columns.
    data : the responses, as `Spec.data` makes them.
    previous : fitted to the same rows; lends its graph, where that is the same, and its posterior as a start.

    Raises
    ------
    Interrupted
        At Ctrl-C, once there is a posterior; it has the last good state.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> spec = Spec(RBF(), Poisson(), np.arange(1), learn=False)
    >>> fitted = fit(spec, X, spec.data(np.arange(30) % 3, {}))
    >>> fitted.info["converged"], fitted.prior.graph.n_neighbors
    (True, 20)
    """
    task = _task(spec, X, data)
    _warn_about(task)
    with naming_rows(task.rows):
        clock = Clock()
        chosen = _learned(task) if spec.learn else _as_given(task, previous)
        learned = chosen.learned
        clock.lap("graph" if learned is None else "learn")
        fitted = fitted_at(task, chosen.model, chosen.graph, chosen.start, clock, given=learned is None)
    if learned is not None:
        more = {"learning": learned.info, "at_bound": learned.info["at_bound"]}
        fitted = replace(fitted, info={**fitted.info, **more})
    info = fitted.info
    if info["interrupted"]:
        raise Interrupted(
            f"fit interrupted after {info['n_iter']} iterations; the model holds the last good state, which hasn't "
            "converged",
            fitted,
        )
    try:
        if learned is not None and learned.second is not None:
            other = _companion(spec, learned.second)
            companion = fit(other, X, replace(data, likelihood=other.likelihood))
            fitted = replace(fitted, companion=companion, companion_weight=learned.weight)
        if learned is not None:
            with naming_rows(task.rows):
                fitted = settle(fitted, task, learned)
            clock.lap("hyper")
    except KeyboardInterrupt as stop:
        raise Interrupted(str(stop), fitted) from None
    if not info["converged"] and spec.method != "npvi-nn":  # which says by itself how far it is
        warn(not_converged(info, spec.max_iter))
    return fitted


@dataclass(frozen=True)
class _Chosen:
    """The model whose posterior is wanted, its graph, where to start, and how it was learned, if it was."""

    model: Model
    graph: Graph
    start: Start | None
    learned: Learned | None = None


def _task(spec: Spec, X: NDArray[np.float64], data: Data) -> Task:
    rows = rows_of_fit(spec.order, X, data)
    X, data = X[rows], data.take(rows)
    part = linear_part(X, spec.names, spec.coords, spec.mean, data.weight)
    if part.constant and data.limits_on_one_side:
        raise ValueError(
            "censored is the same in every row: nothing says how far beyond the limits the values are. Leave rows in "
            "that were observed (censored=0), or hold the mean at zero (mean='zero')"
        )
    table = Table(part.places(X), data, part.basis(X))
    return Task(spec, table, rows, part, coefficient_precision(spec.coefficient_scale, part, data))


def _warn_about(task: Task) -> None:
    """Warn about inputs that never change, about responses that say nothing of a constant mean, and about rounding."""
    X, names = task.table.X, task.spec.names
    constant = np.flatnonzero((X[0] == X).all(axis=0)) if len(X) > 1 else np.zeros(0, np.int64)
    if len(constant):
        columns = task.part.coords[constant[:5]]
        which = ", ".join(str(column) if names is None else names[column] for column in columns)
        warn(f"input column {which} is constant in the training data: it cannot say anything about y; leave it out")
    data = task.table.data
    y = data.y
    if np.ptp(y) > 0.0 and hardly_varies(y):
        warn(f"y is {y[0]:g} in every row but for rounding, and taken for a constant: if it isn't, subtract {y[0]:g}")
    warn_about_presences(data)
    if task.part.constant and data.one_sided:
        warn(
            f"{_all_alike(data)}: how rare the others are can't be known, so the constant mean (of log or "
            f"logit) has a prior of mean 0 and standard deviation {constant_scale(data):g}"
        )


def _all_alike(data: Data) -> str:
    """What one-sided responses are, in words of their likelihood.

    >>> from npvi.likelihoods import Bernoulli
    >>> _all_alike(Data(Bernoulli(), np.ones(3)))
    'all labels are the same (of presences alone npvi.fit_points makes a point pattern)'
    """
    likelihood = data.likelihood
    if "trials" in likelihood.extras:
        return "no trial succeeded, or all did"
    if not likelihood.support.discrete:
        return "all responses are 0"
    if likelihood.support.upper == 1.0:
        return "all labels are the same (of presences alone npvi.fit_points makes a point pattern)"
    if likelihood.support.upper < np.inf:
        return "all responses are in the first category, or all in the last"
    return "all counts are 0"


def _check_size(y: NDArray[np.float64]) -> None:
    """Raise where learning would take powers of y that are no numbers."""
    size, spread = float(np.abs(y).max(initial=0.0)), float(np.ptp(y)) if len(y) else 0.0
    if size > _HIGHEST or 0.0 < spread < _LOWEST:
        what = f"as large as {size:g}" if size > _HIGHEST else f"at most {spread:g} apart"
        raise ValueError(
            f"y has values {what}: learning takes fourth powers, which are numbers from about {_LOWEST:g} to "
            f"{_HIGHEST:g}. Divide y by its typical size"
        )


def _learned(task: Task) -> _Chosen:
    """Learn the numbers of the model."""
    spec, table, data = task.spec, task.table, task.table.data
    likelihood = data.likelihood
    other: Rates | None = None
    counted = table if data.weight is None else table.take(np.flatnonzero(data.weight > 0.0))
    seen = counted.data if len(counted) else data
    if likelihood.support is REAL:
        _check_size(seen.y)
    if "likelihood" in spec.named:
        likelihood = likelihood.replace(**likelihood.initial_parameters(seen.y, **seen.row))
        if isinstance(likelihood, Rates) and spec.prior not in LOW_RANK:
            knee = typical_count(seen.y, seen.row.get("exposure", 1.0))
            other = likelihood.replace(link="softplus", knee=knee)
    named = "kernel" in spec.named
    X = counted.X if len(counted) else table.X
    first = starting_model(spec.kernel, named, spec.nugget, likelihood, X, seen.y, seen.row)
    first = replace(first, structure=_structure(task, first), coefficient_precision=task.coefficient_precision)
    other_start = None if named else in_units_of_data(first, spec.said, X, seen.y, seen.row)
    if other_start is not None and other_start.named() == first.named():
        other_start = None
    other_link = None
    if other is not None:  # the units of f are its own
        precision = coefficient_precision(spec.coefficient_scale, task.part, replace(data, likelihood=other))
        other_link = replace(first, likelihood=other, coefficient_precision=precision)
    learned = learn(
        table,
        first,
        spec.said,
        lambda points: _graph(task, points),
        lambda **numbers: progress.report("learn", **numbers),
        weak=spec.hyperprior == "weak",
        other_link=other_link,
        other_start=other_start,
    )
    y, support = seen.y, likelihood.support
    if learned.learner is not None:
        if not (np.ptp(y) or support.discrete or support.atom is not None or "censored" in seen.row):
            warn(
                f"y is {y[0]:g} in every row: nothing tells how far other responses may be from it, and the model "
                "expects them next to it"
            )
    else:
        rows = "one row says" if len(counted) == 1 else f"{len(counted)} rows say"
        warn(
            f"nothing was learned: {rows} too little about the kernel and the noise. They are guesses, and so is how "
            "far predictions may be off; give more rows, or numbers of your own with learn=False"
        )
    return _Chosen(learned.model, learned.graph, learned.start, learned)


def _as_given(task: Task, previous: Fitted | None) -> _Chosen:
    """Take the numbers as they are; `previous` may lend its graph and its posterior."""
    spec, table = task.spec, task.table
    nugget = _NUGGET if spec.nugget is None else spec.nugget
    given = Model(spec.kernel, nugget, table.data.likelihood)
    given = replace(given, structure=_structure(task, given), coefficient_precision=task.coefficient_precision)
    coordinates = spec.kernel.coordinates(table.X)
    if previous is None or not _same_graph(previous, spec, coordinates):
        return _Chosen(given, _graph(task, coordinates), None)
    return _Chosen(given, previous.prior.graph, previous.start)


def _structure(task: Task, first: Model) -> Structure:
    """How the process is approximated; inducing points are chosen here, once, and held while learning."""
    spec = task.spec
    if spec.prior not in LOW_RANK:
        return NearestNeighbors()
    if spec.learn and isinstance(first.likelihood, Softmax):
        raise ValueError(
            f"with prior={spec.prior!r} nothing can be learned from three or more labels: pass learn=False with a "
            "kernel of your own, learn='grid', or prior='nngp'"
        )
    if spec.prior == "nystrom" and first.nugget == 0.0:
        raise ValueError(
            "prior='nystrom' needs a positive nugget, because without one its covariance is singular; got 0. Leave "
            "nugget out, give one such as 1e-4, or use prior='fitc'"
        )
    points = choose_inducing(spec.inducing, spec.n_inducing, first.kernel, task.table.X, spec.seed)
    return InducingPoints(spec.prior, points)


def _graph(task: Task, coordinates: NDArray) -> Graph:
    """The graph of some of the rows, or of all."""
    spec, n = task.spec, len(coordinates)
    k = spec.neighbors(len(task.table), coordinates.shape[1])
    if k >= n > 1 and spec.n_neighbors == k:
        warn(f"n_neighbors is {k} but there are only {n} points: using {n - 1}")
    progress.report("graph", points=n)
    order = spec.order
    if not isinstance(order, str) and n < len(task.table):  # learning looks at some of the rows
        order = "maximin"
    return build_graph(coordinates, k, rule=spec.rule, order=order, seed=spec.seed).packed()


def _same_graph(fitted: Fitted, spec: Spec, coordinates: NDArray) -> bool:
    """Whether `spec` would get the graph of `fitted`: same rule and order, same neighbours (up to a common scale)."""
    if fitted.spec.neighbors(*coordinates.shape) != spec.neighbors(*coordinates.shape):
        return False
    names = ("rule", "order", "seed")
    if any(not np.array_equal(getattr(fitted.spec, name), getattr(spec, name)) for name in names):
        return False
    mine, theirs = fitted.model.kernel.coordinates(fitted.prior.X), coordinates[fitted.prior.graph.order]
    if mine.shape != theirs.shape:
        return False
    scale = np.abs(mine).max() / max(np.abs(theirs).max(), np.finfo(float).tiny)
    return bool(np.allclose(mine, theirs * scale, rtol=1e-12, atol=0.0))


def _companion(spec: Spec, second: Learned) -> Spec:
    """The second model that was learned, to be fitted on the same rows at the numbers it was found to have."""
    model = second.model
    changed: dict[str, Any] = {"kernel": model.kernel, "nugget": model.nugget, "likelihood": model.likelihood}
    if isinstance(model.structure, InducingPoints):  # those it was learned with
        changed["inducing"] = model.structure.points
    if isinstance(spec.optimizer, SGD):
        changed["optimizer"] = spec.optimizer.for_companion()
    return replace(spec, learn=False, said={}, named=frozenset(), **changed)
