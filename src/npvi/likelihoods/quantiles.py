"""Quantiles of a response with f integrated out."""

from __future__ import annotations

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.distribution import mixture_cdf
from npvi.likelihoods.root_finding import Start, bisected, roots, whole_roots
from npvi.likelihoods.rows_cdf import RowsCdf
from npvi.likelihoods.support import Support
from npvi.parallel import over_chunks

__all__ = ["SLACK", "predictive_quantile", "quantile_beside_zeros", "start_of"]

SLACK = 1e-12
"""F(y) counts as reaching q when it is this close: q = 0.5 and F = ½ up to rounding is a tie, not a miss."""

Row = dict[str, np.ndarray]


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
    out = np.empty(n)

    def part(start: int, stop: int) -> None:
        s = slice(start, stop)
        out[s] = _search(likelihood, q, mean[s], variance[s], {name: value[s] for name, value in row.items()})

    over_chunks(part, n)
    return out


def _search(likelihood: Likelihood, q: float, mean: np.ndarray, variance: np.ndarray, row: Row) -> np.ndarray:
    if not len(mean):
        return np.empty(0)
    support = likelihood.support
    cdf = RowsCdf(likelihood, q, mean, variance, row)
    out, rows = np.empty(len(mean)), np.arange(len(mean))
    if support.atom is not None:
        at_atom = cdf(np.full(len(rows), support.atom), rows) >= q
        out[at_atom] = support.atom
        rows = rows[~at_atom]
    start = start_of(cdf, support).of(rows)
    if support.discrete:
        out[rows], settled = whole_roots(cdf, q, support, rows, start, min(SLACK, 0.5 * q))
    else:
        out[rows], settled = roots(cdf, q, support, rows, start)
    left = rows[~settled]
    if len(left):

        def slow(y: np.ndarray, some: np.ndarray) -> np.ndarray:
            rest = {name: value[some] for name, value in row.items()}
            return mixture_cdf(likelihood, y, mean[some], variance[some], rest)

        out[left] = bisected(slow, q, support, left, start_of(cdf, support).of(left), min(SLACK, 0.5 * q))
    return out


def quantile_beside_zeros(
    counts: Likelihood, share: float, q: float, mean: np.ndarray, variance: np.ndarray, row: Row
) -> np.ndarray:
    """The quantile of responses that are 0 with probability `share` and otherwise follow `counts`."""
    if q <= share * (1.0 + SLACK):
        return np.zeros(len(mean))
    return predictive_quantile(counts, min((q - share) / (1.0 - share), 1.0 - 2.0**-53), mean, variance, row)


def start_of(cdf: RowsCdf, support: Support) -> Start:
    """Centre and spread of the response in the coordinate of the search, as if both it and f were normal there."""
    centre, noise, latent = cdf.centre, cdf.spread, cdf.slope * cdf.sd
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
