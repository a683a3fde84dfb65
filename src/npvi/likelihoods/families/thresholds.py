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
from numpy.typing import NDArray
from scipy import special

from npvi.runtime.arrays import Array

__all__ = ["Threshold", "threshold_cdf"]

_DROP, _COARSE_DROP = 31.0, 15.0
"""The integral ends where the density is e^−31 of its largest value; the steps are as long as that allows."""
_STEP, _WIDEST = 0.5, 0.3
"""Of the trapezoidal rule, in widths of the density, and at most in u, where it has a singularity at ± iπ/2."""
_STRETCH = 6.0
_SIZES = np.array([16, 24, 32, 40, 48, 64, 80, 104, 128, 160, 208, 256, 512, 1024, 2048])
_CELLS = 24
_BLOCK = 2**15


class Threshold(NamedTuple):
    """T = latent(u), where eᵘ is gamma(a) or, with b, beta prime(a, b): the odds of a beta(a, b) variable."""

    a: Array
    b: Array | None
    latent: Callable[[Array, NDArray[np.intp]], Array]
    """(u, rows) → T, for u of shape (rows, nodes)."""
    linear: bool = True
    """Whether |dT/du| = 1."""


def threshold_cdf(threshold: Threshold, mean: np.ndarray, sd: np.ndarray, coarse: bool = False) -> np.ndarray:
    """E Φ((T − mean)/sd), for each row, to about 1e-12, or to about 1e-6 where `coarse`.

    The trapezoidal rule in u around the density's peak, with steps that its width and sd allow.

    >>> one = np.ones(1)
    >>> exponential = Threshold(one, None, lambda u, rows: u)
    >>> threshold_cdf(exponential, 0.0 * one, 1e-2 * one).round(4)  # P(log E > 0) = e^−1
    array([0.3679])
    """
    two, a = threshold.b is not None, threshold.a
    b = np.full(len(mean), np.inf) if threshold.b is None else threshold.b
    free, b = b <= 0.0, np.where(b <= 0.0, 1.0, b)  # without failures left any f will do
    peak = np.log(a) - (0.0 if threshold.b is None else np.log(b))
    width = np.sqrt(1.0 / a + 1.0 / b)
    drop = _COARSE_DROP if coarse else _DROP
    left, right = _reach(a, drop), np.log1p(drop / a + np.sqrt(2.0 * drop / a))
    if threshold.b is not None:
        # where a and b differ much the density has a shoulder as long as the distance of its peak from 0
        whole, bulk = _reach(1.0 / width**2, drop), np.sqrt(2.0 * drop) * width
        left = np.minimum(np.maximum(left + np.maximum(peak, 0.0), bulk), whole)
        right = np.minimum(np.maximum(_reach(b, drop) + np.maximum(-peak, 0.0), bulk), whole)
    step = np.minimum(_STEP * width, _WIDEST * np.sqrt(_DROP / drop))
    within = _within(threshold, mean, sd, peak, left, right)
    step = np.minimum(step, 0.89 * within / np.sqrt(1.0 + (within / width) ** 2)) * np.sqrt(_DROP / drop)
    # tails are exponential, while what matters there has little weight: x = stretch · sinh(t / stretch)
    stretch = _STRETCH * width
    left, right = stretch * np.arcsinh(left / stretch), stretch * np.arcsinh(right / stretch)
    needed = np.searchsorted(_SIZES[:-1], (left + right) / step + 1.0)
    out = np.ones(len(mean))
    for size in np.unique(needed):
        chosen, n = np.flatnonzero((needed == size) & ~free), int(_SIZES[size])
        for start in range(0, len(chosen), max(1, _BLOCK // n)):
            rows = chosen[start : start + max(1, _BLOCK // n)]
            # gamma responses all have one density, and counts few: those of each pair of shapes once
            pairs, place = np.unique(
                a[rows] + 1j * b[rows] if two else a[rows], return_index=True, return_inverse=True
            )[1:]
            once = rows[pairs]
            t = np.linspace(-left[once] / stretch[once], right[once] / stretch[once], n, axis=1)
            x = stretch[once, None] * np.sinh(t)
            alpha = a[once, None]
            with np.errstate(over="ignore"):  # far out the density is 0
                if not two:
                    log_density = alpha * (x - np.expm1(x))
                else:
                    beta = b[once, None]
                    log_density = -alpha * np.log1p(beta / (alpha + beta) * np.expm1(-x))
                    log_density -= beta * np.log1p(np.minimum(alpha / (alpha + beta), 1.0 - 2.0**-53) * np.expm1(x))
            weight = np.exp(log_density) * np.cosh(t)
            weight /= weight.sum(axis=1)[:, None]
            z = (threshold.latent((peak[once, None] + x)[place], rows) - mean[rows, None]) / sd[rows, None]
            out[rows] = np.einsum("ij,ij->i", weight[place], special.ndtr(z))
    return out


def _within(
    threshold: Threshold, mean: np.ndarray, sd: np.ndarray, peak: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """sd in units of u: by the largest slope of T where it is near the mean of f."""
    if threshold.linear:
        return sd
    u = np.linspace(peak - left, peak + right, _CELLS + 1, axis=1)
    latent = threshold.latent(u, np.arange(len(peak)))
    low, high = latent[:, :-1], latent[:, 1:]
    with np.errstate(invalid="ignore", over="ignore"):
        slope = (high - low) / (u[:, 1:] - u[:, :-1])
        near = (high > (mean - 6.0 * sd)[:, None]) & (low < (mean + 6.0 * sd)[:, None])
        return sd / np.maximum(np.where(near & np.isfinite(slope), slope, 0.0).max(axis=1), 1e-3)


def _reach(a: np.ndarray, drop: float) -> np.ndarray:
    """How far from its peak exp(a x − a eˣ) falls by `drop` in the logarithm, left: x − 1 + e^−x ≥ x²/(2 + x)."""
    return 0.5 * (drop / a + np.sqrt((drop / a) ** 2 + 8.0 * drop / a))
