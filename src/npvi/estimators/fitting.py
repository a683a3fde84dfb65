"""One fit, step by step: what it is of, the numbers of its model (given or learned) and its graph, a second model."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from npvi.estimators.canonical import canonical_rows
from npvi.estimators.linear_part import LinearPart, columns_of, linear_part
from npvi.estimators.parts import plain_parts
from npvi.estimators.settings import check_settings, neighbors
from npvi.graph import Graph, build_graph
from npvi.inference import Data, Start
from npvi.inference.stochastic import SGD
from npvi.kernels import Kernel
from npvi.learning.learner import Learned, learn
from npvi.learning.objective import Model
from npvi.learning.start import in_units_of_data, starting_model
from npvi.learning.table import Table
from npvi.likelihoods import Poisson
from npvi.likelihoods.families.rates import Rates, typical_count
from npvi.likelihoods.families.softmax import Softmax
from npvi.parameters import Parameter
from npvi.priors.low_rank.inducing import choose_inducing
from npvi.priors.structure import LOW_RANK, InducingPoints, NearestNeighbors, Structure
from npvi.runtime import progress

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = [
    "NEVER",
    "Chosen",
    "Clock",
    "Task",
    "choose",
    "companion_of",
    "constant_precision",
    "fit_by_grid",
    "rows_of_fit",
    "task_of",
]

#: standard deviation of the constant where all counts are 0, which otherwise would have no end
NEVER = 3.0
#: standard deviation of the coefficient of a standardised covariate, in units of f: by default, and where it is flat
WEAK, FLAT = 5.0, 1e4
#: the same of counts, whose flat prior is a proper one: covariates that tell zeros from the rest have no other end
FLAT_OF_COUNTS = 10.0
#: standard deviation of the constant of rates whose zeros may have other reasons
FLAT_OF_RATES = 20.0
#: the nugget where none is given and nothing is learned
_NUGGET = 1e-4


@dataclass(frozen=True)
class Task:
    """What is fitted: checked data and the parts of the model as they were given.

    Attributes
    ----------
    table : the rows, in an order that doesn't depend on the caller's, unless that is asked for.
    rows : the caller's number of each.
    part : which columns the process sees, and which enter the mean.
    kernel, nugget : plain numbers inside; no nugget where none was given.
    said : what the user said about numbers, by full name.
    seed : for all that is random.
    coefficient_precision : of the prior of the mean's coefficients.
    """

    table: Table
    rows: NDArray[np.int64]
    part: LinearPart
    kernel: Kernel
    nugget: float | None
    said: dict[str, Parameter]
    seed: int
    coefficient_precision: NDArray[np.float64]


@dataclass(frozen=True)
class Chosen:
    """The model whose posterior is wanted, its graph, where to start, and how it was learned, if it was."""

    model: Model
    graph: Graph
    start: Start | None
    learned: Learned | None = None
    node: bool = False
    """Whether it is one of several beside a model that was learned."""


class Clock:
    """Seconds per stage.

    >>> clock = Clock()
    >>> clock.lap("graph")
    >>> list(clock.laps)
    ['graph']
    """

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """A stage ends here."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def task_of(
    model: BaseGP, X: NDArray[np.float64], y: NDArray, weight: NDArray[np.float64] | None, row: dict[str, Any]
) -> Task:
    """Check the settings and the data against each other."""
    check_settings(model)
    names = getattr(model, "feature_names_in_", None)
    coords = columns_of(model.coords, names, X.shape[1])
    inputs = None if names is None else [str(names[column]) for column in coords]
    kernel, likelihood, nugget, said = plain_parts(model.kernel, model._likelihood(), model.nugget, len(coords), inputs)
    if model.hyper == "integrate" and isinstance(likelihood, Softmax):
        raise ValueError("hyper='integrate' doesn't go with three or more labels: use hyper='plug-in', or 'auto'")
    y = likelihood.check_response(y)
    data = Data(likelihood, y, likelihood.check_row(row, len(y), y), weight)
    rows = rows_of_fit(model, X, data)
    X, data = X[rows], data.take(rows)
    part = linear_part(X, names, coords, model._mean(data.y, data.weight), data.weight)
    rng = check_random_state(0 if model.random_state is None else model.random_state)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    table = Table(part.places(X), data, part.basis(X))
    return Task(table, rows, part, kernel, nugget, said, seed, _coefficient_precision(model, part, data))


def rows_of_fit(model: BaseGP, X: NDArray[np.float64], data: Data) -> NDArray[np.int64]:
    """The caller's row of each row of a fit: as they are only where the caller says what their order is."""
    asked = not isinstance(model.order, str) or model.order == "given"
    return np.arange(len(X)) if asked else canonical_rows(X, data)


def _coefficient_precision(model: BaseGP, part: LinearPart, data: Data) -> NDArray[np.float64]:
    """Of the prior of the mean's coefficients.

    A scale in numbers is for covariates as they came, "weak" and None for the standardised ones that the basis has.
    """
    precision = np.zeros(len(part.names))
    if part.constant:
        precision[0] = constant_precision(data)
    given = model.coefficient_scale
    if given in ("weak", None):
        support = data.likelihood.support
        flat = FLAT_OF_COUNTS if support.discrete or support.atom is not None else FLAT
        scale = (flat if given is None else WEAK) * data.latent_unit * np.ones(len(part.scale))
    else:
        scale = given * part.scale
    precision[int(part.constant) :] = scale**-2.0
    return precision


def constant_precision(data: Data) -> float:
    """Of the prior of the constant, which is flat, unless nothing says where it is.

    >>> [constant_precision(Data(Poisson(), np.array(y))) > 0.0 for y in ([0.0, 2.0], [0.0, 0.0])]
    [False, True]
    """
    if data.one_sided:
        return NEVER**-2
    if isinstance(data.likelihood, Rates) and not isinstance(data.likelihood, Poisson):
        # a zero that says little of a large rate leaves nothing else to hold it where nearly all are zeros
        return FLAT_OF_RATES**-2
    return 0.0


def choose(model: BaseGP, task: Task, previous: BaseGP | None) -> Chosen:
    """Learn the numbers of the model, or take them as they are; `previous` may lend its graph and its posterior."""
    return _learned(model, task) if model.learn else _as_given(model, task, previous)


def _learned(model: BaseGP, task: Task) -> Chosen:
    table, data = task.table, task.table.data
    likelihood = data.likelihood
    other: Rates | None = None
    counted = table if data.weight is None else table.take(np.flatnonzero(data.weight > 0.0))
    seen = counted.data if len(counted) else data
    if isinstance(model.likelihood, str):
        likelihood = likelihood.replace(**likelihood.initial_parameters(seen.y, **seen.row))
        if isinstance(likelihood, Rates) and model.prior not in LOW_RANK:
            knee = typical_count(seen.y, seen.row.get("exposure", 1.0))
            other = likelihood.replace(link="softplus", knee=knee)
    named = isinstance(model.kernel, str)
    X = counted.X if len(counted) else table.X
    first = starting_model(task.kernel, named, task.nugget, likelihood, X, seen.y, seen.row)
    first = replace(first, structure=_structure(model, first, task), coefficient_precision=task.coefficient_precision)
    other_start = None if named else in_units_of_data(first, task.said, X, seen.y, seen.row)
    if other_start is not None and other_start.named() == first.named():
        other_start = None
    other_link = None
    if other is not None:  # the units of f are its own
        precision = _coefficient_precision(model, task.part, replace(data, likelihood=other))
        other_link = replace(first, likelihood=other, coefficient_precision=precision)
    learned = learn(
        table,
        first,
        task.said,
        lambda points: _graph(model, points, task),
        lambda **numbers: progress.report("learn", **numbers),
        weak=model.hyperprior == "weak",
        other_link=other_link,
        other_start=other_start,
    )
    return Chosen(learned.model, learned.graph, learned.start, learned)


def _as_given(model: BaseGP, task: Task, previous: BaseGP | None) -> Chosen:
    nugget = _NUGGET if task.nugget is None else task.nugget
    given = Model(task.kernel, nugget, task.table.data.likelihood)
    given = replace(given, structure=_structure(model, given, task), coefficient_precision=task.coefficient_precision)
    coordinates = task.kernel.coordinates(task.table.X)
    if previous is None or not _same_graph(previous, model, coordinates):
        return Chosen(given, _graph(model, coordinates, task), None)
    return Chosen(given, previous.prior_.graph, Start(previous.posterior_.mean, previous._marginal_variance()))


def _structure(model: BaseGP, first: Model, task: Task) -> Structure:
    """How the process is approximated; inducing points are chosen here, once, and held while learning."""
    if model.prior not in LOW_RANK:
        return NearestNeighbors()
    if model.method == "npvi-nn":
        raise ValueError(f"prior={model.prior!r} goes with method='full' or 'npvi'; 'npvi-nn' needs prior='nngp'")
    if model.learn and isinstance(first.likelihood, Softmax):
        raise ValueError(
            f"with prior={model.prior!r} nothing can be learned from three or more labels: pass learn=False with a "
            "kernel of your own, learn='grid', or prior='nngp'"
        )
    if model.prior == "nystrom" and first.nugget == 0.0:
        raise ValueError(
            "prior='nystrom' needs a positive nugget, because without one its covariance is singular; got 0. Leave "
            "nugget out, give one such as 1e-4, or use prior='fitc'"
        )
    points = choose_inducing(model.inducing, model.n_inducing, first.kernel, task.table.X, task.seed)
    return InducingPoints(model.prior, points)


def _graph(model: BaseGP, coordinates: NDArray, task: Task) -> Graph:
    """The graph of some of the rows, or of all."""
    n = len(coordinates)
    k = neighbors(model, len(task.table), coordinates.shape[1])
    if k >= n > 1 and model.n_neighbors == k:
        warnings.warn(
            f"n_neighbors is {k} but there are only {n} points: using {n - 1}",
            UserWarning,
            stacklevel=6,
        )
    progress.report("graph", points=n)
    order = model.order
    if not isinstance(order, str) and n < len(task.table):  # learning looks at some of the rows
        order = "maximin"
    return build_graph(coordinates, k, rule=model.rule, order=order, seed=task.seed).packed()


def _same_graph(fitted: BaseGP, other: BaseGP, coordinates: NDArray) -> bool:
    """Whether `other` would get the graph of `fitted`: same rule and order, same neighbours (up to a common scale)."""
    names = ("rule", "order", "random_state")
    if neighbors(fitted, *coordinates.shape) != neighbors(other, *coordinates.shape):
        return False
    if any(not np.array_equal(getattr(fitted, name), getattr(other, name)) for name in names):
        return False
    mine, theirs = fitted.kernel_.coordinates(fitted.prior_.X), coordinates[fitted.prior_.graph.order]
    if mine.shape != theirs.shape:
        return False
    scale = np.abs(mine).max() / max(np.abs(theirs).max(), np.finfo(float).tiny)
    return bool(np.allclose(mine, theirs * scale, rtol=1e-12, atol=0.0))


def companion_of(model: BaseGP, learned: Learned) -> BaseGP:
    """An estimator for the second model that was learned, yet to be fitted on the same rows."""
    assert learned.second is not None
    second = learned.second.model
    settings = {"kernel": second.kernel, "nugget": second.nugget, "likelihood": second.likelihood}
    if isinstance(second.structure, InducingPoints):  # those it was learned with
        settings["inducing"] = second.structure.points
    if isinstance(model.optimizer, SGD):
        settings["optimizer"] = model.optimizer.for_companion()
    return copy.copy(model).set_params(learn=False, **settings)  # names and labels are kept


def fit_by_grid(model: BaseGP, X: NDArray, y: NDArray, weight: NDArray | None, row: dict[str, Any]) -> None:
    """The paper's way: the length scale that scores best on a validation split, then all rows with that one."""
    import pandas as pd

    from npvi.selection.grid import grid_search  # which knows the estimators

    names = getattr(model, "feature_names_in_", None)
    table = X if names is None else pd.DataFrame(X, columns=names)
    result = grid_search(clone(model), table, y, sample_weight=weight, **row)
    best = copy.copy(model).set_params(kernel=result.best_model.kernel, learn=False)  # names and labels are kept
    best._fit(X, y, weight, row)
    settings = model.get_params(deep=False)
    model.__dict__.update({name: value for name, value in vars(best).items() if name not in settings})
    model.fit_info_["grid"] = result.table.to_dict("list")
