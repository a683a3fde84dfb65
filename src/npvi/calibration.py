"""Do intervals hold what they promise?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.predictive import Predictive

__all__ = ["coverage", "randomised_pit"]


def randomised_pit(prediction: Predictive, y: Any, seed: int | np.random.Generator | None = 0) -> NDArray[np.float64]:
    """Where each response falls in its own predictive distribution: uniform on [0, 1] if the predictions are right.

    For responses that are whole numbers P(Y ≤ y) jumps; a random number between P(Y < y) and P(Y ≤ y) is taken, without
    which no forecast of counts would look right. So it is where 0 has a probability of its own, and on the side where
    the true value of a censored response is.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> randomised_pit(Predictive(Gaussian(1.0), [0.0, 0.0], [0.5, 0.5]), [0.0, 9.0]).round(3)
    array([0.5, 1. ])
    """
    y = np.asarray(y, dtype=np.float64)
    support, censored = prediction.likelihood.support, prediction.row.get("censored")
    upper = prediction.cdf(y)
    lower = prediction.cdf(y - 1.0) if support.discrete else upper
    atom = getattr(support, "atom", None)
    if atom is not None:
        lower = np.where(y == atom, 0.0, lower)
    if censored is not None:
        lower, upper = np.where(censored < 0.0, 0.0, lower), np.where(censored > 0.0, 1.0, upper)
    if lower is upper:
        return upper
    return lower + np.random.default_rng(seed).uniform(size=len(y)) * (upper - lower)


def coverage(pit: NDArray[np.float64], level: float) -> float:
    """Share of the responses inside the central interval of probability `level`.

    >>> coverage(np.array([0.02, 0.2, 0.5, 0.9]), 0.9)
    0.75
    """
    return float(np.mean(np.abs(pit - 0.5) <= 0.5 * level))
