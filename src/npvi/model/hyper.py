"""What isn't known about the hyper-parameters of a fit: other models beside it, each with its share of the say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from npvi.graph import Graph
from npvi.inference import Start
from npvi.learning import Integration, Learned, Learner, Model, SearchSpace, can_collapse, integrate
from npvi.likelihoods import Likelihood, Softmax, conditional_moments
from npvi.model.fitted import Fitted, Hyper
from npvi.model.inferring import Task, UnusablePosteriorError, fitted_at
from npvi.runtime import progress

__all__ = ["learned_table", "most_integrated", "settle"]

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


def settle(fitted: Fitted, task: Task, learned: Learned) -> Fitted:
    """The model integrated over its hyper-parameters, where that is wanted; ``info["hyper"]`` says what was done."""
    try:
        return _integrated(fitted, task, learned)
    except UnusablePosteriorError:
        return _with_info(fitted, {"done": "plug-in", "why": "some of them have no usable posterior"})


def _integrated(fitted: Fitted, task: Task, learned: Learned) -> Fitted:
    why = _why_not(task, learned)
    if why:
        return _with_info(fitted, {"done": "plug-in", "why": why})
    assert learned.learner is not None
    learner = learned.learner
    found = _around(fitted, task, fitted.model, learner)
    if found is None:
        return _with_info(fitted, {"done": "plug-in", "why": "their posterior could not be followed"})
    models = _at_nodes(fitted, task, found)
    other, rival = fitted.companion, learned.second
    beside, share, evaluations = found, fitted.companion_weight, found.evaluations
    if other is None:
        rival = learner.rival(task.table, learned)
        if rival is not None:
            other = _at(task, rival.model, rival.graph, rival.start)
    if other is not None and rival is not None:
        between = _around(other, task, rival.model, learner)
        if between is not None:
            beside = between
            evaluations += beside.evaluations
            if fitted.companion is None:  # how likely this smoothness is, beside the first
                share = float(expit(beside.cloud.log_integral - found.cloud.log_integral))
            if share > _RIVAL:
                around = Hyper(_at_nodes(other, task, beside), beside.weights, learned_table(beside, beside, 0.0))
                other = replace(other, companion=None, companion_weight=0.0, hyper=around)
                fitted = replace(fitted, companion=other, companion_weight=share)
    fitted = replace(fitted, hyper=Hyper(models, found.weights, learned_table(found, beside, share)))
    return _with_info(fitted, {"done": "integrate", "models": len(fitted.shares()), "evaluations": evaluations})


def _with_info(fitted: Fitted, info: dict[str, Any]) -> Fitted:
    return replace(fitted, info={**fitted.info, "hyper": info})


def _why_not(task: Task, learned: Learned) -> str:
    """The reason for plugging in the best hyper-parameters; empty where they are to be integrated over."""
    spec = task.spec
    if spec.hyper == "plug-in":
        return "asked for"
    if learned.learner is None:
        return "nothing was learned"
    if spec.hyper == "integrate":
        return ""
    if isinstance(task.table.data.likelihood, Softmax):
        return "three or more labels have a function each"
    if spec.method != "full" or spec.prior != "nngp":
        return f"method={spec.method!r} with prior={spec.prior!r}; hyper='integrate' does it all the same"
    most = most_integrated(can_collapse(task.table.data))
    if len(task.table) > most:
        return f"more than {most} rows leave little unknown; hyper='integrate' does it all the same"
    return ""


def most_integrated(collapsed: bool) -> int:
    """Rows up to which "auto" integrates, where f can be integrated out first and where it can't."""
    return _ROWS_COLLAPSED if collapsed else _ROWS


def _around(fitted: Fitted, task: Task, model: Model, learner: Learner) -> Integration | None:
    """The posterior of the hyper-parameters of a model that was learned and fitted; None where it can't be followed."""
    graph = fitted.prior.graph
    objective: Any = learner.objective(task.table, graph, fitted.start, careful=True)
    objective.enough = _ENOUGH
    space = learner.space(task.table, model)
    visited, highest = learner.visited(task.table, model, graph), _highest(space, model.likelihood)
    try:
        found = integrate(objective, model, space, visited, len(task.table), highest)
    except np.linalg.LinAlgError:
        return None
    return found if found.settled else None


def _at_nodes(fitted: Fitted, task: Task, found: Integration) -> list[Fitted]:
    """A model for each node."""
    graph, start = fitted.prior.graph, fitted.start
    task = replace(task, spec=fitted.spec)
    models = []
    for number, node in enumerate(found.models):
        progress.report("hyper", model=number + 1, of=len(found.models))
        models.append(_at(task, node, graph, start))
    return models


def _at(task: Task, model: Model, graph: Graph, start: Start | None) -> Fitted:
    fitted = fitted_at(task, model, graph, start)
    if fitted.info["interrupted"]:
        raise KeyboardInterrupt("fit interrupted; the model has the best hyper-parameters, and no others beside them")
    return fitted


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


def learned_table(found: Integration, beside: Integration, share: float) -> list[dict[str, Any]]:
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
