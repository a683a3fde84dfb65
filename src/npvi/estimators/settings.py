"""Checks of what the estimators are told, before anything is computed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from npvi.estimators import validation
from npvi.estimators.parts import check_nugget
from npvi.inference import FAMILIES
from npvi.inference.stochastic import SGD
from npvi.priors.structure import LOW_RANK

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["check_settings", "fewest_neighbors", "neighbors", "neighbors_of"]

_CHOICES = {
    "mean": ("zero", "constant", "linear"),
    "method": tuple(FAMILIES),
    "prior": ("nngp", *LOW_RANK),
    "learn": (True, False, "grid"),
    "hyperprior": ("weak", None),
    "hyper": ("auto", "plug-in", "integrate"),
}
#: neighbours, unless they are given; twice as many up to so many rows with more inputs than these
_NEIGHBORS, _ROWS, _INPUTS = 20, 10_000, 3


def check_settings(model: BaseGP) -> None:
    """Raise ValueError where a parameter of the constructor is not allowed.

    >>> import npvi
    >>> check_settings(npvi.GPRegressor(n_neighbors=0))
    Traceback (most recent call last):
    ValueError: n_neighbors must be a whole number of at least 1, got 0
    """
    for name, choices in _CHOICES.items():
        value = getattr(model, name)
        if not any(value is choice or (value == choice and type(value) is type(choice)) for choice in choices):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")
    if model.nugget is not None:
        check_nugget(model.nugget)
    scale = model.coefficient_scale
    named = scale is None or (isinstance(scale, str) and scale == "weak")
    if not (named or (isinstance(scale, Real) and 0.0 < float(scale) < np.inf)):
        raise ValueError(
            f"coefficient_scale must be 'weak', a positive number, or None for a flat prior; got {scale!r}"
        )
    if not (isinstance(model.tol, Real) and float(model.tol) > 0.0):
        raise ValueError(f"tol must be a positive number, got {model.tol!r}")
    if not (model.n_jobs is None or (isinstance(model.n_jobs, Integral) and model.n_jobs != 0)):
        raise ValueError(f"n_jobs must be None (all cores), a number of threads, or -1, -2, …; got {model.n_jobs!r}")
    if model.hyper == "integrate" and model.method == "npvi-nn":
        raise ValueError("hyper='integrate' doesn't go with method='npvi-nn': use hyper='plug-in', or 'auto'")
    if model.method == "npvi-nn":
        from npvi.amortized.inference import check_network  # rarely needed

        check_network(model.network, model.solve, model.refine)
    _check_optimizer(model)
    for name in ("n_neighbors", "n_inducing", "max_iter"):
        if name != "n_neighbors" or not _automatic(model):
            validation.check_count(name, getattr(model, name))


def neighbors(model: BaseGP, rows: int, inputs: int) -> int:
    """K for so many rows and inputs of the process.

    >>> import npvi
    >>> [neighbors(npvi.GPRegressor(), 500, inputs) for inputs in (2, 8)]
    [20, 40]
    """
    if not _automatic(model):
        return int(model.n_neighbors)
    few = rows <= _ROWS and inputs > _INPUTS and model.method == "full"  # others have what the paper has
    return 2 * _NEIGHBORS if few else _NEIGHBORS


def neighbors_of(fitted: BaseGP) -> int:
    """K of a model that was fitted, were there rows enough."""
    return neighbors(fitted, fitted.prior_.X.shape[0], fitted.kernel_.coordinates(fitted.prior_.X[:1]).shape[1])


def fewest_neighbors(fitted: BaseGP) -> int:
    """Fewer than these, and a model can't grow: all of its points are neighbours, and new ones have too few."""
    return min(neighbors_of(fitted), _NEIGHBORS) if _automatic(fitted) else neighbors_of(fitted)


def _automatic(model: BaseGP) -> bool:
    return isinstance(model.n_neighbors, str) and model.n_neighbors == "auto"


def _check_optimizer(model: BaseGP) -> None:
    if isinstance(model.optimizer, SGD):
        model.optimizer.validate()
    elif model.optimizer not in ("closed", "sgd"):
        raise ValueError(f"optimizer must be 'closed', 'sgd' or an npvi.SGD; got {model.optimizer!r}")
    if model.optimizer != "closed" and model.method != "npvi":
        raise ValueError(f"optimizer={model.optimizer!r} goes with method='npvi'; got method={model.method!r}")
