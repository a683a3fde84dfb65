"""What a fit is given, once it is checked, and what it ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from npvi.inference import Data
from npvi.kernels import diagonal
from npvi.learning.objective import Model
from npvi.likelihoods import Likelihood
from npvi.paper.rivals.choosing import choose_points, limited
from npvi.paper.rivals.posteriors import InducingPosterior
from npvi.paper.rivals.process import Places, Process
from npvi.paper.rivals.tracing import Clock, Validation
from npvi.parameters import Parameter

__all__ = ["Found", "Task"]


@dataclass(frozen=True)
class Task:
    """A fit, checked.

    Attributes
    ----------
    model : kernel, nugget and likelihood to use, or to start from.
    said : what the user said about their numbers.
    places, data : the training rows and their responses.
    constant : the constant mean to start from, or None where the mean is zero.
    seed : for inducing points, batches and draws.
    clock : of the fit.
    validation : rows held out, or None.
    """

    model: Model
    said: dict[str, Parameter]
    places: Places
    data: Data
    constant: float | None
    seed: int
    clock: Clock
    validation: Validation | None

    @property
    def process(self) -> Process:
        """The prior of f."""
        return Process(self.model.kernel, np.asarray(self.model.nugget))

    @cached_property
    def unit(self) -> float:
        """The largest prior standard deviation of f among the rows."""
        return float(np.sqrt(diagonal(self.model.kernel, self.places.X).max() + self.model.nugget))

    def points(self, how: str, name: str, count: int) -> Places:
        """Inducing points, as many as the setting `name` says; fewer random ones are the first of more."""
        count = limited(name, count, len(self.data.y))
        return choose_points(how, self.places.X, count, np.random.RandomState(self.seed))

    def evaluate(self, parts: Callable[[Any], tuple[InducingPosterior, Likelihood]]) -> Callable[[Any], float] | None:
        """What judges parameters by the rows held out, where there are any; `parts` is what parameters stand for."""
        held_out = self.validation
        return None if held_out is None else lambda parameters: held_out.judge(*parts(parameters))


@dataclass(frozen=True)
class Found:
    """What a fit ended with: the posterior, the model that it belongs to, and what there is to tell."""

    posterior: InducingPosterior
    model: Model
    info: dict[str, Any]
