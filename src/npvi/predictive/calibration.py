"""Do intervals hold what they promise?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from npvi.predictive.base import Predictive
from npvi.predictive.mixture import MixturePredictive

__all__ = ["coverage", "crps_of_draws", "gaussian_crps", "numbers_of_our_own", "randomised_pit"]


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
    rng = seed if isinstance(seed, np.random.Generator) else numbers_of_our_own(seed)
    return lower + rng.uniform(size=len(y)) * (upper - lower)


def numbers_of_our_own(seed: int | None) -> np.random.Generator:
    """Random numbers that nobody else has by this seed: data are simulated with `default_rng(0)` as well, and residuals
    that were broken by the numbers which made the places would agree with these.

    >>> numbers_of_our_own(0).uniform() == np.random.default_rng(0).uniform()
    False
    """
    return np.random.default_rng(None if seed is None else [seed, 0x9117])


def coverage(pit: NDArray[np.float64], level: float) -> float:
    """Share of the responses inside the central interval of probability `level`.

    >>> coverage(np.array([0.02, 0.2, 0.5, 0.9]), 0.9)
    0.75
    """
    return float(np.mean(np.abs(pit - 0.5) <= 0.5 * level))


def crps_of_draws(prediction: Predictive, y: NDArray[np.float64], draws: int, seed: Any = 0) -> NDArray[np.float64]:
    """The continuous ranked probability score of each row from `draws` draws: unbiased, but with the draws' noise.

    >>> from npvi.likelihoods import Gaussian
    >>> score = crps_of_draws(Predictive(Gaussian(0.5), [0.0], [0.5]), np.array([0.0]), draws=10_000)
    >>> bool(abs(score[0] - 0.234) < 0.02)  # √(2/π) − 1/√π
    True
    """
    import scoringrules

    sample = np.ascontiguousarray(prediction.sample(draws, seed=seed).T, dtype=np.float64)
    # of one row it returns a number
    return np.atleast_1d(scoringrules.crps_ensemble(y, sample, estimator="pwm", backend="numpy"))


def gaussian_crps(mixture: MixturePredictive, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The continuous ranked probability score of a mixture of Gaussian responses, in closed form.

    It is E|Y − y| − ½ E|Y − Y'|, with Y' another draw.

    >>> from npvi.likelihoods import Gaussian
    >>> one = Predictive(Gaussian(0.5), [0.0], [0.5])
    >>> gaussian_crps(MixturePredictive([one, one], [0.3, 0.7]), np.array([0.0])).round(3)
    array([0.234])
    """
    parts = list(zip(mixture.weights, mixture.parts))
    score = np.zeros(len(mixture))
    for w, part in parts:
        score += w * _mean_size(part.mean - y, part.var)
        for v, other in parts:
            score -= 0.5 * w * v * _mean_size(part.mean - other.mean, part.var + other.var)
    return score


def _mean_size(mean: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """E|z| for Gaussian z."""
    sd = np.sqrt(variance)
    u = mean / sd
    return 2.0 * sd * np.exp(-0.5 * u**2) / np.sqrt(2.0 * np.pi) + mean * (2.0 * special.ndtr(u) - 1.0)
