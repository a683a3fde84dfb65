"""Where distribution functions reach a level: many of them at once, each row for itself.

The search is for Φ⁻¹(F(y(x))) = Φ⁻¹(q), in a coordinate x in which responses are about normal (log for positive ones,
logit for shares): nearly a straight line, on which secants take four or five steps. The first steps are with a coarse
F. Whatever does not settle goes to bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from npvi.likelihoods.support import Support

__all__ = ["Cdf", "Start", "bisected", "roots", "to_x", "to_y", "whole_roots"]

_FAR = 1e300
_SMALLEST = float(np.finfo(np.float64).tiny)
"""Of positive responses: where a quantile is smaller, no number says where."""
_STEPS = 24
_TOLERANCE = 2e-12
"""Of F at a root, beside q or 1 − q."""
_COARSE = 1e-6
"""How far off the coarse F may be; its signs count at a hundred times that."""

#: (y, rows, coarse) → F
Cdf = Callable[..., np.ndarray]


class Start(NamedTuple):
    """Where to begin: centre and standard deviation in the coordinate of the search, for each row."""

    centre: np.ndarray
    unit: np.ndarray

    def of(self, rows: np.ndarray) -> Start:
        return Start(self.centre[rows], self.unit[rows])


def roots(
    cdf: Cdf, q: float, support: Support, rows: np.ndarray, start: Start, closed: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """y with F(y) = q for continuous responses, and which of the rows have settled; of a `closed` F none is coarse."""
    y_of, level = to_y(support), special.ndtri(q)
    n = len(rows)
    first, last = _ends(support)
    x, slope = np.clip(start.centre + level * start.unit, first, last), 1.0 / start.unit
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    last_x, last_g, coarse = np.full(n, np.nan), np.full(n, np.nan), np.full(n, not closed)
    tolerance = _TOLERANCE / (np.exp(-0.5 * level**2) / np.sqrt(2.0 * np.pi)) * min(q, 1.0 - q)
    live, settled = np.arange(n), np.zeros(n, dtype=bool)
    for step in range(_STEPS):
        g = np.empty(len(live))
        for rough in (True, False):
            some = np.flatnonzero(coarse[live] == rough)
            if len(some):
                g[some] = _score(cdf(y_of(x[live[some]]), rows[live[some]], rough)) - level
        low[live], high[live] = np.where(g < 0.0, x[live], low[live]), np.where(g < 0.0, high[live], x[live])
        difference = x[live] - last_x[live]
        with np.errstate(invalid="ignore", divide="ignore"):
            secant = (g - last_g[live]) / difference
        # over distances at which the coarse F would be all noise, the slope stays what it was
        useful = (secant > 0.0) & (np.abs(g - last_g[live]) > np.where(coarse[live], 1e-4, 1e-9)) & np.isfinite(secant)
        slope[live] = np.where(useful, secant, slope[live])
        far = 6.0 * (1.0 + step) * start.unit[live]
        move = np.clip(-g / slope[live], -far, far)
        to = x[live] + move
        # the slope is off by about as much as g has changed, in part
        then = np.abs(g) * np.minimum(1.0, np.nan_to_num(np.abs(last_g[live]) + np.abs(g), nan=1.0))
        outside = (to <= low[live]) | (to >= high[live])
        halved = 0.5 * (low[live] + high[live])
        to = np.where(outside & np.isfinite(halved), halved, np.clip(to, first, last))
        beside = y_of(low[live]), y_of(high[live])
        with np.errstate(invalid="ignore"):
            tiny = beside[1] - beside[0] <= 4.0 * np.spacing(np.abs(beside[0]))
        # where the last number on this side is not far enough, the end itself is
        beyond = ((x[live] >= last) & (g < 0.0)) | ((x[live] <= first) & (g >= 0.0))
        tiny |= y_of(to) == y_of(x[live])
        done = ~coarse[live] & ((np.abs(g) <= tolerance) | (then <= 0.1 * tolerance) | tiny | beyond)
        still = np.abs(g) <= tolerance
        rough_enough = coarse[live] & ((then < 1e-3) | (step >= 7))
        last_x[live], last_g[live] = x[live], np.where(rough_enough, np.nan, g)
        x[live] = np.where(still, x[live], np.where(beyond & done & (g < 0.0), np.inf, to))
        # signs of the coarse F are not to be relied on near the root
        low[live], high[live] = np.where(rough_enough, -np.inf, low[live]), np.where(rough_enough, np.inf, high[live])
        coarse[live] &= ~rough_enough
        settled[live[done]] = True
        live = live[~done]
        if not len(live):
            break
    return _told_from_end(y_of(x), support), settled


def whole_roots(
    cdf: Cdf, q: float, support: Support, rows: np.ndarray, start: Start, slack: float
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest whole y with F(y) ≥ q, and which of the rows have settled."""
    n, level = len(rows), special.ndtri(q)
    bottom = support.lower - 1.0 if np.isfinite(support.lower) else -_FAR
    low, high = np.full(n, bottom), np.full(n, min(support.upper, np.inf))
    low_g, high_g = np.full(n, np.nan), np.full(n, np.nan)
    with np.errstate(over="ignore"):
        guess = np.expm1(np.minimum(start.centre + level * start.unit, 690.0))
    y = np.clip(np.ceil(guess), low + 1.0, high)
    live = np.arange(n)
    for step in range(_STEPS):
        f = cdf(y[live], rows[live], True)
        near = np.flatnonzero(np.abs(f - q) <= 100.0 * _COARSE)
        if len(near):
            f[near] = cdf(y[live[near]], rows[live[near]], False)
        reached, g = f >= q - slack, _score(f) - level
        high[live], low[live] = np.where(reached, y[live], high[live]), np.where(reached, low[live], y[live])
        high_g[live], low_g[live] = np.where(reached, g, high_g[live]), np.where(reached, low_g[live], g)
        apart = high[live] - low[live]
        keep = apart > np.fmax(1.0, 4.0 * np.spacing(np.abs(low[live])))
        live = live[keep]
        if not len(live):
            break
        y[live] = _next_whole(low[live], high[live], low_g[live], high_g[live], start.unit[live], step)
    settled = np.ones(n, dtype=bool)
    settled[live] = False
    return high, settled


def _next_whole(
    low: np.ndarray,
    high: np.ndarray,
    low_g: np.ndarray,
    high_g: np.ndarray,
    unit: np.ndarray,
    step: int,
) -> np.ndarray:
    """Between two ends by a straight line in log(y + 1), or on from one of them by its distance in g."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        left, right = np.log(low + 1.0), np.log(high + 1.0)
        between = left - low_g * (right - left) / (high_g - low_g)
        on, back = left - low_g * unit * (1.0 + step), right - high_g * unit * (1.0 + step)
        both = np.isfinite(left) & np.isfinite(right) & np.isfinite(low_g) & np.isfinite(high_g)
        if step % 4 == 3:  # a halving now and then keeps it from crawling
            between = 0.5 * (left + right)
        x = np.where(both, between, np.where(np.isfinite(low_g), on, back))
        to = np.ceil(np.expm1(np.minimum(x, 690.0)) - 1e-9)
    return np.clip(np.nan_to_num(to, nan=0.0), low + 1.0, np.maximum(high - 1.0, low + 1.0))


def bisected(cdf: Cdf, q: float, support: Support, rows: np.ndarray, start: Start, slack: float) -> np.ndarray:
    """The smallest y with F(y) ≥ q by strides that double and then by halving: slowly, but wherever it is."""
    discrete = support.discrete
    # one below the smallest value is where a discrete Y never is
    bottom, top = max(support.lower - discrete, -_FAR), min(support.upper, _FAR)
    with np.errstate(over="ignore", under="ignore"):
        centre = np.expm1(start.centre) if discrete else to_y(support)(start.centre)
        beside = np.expm1(start.centre + start.unit) if discrete else to_y(support)(start.centre + start.unit)
    centre = np.clip(np.nan_to_num(centre, posinf=_FAR), bottom, top)
    stride = np.clip(np.nan_to_num(np.abs(beside - centre), posinf=_FAR), 1e-8 * np.abs(centre) + _SMALLEST, _FAR)
    if discrete:
        centre, stride = np.floor(centre), np.ceil(stride)

    def reached(y: np.ndarray, some: np.ndarray) -> np.ndarray:
        return cdf(y, rows[some]) >= q - (slack if discrete else 0.0)

    low, high = centre.copy(), centre.copy()
    each = np.arange(len(rows))
    hit = reached(centre, each)
    for near, far, sign, todo in ((high, low, -1.0, each[hit]), (low, high, 1.0, each[~hit])):
        step = sign * stride
        while len(todo):
            near[todo] = far[todo]
            with np.errstate(over="ignore"):
                far[todo] = np.clip(far[todo] + step[todo], bottom, top)
                step[todo] *= 2.0
            hit = reached(far[todo], todo)
            todo = todo[(hit if sign < 0 else ~hit) & (np.abs(far[todo]) < _FAR) & (far[todo] > bottom)]
    while True:
        digits = 1e-13 * np.minimum(np.abs(high), top - high) + _SMALLEST
        gap = np.fmax(1.0 if discrete else digits, 4.0 * np.spacing(np.abs(high)))
        todo = np.flatnonzero(high - low > gap)
        if not len(todo):
            return high if discrete else _told_from_end(high, support)
        middle = low[todo] + 0.5 * (high[todo] - low[todo])
        if discrete:
            middle = np.floor(middle)
        hit = reached(middle, todo)
        high[todo[hit]], low[todo[~hit]] = middle[hit], middle[~hit]


def _score(f: np.ndarray) -> np.ndarray:
    """Φ⁻¹, kept finite."""
    return special.ndtri(np.clip(f, 1e-300, 1.0 - 2.0**-53))


def to_y(support: Support) -> Callable[[np.ndarray], np.ndarray]:
    """From the coordinate of a search to the response."""
    low, high = support.lower, support.upper
    if support.discrete or not (np.isfinite(low) or np.isfinite(high)):
        return lambda x: x
    if np.isfinite(low) and np.isfinite(high):
        return lambda x: low + (high - low) * special.expit(x)

    def above(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return low + np.exp(x)

    return above


def _ends(support: Support) -> tuple[float, float]:
    """The first and the last x whose response is a number inside the support."""
    low, high = np.isfinite(support.lower), np.isfinite(support.upper)
    if support.discrete or not (low or high):
        return -_FAR, _FAR
    return np.floor(np.log(_SMALLEST)) if support.lower == 0.0 else -_FAR, 36.7 if high else 690.0


def _told_from_end(y: np.ndarray, support: Support) -> np.ndarray:
    """`y`, or the smallest number inside where it is nearer to a lower end of 0 than numbers are."""
    return np.maximum(y, _SMALLEST) if support.lower == 0.0 else y


def to_x(support: Support, y: np.ndarray) -> np.ndarray:
    """From the response to the coordinate of a search."""
    low, high = support.lower, support.upper
    if support.discrete or not (np.isfinite(low) or np.isfinite(high)):
        return y
    with np.errstate(divide="ignore", invalid="ignore"):
        if np.isfinite(low) and np.isfinite(high):
            return special.logit((y - low) / (high - low))
        return np.log(y - low)
