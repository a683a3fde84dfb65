"""The order in which a fit sees its rows: given by what they hold, so that it doesn't matter where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference import Data
from npvi.priors import NotPositiveDefiniteError

__all__ = ["canonical_rows", "naming_rows", "rows_of_fit"]

Vector = NDArray[np.float64]


def rows_of_fit(order: Any, X: NDArray[np.float64], data: Data) -> NDArray[np.int64]:
    """The caller's row of each row of a fit: as they are only where the caller says what their order is."""
    asked = not isinstance(order, str) or order == "given"
    return np.arange(len(X)) if asked else canonical_rows(X, data)


def canonical_rows(X: NDArray[np.float64], data: Data) -> NDArray[np.int64]:
    """All rows, sorted by X, weight, extras and y, and then shuffled: the same rows give the same sequence in whatever
    order they come. (Those that are equal in everything may as well change places.)

    Shuffled, because of points at the same distance those are taken as neighbours that stand together: in a sequence by
    y, many rows of one place would have parents with small y, or with large.

    Units, and the order of the columns, don't matter either: columns go by the shape of their distribution, and y runs
    away from where most of it is, so that labels that are swapped change nothing.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> X, y = np.array([[3.0, 0.0], [1.0, 1.0], [3.0, 0.0], [2.0, 0.0]]), np.arange(4.0)
    >>> p = [2, 3, 1, 0]
    >>> one, other = canonical_rows(X, Data(Gaussian(), y)), canonical_rows(X[p], Data(Gaussian(), y[p]))
    >>> y[one].tolist() == y[p][other].tolist()
    True
    """
    rows = np.arange(len(X))
    first = np.zeros(len(X), dtype=np.int64)  # where the rows start that are equal so far
    for values in _keys(X, data):
        same = first[1:] == first[:-1]
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        if not len(tied):
            break
        among = rows[tied]
        found = values[among]
        again = np.lexsort((found, first[tied]))
        rows[tied], found = among[again], found[again]
        new = np.append(True, (found[1:] != found[:-1]) | (first[tied][1:] != first[tied][:-1]))
        first[tied] = tied[new][np.cumsum(new) - 1]
    return np.random.default_rng(0).permutation(rows)


def _keys(X: NDArray[np.float64], data: Data) -> Iterator[Vector]:
    """What rows are sorted by."""
    shapes = [_shape(column) for column in X.T] if X.shape[1] > 1 else [0.0]
    for c in np.argsort(shapes, kind="stable"):
        yield X[:, c]
    if data.weight is not None:
        yield data.weight
    for name in sorted(data.row):
        yield data.row[name]
    middle = 0.5 * data.y.min() + 0.5 * data.y.max()
    yield data.y if np.sum(data.y < middle) >= np.sum(data.y > middle) else -data.y


def _shape(values: Vector) -> float:
    """The mean square of values scaled to [0, 1]: their units don't matter, nor, to the last bit, their order."""
    ascending = np.sort(values)
    low, high = ascending[0], ascending[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(((ascending - low) / (high - low or 1.0)) ** 2))


@contextmanager
def naming_rows(rows: NDArray[np.int64]) -> Iterator[None]:
    """Where an error names rows of a fit, let it name them as the caller does."""
    try:
        yield
    except NotPositiveDefiniteError as error:
        error.rows = tuple(int(rows[row]) for row in error.rows)
        raise
