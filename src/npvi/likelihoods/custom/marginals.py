"""What follows from a user's log p(y | f) with f ~ N(m, v) integrated out: moments, probabilities, quantiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from npvi.likelihoods.custom.sums import below_by_table, map_f, map_table, moments_by_table, place_of, table_of
from npvi.likelihoods.integrals import responses
from npvi.likelihoods.integrals.expectations import groups
from npvi.likelihoods.integrals.quadrature import rule_of_tier, tiers
from npvi.likelihoods.support import Support
from npvi.runtime.lazy import jnp
from npvi.runtime.precision import float64

if TYPE_CHECKING:
    from npvi.likelihoods.custom.likelihood import Custom

__all__ = ["marginal_cdf", "marginal_moments", "marginal_quantile"]

_SMALLEST_VARIANCE = 1e-24
_REACH = 10.5
"""Standard deviations that the nodes of all rules lie within."""
_STEP_REACH = 9.0
_NODES = 64
_PANEL = 24.0
_MAX_PANELS = 256
_NUMBERS = 2**20
"""How many f are in the making at a time."""


def marginal_moments(likelihood: Custom, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of y for f ~ N(m, v)."""
    first, second = np.empty(len(m)), np.empty(len(m))
    if not len(m):
        return first, second
    sd = np.sqrt(np.maximum(v, _SMALLEST_VARIANCE))
    table = table_of(likelihood, *_range(m, v))
    for tier, chosen in groups(tiers(sd, likelihood.resolution)):
        rule = rule_of_tier(tier)
        nodes, weights = rule.nodes[: rule.n_nodes], rule.weights[: rule.n_nodes]
        for rows in _blocks(np.arange(len(m))[chosen], len(nodes)):
            f = m[rows, None] + sd[rows, None] * nodes
            mean, noise = map_table(moments_by_table, likelihood, table, f, results=2)
            # deviations from the middle, so that a small variance does not drown in the square of a large mean
            middle = mean[:, len(nodes) // 2]
            with np.errstate(invalid="ignore"):  # moments that don't exist are inf, or not a number
                deviation = mean - middle[:, None]
                shift = deviation @ weights
                first[rows] = np.where(np.isinf(middle), middle, middle + shift)
                second[rows] = (deviation**2 + noise) @ weights - shift**2
    return first, second


def marginal_cdf(likelihood: Custom, y: np.ndarray, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) for f ~ N(m, v)."""
    if not len(m):
        return np.empty(0)
    return _marginal_cdf(likelihood, table_of(likelihood, *_range(m, v)), y, m, v)


def marginal_quantile(likelihood: Custom, q: float, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The smallest y with P(Y ≤ y) ≥ q, for f ~ N(m, v)."""
    support = likelihood.support
    if not len(m):
        return np.empty(0)
    table = table_of(likelihood, *_range(m, v))
    places = [map_f(place_of, likelihood, m + z * np.sqrt(v), results=4) for z in (-8.0, -3.0, 0.0, 3.0, 8.0)]
    low = np.min([centre - left for centre, _, left, _ in places], axis=0)
    high = np.max([centre + right for centre, _, _, right in places], axis=0)

    def beyond(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return _marginal_cdf(likelihood, table, y, m[rows], v[rows]) - q

    if support.discrete:
        return _integer_quantile(beyond, min(1e-12, 0.5 * q), np.maximum(low, support.lower) - 1.0, high)
    centre, scale = places[2][:2]

    def y_of(t: np.ndarray, rows: np.ndarray) -> np.ndarray:
        with float64():
            return np.asarray(responses.to_y(support)(jnp.asarray(centre[rows] + scale[rows] * np.sinh(t))))

    low, high = np.arcsinh((low - centre) / scale), np.arcsinh((high - centre) / scale)
    below, above, t = np.full(len(m), -q), np.full(len(m), 1.0 - q), 0.5 * (low + high)
    rows = np.arange(len(m))
    for step in range(60):
        # regula falsi, with a halving now and then that keeps it from crawling
        secant = (low * above - high * below)[rows] / (above - below)[rows]
        t[rows] = 0.5 * (low + high)[rows] if step < 4 or step % 3 == 0 else secant
        off = beyond(y_of(t[rows], rows), rows)
        right = off > 0.0
        high[rows], above[rows] = np.where(right, t[rows], high[rows]), np.where(right, off, above[rows])
        low[rows], below[rows] = np.where(right, low[rows], t[rows]), np.where(right, below[rows], off)
        rows = rows[(np.abs(off) > 1e-10) & ((high - low)[rows] > 1e-13 * (1.0 + np.abs(t[rows])))]
        if not len(rows):
            break
    return y_of(t, np.arange(len(m)))


def _integer_quantile(beyond: Callable, slack: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """By bisection: q is not reached at `low` and is at `high`."""
    low, high = np.floor(low), np.ceil(high)
    while True:
        rows = np.flatnonzero(high - low > np.maximum(1.0, 4.0 * np.spacing(np.abs(high))))
        if not len(rows):
            return high
        middle = np.floor(low[rows] + 0.5 * (high[rows] - low[rows]))
        reached = beyond(middle, rows) >= -slack
        high[rows[reached]] = middle[reached]
        low[rows[~reached]] = middle[~reached]


def _marginal_cdf(
    likelihood: Custom, table: responses.Table, y: np.ndarray, m: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """P(Y ≤ y): Gauss–Legendre panels over f, cut where the hump of p(y | f) begins and ends to be around y.

    For a count of mean λ that is an interval of a few 1/√λ, which even steps over all f would miss.
    """
    sd = np.sqrt(np.maximum(v, _SMALLEST_VARIANCE))
    first, last = m - _STEP_REACH * sd, m + _STEP_REACH * sd
    left, right = np.clip(_around(likelihood.support, table, y), first, last)
    wide = np.maximum.reduce([left - first, right - left, last - right]) / (_PANEL * likelihood.resolution)
    panels = np.ceil(np.log2(np.clip(wide, 1.0, _MAX_PANELS))).astype(int)
    out = np.zeros(len(m))
    for tier, chosen in groups(panels):
        within, weights = _panels(2**tier)
        for rows in _blocks(np.arange(len(m))[chosen], 3 * len(within)):
            for start, stop in ((first, left), (left, right), (right, last)):
                length = (stop - start)[rows, None]
                f = start[rows, None] + length * within
                step = map_table(below_by_table, likelihood, table, np.broadcast_to(y[rows, None], f.shape), f)[0]
                z = (f - m[rows, None]) / sd[rows, None]
                density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) / sd[rows, None]
                out[rows] += (step * density * length) @ weights
    return np.clip(out, 0.0, 1.0)


@lru_cache
def _panels(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]: n panels of Gauss–Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    within = (np.arange(n)[:, None] + 0.5 * (nodes + 1.0)) / n
    return within.ravel(), np.tile(0.5 * weights / n, n)


def _blocks(rows: np.ndarray, each: int) -> Iterator[np.ndarray]:
    """The rows in blocks of bounded memory, where each takes so many numbers."""
    size = max(1, _NUMBERS // each)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _around(support: Support, table: responses.Table, y: np.ndarray) -> np.ndarray:
    """The first f whose hump reaches up to y, and the last whose hump reaches down to it, if y grows with f."""
    with float64():
        x = np.asarray(y if support.discrete else responses.to_x(support, jnp.asarray(y)))
    upper = np.maximum.accumulate(table.centre + table.right)
    lower = np.maximum.accumulate(table.centre - table.left)
    i = np.searchsorted(upper, x) - 1, np.searchsorted(lower, x) + 1
    return table.start + table.step * np.clip(i, 0, len(upper) - 1)


def _range(m: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """Between which f the nodes of all rules lie."""
    reach = _REACH * np.sqrt(v)
    return float(np.min(m - reach)), float(np.max(m + reach))
