"""Where inducing points are put."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from npvi.paper.rivals.process import Places

__all__ = ["CHOICES", "choose_points", "limited"]

#: the ways to choose them
CHOICES = ("random", "kmeans")


def limited(name: str, count: int, n: int) -> int:
    """`count`, or the number of rows and a warning where there are fewer of them."""
    if count > n:
        warnings.warn(f"{name} is {count} but there are only {n} rows: using all of them", UserWarning, stacklevel=5)
    return min(count, n)


def choose_points(how: str, X: NDArray[np.float64], count: int, rng: np.random.RandomState) -> Places:
    """`count` inducing points for the rows of X.

    Random ones are rows: their values are those of f there, nugget included. The centres of k-means are no rows, and
    their values are those of f without a nugget.

    >>> X = np.arange(10.0)[:, None]
    >>> choose_points("kmeans", X, 2, np.random.RandomState(0)).X.shape
    (2, 1)
    """
    if how == "random" or count >= len(X):
        rows = rng.permutation(len(X))[:count]
        return Places(X[rows], rows)
    centres = _centres(X, count, rng)
    return Places(centres, np.full(len(centres), -1))


def _centres(X: NDArray[np.float64], count: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    distinct = np.unique(X, axis=0)
    if len(distinct) <= count:
        return distinct
    scale = X.std(axis=0)
    scale[scale == 0.0] = 1.0
    means = MiniBatchKMeans(count, random_state=rng, n_init=1, batch_size=max(1024, 4 * count), max_iter=20)
    return np.asarray(means.fit(X / scale).cluster_centers_, dtype=np.float64) * scale
