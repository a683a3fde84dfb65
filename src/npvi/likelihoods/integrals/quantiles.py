"""Quantiles of a response with f integrated out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.distribution import mixture_cdf
from npvi.likelihoods.integrals.lattice import lattice_quantile
from npvi.likelihoods.integrals.mixed_cdf import MixedCdf
from npvi.likelihoods.integrals.root_finding import Cdf, Start, bisected, roots, whole_roots
from npvi.likelihoods.integrals.rows_cdf import Component
from npvi.likelihoods.support import Support
from npvi.runtime.parallel import over_chunks

__all__ = ["mixture_quantile", "predictive_quantile"]

_SLACK = 1e-12
"""F(y) counts as reaching q when it is this close: q = 0.5 and F = ½ up to rounding is a tie, not a miss."""
_BLOCK = 2**13
"""Rows at a time: a mixture keeps some hundred numbers for each."""
_LAST_BITS = 13
"""Shares are looked at one by one where 2 to this many numbers lie between them and 1."""

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
    return mixture_quantile([Component(1.0, likelihood, mean, variance, row or {})], q)


def mixture_quantile(components: Sequence[Component], q: float) -> np.ndarray:
    """`predictive_quantile` where several models have a say.

    >>> from npvi.likelihoods import Gaussian
    >>> parts = [Component(0.5, Gaussian(1.0), np.full(1, m), np.zeros(1), {}) for m in (-8.0, 8.0)]
    >>> mixture_quantile(parts, 0.75).round(6)  # the middle of one of them
    array([8.])
    """
    components = [part for part in components if part.weight > 0.0]
    first, n = components[0], len(components[0].mean)
    if q in (0.0, 1.0):
        return np.full(n, first.likelihood.support.lower if q == 0.0 else first.likelihood.support.upper)
    closed = first.likelihood.marginal_quantile(q, first.mean, first.variance, **first.row)
    if len(components) == 1 and closed is not None:
        return closed
    out = np.empty(n)

    def part(start: int, stop: int) -> None:
        for at in range(start, stop, _BLOCK):
            s = slice(at, min(stop, at + _BLOCK))
            out[s] = _search(q, [part.of(s) for part in components])

    over_chunks(part, n)
    return out


def _search(q: float, components: Sequence[Component]) -> np.ndarray:
    out, settled = lattice_quantile(components, q)
    rest, support = np.flatnonzero(~settled), components[0].likelihood.support

    def slow(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        some = (part.of(rows) for part in components)
        return sum(part.weight * mixture_cdf(part.likelihood, y, *part[2:]) for part in some)  # type: ignore[return-value]

    if len(rest):
        cdf = MixedCdf([part.of(rest) for part in components] if len(rest) < len(out) else components, q)
        found = _smallest_reaching(q, support, cdf, cdf.start(), lambda y, rows: slow(y, rest[rows]), cdf.closed)
        out[rest] = found
    return _to_the_last_bit(q, out, slow) if not support.discrete and support.upper == 1.0 else out


def _to_the_last_bit(q: float, y: np.ndarray, cdf: Cdf) -> np.ndarray:
    """Shares next to 1, where F rises by more than rounding from one number to the next: the first that reaches q."""
    spacing = np.spacing(0.5)
    near = np.flatnonzero(1.0 - y < 2.0**_LAST_BITS * spacing)
    if not len(near):
        return y
    reached, missed = np.zeros(len(near)), np.full(len(near), 2.0 ** (_LAST_BITS + 1))
    for _ in range(_LAST_BITS + 1):
        middle = np.floor(0.5 * (reached + missed))
        here = cdf(1.0 - middle * spacing, near) >= q
        reached, missed = np.where(here, middle, reached), np.where(here, missed, middle)
    y[near] = 1.0 - reached * spacing
    return y


def _smallest_reaching(q: float, support: Support, cdf: Cdf, start: Start, slow: Cdf, closed: bool) -> np.ndarray:
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
        out[rows], settled = roots(cdf, q, support, rows, start.of(rows), closed)
    left = rows[~settled]
    if len(left):
        out[left] = bisected(slow, q, support, left, start.of(left), slack)
    return out
