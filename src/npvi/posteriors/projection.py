"""The covariance of a few linear functions of f, of each other and with f, for every kind of posterior."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import gram
from npvi.posteriors.ancestors import PrecisionPosterior
from npvi.posteriors.draws import DrawsPosterior
from npvi.posteriors.factor import FactorPosterior
from npvi.posteriors.low_rank import LowRankPosterior
from npvi.posteriors.stacked import StackedPosterior

__all__ = ["covariance_times", "projected_covariance"]


@singledispatch
def projected_covariance(posterior: Any, A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cov Aᵀf = Aᵀ V A for A of shape (N, M): what a conditional that goes through M numbers asks.

    Returns
    -------
    (M, M), or (C, M, M) of a posterior of C functions.

    Examples
    --------
    >>> q = DrawsPosterior(np.zeros(2), np.array([[1.0, 1.0], [1.0, -1.0]]), np.ones(2), np.ones(2))
    >>> projected_covariance(q, np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[10., 14.],
           [14., 20.]])
    """
    raise TypeError(f"a {type(posterior).__name__} can't say what the covariance of linear functions is")


@projected_covariance.register
def _(posterior: FactorPosterior, A: NDArray) -> NDArray[np.float64]:
    root = posterior.factor.transpose_dot(A)
    return root.T @ root


@projected_covariance.register
def _(posterior: PrecisionPosterior, A: NDArray) -> NDArray[np.float64]:
    return posterior.covariance(A)


@projected_covariance.register
def _(posterior: DrawsPosterior, A: NDArray) -> NDArray[np.float64]:
    root = posterior.draws.T @ A
    return root.T @ root / len(root)


@projected_covariance.register
def _(posterior: LowRankPosterior, A: NDArray) -> NDArray[np.float64]:
    root = posterior.factor.columns.T @ A
    return gram(A, posterior.factor.diagonal) + root.T @ root


@projected_covariance.register
def _(posterior: StackedPosterior, A: NDArray) -> NDArray[np.float64]:
    return np.stack([projected_covariance(part, A) for part in posterior.parts])


@singledispatch
def covariance_times(posterior: Any, A: NDArray[np.float64]) -> NDArray[np.float64]:
    """V A for A of shape (N, M): the covariance of f with linear functions of it.

    Examples
    --------
    >>> q = DrawsPosterior(np.zeros(2), np.array([[1.0, 1.0], [1.0, -1.0]]), np.ones(2), np.ones(2))
    >>> covariance_times(q, np.array([[1.0], [3.0]])).ravel()
    array([1., 3.])
    """
    raise TypeError(f"a {type(posterior).__name__} can't say what the covariance of linear functions is")


@covariance_times.register
def _(posterior: FactorPosterior, A: NDArray) -> NDArray[np.float64]:
    return posterior.factor.dot(posterior.factor.transpose_dot(A))


@covariance_times.register
def _(posterior: PrecisionPosterior, A: NDArray) -> NDArray[np.float64]:
    return posterior.covariance_times(A)


@covariance_times.register
def _(posterior: DrawsPosterior, A: NDArray) -> NDArray[np.float64]:
    return posterior.draws @ (posterior.draws.T @ A) / posterior.draws.shape[1]


@covariance_times.register
def _(posterior: LowRankPosterior, A: NDArray) -> NDArray[np.float64]:
    shared = posterior.factor.columns @ (posterior.factor.columns.T @ A)
    return posterior.factor.diagonal[:, None] * A + shared
