"""What a fitted model says of each training row from all others: without fitting again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference import without_own
from npvi.model.fitted import Fitted
from npvi.model.summed import FittedTerms
from npvi.predictive import MixturePredictive, Predictive

__all__ = ["in_rows", "latent_left_out", "left_out_by"]

Vector = NDArray[np.float64]


def latent_left_out(fitted: Fitted | FittedTerms) -> tuple[Vector, Vector]:
    """Mean and variance of f at each training row, nugget included, given all observations but its own; in the order of
    the rows. Not for several classes.

    >>> import npvi
    >>> X = np.arange(30.0)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> settings = {"kernel": npvi.kernels.RBF(2.0), "mean": "zero", "learn": False, "n_neighbors": 28}
    >>> model = npvi.GPRegressor(npvi.likelihoods.Gaussian(0.1), **settings).fit(X, y)
    >>> without = npvi.GPRegressor(npvi.likelihoods.Gaussian(0.1), **settings).fit(X[1:], y[1:])
    >>> mean, variance = latent_left_out(model.fitted_)
    >>> dist = without.predict_dist(X[:1])
    >>> bool(np.isclose(mean[0], dist.latent_mean[0])), bool(np.isclose(variance[0], dist.latent_var[0] + dist.nugget))
    (True, True)
    """
    if isinstance(fitted, FittedTerms):
        return fitted.cavities()
    posterior = fitted.posterior
    least = fitted.stack.marginal_precision
    own = (posterior.mean, fitted.marginal_variance, posterior.site_precision)
    mean, variance = without_own(fitted.data, *own, least)
    return in_rows(fitted, mean), in_rows(fitted, variance)


def left_out_by(fitted: Fitted | FittedTerms, rows: Any = slice(None)) -> Predictive | MixturePredictive:
    """How the response of each training row is distributed given all others, by all models that have a say."""
    parts = [(_alone(one, rows), share) for one, share in fitted.shares()]
    return parts[0][0] if len(parts) == 1 else MixturePredictive([one for one, _ in parts], [w for _, w in parts])


def _alone(fitted: Fitted | FittedTerms, rows: Any) -> Predictive:
    row = {name: in_rows(fitted, values)[rows] for name, values in fitted.data.row.items()}
    mean, variance = latent_left_out(fitted)
    return Predictive(fitted.model.likelihood, mean[rows], variance[rows], row)


def in_rows(fitted: Fitted | FittedTerms, values: NDArray[Any]) -> NDArray[Any]:
    """From the graph's order to that of the rows, which a sum of terms has in any case."""
    if isinstance(fitted, FittedTerms):
        return values
    out = np.empty_like(values)
    out[fitted.graph.order] = values
    return out
