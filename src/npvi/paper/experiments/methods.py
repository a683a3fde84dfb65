"""One fit of one method, with given numbers of the kernel, within some seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npvi import SGD, GPRegressor
from npvi.amortized import GCN
from npvi.datasets import Split
from npvi.kernels import RBF
from npvi.likelihoods import Likelihood, LogNormal, Poisson
from npvi.paper.experiments.rivals import fit_rival
from npvi.runtime import progress

__all__ = ["LIKELIHOODS", "METHODS", "OURS", "RIVALS", "Fitted", "fit_ours", "fit_within", "nlpd", "our_model"]

#: the paper's noise, which is given
LIKELIHOODS: dict[str, Likelihood] = {
    "bird_counts": Poisson("softplus"),
    "nightlight": LogNormal(0.01),
    "flights": LogNormal(0.01),
    "precipitation": LogNormal(0.01),
}

RIVALS = ("svgp", "savigp", "dgp")
OURS = ("npvi", "npvi-nn", "gcn", "full")

#: what each method is called in tables and figures, in the order of the columns
METHODS = {
    "svgp": "SVGP",
    "savigp": "SAVIGP",
    "dgp": "DGP",
    "npvi": "NPVI",
    "npvi-nn": "NPVI-NN",
    "gcn": "NPVI-NN as published (GCN)",
    "full": "full",
}

#: epochs of the published networks without a better score after which they have converged
_PATIENCE = 20


@dataclass(frozen=True)
class Fitted:
    """A fitted model and how it came about.

    Attributes
    ----------
    model : has `predict_dist`.
    seconds : of training, without those of looking at validation rows.
    outcome : "finished", or "out of time" where training was cut short.
    trace : pairs of seconds and negative log density of the validation rows; the last one is the model's, and the only
        one where a method doesn't look at them on its way.
    """

    model: Any
    seconds: float
    outcome: str
    trace: list[tuple[float, float]]

    @property
    def validation(self) -> float:
        """Negative log density per validation row, lower is better."""
        return self.trace[-1][1]


def fit_within(
    method: str,
    split: Split,
    likelihood: Likelihood,
    kernel: RBF,
    nugget: float,
    size: int,
    seed: int,
    seconds: float | None,
) -> Fitted:
    """Fit a model with nothing learned but the posterior, its mean zero.

    Parameters
    ----------
    method : one of `METHODS`, or "npvi-sgd", which is NPVI by the paper's stochastic gradients.
    split : training and validation rows.
    likelihood, kernel, nugget : of the model.
    size : M or K.
    seed : for inducing points, orders and batches.
    seconds : after which training ends with what it has; None: when it has converged. Closed forms take what they
        take.

    Returns
    -------
    Fitted

    Examples
    --------
    >>> from npvi.datasets import Dataset
    >>> X = np.random.default_rng(0).uniform(0.0, 5.0, size=(200, 1))
    >>> waves = Dataset("waves", X, np.exp(np.sin(X[:, 0])), ("x",), "y", "lognormal", "a sine")
    >>> split = waves.split()
    >>> fitted = fit_within("npvi", split, LogNormal(0.01), RBF(1.0), 0.01, size=10, seed=0, seconds=None)
    >>> fitted.outcome, bool(nlpd(fitted.model, split.X_test, split.y_test) < 0.0)
    ('finished', True)
    """
    with warnings.catch_warnings():  # grids are meant to reach too far, and budgets to cut short
        warnings.simplefilter("ignore", UserWarning)
        if method in RIVALS:
            settings = {"likelihood": likelihood, "kernel": kernel, "nugget": nugget}
            return _fit_rival(method, split, settings, size, seed, seconds)
        model = our_model(method, likelihood, kernel, nugget, size, seed)
        return fit_ours(model, split, seconds)


def nlpd(model: Any, X: Any, y: Any) -> float:
    """Mean negative log predictive density of responses that the model hasn't seen; lower is better."""
    return -float(np.mean(model.predict_dist(X).log_prob(y)))


def _fit_rival(
    method: str, split: Split, settings: dict[str, Any], size: int, seed: int, seconds: float | None
) -> Fitted:
    model, whole = fit_rival(method, split, {**settings, "n_inducing": size, "random_state": seed}, seconds)
    taken, trace = model.fit_info_["total_seconds"], model.fit_info_["trace"]
    # what is kept is the best state, not the last one
    best = (taken, nlpd(model, split.X_val, split.y_val))
    return Fitted(model, taken, "finished" if whole else "out of time", [*trace, best])


def our_model(method: str, likelihood: Likelihood, kernel: RBF, nugget: float, size: int, seed: int) -> GPRegressor:
    """An estimator that isn't fitted yet, for a method that isn't a rival."""
    settings: dict[str, Any] = {"method": method}
    if method == "gcn":
        # the published networks, in the layout that reaches the same in less time; a tenth of the training rows tells
        # when they have converged
        network = GCN(validation=0.1, patience=_PATIENCE)
        settings = {"method": "npvi-nn", "network": network, "order": "random"}
    elif method == "npvi-sgd":
        settings = {"method": "npvi", "optimizer": SGD()}
    elif method not in OURS:
        names = ", ".join(map(repr, (*METHODS, "npvi-sgd")))
        raise ValueError(f"method must be one of {names}; got {method!r}")
    return GPRegressor(
        likelihood, kernel, nugget, mean="zero", n_neighbors=size, learn=False, random_state=seed, **settings
    )


def fit_ours(model: GPRegressor, split: Split, seconds: float | None) -> Fitted:
    """Fit it; where it is trained by stochastic gradients, for so many seconds."""
    started, cut = time.perf_counter(), False

    def watch(stage: str, numbers: Mapping[str, float]) -> None:
        nonlocal cut
        # an interrupt between two epochs of training leaves what was reached; closed forms have nothing to leave
        between = stage == "epoch" or (stage == "iteration" and "epoch" in numbers)
        if between and seconds is not None and time.perf_counter() - started >= seconds:
            cut = True
            raise KeyboardInterrupt

    try:
        with progress.reporting(watch):
            model.fit(split.X_train, split.y_train)
    except KeyboardInterrupt:
        if not cut:
            raise
    taken = time.perf_counter() - started
    validation = nlpd(model, split.X_val, split.y_val)
    return Fitted(model, taken, "out of time" if cut else "finished", [(taken, validation)])
