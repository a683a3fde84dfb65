"""The rows that are learned from: all of a fit's, or compact parts of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npvi.graph.tree import build_tree
from npvi.inference import Data
from npvi.kernels import Kernel

__all__ = ["Table"]

#: patches in a part
_PATCHES = 16
#: multiples of it fill the unit interval evenly
_GOLDEN = 0.6180339887498949


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
        rows = build_tree(kernel.coordinates(self.X)).rows
        patch, n = size // _PATCHES, len(rows)
        rng = np.random.default_rng(0)
        taken = np.zeros(n, dtype=bool)
        for number in range(_PATCHES):
            width = patch if number % 2 == 0 else int(patch * (n / patch) ** (number / (_PATCHES - 1)))
            start = int((number * _GOLDEN % 1.0) * (n - width))
            free = start + np.flatnonzero(~taken[start : start + width])
            free = free if len(free) >= patch else np.flatnonzero(~taken)
            taken[rng.choice(free, patch, replace=False)] = True
        return self.take(np.sort(rows[taken]))
