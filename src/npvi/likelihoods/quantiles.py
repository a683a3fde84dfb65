"""Distribution function and quantiles of a response with f integrated out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.expectations import groups
from npvi.likelihoods.moments import conditional_moments
from npvi.parallel import over_chunks

__all__ = ["predictive_cdf", "predictive_quantile"]

_REACH = 9.0
_NEGLIGIBLE = 1e-13
_NODES = 64
_PANEL = 24.0
_MAX_PANELS = 256
_CHUNK = 2**12
_SMALLEST_VARIANCE = 1e-24
_FAR = 1e300
_SLACK = 1e-12
"""F(y) counts as reaching q when it is this close: q = 0.5 and F = ½ up to rounding is a tie, not a miss."""

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
        return _in_chunks(likelihood, y[s], mean[s], variance[s], some)

    return np.concatenate(over_chunks(part, len(y)))


def predictive_quantile(
    likelihood: Likelihood, q: float, mean: np.ndarray, variance: np.ndarray, row: Row | None = None
) -> np.ndarray:
    """The smallest y with P(Y ≤ y) ≥ q for f ~ N(mean, variance), for each row; whole numbers where y is
    discrete.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> predictive_quantile(Poisson(), 0.9, np.log([1.0, 100.0]), np.full(2, 1e-12))
    array([  2., 113.])
    """
    row = row or {}
    n = len(mean)
    if q in (0.0, 1.0):
        return np.full(n, likelihood.support.lower if q == 0.0 else likelihood.support.upper)
    closed = likelihood.marginal_quantile(q, mean, variance, **row)
    if closed is not None:
        return closed
    # where y would be if it were known from f alone, and by how much it then spreads
    f = mean + np.sqrt(variance) * special.ndtri(q)
    centre, spread = conditional_moments(likelihood, f, row)
    out = np.empty(n)

    def part(start: int, stop: int) -> None:
        s = slice(start, stop)
        some = {name: value[s] for name, value in row.items()}
        search = _Search(likelihood, q, mean[s], variance[s], some)
        out[s] = search.run(centre[s], np.sqrt(spread[s]))

    over_chunks(part, n)
    return out


class _Search:
    """Bracketing and bisection for the quantile, each row for itself; rows that are done cost nothing."""

    def __init__(self, likelihood: Likelihood, q: float, mean: np.ndarray, variance: np.ndarray, row: Row) -> None:
        self.likelihood, self.q, self.row = likelihood, q, row
        self.mean, self.variance = mean, variance
        self.support = likelihood.support

    def reached(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether P(Y ≤ y) ≥ q, for some of the rows."""
        some = {name: value[rows] for name, value in self.row.items()}
        cdf = _in_chunks(self.likelihood, y, self.mean[rows], self.variance[rows], some)
        return cdf >= self.q - (min(_SLACK, 0.5 * self.q) if self.support.discrete else 0.0)

    def run(self, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The quantiles, by walking away from `centre` in doubling strides and then halving the bracket."""
        support = self.support
        # one below the smallest value is where a discrete Y never is
        bottom = max(support.lower - support.discrete, -_FAR)
        centre = np.clip(np.nan_to_num(centre, posinf=_FAR), bottom, min(support.upper, _FAR))
        stride = np.clip(0.5 * spread, 1e-8 * np.abs(centre) + 1e-300, _FAR)
        if support.discrete:
            centre, stride = np.floor(centre), np.ceil(stride)
        low, high = centre.copy(), centre.copy()
        rows = np.arange(len(centre))
        if support.atom is not None:
            # q may be reached at the atom, where the bisection would look for it among the smallest of numbers
            at_atom = self.reached(np.full(len(rows), support.atom), rows)
            low[at_atom] = high[at_atom] = support.atom
            rows = rows[~at_atom]
        hit = self.reached(centre[rows], rows)
        for near, far, sign, todo in ((high, low, -1.0, rows[hit]), (low, high, 1.0, rows[~hit])):
            step = sign * stride
            while len(todo):
                near[todo] = far[todo]
                far[todo] = np.clip(far[todo] + step[todo], bottom, min(support.upper, _FAR))
                step[todo] *= 2.0
                hit = self.reached(far[todo], todo)
                todo = todo[(hit if sign < 0 else ~hit) & (np.abs(far[todo]) < _FAR)]
        return self._bisect(low, high)

    def _bisect(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Halve the bracket until its ends are neighbours; q is not reached at `low` and is at `high`."""
        discrete = self.support.discrete
        while True:
            gap = np.fmax(1.0, 4.0 * np.spacing(high)) if discrete else 1e-13 * np.abs(high) + 1e-300
            rows = np.flatnonzero(high - low > gap)
            if not len(rows):
                return high if discrete else 0.5 * (low + high)
            middle = low[rows] + 0.5 * (high[rows] - low[rows])
            if discrete:
                middle = np.floor(middle)
            hit = self.reached(middle, rows)
            high[rows[hit]] = middle[hit]
            low[rows[~hit]] = middle[~hit]


def _in_chunks(likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: Row) -> np.ndarray:
    out = np.empty(len(y))
    for start in range(0, len(y), _CHUNK):
        s = slice(start, start + _CHUNK)
        some = {name: value[s] for name, value in row.items()}
        out[s] = _mixture_cdf(likelihood, y[s], mean[s], variance[s], some)
    return out


def _mixture_cdf(likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: Row) -> np.ndarray:
    closed = likelihood.marginal_cdf(y, mean, variance, **row)
    if closed is not None:
        return np.asarray(closed)
    sd = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE))

    def given(t: np.ndarray) -> np.ndarray:
        return likelihood.cdf(y, mean + t, **row)

    # from 1 to 0 for most likelihoods; where y may be 0 whatever f is, no lower than the probability of that
    top, bottom = given(-_REACH * sd), given(_REACH * sd)
    left, right = _step(given, _REACH * sd, top, bottom)
    total = top * special.ndtr(left / sd) + bottom * special.ndtr(-right / sd)
    panels = np.ceil(np.log2(np.clip((right - left) / (_PANEL * likelihood.resolution), 1.0, _MAX_PANELS)))
    for tier, chosen in groups(panels.astype(int)):
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
