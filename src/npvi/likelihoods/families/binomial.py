"""Successes out of a number of trials."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.count_sums import by_terms
from npvi.likelihoods.families.thresholds import Threshold
from npvi.likelihoods.integrals.log_gamma import log_binomial
from npvi.likelihoods.integrals.logistic_normal import LARGEST_FACTOR, expected_softplus
from npvi.likelihoods.links import PROBABILITY
from npvi.likelihoods.support import COUNTS, TRIALS
from npvi.runtime.lazy import jax

__all__ = ["Binomial", "check_trials"]


class Binomial(Likelihood, name="binomial", about="successes among trials"):
    """The number of successes among `trials`, y ~ Binomial(trials, link(f)).

    Parameters
    ----------
    link : {"logit", "probit"}
        The logistic function, or the normal distribution function.

    Notes
    -----
    Takes `trials` per row: whole numbers, 1 by default, which is Bernoulli.

    Examples
    --------
    >>> round(float(Binomial().log_prob(2.0, 0.0, trials=4.0)), 4)  # log(6/16)
    -0.9808
    """

    support = COUNTS
    extras = ("trials",)
    extra_supports: ClassVar = {"trials": TRIALS}
    log_concave = True
    static = ("link",)
    links = PROBABILITY

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def log_prob(self, y: jax.Array, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        # both links are symmetric: 1 − link(f) = link(−f), without loss of digits
        log_mean = self.links[self.link].log_mean
        return log_binomial(trials, y) + y * log_mean(f) + (trials - y) * log_mean(-f)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array
    ) -> jax.Array | None:
        if self.link != "logit":
            return None
        return log_binomial(trials, y) + y * m - trials * expected_softplus(m, v)

    def keeps_digits(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(trials) <= LARGEST_FACTOR, np.shape(y))

    def conditional_mean(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return trials * self.links[self.link].mean(f)

    def conditional_variance(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        mean = self.links[self.link].mean
        return trials * mean(f) * mean(-f)

    def cdf(self, y: np.ndarray, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        y, f = np.floor(np.asarray(y, dtype=np.float64)), np.asarray(f, dtype=np.float64)
        mean, k = self.links[self.link].mean_numpy, np.clip(y, 0.0, np.asarray(trials) - 1.0)
        success, failure = mean(f), mean(-f)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            inside = by_terms(k, np.exp(trials * np.log(failure)), success / failure, trials, -1.0, _beyond, failure)
        return np.where(y < 0.0, 0.0, np.where(y >= trials, 1.0, inside))

    def threshold(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> Threshold:
        failures = np.broadcast_to(trials, y.shape) - y
        probability = self.links[self.link]

        def latent(log_odds: np.ndarray, _rows: np.ndarray) -> np.ndarray:
            return log_odds if self.link == "logit" else probability.inverse(special.expit(log_odds))

        return Threshold(y + 1.0, np.maximum(failures, 0.0), latent, self.link == "logit")

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        probability = self.links[self.link].mean_numpy(np.asarray(f, dtype=np.float64))
        return rng.binomial(np.asarray(trials).astype(np.int64), probability).astype(np.float64)

    def initial_latent(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return self.links[self.link].inverse((np.asarray(y) + 0.5) / (np.asarray(trials) + 1.0))

    def check_together(self, y: np.ndarray, row: dict[str, np.ndarray]) -> None:
        """Raise ValueError where there are more successes than trials.

        >>> Binomial().check_row({"trials": [3, 3]}, 2, y=np.array([1.0, 4.0]))
        Traceback (most recent call last):
        ValueError: y: 1 of 2 rows have more successes than trials (row 1: 4 of 3)
        """
        check_trials(y, row)


def check_trials(y: np.ndarray, row: dict[str, np.ndarray]) -> None:
    """Raise ValueError, naming rows, where `y` is larger than the row's `trials`."""
    trials = np.broadcast_to(row.get("trials", 1.0), np.shape(y))
    wrong = np.flatnonzero(y > trials)
    if len(wrong):
        some = ", ".join(f"row {i}: {y[i]:g} of {trials[i]:g}" for i in wrong[:3]) + (", …" if len(wrong) > 3 else "")
        hint = "" if "trials" in row else "; trials is 1 where it is not given"
        raise ValueError(f"y: {len(wrong)} of {len(y)} rows have more successes than trials ({some}){hint}")


def _beyond(y: np.ndarray, failure: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return special.betainc(trials - y, y + 1.0, failure)
