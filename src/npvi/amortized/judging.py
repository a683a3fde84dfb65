"""How far a recognised posterior is from the optimum, where that can be afforded."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from npvi.amortized.inference import train_on
from npvi.amortized.recognition import recognise
from npvi.amortized.recognizer import exact_sites
from npvi.amortized.settings import SiteNetwork
from npvi.inference import SparseFactors, fit_posterior
from npvi.inference.stochastic import bound_of
from npvi.runtime.files import replacing
from npvi.runtime.parallel import threads

__all__ = ["compare_with_optimum", "training_curve"]


def compare_with_optimum(model: Any) -> dict[str, float]:
    """What a model fitted by ``method="npvi-nn"`` lacks to NPVI's optimum, which is found by the closed form.

    Returns
    -------
    dict, also put into ``model.fit_info_["optimum"]``: in nats per point ``gap``, ``gap_of_mean`` (its mean with the
    optimum's L) and ``gap_of_factor`` (the optimum's mean with its L); ``variance_ratio``, the median of v/v*; and
    ``elbo``, the optimum's.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> settings = dict(method="npvi-nn", network="pretrained", kernel=npvi.kernels.RBF(0.2), nugget=0.1, learn=False)
    >>> model = npvi.GPRegressor("poisson", **settings).fit(X, np.arange(200) % 3)
    >>> compare_with_optimum(model)["gap"] < 0.01
    True
    """
    if not hasattr(model, "prior_"):
        raise TypeError(f"model must be a fitted GPRegressor or GPClassifier, got {model!r}")
    prior, data, n = model.prior_, model.data_, len(model.data_.y)
    stack = model.fitted_.stack
    with threads(model.n_jobs):
        best = fit_posterior(SparseFactors(prior), data, stack).unless_interrupted()
        mine, theirs = model.posterior_, best.posterior
        of_mean = bound_of(prior, data, stack, mine.mean, theirs.factor)  # type: ignore[attr-defined]
        of_factor = bound_of(prior, data, stack, theirs.mean, mine.factor)
        prior.forget_precision()
    found = {
        "elbo": best.elbo,
        "gap": (best.elbo - model.elbo_) / n,
        "gap_of_mean": (best.elbo - of_mean) / n,
        "gap_of_factor": (best.elbo - of_factor) / n,
        "variance_ratio": float(np.median(mine.variance / theirs.variance)),
    }
    model.fit_info_["optimum"] = found
    return found


def training_curve(
    estimator: Any,
    X: Any,
    y: Any,
    steps: tuple[int, ...] = (5, 10, 20, 40, 80, 160),
    path: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """The bound that networks reach after so many steps of training, next to the optimum's.

    Parameters
    ----------
    estimator : GPRegressor with ``method="npvi-nn"``; its network's settings are used, with other numbers of steps.
    X, y : the data.
    steps : how many; each is a training of its own.
    path : where to put a picture of it, optional.

    Returns
    -------
    DataFrame with ``steps``, ``seconds`` of training (compilation included where there is any), ``elbo`` and ``gap``.
    """
    fitted = clone(estimator).set_params(method="npvi").fit(X, y)
    if exact_sites(fitted.likelihood_):
        raise ValueError(f"{type(fitted.likelihood_).__name__} noise needs no network: there is nothing to train")
    data, n = fitted.data_, len(fitted.data_.y)
    stack = fitted.fitted_.stack
    settings = estimator.network if isinstance(estimator.network, SiteNetwork) else SiteNetwork()
    rows = []
    with threads(estimator.n_jobs):
        if settings.rounds is None:  # one choice for the whole curve
            settings = settings.replace(rounds=train_on(data, stack, settings, 0).rounds)
        for number in steps:
            started = time.perf_counter()
            recognizer = train_on(data, stack, settings.replace(steps=number), 0)
            seconds = time.perf_counter() - started
            elbo = recognise(recognizer, data, stack).elbo
            rows.append({"steps": number, "seconds": seconds, "elbo": elbo, "gap": (fitted.elbo_ - elbo) / n})
    table = pd.DataFrame(rows)
    if path is not None:
        _draw(table, fitted.elbo_ / n, n, path)
    return table


def _draw(table: pd.DataFrame, optimum: float, n: int, path: str | os.PathLike[str]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    left.plot(table["steps"], table["elbo"] / n, marker="o", label="recognised")
    left.axhline(optimum, color="black", linestyle="--", label="optimum")
    left.set(xscale="log", xlabel="steps of training", ylabel="ELBO per point")
    left.legend()
    right.plot(table["steps"], np.maximum(table["gap"], 1e-9), marker="o")
    right.set(xscale="log", yscale="log", xlabel="steps of training", ylabel="gap, nats per point")
    with replacing(path) as file:
        figure.savefig(file, format=os.path.splitext(path)[1][1:] or "png", dpi=150)
    plt.close(figure)
