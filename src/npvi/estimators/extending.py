"""New observations for a fitted model: the graph grows, the posterior starts from where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators.fitting import constant_precision
from npvi.estimators.inferring import infer
from npvi.graph import extend_graph
from npvi.inference import Data, Fit, Start
from npvi.posteriors import DrawsPosterior, PrecisionPosterior
from npvi.priors import Prior
from npvi.priors.base import NeighborConditional
from npvi.runtime.parallel import threads

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["extend"]


def extend(model: BaseGP, X: NDArray[np.float64], new: Data) -> tuple[Prior, Data, NDArray[np.float64], Fit]:
    """The prior, the data, the basis and the fit of a model with more rows, at the hyper-parameters that it has.

    The new points come last in the order, each with its nearest earlier points as parents, so that what the prior says
    about the old ones stays as it is. The posterior starts from the old one, and from predictions at the new points.
    """
    places = model.linear_part_.places(X)
    old: Data = model.data_
    weighted = new.weight is not None or old.weight is not None
    with threads(model.n_jobs):
        coordinates = model.kernel_.coordinates
        graph = extend_graph(model.prior_.graph, coordinates(model.prior_.X), coordinates(places))
        prior = model.prior_.extended(places, graph)
        data = Data(
            model.likelihood_,
            np.concatenate([old.y, new.y]),
            {name: np.concatenate([_filled(part, name) for part in (old, new)]) for name in {**old.row, **new.row}},
            np.concatenate([_weights(part) for part in (old, new)]) if weighted else None,
        )
        basis = np.vstack([model.basis_, model.linear_part_.basis(X)])
        start = _start(model, prior, data, basis, model.prior_.conditional_of_last(places, graph))
        precision = model.coefficient_precision_
        if precision is not None and model.linear_part_.constant:  # counts that were all zeros may be no longer
            model.coefficient_precision_ = np.append(constant_precision(data), precision[1:])
        mean_function = model._fitted_model().mean_function(prior, basis)
        fit = infer(model, prior, data, mean_function, start, seed=0)
        _ = fit.trend  # computed here, in these threads
    prior.forget_precision()
    return prior, data, basis, fit


def _start(model: BaseGP, prior: Any, data: Data, basis: NDArray[np.float64], given: Any) -> Start:
    """The posterior there is, and predictions at the new points that have seen their own observations."""
    posterior, coefficients = model.posterior_, model.trend_.coefficients
    old = len(posterior.mean)
    predicted = given.mean(posterior.mean - model.basis_ @ coefficients) + basis[old:] @ coefficients
    spread = (given.variance + given.projected_variance(posterior).T).T
    if predicted.ndim > 1:
        return Start(np.concatenate([posterior.mean, predicted]), np.concatenate([posterior.variance, spread]))
    mean, variance, sites = _told(data.take(np.arange(old, len(data.y))), predicted, spread)
    every = np.concatenate([posterior.site_precision, sites])
    before, factor = posterior.variance, None
    if isinstance(posterior, DrawsPosterior | PrecisionPosterior) and isinstance(given, NeighborConditional):
        before = posterior.variance_beside(given.neighbors, given.weights, spread, sites)
        factor = None if posterior.factor is None else posterior.factor.extended(prior.root, every)
    mean, variance = np.concatenate([posterior.mean, mean]), np.concatenate([before, variance])
    return Start(mean, variance, every, factor)


def _told(data: Data, mean: NDArray, variance: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Predictions of new points after each has seen its own observation, which is nearly right, and their sites."""
    m, v, w = mean, variance, np.zeros_like(mean)
    for _ in range(8):
        found = data.expectations(m, v)
        w = np.maximum(found.precision, 0.0)
        v = 1.0 / (1.0 / variance + w)
        step = v * (found.gradient - (m - mean) / variance)
        m = m + np.clip(step, -2.0 * np.sqrt(variance), 2.0 * np.sqrt(variance))
    return m, v, w


def _filled(data: Data, name: str) -> NDArray:
    """What is known of an extra; where nothing was given, what that means."""
    neutral: dict[str, Any] = {"exposure": 1.0, "trials": 1.0, "censored": 0.0}
    if name in data.row:
        return data.row[name]
    if name not in neutral:
        raise ValueError(f"{name} must be given for the new rows too: it was for the old ones (or not at all)")
    return np.full(len(data.y), neutral[name])


def _weights(data: Data) -> NDArray:
    return np.ones(len(data.y)) if data.weight is None else data.weight
