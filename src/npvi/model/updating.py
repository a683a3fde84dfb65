"""New observations for a fitted model: the graph grows, the posterior starts from where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import extend_graph
from npvi.inference import Data, Start
from npvi.model.canonical import naming_rows, rows_of_fit
from npvi.model.fitted import Fitted
from npvi.model.inferring import infer
from npvi.model.linear_part import constant_precision
from npvi.posteriors import DrawsPosterior, PrecisionPosterior
from npvi.priors import NeighborConditional

__all__ = ["update"]


def update(fitted: Fitted, X: NDArray[np.float64], new: Data) -> Fitted:
    """The model with more rows, at the hyper-parameters that it has; so with the models beside it.

    The new points come last in the order, each with its nearest earlier points as parents, so that what the prior says
    about the old ones stays as it is. The posterior starts from the old one, and from predictions at the new points.

    Parameters
    ----------
    fitted : the model so far, which isn't changed.
    X : (M, d) new inputs, all columns.
    new : their responses, as `Spec.data` makes them.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> from npvi.model import Spec, fit
    >>> X, y = np.linspace(0.0, 6.0, 60)[:, None], np.arange(60) % 3
    >>> spec = Spec(RBF(), Poisson(), np.arange(1), learn=False)
    >>> fitted = fit(spec, X[:50], spec.data(y[:50], {}))
    >>> update(fitted, X[50:], spec.data(y[50:], {})).prior.graph.n_points
    60
    """
    if not len(X):
        return fitted
    n = fitted.graph.n_points
    if fitted.graph.n_neighbors < min(fitted.fewest_neighbors, n + len(X) - 1):
        raise ValueError(
            f"the model has only {n} points, so that all of them are neighbours: fit it anew with all rows"
        )
    new = replace(new, likelihood=fitted.model.likelihood)
    rows = rows_of_fit(fitted.spec.order, X, new)
    every = np.empty(n + len(X), dtype=np.int64)  # the caller's row of each row of the fit
    every[fitted.prior.graph.order], every[n:] = fitted.graph.order, n + rows
    with naming_rows(every):
        found = _extended(fitted, X[rows], new.take(rows), every)
    if fitted.companion is not None:
        found = replace(found, companion=update(fitted.companion, X, new))
    if fitted.hyper is not None:
        nodes = [update(node, X, new) for node in fitted.hyper.models]
        found = replace(found, hyper=replace(fitted.hyper, models=nodes))
    return found


def _extended(fitted: Fitted, X: NDArray[np.float64], new: Data, every: NDArray[np.int64]) -> Fitted:
    """The same without the models beside it; rows of the fit are `every` of the caller's."""
    model, part, old = fitted.model, fitted.linear_part, fitted.data
    places = part.places(X)
    weighted = new.weight is not None or old.weight is not None
    coordinates = model.kernel.coordinates
    graph = extend_graph(fitted.prior.graph, coordinates(fitted.prior.X), coordinates(places))
    prior = fitted.prior.extended(places, graph)
    data = Data(
        model.likelihood,
        np.concatenate([old.y, new.y]),
        {name: np.concatenate([_filled(rows, name) for rows in (old, new)]) for name in {**old.row, **new.row}},
        np.concatenate([_weights(rows) for rows in (old, new)]) if weighted else None,
    )
    basis = np.vstack([fitted.basis, part.basis(X)])
    start = _start(fitted, prior, data, basis, fitted.prior.conditional_of_last(places, graph))
    precision = model.coefficient_precision
    if precision is not None and part.constant:  # counts that were all zeros may be no longer
        model = replace(model, coefficient_precision=np.append(constant_precision(data), precision[1:]))
    fit, recognizer = infer(fitted.spec, prior, data, model.stack(prior, basis), start, seed=0)
    if fit.info["interrupted"]:
        raise KeyboardInterrupt("update interrupted; the model is as it was")
    trend = fit.trend
    prior.forget_precision()
    found = replace(
        fitted,
        model=model,
        graph=graph.relabelled(every),
        prior=prior,
        posterior=fit.posterior,
        trend=trend,
        data=data,
        basis=basis,
        elbo=fit.elbo,
        recognizer=recognizer,
    )
    kept: dict[str, Any] = {
        name: fitted.info[name] for name in ("learning", "at_bound", "seconds") if name in fitted.info
    }
    return replace(found, info={"seconds": {}, **fit.info, **kept, **found.sums()})


def _start(fitted: Fitted, prior: Any, data: Data, basis: NDArray[np.float64], given: Any) -> Start:
    """The posterior there is, and predictions at the new points that have seen their own observations."""
    posterior, coefficients = fitted.posterior, fitted.trend.coefficients
    old = len(posterior.mean)
    predicted = given.mean(posterior.mean - fitted.basis @ coefficients) + basis[old:] @ coefficients
    spread = (given.variance + given.projected_variance(posterior).T).T
    if predicted.ndim > 1:
        return Start(np.concatenate([posterior.mean, predicted]), np.concatenate([posterior.variance, spread]))
    mean, variance, sites = _told(data.take(np.arange(old, len(data.y))), predicted, spread)
    every = np.concatenate([posterior.site_precision, sites])
    before, factor, ratio = posterior.variance, None, None
    if isinstance(posterior, DrawsPosterior) and isinstance(given, NeighborConditional):
        before = posterior.variance_beside(given.neighbors, given.weights, spread, sites)
    if isinstance(posterior, PrecisionPosterior):
        factor = posterior.factor or fitted.prior.factor(posterior.site_precision, fitted.prior.routes[0])
        if not len(factor.breakdowns):
            ratio = posterior.variance / factor.inverse_diagonal()
        factor = factor.extended(prior.root, every)
    mean, variance = np.concatenate([posterior.mean, mean]), np.concatenate([before, variance])
    return Start(mean, variance, every, factor, ratio)


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
