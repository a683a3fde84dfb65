"""P(Y ≤ y) of counts as a sum of probabilities, for many f at once: of small ones quicker than by special functions.

Poisson, negative binomial and binomial probabilities have p(k + 1)/p(k) = x (α + s k)/(k + 1) (Panjer's class), with x
from f and s = 0, 1 or −1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npvi.runtime.compiling import reordered

__all__ = ["by_terms", "rows_of"]

_MOST = 256.0
"""Terms, beyond which a special function is as quick."""
_SMALLEST = 1e-290


def by_terms(
    y: Any, first: np.ndarray, x: np.ndarray, alpha: Any, slope: float, otherwise: Callable, argument: np.ndarray
) -> np.ndarray:
    """Σ p(k) over k ≤ y from p(0) = `first`; ``otherwise(y, argument, alpha)`` where there are many or p(0) underflows.

    Arguments broadcast; quickest where y and α have one column, and f, behind the others, several.

    >>> rate = np.array([[0.1, 1.0, 3.0]])
    >>> by_terms(np.array([[1.0]]), np.exp(-rate), rate, 1.0, 0.0, None, rate).round(6)
    array([[0.995321, 0.735759, 0.199148]])
    """
    y = np.floor(np.asarray(y, dtype=np.float64))
    shape = np.broadcast_shapes(y.shape, np.shape(alpha), first.shape)
    (y, alpha), (first, x, argument) = rows_of((y, alpha), (first, x, argument), shape)
    out = _sums(y, first, x, alpha, slope)
    rest = np.nonzero(~(y <= _MOST)[:, None] | ((first < _SMALLEST) & (y >= 0.0)[:, None]))
    if len(rest[0]):
        out[rest] = otherwise(y[rest[0]], argument[rest], alpha[rest[0]])
    return out.reshape(shape)


def rows_of(single: tuple, several: tuple, shape: tuple[int, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What is the same for all of a row, as vectors, and what isn't, as (rows, columns); of one column if need be."""
    columns = len(shape) == 2 and all(np.shape(a)[-1:] in [(), (1,)] for a in single)
    wide = shape if columns else (int(np.prod(shape)), 1)
    narrow = (shape[0], 1) if columns else shape
    flat = [np.ascontiguousarray(np.broadcast_to(a, narrow), dtype=np.float64).ravel() for a in single]
    return flat, [np.ascontiguousarray(np.broadcast_to(a, shape), dtype=np.float64).reshape(wide) for a in several]


@reordered
def _sums(y, first, x, alpha, slope):
    out = np.zeros(first.shape)
    for i in range(len(y)):
        if 0.0 <= y[i] <= _MOST:
            out[i] = 1.0
            for k in range(int(y[i]) - 1, -1, -1):
                factor = (alpha[i] + slope * k) / (k + 1.0)
                for j in range(out.shape[1]):
                    out[i, j] = 1.0 + factor * x[i, j] * out[i, j]
            for j in range(out.shape[1]):
                out[i, j] = min(first[i, j] * out[i, j], 1.0)
    return out
