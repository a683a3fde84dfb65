"""The predictive distribution of each training row from all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators.varying_noise import VaryingNoiseRegressor
from npvi.model import Fitted, in_rows, latent_left_out, left_out_by
from npvi.predictive import MixturePredictive, VaryingNoisePredictive

__all__ = ["left_out", "training_responses"]


def left_out(model: Any, rows: Any = None) -> Any:
    """How each training row's response is distributed given all others: of a model fitted to numbers or to two labels.

    Each observation enters the posterior through a Gaussian site of its own, which is divided out
    (`npvi.inference.cavity`); nothing is fitted again. Hyper-parameters are those that all rows were learned from.

    Parameters
    ----------
    model : fitted GPRegressor, GPClassifier of two labels, or VaryingNoiseRegressor.
    rows : numbers of the training rows that are wanted; all unless given.

    Returns
    -------
    Predictive
        of the training rows, in their order, with the exposure and the like that they had. It has no joint draws.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0.0, 10.0, 100)[:, None]
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, np.arange(100) % 3)
    >>> dist = left_out(model)
    >>> len(dist), bool(np.all(dist.latent_var > 0.0))
    (100, True)
    """
    some = slice(None) if rows is None else rows
    if isinstance(model, VaryingNoiseRegressor) and model.noise_model_ is not None:
        g = _latent(model.noise_model_.fitted_, some)
        own, share = model.model_, model.model_.companion_weight_
        shares = [(own.fitted_, 1.0 - share), (own.fitted_.companion, share)]
        kept = [(fitted, part) for fitted, part in shares if fitted is not None]
        dists = [VaryingNoisePredictive(fitted.model.likelihood, *_latent(fitted, some), *g) for fitted, _ in kept]
        return dists[0] if len(dists) == 1 else MixturePredictive(dists, [part for _, part in kept])
    fitted = getattr(model, "model_", model).fitted_
    if fitted.several:
        raise ValueError("rows are left out of models of numbers and of two labels; this one has several functions")
    return left_out_by(fitted, some)


def _latent(fitted: Fitted, rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, variance = latent_left_out(fitted)
    return mean[rows], variance[rows]


def training_responses(model: Any) -> NDArray[np.float64]:
    """What was observed in each training row, labels as their numbers."""
    fitted = getattr(model, "model_", model).fitted_
    return in_rows(fitted, fitted.data.y)
