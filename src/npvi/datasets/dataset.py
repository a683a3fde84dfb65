"""A data set in memory, and how it is split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset", "Split"]


class Split(NamedTuple):
    """Arrays for training, validation and testing.

    Examples
    --------
    >>> data = Dataset("line", np.arange(10.0)[:, None], np.arange(10.0), ("x",), "y", "gaussian", "a straight line")
    >>> split = data.split(seed=0)
    >>> [len(y) for y in (split.y_train, split.y_val, split.y_test)]
    [7, 1, 2]
    """

    X_train: NDArray[np.float64]
    y_train: NDArray[np.float64]
    X_val: NDArray[np.float64]
    y_val: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and a response, ready to fit.

    Parameters
    ----------
    name : str
        What `npvi.datasets.load` calls it.
    X : array (N, D)
    y : array (N,)
    inputs : tuple of str
        What the columns of X are.
    response : str
        What y is.
    likelihood : str
        A likelihood that suits y.
    description : str
        Where the data are from and what was done to them.
    zeros : int, optional
        About how many of the rows with y = 0 a split keeps; all unless given.
    is_test : array of bool (N,), optional
        The rows that everybody tests on, where the data come with them.

    Examples
    --------
    >>> data = Dataset("line", np.arange(10.0)[:, None], np.arange(10.0), ("x",), "y", "gaussian", "a straight line")
    >>> data.split(seed=1).X_test.shape
    (2, 1)
    """

    name: str
    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.float64] = field(repr=False)
    inputs: tuple[str, ...]
    response: str
    likelihood: str
    description: str
    zeros: int | None = None
    is_test: NDArray[np.bool_] | None = field(default=None, repr=False)

    def split(self, seed: int = 0, rows: int | None = None) -> Split:
        """70 % of the rows for training, 10 % for validation and 20 % for testing, drawn at random.

        Seed 0 gives the arrays that published comparisons used. Where the data come with rows to test on, those are
        the test rows, and an eighth of the others is for validation.

        Parameters
        ----------
        seed : int
            Another seed, another split. Where `zeros` says so, rows with y = 0 are thinned out with the same seed.
        rows : int, optional
            Take this many rows, drawn at random, and split those.
        """
        n = len(self.y)
        if rows is not None and not 10 <= rows <= n:
            raise ValueError(f"rows must be from 10 to {n:,}, which {self.name} has, got {rows!r}")
        rng = np.random.default_rng(seed)
        chosen = np.arange(n)
        if self.zeros is not None:
            positive = self.y > 0
            share = self.zeros / np.count_nonzero(~positive)
            chosen = np.flatnonzero(positive | (rng.random(n) < share))
        order = chosen[rng.permutation(len(chosen))[:rows]]
        if self.is_test is None:
            parts = np.split(order, [int(0.7 * len(order)), int(0.8 * len(order))])
        else:
            tested = self.is_test[order]
            others = order[~tested]
            parts = [*np.split(others, [len(others) - len(others) // 8]), order[tested]]
        return Split(*(array[part] for part in parts for array in (self.X, self.y)))
