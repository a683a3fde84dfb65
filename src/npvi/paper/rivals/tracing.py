"""How long a fit has taken, and how well it predicts rows that it doesn't learn from."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from npvi.likelihoods import Likelihood, predictive_log_prob
from npvi.paper.rivals.posteriors import InducingPosterior, marginals, weights_of
from npvi.paper.rivals.process import new_places

__all__ = ["Clock", "Validation"]


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
