"""Responses that are at most y exactly where f is at most a random threshold.

P(Y ≤ y | f) = P(f ≤ T_y): a count of rate λ is at most k where λ is at most the (k + 1)st event of a Poisson process, a
gamma variable; for binomial and negative binomial counts it is a beta variable, for gamma responses a gamma variable
again. So P(Y ≤ y) = E Φ((T_y − m)/s): an integral over the threshold, however narrow it is, of functions that take
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

__all__ = ["Threshold", "threshold_cdf"]

_DROP = 30.0
"""The integral ends where the density is e^−30 of its largest value."""
_STEP, _WIDEST = 0.55, 0.33
"""Of the trapezoidal rule, in widths of the density, and at most in u, where it has a singularity at ± iπ/2."""
_SIZES = np.array([32, 40, 48, 64, 80, 104, 128, 256, 512, 1024])
_BLOCK = 2**15


class Threshold(NamedTuple):
    """T = latent(u), where eᵘ is gamma(a) or, with b, beta prime(a, b): the odds of a beta(a, b) variable."""

    a: np.ndarray
    b: np.ndarray | None
    latent: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """(u, rows) → T, for u of shape (rows, nodes)."""


def threshold_cdf(threshold: Threshold, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E Φ((T − mean)/sd), for each row.

    The trapezoidal rule in u around the density's peak, with steps that its width and sd allow.

    >>> one = np.ones(1)
    >>> exponential = Threshold(one, None, lambda u, rows: u)
    >>> threshold_cdf(exponential, 0.0 * one, 1e-2 * one).round(4)  # P(log E > 0) = e^−1
    array([0.3679])
    """
    a, b = threshold.a, np.full(len(mean), np.inf) if threshold.b is None else threshold.b
    free, b = b <= 0.0, np.where(b <= 0.0, 1.0, b)  # without failures left any f will do
    peak = np.log(a) - (0.0 if threshold.b is None else np.log(b))
    width = np.sqrt(1.0 / a + 1.0 / b)
    left, right = _reach(a), np.log1p(_DROP / a + np.sqrt(2.0 * _DROP / a))
    if threshold.b is not None:
        # where a and b differ much the density has a shoulder as long as the distance of its peak from 0
        whole = _reach(1.0 / width**2)
        left = np.minimum(np.maximum(_reach(a) + np.maximum(peak, 0.0), 7.8 * width), whole)
        right = np.minimum(np.maximum(_reach(b) + np.maximum(-peak, 0.0), 7.8 * width), whole)
    step = np.minimum(_STEP * width, _WIDEST)
    step = np.minimum(step, 0.89 * sd / np.sqrt(1.0 + (sd / width) ** 2))
    needed = np.searchsorted(_SIZES[:-1], (left + right) / step + 1.0)
    out = np.ones(len(mean))
    for size in np.unique(needed):
        chosen, n = np.flatnonzero((needed == size) & ~free), int(_SIZES[size])
        for start in range(0, len(chosen), max(1, _BLOCK // n)):
            rows = chosen[start : start + max(1, _BLOCK // n)]
            x = np.linspace(-left[rows], right[rows], n, axis=1)
            alpha = a[rows, None]
            if threshold.b is None:
                log_density = alpha * (x - np.expm1(x))
            else:
                beta = b[rows, None]
                log_density = -alpha * np.log1p(beta / (alpha + beta) * np.expm1(-x))
                log_density -= beta * np.log1p(alpha / (alpha + beta) * np.expm1(x))
            weight = np.exp(log_density)
            z = (threshold.latent(peak[rows, None] + x, rows) - mean[rows, None]) / sd[rows, None]
            out[rows] = np.einsum("ij,ij->i", weight, special.ndtr(z)) / weight.sum(axis=1)
    return out


def _reach(a: np.ndarray) -> np.ndarray:
    """How far from its peak exp(a x − a eˣ) falls to e^−30 on the left: x − 1 + e^−x ≥ x²/(2 + x)."""
    return 0.5 * (_DROP / a + np.sqrt((_DROP / a) ** 2 + 8.0 * _DROP / a))
