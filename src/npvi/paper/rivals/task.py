"""What a fit is given, once it is checked, and what it ends with."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import MiniBatchKMeans

from npvi.inference import Data
from npvi.kernels import diagonal
from npvi.learning import Model
from npvi.likelihoods import Likelihood, predictive_log_prob
from npvi.paper.rivals.posteriors import InducingPosterior, marginals, weights_of
from npvi.paper.rivals.process import Places, Process, new_places
from npvi.parameters import Parameter

__all__ = ["CHOICES", "Clock", "Found", "Task", "Validation", "choose_points", "limited"]


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


# -- how long a fit has taken, and how well it predicts rows that it doesn't learn from -------------------------------


class Clock:
    """Seconds since it was made, without those of `Validation`, and whether the budget is spent.

    >>> Clock(budget=0.0).spent
    True
    """

    def __init__(self, budget: float | None = None) -> None:
        self.budget = np.inf if budget is None else budget
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """So far."""
        return time.perf_counter() - self._start

    @property
    def spent(self) -> bool:
        """Whether the budget is."""
        return self.seconds >= self.budget

    def leave_out(self, seconds: float) -> None:
        """Don't count them."""
        self._start += seconds


@dataclass(frozen=True)
class Validation:
    """Rows held out, and the mean of their negative log density every time it was asked for.

    Attributes
    ----------
    X, y, row : the rows, checked.
    clock : the fit's.
    trace : pairs of seconds and negative log density.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    row: dict[str, NDArray[np.float64]]
    clock: Clock
    trace: list[tuple[float, float]] = field(default_factory=list)

    def judge(self, posterior: InducingPosterior, likelihood: Likelihood) -> float:
        """Mean negative log density of the rows; it goes into the trace."""
        seconds = self.clock.seconds
        value = -float(np.mean(log_density(posterior, likelihood, self.X, self.y, self.row)))
        self.trace.append((seconds, value))
        self.clock.leave_out(self.clock.seconds - seconds)
        return value


def log_density(
    posterior: InducingPosterior,
    likelihood: Likelihood,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    row: dict[str, Any],
) -> NDArray[np.float64]:
    """log p(y) of each row under what the posterior predicts."""
    parts = marginals(posterior, new_places(X))
    each = [predictive_log_prob(likelihood, y, mean, variance, row) for mean, variance in parts]
    with np.errstate(divide="ignore"):  # a component may have lost all of its weight
        return np.asarray(logsumexp(np.log(weights_of(posterior))[:, None] + each, axis=0))


# -- where inducing points are put ------------------------------------------------------------------------------------


#: the ways to choose them
CHOICES = ("random", "kmeans")


def limited(name: str, count: int, n: int) -> int:
    """`count`, or the number of rows and a warning where there are fewer of them."""
    if count > n:
        warnings.warn(f"{name} is {count} but there are only {n} rows: using all of them", UserWarning, stacklevel=5)
    return min(count, n)


def choose_points(how: str, X: NDArray[np.float64], count: int, rng: np.random.RandomState) -> Places:
    """`count` inducing points for the rows of X.

    Random ones are rows: their values are those of f there, nugget included. The centres of k-means are no rows, and
    their values are those of f without a nugget.

    >>> X = np.arange(10.0)[:, None]
    >>> choose_points("kmeans", X, 2, np.random.RandomState(0)).X.shape
    (2, 1)
    """
    if how == "random" or count >= len(X):
        rows = rng.permutation(len(X))[:count]
        return Places(X[rows], rows)
    centres = _centres(X, count, rng)
    return Places(centres, np.full(len(centres), -1))


def _centres(X: NDArray[np.float64], count: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    distinct = np.unique(X, axis=0)
    if len(distinct) <= count:
        return distinct
    scale = X.std(axis=0)
    scale[scale == 0.0] = 1.0
    means = MiniBatchKMeans(count, random_state=rng, n_init=1, batch_size=max(1024, 4 * count), max_iter=20)
    return np.asarray(means.fit(X / scale).cluster_centers_, dtype=np.float64) * scale
