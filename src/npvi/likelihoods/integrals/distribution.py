"""Distribution function of a response with f integrated out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.expectations import groups
from npvi.runtime.parallel import over_chunks

__all__ = ["mixture_cdf", "predictive_cdf"]

_REACH = 9.0
_NEGLIGIBLE = 1e-13
_NODES = 64
_PANEL = 12.0
_MAX_PANELS = 256
_NEXT_TO_NOTHING = 1e-6
_CHUNK = 2**12
_SMALLEST_VARIANCE = 1e-24

Row = dict[str, np.ndarray]


def predictive_cdf(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: Row | None = None
) -> np.ndarray:
    """P(Y ≤ y) for f ~ N(mean, variance), for each row.

    Given y, P(Y ≤ y | f) falls as f grows, within a few 1/√λ for a count of mean λ. On either side of that step
    the integral is a normal distribution function; across it, Gauss–Legendre panels resolve step and normal alike.

    Examples
    --------
    >>> from npvi.likelihoods import Bernoulli
    >>> predictive_cdf(Bernoulli(), np.array([0.0, 1.0]), np.zeros(2), np.ones(2)).round(6)
    array([0.5, 1. ])
    """
    row = row or {}
    closed = likelihood.marginal_cdf(y, mean, variance, **row)
    if closed is not None:
        return np.asarray(closed)

    def part(start: int, stop: int) -> np.ndarray:
        s = slice(start, stop)
        some = {name: value[s] for name, value in row.items()}
        return mixture_cdf(likelihood, y[s], mean[s], variance[s], some)

    return np.concatenate(over_chunks(part, len(y)))


def mixture_cdf(likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: Row) -> np.ndarray:
    """`predictive_cdf` in the calling thread, in blocks of bounded memory."""
    out = np.empty(len(y))
    for start in range(0, len(y), _CHUNK):
        s = slice(start, start + _CHUNK)
        some = {name: value[s] for name, value in row.items()}
        out[s] = _chunk_cdf(likelihood, y[s], mean[s], variance[s], some)
    return out


def _chunk_cdf(likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: Row) -> np.ndarray:
    closed = likelihood.marginal_cdf(y, mean, variance, **row)
    if closed is not None:
        return np.asarray(closed)
    sd = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE))

    def given(t: np.ndarray) -> np.ndarray:
        return likelihood.cdf(y, mean + t, **row)

    # from 1 to 0 for most likelihoods; where y may be 0 whatever f is, no lower than the probability of that
    top, bottom = given(-_REACH * sd), given(_REACH * sd)
    left, right = _step(given, _REACH * sd, top, bottom)
    # of a variance beyond all measure next to nothing lies across the step
    narrow = right - left <= _NEXT_TO_NOTHING * sd
    left, right = np.where(narrow, 0.5 * (left + right), left), np.where(narrow, 0.5 * (left + right), right)
    total = top * special.ndtr(left / sd) + bottom * special.ndtr(-right / sd)
    panels = np.ceil(np.log2(np.clip((right - left) / (_PANEL * likelihood.resolution), 1.0, _MAX_PANELS)))
    across = np.flatnonzero(right > left)
    for tier, which in groups(panels[across].astype(int)):
        chosen = across[which]
        some = {name: value[chosen, None] for name, value in row.items()}
        width = (right - left)[chosen] / 2**tier
        nodes, weights = _legendre()
        for panel in range(2**tier):
            t = (left[chosen] + panel * width)[:, None] + width[:, None] * nodes
            z = t / sd[chosen, None]
            step = likelihood.cdf(y[chosen, None], mean[chosen, None] + t, **some)
            density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
            total[chosen] += (step * density) @ weights * width / sd[chosen]
    return np.clip(total, 0.0, 1.0)


def _step(
    cdf: Callable[[np.ndarray], np.ndarray], reach: np.ndarray, top: np.ndarray, bottom: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where in [−reach, reach] a cdf that falls with f leaves its top and reaches its bottom: roughly, from outside."""
    left, left_limit, right_limit, right = -reach, reach, -reach, reach
    for _ in range(40):
        middle = 0.5 * (left + left_limit)
        still_top = cdf(middle) > top - _NEGLIGIBLE
        left, left_limit = np.where(still_top, middle, left), np.where(still_top, left_limit, middle)
        middle = 0.5 * (right_limit + right)
        above_bottom = cdf(middle) > bottom + _NEGLIGIBLE
        right_limit, right = np.where(above_bottom, middle, right_limit), np.where(above_bottom, right, middle)
        # good enough once neither end wastes more than a tenth of the interval
        if np.all(np.fmax(left_limit - left, right - right_limit) <= 0.1 * np.abs(right - left)):
            break
    # a cdf that does not depend on f never leaves its top and is at its bottom from the beginning
    return left, np.fmax(left, right)


@lru_cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return 0.5 * (nodes + 1.0), 0.5 * weights
