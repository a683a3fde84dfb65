"""Gaussian process regression with any noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from npvi.estimators.base import BaseGP

__all__ = ["GPRegressor"]


class GPRegressor(RegressorMixin, BaseGP):
    """Gaussian process for responses with any noise, by variational inference over nearest neighbours.

    Parameters
    ----------
    likelihood : str or Likelihood
        What y is, given f: "gaussian", "lognormal", "poisson" (exp link), "bernoulli", or an object such as
        ``npvi.likelihoods.Poisson(link="softplus")``.
    kernel : str, Kernel or function of two points
        Covariance of f: "rbf", "matern12", "matern32", "matern52", …, or an object such as
        ``npvi.kernels.RBF(length_scale=0.5, variance=1.0)``.
    nugget : float
        Variance on the diagonal, part of f and fresh for every row. Points that share a location need it positive; for
        counts it is overdispersion.
    mean : {"zero", "constant"}
        Prior mean of f; the constant is the one that maximises the bound.
    method : {"npvi"}
        How the posterior is approximated.
    prior : {"nngp"}
        How the Gaussian process is approximated.
    n_neighbors : int
        Parents of each point, and training points that a prediction looks at. N − 1 or more means all.
    rule : {"nearest", "paper"}
        How parents are chosen.
    order : {"maximin", "grid", "random", "given"} or permutation
        Order of the points; coarse to fine by default.
    learn : False
        Hyper-parameters stay as given; `npvi.grid_search` chooses among values by validation.
    tol : float
        Both residuals of the optimum must fall below it.
    max_iter : int
        Most iterations.
    random_state : int, RandomState or None
        For random orders and ties. None means 0: the same data give the same answer.
    n_jobs : int or None
        Threads; None means all cores.
    verbose : int
        1 prints a line per step.

    Attributes
    ----------
    elbo_ : float
        The evidence lower bound of all data, every constant included.
    fit_info_ : dict
        The bound and both residuals after every iteration, what the fit guarantees, what the solver did, seconds per
        stage.
    kernel_, likelihood_ : the objects used.
    posterior_ : the posterior at the training points, in the order of ``graph_.order``.
    graph_ : the graph.
    mean_coefficients_ : array, the constant mean (empty for "zero").

    Examples
    --------
    >>> import npvi, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(500, 2))
    >>> y = rng.poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> model = npvi.GPRegressor("poisson", kernel=npvi.kernels.Matern32(length_scale=2.0), mean="constant").fit(X, y)
    >>> dist = model.predict_dist([[np.pi / 2, 5.0]])
    >>> bool(5 < dist.mean[0] < 10)  # the truth is exp(2) = 7.4
    True
    """

    def predict(self, X: Any, return_std: bool = False, exposure: Any = None) -> Any:
        """Mean of the response at each row of X; with `return_std` also its standard deviation."""
        dist = self.predict_dist(X, exposure=exposure)
        return (dist.mean, dist.std) if return_std else dist.mean

    def _encode(self, y: NDArray) -> NDArray:
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be numbers, got {y.dtype} such as {str(y[0])!r}") from None
