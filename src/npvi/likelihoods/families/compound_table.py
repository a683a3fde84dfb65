"""Distribution functions of compound Poisson sums at many points at once, to 1e-13 and not to all digits of tails."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from npvi.linalg.lanes import LANES, add_blocks
from npvi.runtime.compiling import reordered

__all__ = ["tabled_cdf"]

_STEP = 0.15
"""Of the logarithm of the size, for the width that gamma distribution functions have in it."""
_TINY = 1e-17
_KEPT = 32
"""Tables, of some 100,000 numbers."""


class _Table(NamedTuple):
    """P(gamma(α n) ≤ e^u) for n of an octave each, at even u from `low` on: rows of eight u, all n in a row."""

    first: np.ndarray
    """n that octaves begin with, and the one after the last."""
    low: np.ndarray
    step: np.ndarray
    place: np.ndarray
    blocks: np.ndarray
    """Where the rows of each octave begin, and how many eights of u there are."""
    values: np.ndarray


def tabled_cdf(alpha: float, amounts: np.ndarray, log_size: np.ndarray, most: float) -> np.ndarray:
    """P(G ≤ size) for the sum G of a Poisson(amounts) number of gamma(α) variables with scale 1; no more than `most`
    amounts on average.

    Σ_n Poisson(n; amounts) P(gamma(α n) ≤ size) is a sum of the rows of a table, which is made once for each α, and a
    polynomial through sixteen of those sums.

    >>> tabled_cdf(1.0, np.array([2.0]), np.array([-50.0]), 44.0).round(6)  # no amounts at all: e^−2
    array([0.135335])
    """
    out = np.empty(len(amounts))
    _sums(amounts, log_size, *_table(alpha, most), _WEIGHTS, out)
    return out


_POINTS = 16
_WEIGHTS = np.array([(-1.0) ** j * math.comb(_POINTS - 1, j) for j in range(_POINTS)])
"""Of the barycentric formula for even points."""


@lru_cache(maxsize=_KEPT)
def _table(alpha: float, most: float) -> _Table:
    last = _last(most)
    first = [1]
    while first[-1] <= last:
        first.append(2 * first[-1])
    first[-1] = last + 1
    lows, steps, places, blocks, values = [], [], [0], [], []
    for start, stop in pairwise(first):
        # gamma variables of small shape vary as fast, at their upper end
        step = _STEP / np.sqrt(max(alpha * (stop - 1.0), 8.0))
        # log x where P(gamma(a) ≤ x) is tiny: its first term where x is no number
        a = alpha * start
        low = max(np.log(max(special.gammaincinv(a, _TINY), 1e-300)), (np.log(_TINY) + special.gammaln(a + 1.0)) / a)
        low -= 2.0 * LANES * step
        high = np.log(special.gammainccinv(alpha * (stop - 1.0), _TINY)) + 2.0 * LANES * step
        count = int(np.ceil((high - low) / (LANES * step)))
        u = low + step * np.arange(LANES * count).reshape(count, 1, LANES)
        found = special.gammainc(alpha * np.arange(start, stop)[:, None], np.exp(u))
        lows.append(low)
        steps.append(step)
        blocks.append(count)
        values.append(found.reshape(-1, LANES))
        places.append(places[-1] + len(values[-1]))
    ends, each = np.array(first), np.array(blocks)
    return _Table(ends, np.array(lows), np.array(steps), np.array(places), each, np.concatenate(values))


def _last(amounts: float) -> int:
    return int(amounts + 9.0 * np.sqrt(amounts) + 14.0)


@reordered
def _sums(amounts, log_size, first, low, step, place, blocks, values, weights, out):
    chances, sums = np.empty(first[-1]), np.empty((3, LANES))
    for row in range(len(amounts)):
        mean, u = amounts[row], log_size[row]
        reach = 9.0 * np.sqrt(mean)
        begin, end = max(1, int(mean - reach)), min(first[-1], int(mean + reach + 14.0))
        chance = np.exp(begin * np.log(mean) - mean - math.lgamma(begin + 1.0))
        for n in range(begin, end):
            chances[n] = chance
            chance *= mean / (n + 1.0)
        total = np.exp(-mean)
        for k in range(len(low)):
            start, stop = max(begin, first[k]), min(end, first[k + 1])
            if start >= stop:
                continue
            # beyond the ends of a table all is 0 or 1
            t = min(max((u - low[k]) / step[k], 1.0 * LANES), (blocks[k] - 1.0) * LANES - 1.0)
            block = int(t) // LANES - 1
            width = first[k + 1] - first[k]
            at = place[k] + block * width + start - first[k]
            sums[:] = 0.0
            add_blocks(chances, start, stop - start, values, at, at + width, at + 2 * width, sums)  # type: ignore[call-arg]
            t -= block * LANES
            left = int(t) - (_POINTS // 2 - 1)
            above = below = 0.0
            for j in range(_POINTS):
                c = left + j
                distance = t - c
                if distance == 0.0:
                    distance = 1e-300
                share = weights[j] / distance
                above += share * sums[c // LANES, c % LANES]
                below += share
            total += above / below
        out[row] = total
