"""What isn't known about the hyper-parameters of a fit: other models beside it, each with its share of the say."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from npvi.estimators.fitting import Chosen, Clock, Task
from npvi.inference import Start
from npvi.learning.integration import Integration, integrate
from npvi.learning.learner import Learned, Learner
from npvi.learning.objective import Model, can_collapse
from npvi.learning.space import SearchSpace
from npvi.likelihoods import Likelihood
from npvi.likelihoods.families.softmax import Softmax
from npvi.likelihoods.integrals.moments import conditional_moments
from npvi.runtime import progress

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["HYPER", "Hyper", "settle"]

HYPER = ("auto", "plug-in", "integrate")
"""How predictions may treat hyper-parameters."""
#: rows up to which they are integrated over, unless that is asked for or ruled out; and where f can be integrated out
#: first, so that an evaluation takes next to no time
_ROWS, _ROWS_COLLAPSED = 2500, 10_000
#: share of the say below which another smoothness has none
_RIVAL = 0.05
#: nats to which the bound is found
_ENOUGH = 0.01
#: growth of the logarithm of a mean from f = 10 to 20 that counts as exponential, and by how much a variance
#: of f may be larger there
_STEEP, _MORE = 8.0, 1.0
#: ends of an interval of a number, and how near, in logarithms, they are to the end of what was searched to have none
_ENDS, _NEAR = (0.025, 0.975), 1.0


@dataclass(frozen=True)
class Hyper:
    """Models around the best one, at other hyper-parameters.

    Attributes
    ----------
    models : fitted to the same rows.
    weights : of each, in predictions.
    table : for each number that was learned ``parameter``, ``standard_error`` (root mean square about the value), and
        the ends of a 95 % interval, ``lower`` and ``upper``.
    """

    models: list[BaseGP]
    weights: NDArray[np.float64]
    table: list[dict[str, Any]] = field(default_factory=list)


def settle(model: BaseGP, task: Task, chosen: Chosen) -> None:
    """Integrate over the hyper-parameters of a model that was just fitted, where that is wanted; say what was done."""
    learned = chosen.learned
    assert learned is not None
    why = _why_not(model, task, learned)
    if why:
        model.fit_info_["hyper"] = {"done": "plug-in", "why": why}
        return
    assert learned.learner is not None
    learner = learned.learner
    found = _around(model, task, chosen.model, learner)
    if found is None:
        model.fit_info_["hyper"] = {"done": "plug-in", "why": "their posterior could not be followed"}
        return
    models = _fitted(model, task, found)
    other, rival = model.companion_, learned.second
    beside, share, evaluations = found, model.companion_weight_, found.evaluations
    if other is None:
        rival = learner.rival(task.table, learned)
        if rival is not None:
            other = copy.copy(model)
            other._infer(task, Chosen(rival.model, rival.graph, rival.start, node=True), Clock())
    if other is not None and rival is not None:
        between = _around(other, task, rival.model, learner)
        if between is not None:
            beside = between
            evaluations += beside.evaluations
            if model.companion_ is None:  # how likely this smoothness is, beside the first
                share = float(expit(beside.cloud.log_integral - found.cloud.log_integral))
            if share > _RIVAL:
                other.companion_, other.companion_weight_ = None, 0.0
                other.hyper_ = Hyper(_fitted(other, task, beside), beside.weights, _table(beside, beside, 0.0))
                model.companion_, model.companion_weight_ = other, share
    model.hyper_ = Hyper(models, found.weights, _table(found, beside, share))
    model.fit_info_["hyper"] = {"done": "integrate", "models": len(model._shares()), "evaluations": evaluations}


def _why_not(model: BaseGP, task: Task, learned: Learned) -> str:
    """The reason for plugging in the best hyper-parameters; empty where they are to be integrated over."""
    if model.hyper == "plug-in":
        return "asked for"
    if learned.learner is None:
        return "nothing was learned"
    if model.hyper == "integrate":
        return ""
    if isinstance(task.table.data.likelihood, Softmax):
        return "three or more labels have a function each"
    if model.method != "full" or model.prior != "nngp":
        return f"method={model.method!r} with prior={model.prior!r}; hyper='integrate' does it all the same"
    most = _ROWS_COLLAPSED if can_collapse(task.table.data) else _ROWS
    if len(task.table) > most:
        return f"more than {most} rows leave little unknown; hyper='integrate' does it all the same"
    return ""


def _around(model: BaseGP, task: Task, spec: Model, learner: Learner) -> Integration | None:
    """The posterior of the hyper-parameters of a model that was fitted; None where it can't be followed."""
    graph, start = model.prior_.graph, Start(model.posterior_.mean, model._marginal_variance())
    objective: Any = learner.objective(task.table, graph, start, careful=True)
    objective.enough = _ENOUGH
    space = learner.space(task.table, spec)
    visited, highest = learner.visited(task.table, spec, graph), _highest(space, spec.likelihood)
    try:
        found = integrate(objective, spec, space, visited, len(task.table), highest)
    except np.linalg.LinAlgError:
        return None
    return found if found.settled else None


def _fitted(model: BaseGP, task: Task, found: Integration) -> list[BaseGP]:
    """A model for each node."""
    graph, start = model.prior_.graph, Start(model.posterior_.mean, model._marginal_variance())
    models = []
    for number, node in enumerate(found.models):
        progress.report("hyper", model=number + 1, of=len(found.models))
        other = copy.copy(model)
        other.companion_, other.companion_weight_, other.hyper_ = None, 0.0, None
        if other._infer(task, Chosen(node, graph, start, node=True), Clock())["interrupted"]:
            raise KeyboardInterrupt(
                "fit interrupted; the model has the best hyper-parameters, and no others beside them"
            )
        models.append(other)
    return models


def _highest(space: SearchSpace, likelihood: Likelihood) -> NDArray[np.float64]:
    """Of the z of nodes. Where responses grow like exp f, a variance of f much larger than the best one makes their
    mean, exp(m + v/2), as large as you please, though hardly anybody expects it: they are intervals' affair."""
    z, nothing = space.vector(), np.full(len(space), np.inf)
    try:
        means = conditional_moments(likelihood, np.array([10.0, 20.0]))[0]
    except NotImplementedError:  # a user's own class without moments
        return nothing
    low, high = np.log(np.maximum(means, 1e-300))
    if not high - low >= _STEEP:
        return nothing
    names = [c.name for c in space.coordinates]
    of_f = [name == "nugget" or (name.startswith("kernel") and name.endswith("variance")) for name in names]
    return np.where(of_f, np.log(np.exp(z) + _MORE), np.inf)


def _quantile(values: NDArray[np.float64], weights: NDArray[np.float64], q: float) -> float:
    """Of points with weights that sum to 1.

    >>> _quantile(np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5]), 0.5)
    2.0
    """
    rank = np.argsort(values)
    middles = np.cumsum(weights[rank]) - 0.5 * weights[rank]
    return float(np.interp(q, middles, values[rank]))


def _table(found: Integration, beside: Integration, share: float) -> list[dict[str, Any]]:
    """What is known of each number, with two smoothnesses mixed."""
    space, top = found.space, found.space.vector()
    z = np.vstack([found.cloud.z, beside.cloud.z])
    weights = np.concatenate([(1.0 - share) * found.cloud.weights, share * beside.cloud.weights])
    error = np.sqrt(weights @ (z - top) ** 2)
    # tails are long on the side of the simpler model: ± two standard deviations would miss them
    low, high = (np.array([_quantile(column, weights, q) for column in z.T]) for q in _ENDS)
    # beyond the end of what was searched nothing changes any more: there the interval has none
    low, high = (
        np.where(low <= space.low + _NEAR, -np.inf, low),
        np.where(high >= space.high - _NEAR, np.inf, high),
    )
    rows = zip(space.coordinates, space.slopes(top) * error, space.numbers(low), space.numbers(high))
    return [
        {
            "parameter": c.name if c.entry is None else f"{c.name}[{c.entry}]",
            "standard_error": float(deviation),
            "lower": float(lower),
            "upper": float(upper),
        }
        for c, deviation, lower, upper in rows
    ]
