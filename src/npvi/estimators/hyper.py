"""What isn't known about the hyper-parameters of a fit: other models beside it, each with its share of the say."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi import progress
from npvi.estimators.fitting import Chosen, Clock, Task
from npvi.graph import Graph
from npvi.inference import Start
from npvi.inference.hyper import Integration, integrate
from npvi.inference.learner import Learned, Learner
from npvi.likelihoods.softmax import Softmax

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["HYPER", "Hyper", "settle"]

HYPER = ("auto", "plug-in", "integrate")
"""How predictions may treat hyper-parameters."""
#: rows up to which they are integrated over, unless that is asked for or ruled out
_ROWS = 2500
#: share of the say below which another smoothness has none
_RIVAL = 0.05
#: nats to which the bound is found
_ENOUGH = 0.01


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
    start, objective = _objective(model, task, chosen.graph, learned.learner)
    of = (task.table, chosen.model)
    about = learned.learner.space(*of), learned.learner.visited(*of)
    found = integrate(objective, chosen.model, *about, len(task.table))
    model.hyper_ = _nodes(model, task, chosen.graph, start, found)
    other, rival, evaluations = model.companion_, learned.second, found.evaluations
    if other is None and learned.rival is not None:
        other, rival = copy.copy(model), learned.rival
        other._infer(task, Chosen(rival.model, rival.graph, rival.start, node=True), Clock())
    if other is not None and rival is not None:
        graph = other.prior_.graph
        start, objective = _objective(other, task, graph, learned.learner)
        beside = found.beside(objective, rival.model, learned.learner.space(task.table, rival.model))
        evaluations += beside.evaluations
        share = model.companion_weight_
        if model.companion_ is None:  # how likely this smoothness is, beside the first
            share = float(1.0 / (1.0 + np.exp(np.clip(found.value - beside.value, -50.0, 50.0))))
        if share > _RIVAL:
            other.companion_, other.companion_weight_ = None, 0.0
            other.hyper_ = _nodes(other, task, graph, start, beside)
            model.companion_, model.companion_weight_ = other, share
    model.fit_info_["hyper"] = {
        "done": "integrate",
        "models": len(model._shares()),
        "evaluations": evaluations,
    }


def _why_not(model: BaseGP, task: Task, learned: Learned) -> str:
    """The reason for plugging in the best hyper-parameters; empty where they are to be integrated over."""
    if model.hyper == "plug-in":
        return "asked for"
    if learned.learner is None:
        return "nothing was learned"
    several = isinstance(task.table.data.likelihood, Softmax)
    if model.hyper == "integrate":
        if several or model.method == "npvi-nn":
            what = "three or more labels" if several else "method='npvi-nn'"
            raise ValueError(f"hyper='integrate' doesn't go with {what}: use hyper='plug-in', or 'auto'")
        return ""
    if several:
        return "three or more labels have a function each"
    if model.method != "full" or model.prior != "nngp":
        return f"method={model.method!r} with prior={model.prior!r}; hyper='integrate' does it all the same"
    if len(task.table) > _ROWS:
        return f"more than {_ROWS} rows leave little unknown; hyper='integrate' does it all the same"
    return ""


def _objective(model: BaseGP, task: Task, graph: Graph, learner: Learner) -> tuple[Start, Any]:
    """The bound of all rows, from the posterior of a model."""
    start = Start(model.posterior_.mean, model._marginal_variance())
    objective: Any = learner.objective(task.table, graph, start, careful=True)
    objective.enough = _ENOUGH
    return start, objective


def _nodes(model: BaseGP, task: Task, graph: Graph, start: Start, found: Integration) -> Hyper:
    """A model for each of the nodes around one that was fitted."""
    models = []
    for number, node in enumerate(found.models):
        progress.report("hyper", model=number + 1, of=len(found.models))
        other = copy.copy(model)
        other.companion_, other.companion_weight_, other.hyper_ = None, 0.0, None
        other._infer(task, Chosen(node, graph, start, node=True), Clock())
        models.append(other)
    return Hyper(models, found.weights, _table(found))


def _table(found: Integration) -> list[dict[str, Any]]:
    space = found.space
    top = space.vector()
    deviation = np.sqrt(np.mean((found.samples - top) ** 2, axis=0))
    middle, spread = found.samples.mean(axis=0), 1.96 * found.samples.std(axis=0)
    lower, upper = (space.numbers(np.clip(z, space.low, space.high)) for z in (middle - spread, middle + spread))
    return [
        {
            "parameter": c.name if c.entry is None else f"{c.name}[{c.entry}]",
            "standard_error": float(slope * error),
            "lower": float(low),
            "upper": float(high),
        }
        for c, slope, error, low, high in zip(space.coordinates, space.slopes(top), deviation, lower, upper)
    ]
