"""How much weight each of two models should have in a mixture of their predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["stacking_weight"]

Vector = NDArray[np.float64]


def stacking_weight(first: Vector, second: Vector) -> float:
    """The share w of the second that maximises Σ log((1 − w) exp(first) + w exp(second)).

    Both are log densities of the same held-out observations, under one model and the other (Yao et al. 2018, "Using
    stacking to average Bayesian predictive distributions"). The sum is concave in w.

    >>> rng = np.random.default_rng(0)
    >>> good, bad = -0.1 * rng.random(100), -3.0 * rng.random(100)
    >>> round(stacking_weight(good, bad), 3), round(stacking_weight(bad, good), 3)
    (0.0, 1.0)
    """

    def loss(w: float) -> float:
        return -float(np.logaddexp(np.log1p(-w) + first, np.log(w) + second).sum())

    return float(minimize_scalar(loss, bounds=(1e-9, 1.0 - 1e-9), method="bounded").x)
