"""Data sets that might be: places, priors and noise drawn from broad distributions, for networks that fit them all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from npvi.likelihoods import Bernoulli, Gamma, Likelihood, NegativeBinomial, Poisson, StudentT
from npvi.priors import NNGP

__all__ = ["FAMILIES", "Simulated", "simulate"]

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
