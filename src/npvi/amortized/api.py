"""Networks for use on other data: trained once, on data or on simulations."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.amortized.fitting import Examples, examples, train_recognizer
from npvi.amortized.recognizer import Recognizer, exact_sites
from npvi.amortized.settings import SiteNetwork
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from npvi.likelihoods import Bernoulli, Gamma, Likelihood, NegativeBinomial, Poisson, StudentT
from npvi.priors import NNGP, NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.parallel import threads

__all__ = ["FAMILIES", "Simulated", "fit_network", "fit_network_on_simulations", "simulate"]


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
    from npvi.amortized.api import FAMILIES, simulate

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


# -- data sets that might be: places, priors and noise drawn from broad distributions, for networks that fit them all --


#: f beyond this would give counts that no one has seen
_HIGHEST = 9.0


class Simulated(NamedTuple):
    """A data set and a prior for it, in the graph's order."""

    data: Data
    stack: Stack


def _poisson(rng: np.random.Generator) -> Likelihood:
    return Poisson(link=rng.choice(["exp", "softplus"]).item())


def _negative_binomial(rng: np.random.Generator) -> Likelihood:
    return NegativeBinomial(float(_between(rng, 0.1, 50.0)), link=rng.choice(["exp", "exp", "softplus"]).item())


def _bernoulli(rng: np.random.Generator) -> Likelihood:
    return Bernoulli(link=rng.choice(["logit", "probit"]).item())


def _gamma(rng: np.random.Generator) -> Likelihood:
    return Gamma(float(_between(rng, 0.3, 100.0)))


def _student_t(rng: np.random.Generator) -> Likelihood:
    return StudentT(scale=float(_between(rng, 0.05, 3.0)), df=float(_between(rng, 2.1, 30.0)))


#: noise for which there are simulations, by the name of its class
FAMILIES = {
    "Poisson": _poisson,
    "NegativeBinomial": _negative_binomial,
    "Bernoulli": _bernoulli,
    "Gamma": _gamma,
    "StudentT": _student_t,
}


def simulate(family: str, seed: int, n: int = 512) -> Simulated:
    """One data set of `n` points, whose true f is not always what its prior says.

    >>> one = simulate("Poisson", seed=0, n=50)
    >>> len(one.data.y), type(one.data.likelihood).__name__
    (50, 'Poisson')
    """
    rng = np.random.default_rng((seed, n))
    likelihood = FAMILIES[family](rng)
    X = _places(rng, n)
    softplus = getattr(likelihood, "link", None) == "softplus"
    variance = float(_between(rng, 0.05, 100.0 if softplus or family == "Bernoulli" else 12.0))
    nugget = variance * float(_between(rng, 1e-4, 1.0))
    kernel = _kernel(rng, X, variance)
    f = _function(rng, kernel, nugget, X)
    # a prior that is too narrow or too wide, or off by a constant that it doesn't know, is what data meet in practice
    f = f * float(_between(rng, 0.3, 3.0)) if rng.random() < 0.5 else f
    level = (
        rng.uniform(-3.0, 2.0) if family in ("Poisson", "NegativeBinomial", "Gamma") else 0.5 * rng.standard_normal()
    )
    with_constant = rng.random() < 0.5
    f = np.minimum(f + level * (1.0 if with_constant else 0.5), np.inf if softplus else _HIGHEST)
    row = {"exposure": _between(rng, 0.1, 10.0, n)} if "exposure" in likelihood.extras and rng.random() < 0.25 else {}
    y = np.maximum(likelihood.sample(rng, f, **row), 1e-12 if family == "Gamma" else -np.inf)
    k = int(rng.choice([5, 10, 10, 20, 30]))
    order = rng.choice(["random", "maximin"]).item()
    graph = build_graph(kernel.coordinates(X), k, order=order, seed=int(rng.integers(2**31)))
    prior = NNGP(kernel, nugget, X[graph.order], graph)
    data = Data(likelihood, y[graph.order], {name: values[graph.order] for name, values in row.items()})
    return Simulated(data, Stack(Process(prior), Coefficients(np.ones((n, 1)) if with_constant else np.zeros((n, 0)))))


def _places(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Scattered, clustered, or visited again and again."""
    d = int(rng.choice([1, 2, 2, 2, 3]))
    X = rng.uniform(size=(n, d))
    kind = rng.choice(["scattered", "clustered", "visited again"])
    if kind == "clustered":
        centres = rng.uniform(size=(max(2, n // 40), d))
        X = centres[rng.integers(len(centres), size=n)] + 0.05 * rng.standard_normal((n, d))
    if kind == "visited again":
        X = X[rng.integers(max(2, n // int(rng.integers(2, 12))), size=n)]
    return X


def _kernel(rng: np.random.Generator, X: NDArray[np.float64], variance: float) -> Kernel:
    spacing = len(X) ** (-1.0 / X.shape[1])
    kind: Any = (Matern12, Matern32, Matern52, RBF)[int(rng.integers(4))]
    length = np.minimum(_between(rng, 1.0, 60.0) * spacing, 3.0)
    return kind(float(length), variance)


def _function(rng: np.random.Generator, kernel: Kernel, nugget: float, X: NDArray[np.float64]) -> NDArray[np.float64]:
    graph = build_graph(kernel.coordinates(X), min(30, len(X) - 1))
    f = np.empty(len(X))
    f[graph.order] = NNGP(kernel, nugget, X[graph.order], graph).root.solve(rng.standard_normal(len(X)))
    return f


def _between(rng: np.random.Generator, low: float, high: float, size: Any = None) -> Any:
    """Log-uniform numbers."""
    return np.exp(rng.uniform(np.log(low), np.log(high), size))
