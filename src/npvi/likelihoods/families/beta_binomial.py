"""Successes out of a number of trials, with a probability that varies from row to row."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.binomial import check_trials
from npvi.likelihoods.families.count_sums import rows_of
from npvi.likelihoods.integrals.log_gamma import log_binomial, log_rising
from npvi.likelihoods.links import PROBABILITY
from npvi.likelihoods.support import COUNTS, TRIALS
from npvi.runtime.arrays import Number
from npvi.runtime.compiling import reordered
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

    def bend(self, **row: np.ndarray) -> tuple[float, float] | None:
        # c·logistic(f) = −k at f = −log(1 + c/k) ± iπ, k = 1, 2, …; for the failures mirrored
        end = math.log1p(float(self.concentration))
        return (-end, end) if self.link == "logit" else None

    def log_prob(self, y: jax.Array, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        c = self.concentration
        successes, failures = self._log_rising(y, f), self._log_rising(trials - y, -f)
        return log_binomial(trials, y) + successes + failures - log_rising(c, trials)

    def _log_rising(self, n: jax.Array, f: jax.Array) -> jax.Array:
        """log Γ(a + n)/Γ(a) for a = c·link(f): its factor a apart, because a may underflow."""
        link, c = self.links[self.link], self.concentration
        rest = log_rising(1.0 + c * link.mean(f), jnp.maximum(n - 1.0, 0.0))
        return jnp.where(n > 0.0, jnp.log(c) + link.log_mean(f) + rest, 0.0)

    def conditional_mean(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return trials * self.links[self.link].mean(f)

    def conditional_variance(self, f: jax.Array, trials: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        mean, c = self.links[self.link].mean, self.concentration
        return trials * mean(f) * mean(-f) * (c + trials) / (c + 1.0)

    def cdf(self, y: np.ndarray, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(np.shape(y), np.shape(f), np.shape(trials))
        (y, n), (a, b) = rows_of((np.floor(np.asarray(y, dtype=np.float64)), trials), self._shapes(f), shape)
        # the sum from whichever end is nearer
        swap = 2.0 * y > n
        last = np.where((y < 0.0) | (y >= n), -1.0, np.where(swap, n - y - 1.0, y))
        a, b = np.where(swap[:, None], b, a), np.where(swap[:, None], a, b)
        # the variance of the log-odds that a (k + 1)st of n uniform numbers has, beside that of the probability
        blur = (1.0 / np.maximum(last + 1.0, 1.0) + 1.0 / (n - last)) * max(0.25 * float(self.concentration), 1.0)
        kind = np.where(blur < 0.006, 2, np.where((blur < 0.15) & (last > _FEW), 1, 0))
        if not kind.any():  # as with few trials; to take rows out costs as much as their sums
            total = _few_terms(last, n, a, b)
        else:
            total = np.empty(a.shape)
            for number, add in enumerate((_few_terms, _by_nodes, _by_moments)):
                some = kind == number
                if np.any(some):
                    total[some] = add(last[some], n[some], a[some], b[some])
        total = np.where(swap[:, None], 1.0 - total, total)
        total[y < 0.0], total[y >= n] = 0.0, 1.0
        return np.clip(total, 0.0, 1.0).reshape(shape)

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        probability = rng.beta(*self._shapes(f))
        return rng.binomial(np.asarray(trials).astype(np.int64), probability).astype(np.float64)

    def initial_latent(self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return self.links[self.link].inverse((np.asarray(y) + 0.5) / (np.asarray(trials) + 1.0))

    def initial_parameters(
        self, y: np.ndarray, trials: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> dict[str, Number]:
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
    log_first = np.zeros(a.shape)
    large = n > _SMALL
    if large.any():
        trials = n[large, None]
        log_first[large] = log_rising(b[large], trials, np) - log_rising((a + b)[large], trials, np)
    return _add_terms(last, n, a, b, log_first)


@reordered
def _add_terms(last, n, a, b, log_first):
    """The logarithm of the first term is given where n is not small; else terms are multiplied out, over Π (a + b + k),
    with a + b the same in all columns: that takes no logarithm, and a division for a row."""
    out = np.ones(a.shape)
    product = np.empty(out.shape[1])
    for i in range(len(out)):
        if n[i] <= _SMALL:
            concentration = a[i, 0] + b[i, 0]
            product[:] = 1.0
            for k in range(int(last[i]) - 1, -1, -1):
                others = n[i] - k - 1.0
                share = 1.0 / (concentration + others)
                factor = share * (n[i] - k) / (k + 1.0)
                for j in range(out.shape[1]):
                    product[j] *= share * (b[i, j] + others)
                    out[i, j] = product[j] + factor * (a[i, j] + k) * out[i, j]
            for k in range(int(n[i] - last[i])):
                share = 1.0 / (concentration + k)
                for j in range(out.shape[1]):
                    out[i, j] *= share * (b[i, j] + k)
            continue
        if log_first[i].min() > -600.0:
            for k in range(int(last[i]) - 1, -1, -1):
                factor, others = (n[i] - k) / (k + 1.0), n[i] - k - 1.0
                for j in range(out.shape[1]):
                    out[i, j] = 1.0 + factor * (a[i, j] + k) / (b[i, j] + others) * out[i, j]
            for j in range(out.shape[1]):
                out[i, j] = np.exp(log_first[i, j]) * out[i, j]
            continue
        for j in range(out.shape[1]):  # the sum of terms relative to the first may be no number
            term, total, shift = 1.0, 1.0, log_first[i, j]
            for k in range(int(last[i])):
                term *= (n[i] - k) * (a[i, j] + k) / ((k + 1.0) * (b[i, j] + (n[i] - k - 1.0)))
                total += term
                if total > 1e200:
                    term, total, shift = 1e-200 * term, 1e-200 * total, shift + 200.0 * np.log(10.0)
            out[i, j] = np.exp(shift + np.log(total))
    return out


def _by_moments(last: np.ndarray, n: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(Y ≤ last) = E I_u(a, b), u ~ Beta(last + 1, n − last): Y ≤ k where the probability is at most the (k + 1)st of
    n uniform numbers.

    By a Taylor series about the mean log-odds of u, whose central moments follow from its cumulants; for many trials.
    """
    up, down = _cumulants(last + 1.0), _cumulants(n - last)
    k1, k2, k3, k4, k5 = (one + sign * other for one, other, sign in zip(up, down, (-1.0, 1.0, -1.0, 1.0, -1.0)))
    moments = [0.0 * k2, k2, k3, k4 + 3.0 * k2**2, k5 + 10.0 * k2 * k3]
    moments += [15.0 * k2**3 + 15.0 * k2 * k4 + 10.0 * k3**2, 105.0 * k2**2 * k3, 105.0 * k2**4]
    u, v = special.expit(k1), -np.tanh(0.5 * k1)
    w = special.expit(k1) * special.expit(-k1)
    # derivatives of log d, the log density of the log-odds: those of −u, times a + b
    curves = [w, w * v, w * (v**2 - 2.0 * w), w * v * (v**2 - 8.0 * w), w * (v**4 - 22.0 * v**2 * w + 16.0 * w**2)]
    curves.append(w * v * (v**4 - 52.0 * v**2 * w + 136.0 * w**2))
    u, total = u[:, None], a + b
    slopes = [a - total * u, *(-total * curve[:, None] for curve in curves)]
    density = np.exp(a * np.log(u) + b * np.log1p(-u) - special.betaln(a, b))
    # d⁽ʳ⁾/d, one from those before
    ratios, series = [np.ones(a.shape)], np.zeros(a.shape)
    for r in range(len(slopes)):
        ratios.append(sum(math.comb(r, i) * ratios[r - i] * slopes[i] for i in range(r + 1)))
    for r, moment in enumerate(moments):
        series += (moment / math.factorial(r + 1))[:, None] * ratios[r]
    return special.betainc(a, b, u) + density * series


def _cumulants(a: np.ndarray) -> tuple[np.ndarray, ...]:
    """The first five of log gamma(a), ψ(a) and its derivatives, for a above a hundred."""
    x = 1.0 / a
    return (
        np.log(a) - x / 2.0 - x**2 / 12.0 + x**4 / 120.0 - x**6 / 252.0,
        x + x**2 / 2.0 + x**3 / 6.0 - x**5 / 30.0 + x**7 / 42.0,
        -(x**2 + x**3 + x**4 / 2.0 - x**6 / 6.0),
        2.0 * x**3 + 3.0 * x**4 + 2.0 * x**5 - x**7,
        -(6.0 * x**4 + 12.0 * x**5 + 10.0 * x**6),
    )


def _by_nodes(last: np.ndarray, n: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same by Gauss–Hermite in the log-odds of u, about normal, and narrow beside those of the probability."""
    z, weight = np.polynomial.hermite_e.hermegauss(_BLUR)
    alpha, beta = (last + 1.0)[:, None], (n - last)[:, None]
    x = np.sqrt(1.0 / alpha + 1.0 / beta) * z
    share = alpha / (alpha + beta)
    log_density = -alpha * np.log1p((1.0 - share) * np.expm1(-x)) - beta * np.log1p(share * np.expm1(x))
    weights = weight * np.exp(log_density + 0.5 * z**2)
    weights /= weights.sum(axis=1)[:, None]
    at = special.expit(np.log(alpha / beta) + x)
    return sum(weights[:, k, None] * special.betainc(a, b, at[:, k, None]) for k in range(_BLUR))
