"""Where the inducing points of a low-rank prior lie."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from npvi.checks import LARGEST, as_numbers, check_finite
from npvi.kernels import Kernel

__all__ = ["WAYS", "choose_inducing"]

WAYS = ("kmeans", "random")
"""How inducing points may be chosen."""

#: rows of a batch of k-means, and most batches per centre: centres need be no more exact than the data are dense
_BATCH, _ROUNDS = 4096, 20


def choose_inducing(
    how: Any, n_inducing: int, kernel: Kernel, X: NDArray[np.float64], seed: int = 0
) -> NDArray[np.float64]:
    """M inducing points, no two the same.

    Parameters
    ----------
    how : "kmeans", the points of X nearest to the centres of their clusters, as the kernel measures distance; "random",
        points of X; or the points themselves, shape (M, d).
    n_inducing : M, where `how` is a word. Where X has no more different points than that, it is all of these.
    kernel : with whose distances to cluster.
    X : (N, d) inputs.
    seed : for what is random.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> np.sort(choose_inducing("kmeans", 2, RBF(), X), axis=0).ravel()
    array([0.1, 9.1])
    >>> choose_inducing([[1.0], [2.0], [1.0]], 2, RBF(), X).ravel()
    array([1., 2.])
    """
    if not isinstance(how, str):
        return _given(how, X.shape[1])
    if how not in WAYS:
        raise ValueError(
            f"inducing must be 'kmeans', 'random' or an array with a row per inducing point and {X.shape[1]} columns; "
            f"got {how!r}"
        )
    if n_inducing > len(X):
        warnings.warn(
            f"n_inducing is {n_inducing} but there are only {len(X)} points: using all of them",
            UserWarning,
            stacklevel=4,
        )
    different = _different(X)
    if n_inducing >= len(different):
        return different
    if how == "random":
        return different[np.sort(np.random.default_rng(seed).choice(len(different), n_inducing, replace=False))]
    return _different(X[_nearest_to_centres(kernel.coordinates(X), n_inducing, seed)])


def _nearest_to_centres(coordinates: NDArray[np.float64], n: int, seed: int) -> NDArray[np.int64]:
    """Rows next to the centres of n clusters.

    A centre itself may be no point of the kernel's space (of a circle, for a periodic one); a row always is.
    """
    from sklearn.cluster import MiniBatchKMeans  # a slow import, needed only here

    means = MiniBatchKMeans(n, random_state=seed, batch_size=_BATCH, max_iter=_ROUNDS, n_init=1)
    with threadpool_limits(1, "openmp"):  # batches are small: threads would mostly wait for each other
        centres = means.fit(coordinates).cluster_centers_
    return np.asarray(cKDTree(coordinates).query(centres)[1], dtype=np.int64)


def _different(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of X, each once, in the order in which they come."""
    return np.ascontiguousarray(X[np.sort(np.unique(X, axis=0, return_index=True)[1])])


def _given(points: Any, n_inputs: int) -> NDArray[np.float64]:
    points = as_numbers(points, "inducing")
    if points.ndim != 2 or points.shape[1] != n_inputs or not len(points):
        raise ValueError(
            f"inducing has shape {points.shape}, but must have a row per inducing point and {n_inputs} columns, one "
            "per input of the process"
        )
    check_finite(points, "inducing", LARGEST)
    return _different(points)
