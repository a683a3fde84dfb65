"""The rows that are learned from: all of a fit's, or compact parts of them.

The parts aren't tiles of `npvi.graph.tiles`: they are of rows in memory, of very different sizes on purpose, without
halos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npvi.graph import build_tree
from npvi.inference import Data
from npvi.kernels import Kernel

__all__ = ["Table", "patches", "telling_rows"]

#: patches in a part
_PATCHES = 16
#: multiples of it fill the unit interval evenly
_GOLDEN = 0.6180339887498949
#: rows of one level, at most, that tell how levels differ; so many levels or places are told of by any rows
_VISITS, _FEW = 16, 64


@dataclass(frozen=True)
class Table:
    """Data of one fit, in the caller's order.

    Attributes
    ----------
    X : what the process sees of the rows, shape (N, d).
    data : their responses.
    basis : H of the prior mean Hβ, shape (N, p).

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> X = np.linspace(0.0, 1.0, 1000)[:, None]
    >>> table = Table(X, Data(Gaussian(), np.zeros(1000)), np.ones((1000, 1)))
    >>> len(table), len(table.patches(RBF(), 160))
    (1000, 160)
    """

    X: NDArray[np.float64]
    data: Data
    basis: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: NDArray) -> Table:
        """Some rows, in some order."""
        return Table(self.X[rows], self.data.take(rows), self.basis[rows])

    def patches(self, kernel: Kernel, size: int) -> Table:
        """Rows of a few patches of the points: every other one compact, where near neighbours are, the others ever
        larger and thinned, up to all points, where far ones are. Any rows follow the model of all."""
        return self.take(patches(kernel.coordinates(self.X), size))


def patches(points: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Numbers of points of a few patches, in ascending order: see `Table.patches`."""
    rows = build_tree(points).rows
    patch, n = size // _PATCHES, len(rows)
    rng = np.random.default_rng(0)
    taken = np.zeros(n, dtype=bool)
    for number in range(_PATCHES):
        width = patch if number % 2 == 0 else int(patch * (n / patch) ** (number / (_PATCHES - 1)))
        start = int((number * _GOLDEN % 1.0) * (n - width))
        free = start + np.flatnonzero(~taken[start : start + width])
        free = free if len(free) >= patch else np.flatnonzero(~taken)
        taken[rng.choice(free, patch, replace=False)] = True
    return np.sort(rows[taken])


def telling_rows(alike: Sequence[NDArray | None], rows: int, size: int) -> NDArray[np.int64]:
    """Some rows, by which much is told of each part of a predictor: as many for each in turn, the others at random.

    Parameters
    ----------
    alike : for each part that rows tell of together where they have something in common, what that is: a level, shape
        (rows,), or a place that they are near to, shape (rows, d); None for a part that any rows tell of.
    rows, size : how many there are, and how many are chosen.

    Examples
    --------
    >>> level = np.arange(1000) % 100
    >>> chosen = telling_rows([level, None], 1000, 60)
    >>> len(chosen), int(np.bincount(level[chosen]).max())
    (60, 10)
    """
    rng = np.random.default_rng(0)
    asked = [one for one in alike if one is not None and _different(one) > _FEW]
    taken = np.zeros(rows, dtype=bool)
    for one in asked:
        share = size // (len(asked) + 1)
        taken[patches(one, share) if one.ndim > 1 else _of_some_levels(one, share, rng)] = True
    left = np.flatnonzero(~taken)
    taken[rng.choice(left, max(0, size - int(taken.sum())), replace=False)] = True
    return np.flatnonzero(taken)


def _of_some_levels(level: NDArray[np.intp], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of some levels, no more than a few of each."""
    shuffled = rng.permutation(len(level))
    by_level = shuffled[np.argsort(level[shuffled], kind="stable")]
    first = np.searchsorted(level[by_level], level[by_level])
    visits = by_level[np.arange(len(level)) - first < _VISITS]
    rank = rng.permutation(int(level.max()) + 1)[level[visits]]
    return visits[np.argsort(rank, kind="stable")][:size]


def _different(alike: NDArray) -> int:
    """How many levels or places there are."""
    if alike.ndim == 1:
        return int(alike.max(initial=-1)) + 1
    return len(np.unique(alike @ np.random.default_rng(0).uniform(size=alike.shape[1])))
