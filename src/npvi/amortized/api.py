"""Networks for use on other data: trained once, on data or on simulations."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from npvi.amortized.fitting import Examples, examples, train_recognizer
from npvi.amortized.recognizer import Recognizer, exact_sites
from npvi.amortized.settings import SiteNetwork
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.parallel import threads

__all__ = ["fit_network", "fit_network_on_simulations"]


def fit_network(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    rounds: int = 3,
    points: int | None = None,
    width: int = 32,
    steps: int = 400,
    learning_rate: float = 5e-3,
    **fit_params: Any,
) -> Recognizer:
    """Train a network on data, for use on others: ``GPRegressor(method="npvi-nn", network=recognizer)``.

    Parameters
    ----------
    estimator : GPRegressor or GPClassifier
        With the prior and the noise to train for; where it learns, it learns first. It stays as it is.
    X, y : the data.
    rounds, points, width, steps, learning_rate : as in `npvi.amortized.SiteNetwork`; by default all points are used.
    **fit_params : more for `fit`, such as ``exposure``.

    Returns
    -------
    Recognizer

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> model = npvi.GPRegressor("bernoulli", kernel=npvi.kernels.RBF(0.2), learn=False)
    >>> fit_network(model, X, rng.integers(2, size=200), steps=10)
    Recognizer(likelihood='Bernoulli', settings={'link': 'logit'}, n_inputs=1, rounds=3)
    """
    from sklearn.base import clone

    settings = SiteNetwork(rounds=rounds, points=points, width=width, steps=steps, learning_rate=learning_rate)
    if isinstance(estimator, type) or not (hasattr(estimator, "set_params") and hasattr(estimator, "fit")):
        raise TypeError(f"estimator must be a GPRegressor or a GPClassifier, got {estimator!r}")
    model = clone(estimator).set_params(method="npvi-nn", network=settings, refine=0, solve="cg")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the recognised posterior")
        model.fit(X, y, **fit_params)
    if model.recognizer_ is None:
        assert exact_sites(model.likelihood_)
        raise ValueError(
            f"{type(model.likelihood_).__name__} noise needs no network: its sites are known exactly, and "
            "method='npvi-nn' finds the optimum at once"
        )
    return model.recognizer_


def fit_network_on_simulations(
    family: str,
    *,
    sets: int = 400,
    points: int = 512,
    rounds: int = 3,
    width: int = 48,
    epochs: int = 60,
    learning_rate: float = 5e-3,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    report: Callable[..., None] | None = None,
) -> Recognizer:
    """Train a network on simulated data sets with priors of all kinds, for any data set with this noise.

    Parameters
    ----------
    family : {"Poisson", "NegativeBinomial", "Bernoulli", "Gamma", "StudentT"}
    sets, points : how many data sets, of how many points each.
    rounds, width, epochs, learning_rate : of the network.
    seed : same seed, same network.
    checkpoint : file that keeps where training is.
    report : called as ``report(sets=…)`` while simulating.

    Examples
    --------
    >>> fit_network_on_simulations("Poisson", sets=2, points=100, epochs=2)
    Recognizer(likelihood='Poisson', settings=None, n_inputs=None, rounds=3)
    """
    from npvi.amortized.simulation import FAMILIES, simulate

    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(map(repr, FAMILIES))}; got {family!r}")
    made: list[Examples] = []
    with threads(None), np.errstate(over="ignore", invalid="ignore"):
        for number in range(sets):
            try:
                one = simulate(family, seed * 1_000_003 + number, points)
                made.append(examples(one.data, one.stack, rounds))
            except (NotPositiveDefiniteError, np.linalg.LinAlgError):  # a prior that no one would have got to work
                continue
            progress.report("simulations", sets=len(made))
            if report is not None:
                report(sets=len(made))
        likelihood = FAMILIES[family](np.random.default_rng(0))
        return train_recognizer(
            likelihood,
            made,
            n_inputs=None,
            rounds=rounds,
            any_settings=True,
            width=width,
            epochs=epochs,
            learning_rate=learning_rate,
            seed=seed,
            checkpoint=checkpoint,
        )
