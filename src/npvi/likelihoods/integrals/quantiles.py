"""Quantiles of a response with f integrated out."""

from __future__ import annotations

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.distribution import mixture_cdf
from npvi.likelihoods.integrals.root_finding import Cdf, Start, bisected, roots, whole_roots
from npvi.likelihoods.integrals.rows_cdf import RowsCdf
from npvi.likelihoods.support import Support
from npvi.runtime.parallel import over_chunks

__all__ = ["predictive_quantile", "smallest_reaching"]

_SLACK = 1e-12
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
    cdf = RowsCdf(likelihood, q, mean, variance, row)

    def slow(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        some = {name: value[rows] for name, value in row.items()}
        return mixture_cdf(likelihood, y, mean[rows], variance[rows], some)

    return smallest_reaching(q, likelihood.support, cdf, cdf.start(), slow)


def smallest_reaching(q: float, support: Support, cdf: Cdf, start: Start, slow: Cdf) -> np.ndarray:
    """The smallest y with F(y) ≥ q, for each row: by secants, and by bisection with a `slow` F where they don't settle.

    ``cdf(y, rows, coarse)`` and ``slow(y, rows)`` are F at one y for each of these rows.
    """
    out, rows = np.empty(len(start.centre)), np.arange(len(start.centre))
    if support.atom is not None:
        at_atom = cdf(np.full(len(rows), support.atom), rows) >= q
        out[at_atom] = support.atom
        rows = rows[~at_atom]
    slack = min(_SLACK, 0.5 * q)
    if support.discrete:
        out[rows], settled = whole_roots(cdf, q, support, rows, start.of(rows), slack)
    else:
        out[rows], settled = roots(cdf, q, support, rows, start.of(rows))
    left = rows[~settled]
    if len(left):
        out[left] = bisected(slow, q, support, left, start.of(left), slack)
    return out
