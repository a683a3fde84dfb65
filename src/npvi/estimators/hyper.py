"""What isn't known about the hyper-parameters of a fit: other models beside it, each with its share of the say."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi import progress
from npvi.estimators.fitting import Chosen, Clock, Task
from npvi.inference import Start
from npvi.inference.hyper import Integration, integrate
from npvi.inference.learner import Learned, Learner
from npvi.inference.learning import can_collapse
from npvi.likelihoods.softmax import Softmax

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["HYPER", "Hyper", "settle"]

HYPER = ("auto", "plug-in", "integrate")
"""How predictions may treat hyper-parameters."""
#: rows up to which they are integrated over, unless that is asked for or ruled out
_ROWS = 2500
#: share below which another smoothness is
_RIVAL = 0.05


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
    integration = _around(model, task, chosen, learned.learner)
    evaluations = integration.evaluations
    if model.companion_ is None and learned.rival is not None:
        other = copy.copy(model)
        clock = Clock()
        rival = Chosen(learned.rival.model, learned.rival.graph, learned.rival.start, node=True)
        other._infer(task, rival, clock)
        beside = _around(other, task, rival, learned.learner)
        evaluations += beside.evaluations
        odds = beside.log_evidence - integration.log_evidence
        share = float(1.0 / (1.0 + np.exp(-odds)))
        if share > _RIVAL:
            model.companion_, model.companion_weight_ = other, share
    elif model.companion_ is not None and learned.second is not None:
        other = model.companion_
        rival = Chosen(learned.second.model, other.prior_.graph, None, node=True)
        evaluations += _around(other, task, rival, learned.learner).evaluations
    assert model.hyper_ is not None
    model.fit_info_["hyper"] = {
        "done": "integrate",
        "models": len(model.hyper_.models),
        "weights": model.hyper_.weights.tolist(),
        "evaluations": evaluations,
        "log_evidence": integration.log_evidence,
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


def _around(model: BaseGP, task: Task, chosen: Chosen, learner: Learner) -> Integration:
    """Integrate over the hyper-parameters of a model, and give it the nodes."""
    start = Start(model.posterior_.mean, model._marginal_variance())
    objective = learner.objective(task.table, chosen.graph, start, careful=True)
    space, visited = learner.space(task.table, chosen.model), learner.visited(task.table, chosen.model)
    found = integrate(objective, chosen.model, space, visited)
    models = []
    for number, node in enumerate(found.models):
        progress.report("hyper", model=number + 1, of=len(found.models))
        other = copy.copy(model)
        other.companion_, other.companion_weight_, other.hyper_ = None, 0.0, None
        other._infer(task, Chosen(node, chosen.graph, start, node=True), Clock())
        models.append(other)
    model.hyper_ = Hyper(models, found.weights, _table(found))
    return found


def _table(found: Integration) -> list[dict[str, Any]]:
    space = found.space
    top = space.vector()
    deviation = np.sqrt(np.mean((found.samples - top) ** 2, axis=0))
    lower, upper = (space.numbers(z) for z in np.quantile(found.samples, [0.025, 0.975], axis=0))
    return [
        {
            "parameter": c.name if c.entry is None else f"{c.name}[{c.entry}]",
            "standard_error": float(slope * spread),
            "lower": float(low),
            "upper": float(high),
        }
        for c, slope, spread, low, high in zip(space.coordinates, space.slopes(top), deviation, lower, upper)
    ]
