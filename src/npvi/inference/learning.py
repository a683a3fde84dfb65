"""Learning hyper-parameters: the bound at its best q as a function of them, its gradient, and the climb.

At the optimum of q the derivative of the bound in θ is that of its explicit part alone (the envelope theorem): for the
kernel Σ_i −½ ∂[log d_i + E r_i²/d_i], for the likelihood Σ_i ∂E log p(y_i|f_i). For Gaussian and log-normal noise f is
integrated out instead, and nothing is iterated: the nearest-neighbour process is put on the observations themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference.ascent import Ascent, climb
from npvi.inference.data import Data
from npvi.inference.fit import Start, fit_posterior
from npvi.inference.full import AllCovariances, Noise
from npvi.inference.mean_function import MeanFunction
from npvi.inference.search_space import SearchSpace
from npvi.kernels import Kernel
from npvi.likelihoods import Gaussian, Likelihood, LogNormal
from npvi.likelihoods.learning import parameter_gradient
from npvi.priors import NNGP, NotPositiveDefiniteError
from npvi.priors.gradient import expected_log_density_gradient

__all__ = ["BoundObjective", "CollapsedObjective", "Model", "Objective", "can_collapse", "optimise"]

Vector = NDArray[np.float64]

#: draws of the posterior for a gradient
_DRAWS = 16


@dataclass(frozen=True)
class Model:
    """Everything that is learned."""

    kernel: Kernel
    nugget: float
    likelihood: Likelihood

    def named(self) -> dict[str, Any]:
        """All numbers by their full names."""
        from npvi.inference.search_space import learnable

        values: dict[str, Any] = {"nugget": self.nugget}
        for prefix, obj in (("kernel", self.kernel), ("likelihood", self.likelihood)):
            deep = obj.get_params(deep=True)
            values |= {name: deep[name.removeprefix(prefix + "__")] for name in learnable(obj, prefix)}
        return values

    def at(self, values: Mapping[str, Any]) -> Model:
        """The same with other numbers."""
        parts = {}
        for prefix, obj in (("kernel", self.kernel), ("likelihood", self.likelihood)):
            own = {k.removeprefix(prefix + "__"): v for k, v in values.items() if k.startswith(prefix + "__")}
            parts[prefix] = _with(obj, own)
        return Model(parts["kernel"], float(values["nugget"]), parts["likelihood"])


def _with(obj: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a parametrised object with some numbers replaced, those of its parts included."""
    own = {name: value for name, value in values.items() if "__" not in name}
    for part in {name.split("__")[0] for name in values if "__" in name}:
        inner = {k[len(part) + 2 :]: v for k, v in values.items() if k.startswith(part + "__")}
        own[part] = _with(getattr(obj, part), inner)
    return obj.replace(**own)


class Objective(Protocol):
    """The bound as a function of the model, and its gradient by full names."""

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]: ...


class BoundObjective:
    """The bound of the best q, warm-started from one model to the next.

    Parameters
    ----------
    X, data, basis : in the graph's order.
    """

    def __init__(self, X: NDArray, data: Data, basis: NDArray, graph: Graph, start: Start | None = None) -> None:
        self.X, self.data, self.basis, self.graph, self.start = X, data, basis, graph, start
        self._noise = Noise(graph)

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        prior = NNGP(model.kernel, model.nugget, self.X, self.graph)
        data = replace(self.data, likelihood=model.likelihood)
        mean_function = MeanFunction(prior, self.basis)
        family = AllCovariances(prior, self._noise, _DRAWS, _DRAWS, strict=True)
        fit = fit_posterior(family, prior, data, mean_function, self.start, 1e-2, max_iterations=3, enough=0.1)
        posterior = fit.posterior
        self.start = Start(posterior.mean, posterior.variance)
        draws = posterior.draws  # type: ignore[attr-defined]
        functions = np.column_stack([mean_function.centred(posterior.mean), draws])
        weights = np.append(1.0, np.full(draws.shape[1], 1.0 / draws.shape[1]))
        found = expected_log_density_gradient(prior, functions, weights)
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget}
        slopes = parameter_gradient(model.likelihood, data.y, posterior.mean, posterior.variance, data.row, data.weight)
        gradient |= {f"likelihood__{name}": slope for name, slope in slopes.items()}
        return fit.elbo, gradient


def can_collapse(data: Data) -> bool:
    """Whether f can be integrated out: Gaussian noise of one variance, perhaps on the log scale."""
    return type(data.likelihood) in (Gaussian, LogNormal) and not data.row and data.weight is None


class CollapsedObjective:
    """log p(y | θ) with the nearest-neighbour process on y itself (on log y for log-normal noise).

    Parameters
    ----------
    X, data, basis : in the graph's order.
    rows : positions to sum over; the sum is scaled up to all.
    """

    def __init__(self, X: NDArray, data: Data, basis: NDArray, graph: Graph, rows: NDArray[np.int32]) -> None:
        self.X, self.basis, self.graph, self.rows = X, basis, graph, rows
        log_normal = isinstance(data.likelihood, LogNormal)
        self.y = np.log(data.y) if log_normal else data.y
        self.constant = -0.5 * len(self.y) * np.log(2.0 * np.pi) - (np.log(data.y).sum() if log_normal else 0.0)

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        noise = float(model.likelihood.variance)  # type: ignore[attr-defined]
        prior = NNGP(model.kernel, model.nugget + noise, self.X, self.graph, rows=self.rows)
        whitened = prior.root.dot(np.column_stack([self.y, self.basis]))[self.rows]
        target, columns = whitened[:, 0], whitened[:, 1:]
        coefficients = np.linalg.lstsq(columns, target, rcond=None)[0] if columns.shape[1] else np.zeros(0)
        residual = target - columns @ coefficients
        centred = (self.y - self.basis @ coefficients)[:, None]
        found = expected_log_density_gradient(prior, centred, np.ones(1), self.rows)
        scale = len(self.y) / len(self.rows)
        logdet = np.log(prior.conditional_variance[self.rows]).sum()
        value = self.constant - 0.5 * scale * (logdet + residual @ residual)
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget, "likelihood__variance": found.nugget}
        return float(value), gradient


def _by_name(obj: Any, prefix: str) -> dict[str, Any]:
    from npvi.inference.search_space import learnable

    deep = obj.get_params(deep=True)
    return {name: deep[name.removeprefix(prefix + "__")] for name in learnable(obj, prefix)}


def optimise(
    objective: Objective,
    model: Model,
    space: Callable[[Model], SearchSpace],
    *,
    max_evaluations: int = 40,
    enough: float = 0.05,
    curvature: NDArray | None = None,
    report: Callable[[int, float], None] | None = None,
) -> tuple[Model, Ascent, SearchSpace]:
    """The model near `model` with the largest value of the objective."""
    searched = space(model)
    count = 0

    def function(z: Vector) -> tuple[float, Vector]:
        nonlocal count
        count += 1
        here = model.at(searched.named(z))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value, gradient = objective(here)
        except (NotPositiveDefiniteError, FloatingPointError, np.linalg.LinAlgError):
            return -np.inf, np.zeros(len(z))
        if report is not None:
            report(count, value)
        return value + searched.log_prior(z), searched.pull_back(z, gradient)

    found = climb(
        function,
        searched.vector(),
        searched.low,
        searched.high,
        enough=enough,
        max_evaluations=max_evaluations,
        curvature=curvature,
    )
    return model.at(searched.named(found.z)), found, searched
