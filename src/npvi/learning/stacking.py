"""How much weight each of two models should have in a mixture of their predictions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["Stacked", "stacking"]

Vector = NDArray[np.float64]


class Stacked(NamedTuple):
    """The best mixture of two models."""

    weight: float
    """The share of the second."""
    gain: float
    """By how much the mean log density is higher than that of the better one alone."""


def stacking(first: Vector, second: Vector) -> Stacked:
    """The mixture with the largest Σ log((1 − w) exp(first) + w exp(second)).

    Both are log densities of the same held-out observations, under one model and the other (Yao et al. 2018, "Using
    stacking to average Bayesian predictive distributions"). The sum is concave in w.

    >>> rng = np.random.default_rng(0)
    >>> good, bad = -0.1 * rng.random(100), -3.0 * rng.random(100)
    >>> round(stacking(good, bad).weight, 3), round(stacking(bad, good).weight, 3), round(stacking(good, bad).gain, 3)
    (0.0, 1.0, 0.0)
    """

    def loss(w: float) -> float:
        return -float(np.logaddexp(np.log1p(-w) + first, np.log(w) + second).mean())

    found = minimize_scalar(loss, bounds=(1e-9, 1.0 - 1e-9), method="bounded")
    return Stacked(float(found.x), max(0.0, -float(found.fun) - max(float(first.mean()), float(second.mean()))))
