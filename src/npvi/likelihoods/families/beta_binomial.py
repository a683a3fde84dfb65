"""Successes out of a number of trials, with a probability that varies from row to row."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.binomial import check_trials
from npvi.likelihoods.integrals.log_gamma import log_binomial, log_rising
from npvi.likelihoods.links import PROBABILITY
from npvi.likelihoods.support import COUNTS, TRIALS
from npvi.runtime.compiling import compiled
from npvi.runtime.lazy import jax, jnp

__all__ = ["BetaBinomial"]

_SMALL, _FEW, _BLUR = 128, 1000, 16
"""Trials whose product is quicker than a difference of log Γ; terms that are summed one by one; nodes of the integral
that takes the place of more."""


class BetaBinomial(Likelihood, name="beta_binomial", about="successes among trials"):
    """The number of successes among `trials`, with a probability ~ Beta(c·link(f), c·(1 − link(f))).

    c is the concentration: the mean is that of `Binomial`, the variance (c + trials)/(c + 1) times its.

    Parameters
    ----------
    concentration : float
        The larger, the closer to `Binomial`.
    link : {"logit", "probit"}
        The logistic function, or the normal distribution function.

    Notes
    -----
    Takes `trials` per row: whole numbers, 1 by default.

    Examples
    --------
    >>> round(float(BetaBinomial(concentration=2.0).log_prob(2.0, 0.0, trials=4.0)), 4)  # uniform: log(1/5)
    -1.6094
    """

    support = COUNTS
    extras = ("trials",)
    extra_supports: ClassVar = {"trials": TRIALS}
    static = ("link",)
    links = PROBABILITY

    limits: ClassVar[dict[str, tuple[float, float]]] = {"concentration": (1e-2, 1e4)}

    def __init__(self, concentration: float = 10.0, link: str = "logit") -> None:
        self.concentration = concentration
        self.link = link

    @property
    def resolution(self) -> float:
        # log p is singular where c·link(f) = −1, −2, …: at ±iπ for the logistic function; the normal
        # distribution function takes the value −1/c near −a ± iπ/a, where it is 1/c at −a
        if self.link == "logit":
            return 1.0
        tail = -special.ndtri(min(1.0 / float(self.concentration), 0.5))
        return min(0.9, math.pi / (3.0 * max(tail, 1.0)))

    def log_prob(self, y: jax.Array, f: jax.Array, trials: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        c = self.concentration
        successes, failures = self._log_rising(y, f), self._log_rising(trials - y, -f)
        return log_binomial(trials, y) + successes + failures - log_rising(c, trials)

    def _log_rising(self, n: jax.Array, f: jax.Array) -> jax.Array:
        """log Γ(a + n)/Γ(a) for a = c·link(f): its factor a apart, because a may underflow."""
        link, c = self.links[self.link], self.concentration
        rest = log_rising(1.0 + c * link.mean(f), jnp.maximum(n - 1.0, 0.0))
        return jnp.where(n > 0.0, jnp.log(c) + link.log_mean(f) + rest, 0.0)

    def conditional_mean(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        return trials * self.links[self.link].mean(f)

    def conditional_variance(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: Any) -> jax.Array:
        mean, c = self.links[self.link].mean, self.concentration
        return trials * mean(f) * mean(-f) * (c + trials) / (c + 1.0)

    def cdf(self, y: np.ndarray, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: Any) -> np.ndarray:
        y, a, b, n = np.broadcast_arrays(np.floor(np.asarray(y, dtype=np.float64)), *self._shapes(f), trials)
        # the sum from whichever end is nearer, term by term
        swap = 2.0 * y > n
        last = np.where(swap, n - y - 1.0, y)
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        last = np.where((y < 0.0) | (y >= n), -1.0, last)
        many = last > _FEW
        if np.any(many):
            width = 1.0 / np.maximum(last + 1.0, 1.0) + 1.0 / (n - last)
            many &= width * np.maximum(a * b / (a + b), 1.0) < 0.15
        total = np.zeros(y.shape)
        for some, add in ((~many, _few_terms), (many, _many_terms)):
            if np.any(some):
                total[some] = add(last[some], n[some], a[some], b[some])
        return np.clip(np.where(y < 0.0, 0.0, np.where(y >= n, 1.0, np.where(swap, 1.0 - total, total))), 0.0, 1.0)

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: Any
    ) -> np.ndarray:
        probability = rng.beta(*self._shapes(f))
        return rng.binomial(np.asarray(trials).astype(np.int64), probability).astype(np.float64)

    def initial_latent(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: Any) -> np.ndarray:
        return self.links[self.link].inverse((np.asarray(y) + 0.5) / (np.asarray(trials) + 1.0))

    def initial_parameters(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: Any) -> dict[str, Any]:
        # half of what the variance has beyond Binomial; the other half is left to f
        trials = np.broadcast_to(trials, np.shape(y))
        p = float((np.sum(y) + 0.5) / (np.sum(trials) + 1.0))
        if np.all(trials == 1.0):
            return {}  # of one trial the variance says nothing
        excess = np.sum((y - trials * p) ** 2 - trials * p * (1.0 - p))
        correlation = 0.5 * float(excess / np.sum(trials * (trials - 1.0) * p * (1.0 - p)))
        return {"concentration": 1.0 / float(np.clip(correlation, 0.001, 0.9)) - 1.0}

    def check_together(self, y: np.ndarray, row: dict[str, np.ndarray]) -> None:
        check_trials(y, row)

    def _shapes(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, f = self.links[self.link].mean_numpy, np.asarray(f, dtype=np.float64)
        return np.maximum(self.concentration * mean(f), 1e-300), np.maximum(self.concentration * mean(-f), 1e-300)


def _few_terms(last: np.ndarray, n: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(Y ≤ last), term by term."""
    log_first = np.zeros(last.shape)
    large = n > _SMALL
    log_first[large] = log_rising(b[large], n[large], np) - log_rising((a + b)[large], n[large], np)
    out = np.empty(last.shape)
    _add_terms(last, n, a, b, log_first, out)
    return out


@compiled
def _add_terms(last, n, a, b, log_first, out):
    """Fill `out`; the first term is Π (b + k)/(a + b + k), or given where n is not small."""
    for i in range(len(out)):
        term, total, shift = 1.0, 1.0, log_first[i]
        if n[i] <= _SMALL:
            for k in range(int(n[i])):
                term *= (b[i] + k) / (a[i] + b[i] + k)
            total = term
        for k in range(int(last[i])):
            term *= (n[i] - k) * (a[i] + k) / ((k + 1.0) * (b[i] + (n[i] - k - 1.0)))
            total += term
            if total > 1e200:
                term, total, shift = 1e-200 * term, 1e-200 * total, shift + 200.0 * np.log(10.0)
        out[i] = np.exp(shift + np.log(total)) if last[i] >= 0.0 else 0.0


def _many_terms(last: np.ndarray, n: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(Y ≤ last) = E I_u(a, b), u ~ Beta(last + 1, n − last): Y ≤ k where the probability is at most the (k + 1)st of
    n uniform numbers.

    Gauss–Hermite in the log-odds of u, whose density is about normal and narrow beside that of the probability.
    """
    z, weight = np.polynomial.hermite_e.hermegauss(_BLUR)
    alpha, beta = last + 1.0, n - last
    x = np.sqrt(1.0 / alpha + 1.0 / beta)[:, None] * z
    share = (alpha / (alpha + beta))[:, None]
    log_density = -alpha[:, None] * np.log1p((1.0 - share) * np.expm1(-x)) - beta[:, None] * np.log1p(
        share * np.expm1(x)
    )
    weights = weight * np.exp(log_density + 0.5 * z**2)
    inside = special.betainc(a[:, None], b[:, None], special.expit(np.log(alpha / beta)[:, None] + x))
    return np.sum(weights * inside, axis=1) / weights.sum(axis=1)
