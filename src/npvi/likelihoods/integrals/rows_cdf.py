"""P(Y ≤ y) with f integrated out, at many y for the same rows: what a search for quantiles asks for."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.thresholds import threshold_cdf
from npvi.likelihoods.integrals.distribution import mixture_cdf
from npvi.likelihoods.integrals.moments import conditional_moments
from npvi.likelihoods.integrals.root_finding import Start
from npvi.likelihoods.support import Support
from npvi.runtime.arrays import Array

__all__ = ["CHUNK", "COARSE", "EXACT", "SIZES", "Component", "Row", "RowsCdf", "shape_of", "start_of", "step_of"]

Row = dict[str, np.ndarray]

_HERMITE = {8: 0.15, 16: 0.4}
"""Nodes of Gauss–Hermite, and up to which steepness they are right to 1e-12: (ρ²/(1 + ρ²))^nodes."""
SIZES = (20, 28, 40, 64, 96, 128, 192, 256, 384)
"""Nodes of the trapezoidal rule."""
_MARGIN = 1.25
"""By which a step may be steeper than was seen at the start of the search."""
EXACT, COARSE = (7.3, 25.0), (5.2, 14.0)
"""Of the trapezoidal rule: how many standard deviations it covers, and the logarithm of its error."""
CHUNK = 2**15
"""Numbers in the making at a time: what the processor keeps near."""
_FEW, _SMALL = 96, 128.0
"""Nodes that are quicker than a threshold, of counts with means up to so many."""
_UNRESOLVED, _CLOSED, _THRESHOLD = -1, -2, -3
_LARGE = 1e290


class Component(NamedTuple):
    """With probability `weight`, y ~ likelihood(f) with f ~ N(mean, variance), in each row."""

    weight: float
    likelihood: Likelihood
    mean: Array
    variance: Array
    row: dict[str, Array]

    def of(self, rows: slice | np.ndarray) -> Component:
        some = {name: value[rows] for name, value in self.row.items()}
        return self._replace(mean=self.mean[rows], variance=self.variance[rows], row=some)


class Shape(NamedTuple):
    """E[y | f], sd(y | f) and the slope of E[y | f] at the mean of f, the width in f of P(Y ≤ y | f) and the smaller of
    the two sd(y | f) at the mean and near the quantile."""

    centre: np.ndarray
    spread: np.ndarray
    slope: np.ndarray
    width: np.ndarray
    least: np.ndarray


class RowsCdf:
    """F(y) = E P(Y ≤ y | f), f ~ N(mean, sd²), with the rule chosen once for each row.

    P(Y ≤ y | f) falls with f, over a width w = sd(y | f) / |dE[y | f]/df|; with ρ = sd/w its product with the normal
    density has a spectrum that ends at about √(1 + ρ²)/sd. A trapezoidal rule with steps 0.89 sd/√(1 + ρ²) is then
    right to 1e-11, and Gauss–Hermite with 8 or 16 nodes where ρ is small. Where ρ is large and y given f is a threshold
    (see `thresholds`), the integral is over that threshold; where nothing fits, it is that of `predictive_cdf`.

    Attributes
    ----------
    centre, spread, slope : arrays of shape (rows,)
        E[y | f], sd(y | f) and dE[y | f]/df at f = mean, to start a search from.
    """

    def __init__(self, likelihood: Likelihood, q: float, mean: np.ndarray, variance: np.ndarray, row: Row) -> None:
        self.likelihood, self._support, self.row = likelihood, likelihood.support, row
        self.mean, self.variance = mean, variance
        self.sd = np.sqrt(variance)
        self.centre, self.spread, self.slope, self.width, _ = shape_of(likelihood, q, mean, self.sd, row)
        self._nodes = self._choose(self.width)

    def __call__(self, y: np.ndarray, rows: np.ndarray, coarse: bool = False) -> np.ndarray:
        """P(Y ≤ y) for some of the rows, to 1e-11, or to about 1e-6 where `coarse`."""
        mean, sd = self.mean[rows], self.sd[rows]
        row = {name: value[rows] for name, value in self.row.items()}
        nodes, out = self._nodes[rows], np.empty(len(y))
        for n in np.unique(nodes):
            chosen = np.flatnonzero(nodes == n)
            step = max(1, CHUNK // max(abs(int(n)), 64))
            for start in range(0, len(chosen), step):
                c = chosen[start : start + step]
                some = {name: value[c] for name, value in row.items()}
                out[c] = self._rule(int(n), coarse, y[c], mean[c], sd[c], some)
        return out

    def start(self) -> Start:
        """Where a search begins: as if both y and f were normal in its coordinate."""
        return start_of(self._support, self.centre, self.spread, self.slope * self.sd)

    def _rule(self, n: int, coarse: bool, y: np.ndarray, mean: np.ndarray, sd: np.ndarray, row: Row) -> np.ndarray:
        if n == _CLOSED:
            return np.asarray(self.likelihood.marginal_cdf(y, mean, sd**2, **row))
        if n == _UNRESOLVED:
            return mixture_cdf(self.likelihood, y, mean, sd**2, row)
        if n == _THRESHOLD:
            return self._by_threshold(coarse, y, mean, sd, row)
        z, weights = _nodes(n, coarse)
        columns = {name: value[:, None] for name, value in row.items()}
        with np.errstate(over="ignore", under="ignore"):
            given = self.likelihood.cdf(y[:, None], mean[:, None] + sd[:, None] * z, **columns)
        return np.clip(given @ weights, 0.0, 1.0)

    def _choose(self, width: np.ndarray) -> np.ndarray:
        """How many nodes each row takes, or one of the labels."""
        some = {name: value[:1] for name, value in self.row.items()}
        self.closed = self.likelihood.marginal_cdf(np.zeros(1), self.mean[:1], self.variance[:1], **some) is not None
        if self.closed:
            return np.full(len(self.sd), _CLOSED)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steep = _MARGIN * np.nan_to_num(self.sd / width, nan=np.inf, posinf=np.inf)
        relative = self.sd / self.likelihood.resolution
        step = np.minimum(0.89 / np.sqrt(1.0 + np.minimum(steep, 1e150) ** 2), 0.33 / np.maximum(relative, 1e-300))
        self.step = step * self.sd
        needed = 2.0 * EXACT[0] / step + 1.0
        sizes = np.array(SIZES)
        nodes = np.append(sizes, _UNRESOLVED)[np.searchsorted(sizes, needed)]
        for n, reach in reversed(_HERMITE.items()):
            nodes = np.where(np.maximum(steep, 1.6 * relative) <= reach, n, nodes)
        if self.likelihood.threshold(np.ones(1), **some) is not None:
            # probabilities of small counts are sums that many nodes take together
            enough = np.where(self._support.discrete & (self.centre < _SMALL), _FEW, 0)
            worth = (steep >= 1.0) & ((nodes > enough) | (nodes == _UNRESOLVED)) & (nodes != 8) & (nodes != 16)
            nodes = np.where(worth, _THRESHOLD, nodes)
        return nodes

    def _by_threshold(self, coarse: bool, y: np.ndarray, mean: np.ndarray, sd: np.ndarray, row: Row) -> np.ndarray:
        lower = self.likelihood.support.lower
        out = np.where(y < lower, 0.0, 1.0)
        inside = np.flatnonzero((y > lower if not self.likelihood.support.discrete else y >= lower) & (y < _LARGE))
        if len(inside):
            some = {name: value[inside] for name, value in row.items()}
            found = self.likelihood.threshold(y[inside], **some)
            assert found is not None  # or there would be no such rows
            out[inside] = threshold_cdf(found, mean[inside], sd[inside], coarse)
        return out


def start_of(support: Support, centre: np.ndarray, noise: np.ndarray, latent: np.ndarray) -> Start:
    """Where a search begins, from the mean of y and the standard deviations that it has from noise and from f."""
    with np.errstate(all="ignore"):
        if support.discrete:
            scale = 1.0 / (centre + 1.0)
            at = np.log(centre + 1.0)
        elif np.isfinite(support.lower) and np.isfinite(support.upper):
            share = np.clip((centre - support.lower) / (support.upper - support.lower), 1e-300, 1.0 - 2.0**-53)
            scale = 1.0 / ((support.upper - support.lower) * share * (1.0 - share))
            at = special.logit(share)
        elif np.isfinite(support.lower):
            scale = 1.0 / (centre - support.lower)
            at = np.log(centre - support.lower)
            spread = np.log1p((noise * scale) ** 2)
            at, noise = at - 0.5 * spread, np.sqrt(spread) / scale
        else:
            at, scale = centre, np.ones(len(centre))
        unit = np.hypot(noise * scale, latent * scale)
    unit = np.clip(np.nan_to_num(unit, nan=1.0, posinf=100.0), 1e-300, None)
    return Start(np.nan_to_num(at, nan=0.0, posinf=690.0, neginf=-690.0), unit)


def step_of(sd: np.ndarray, width: np.ndarray, resolution: float) -> np.ndarray:
    """The step of a trapezoidal rule that is right to 1e-11."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steep = _MARGIN * np.nan_to_num(sd / width, nan=np.inf, posinf=np.inf)
    return np.minimum(0.89 * sd / np.sqrt(1.0 + np.minimum(steep, 1e150) ** 2), 0.33 * resolution)


def shape_of(likelihood: Likelihood, q: float, mean: np.ndarray, sd: np.ndarray, row: Row) -> Shape:
    """What P(Y ≤ y | f) is like around the quantile, by difference quotients with steps for functions smooth over 1."""
    n, step, bounded = len(mean), 1e-3, np.isfinite(likelihood.support.upper)
    near = mean + sd * special.ndtri(q)
    f = np.concatenate([mean, mean + step, mean - step, near, near + step, near - step])
    many = {name: np.tile(value, 6) for name, value in row.items()}
    centre, variance = conditional_moments(likelihood, f, many)
    centre, variance = centre.reshape(6, n), variance.reshape(6, n)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        slope, near_slope = (centre[1] - centre[2]) / (2.0 * step), (centre[4] - centre[5]) / (2.0 * step)
        spread = np.sqrt(variance)
        # of shares, those near the ends vary least: the step goes on into where they vary more
        width = np.fmin(spread[3] / np.abs(near_slope), spread[0] / np.abs(slope) if bounded else np.inf)
    if np.isfinite(likelihood.support.lower):
        # with links like exp and logit no step is wider, though few responses vary little far out
        width = np.minimum(width, 1.0)
    return Shape(centre[0], spread[0], slope, width, np.fmin(spread[0], spread[3]))


def _nodes(n: int, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
    return _hermite(n // 2 if coarse else n) if n in _HERMITE else _trapezoid(n, coarse)


@lru_cache
def _hermite(n: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@lru_cache
def _trapezoid(n: int, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rule with n nodes, or with half as many that cover less: a coarse one for the first steps of a search."""
    if coarse:
        n = int(np.ceil(n * COARSE[0] / EXACT[0] * np.sqrt(COARSE[1] / EXACT[1])))
    reach = COARSE[0] if coarse else EXACT[0]
    nodes = np.linspace(-reach, reach, n)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()
