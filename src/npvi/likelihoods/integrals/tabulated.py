"""P(Y ≤ y | f) from a table, where the formula for it takes microseconds: for searches over many rows.

Φ⁻¹(P(Y ≤ y | f)) is smooth in f and in the distance of x, the response in the coordinate of a search, from f. So the
table has polynomials, one for each cell of that plane, made when a row first needs it and kept for the next search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np

from npvi.runtime.arrays import Array
from npvi.runtime.compiling import reordered

__all__ = ["Rules", "Scores", "Table", "table_of"]

_SIZE = 12
"""Coefficients of a polynomial, in either direction."""
_CELLS, _REACH = 128, 1024
"""Of f, each of length 1, around 0; and of x − f."""
_UNKNOWN, _POOR, _NEVER, _ALWAYS = -1, -2, -3, -4
_AT_ONCE = 2**13
"""Cells, with repetitions, that are made before the next look."""
_CERTAIN = 7.4
"""Φ(−7.4) = 7e-14 is no probability any more."""
_ERROR = 4e-12


class Scores(NamedTuple):
    """What a table is made from; equal ones share it."""

    make: Callable[[tuple[float, ...]], Callable[[Array, Array], Array]]
    """The parameters → the function (x, f) → Φ⁻¹(P(Y ≤ y(x) | f)), with as many digits near 1 as near 0."""
    width: Callable[[Array, tuple[float, ...]], Array]
    """(f, the parameters) → the distance in x over which that is about a straight line."""
    parameters: tuple[float, ...]


class Rules(NamedTuple):
    """Nodes and weights of several rules one after the other, and where that of each row begins and ends."""

    nodes: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    stop: np.ndarray


class Table:
    """E P(Y ≤ y(x) | f) by rules for f ~ N(mean, sd²), to about 1e-12.

    >>> table = Table(Scores(lambda given: lambda x, f: x - f, lambda f, given: 1.0 + 0.0 * f, ()))
    >>> point = Rules(np.zeros(1), np.ones(1), np.array([0]), np.array([1]))
    >>> table.cdf(np.ones(1), np.zeros(1), np.zeros(1), point).round(6)  # Φ(1)
    array([0.841345])
    """

    def __init__(self, scores: Scores) -> None:
        self._score = scores.make(scores.parameters)
        self._widths = scores.width(np.arange(-_CELLS, _CELLS, dtype=np.float64) + 0.5, scores.parameters)
        self._slots = np.full((2 * _CELLS, 2 * _REACH), _UNKNOWN)
        self._polynomials = np.empty((0, _SIZE, _SIZE))
        self._lock = Lock()

    def cdf(self, x: np.ndarray, mean: np.ndarray, sd: np.ndarray, rules: Rules) -> np.ndarray:
        """Σ_k weight_k P(Y ≤ y(x) | mean + sd z_k) for each row; NaN where the table doesn't reach."""
        out = np.empty(len(x))
        while True:
            # slots first: what they point at is there by then
            slots, wanted = self._slots, np.empty((_AT_ONCE, 2), dtype=np.int64)
            found = _add(x, mean, sd, *rules, self._widths, slots, self._polynomials, wanted, out)
            if not found:
                return out
            with self._lock:
                cells = np.unique(wanted[:found], axis=0)
                self._make(cells[self._slots[tuple(cells.T)] == _UNKNOWN])

    def _make(self, cells: np.ndarray) -> None:
        if not len(cells):
            return
        # where neither ends nor middle leave any doubt, that is all
        rough = self._at(cells, np.array([-1.0, 0.0, 1.0]))
        label = np.where((rough > _CERTAIN).all(axis=(1, 2)), _ALWAYS, _UNKNOWN)
        label[(rough < -_CERTAIN).all(axis=(1, 2))] = _NEVER
        todo = np.flatnonzero(label == _UNKNOWN)
        nodes, transform, monomial = _chebyshev()
        values = self._at(cells[todo], nodes)
        with np.errstate(invalid="ignore"):
            coefficients = transform @ np.clip(values, -40.0, 40.0) @ transform.T
            # the last of each direction, by what they do to the probability where it is steepest; those left out are
            # smaller by far
            rest = np.abs(coefficients[:, -1]).sum(axis=1) + np.abs(coefficients[:, :, -1]).sum(axis=1)
            closest = np.abs(values).min(axis=(1, 2))
            good = rest * np.exp(-0.5 * closest**2) < _ERROR
        label[todo[~good]] = _POOR
        label[todo[good]] = len(self._polynomials) + np.arange(np.count_nonzero(good))
        added = monomial @ coefficients[good].transpose(0, 2, 1) @ monomial.T
        slots = self._slots.copy()
        slots[tuple(cells.T)] = label
        self._polynomials = np.concatenate([self._polynomials, added])
        self._slots = slots

    def _at(self, cells: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Φ⁻¹(P) on a grid of the cells, (cells, f, x − f)."""
        f = (cells[:, :1] - _CELLS) + 0.5 * (nodes + 1.0)
        away = ((cells[:, 1:] - _REACH) + 0.5 * (nodes + 1.0)) * self._widths[cells[:, :1]]
        f, away = np.broadcast_arrays(f[:, :, None], away[:, None, :])
        return self._score((f + away).ravel(), f.ravel()).reshape(f.shape)


def table_of(scores: Scores) -> Table:
    """The table of these scores, one for all searches."""
    return _tables(scores)


_tables = lru_cache(maxsize=32)(Table)


@lru_cache
def _chebyshev() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, the matrix from values there to coefficients, and the one from those to coefficients of powers."""
    n = _SIZE
    nodes = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    transform = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, n - 1))
    monomial = np.zeros((n, n))
    for k in range(n):
        powers = np.polynomial.chebyshev.cheb2poly(np.eye(n)[k][: k + 1])
        monomial[: len(powers), k] = powers
    return nodes, transform, monomial


@reordered
def _add(x, mean, sd, z, weights, start, stop, widths, slots, polynomials, wanted, out):
    """Fill `out`, and `wanted` with cells that are not made; how many of those there are."""
    found = 0
    for row in range(len(x)):
        total = 0.0
        for k in range(start[row], stop[row]):
            f = mean[row] + sd[row] * z[k]
            if not -_CELLS < f < _CELLS - 1:
                total = np.nan
                break
            i = math.floor(f)
            away = (x[row] - f) / widths[i + _CELLS]
            if not -_REACH < away < _REACH - 1:
                total = np.nan
                break
            j = math.floor(away)
            slot = slots[i + _CELLS, j + _REACH]
            if slot == _UNKNOWN:
                if found < len(wanted):
                    wanted[found] = i + _CELLS, j + _REACH
                    found += 1
            elif slot == _POOR:
                total = np.nan
            elif slot == _ALWAYS:
                total += weights[k]
            elif slot >= 0:
                s, t = 2.0 * (f - i) - 1.0, 2.0 * (away - j) - 1.0
                score = 0.0
                for b in range(_SIZE - 1, -1, -1):
                    inner = polynomials[slot, b, _SIZE - 1]
                    for a in range(_SIZE - 2, -1, -1):
                        inner = inner * s + polynomials[slot, b, a]
                    score = score * t + inner
                total += weights[k] * 0.5 * math.erfc(-score * math.sqrt(0.5))
        out[row] = total
    return found
