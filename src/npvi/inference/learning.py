"""Learning hyper-parameters: the bound at its best q as a function of them, its gradient, and the climb.

At the optimum of q the derivative of the bound in θ is that of its explicit part alone (the envelope theorem): for the
kernel Σ_i −½ ∂[log d_i + E r_i²/d_i], for the likelihood Σ_i ∂E log p(y_i|f_i). For Gaussian and log-normal noise f is
integrated out instead, and nothing is iterated: the nearest-neighbour process is put on the observations themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference.ascent import Ascent, climb
from npvi.inference.data import Data
from npvi.inference.fit import Fit, Start, fit_posterior
from npvi.inference.full import AllCovariances
from npvi.inference.leaving_out import without_own
from npvi.inference.mean_function import MeanFunction
from npvi.inference.search_space import SearchSpace
from npvi.kernels import Kernel
from npvi.likelihoods import Gaussian, Likelihood, LogNormal
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.learning import parameter_gradient
from npvi.priors import NotPositiveDefiniteError, Prior
from npvi.priors.structure import NearestNeighbors, Part, Structure
from npvi.sparse import Noise

__all__ = ["BoundObjective", "CollapsedObjective", "Model", "Objective", "can_collapse", "information", "optimise"]

Vector = NDArray[np.float64]

#: draws of the posterior for its variances, and for a gradient where the factor won't do
_DRAWS = 32


@dataclass(frozen=True)
class Model:
    """Everything that is learned, and how it makes a prior."""

    kernel: Kernel
    nugget: float
    likelihood: Likelihood
    structure: Structure = field(default_factory=NearestNeighbors)

    def prior(self, X: NDArray, graph: Graph) -> Prior:
        """The prior of points in the graph's order."""
        return self.structure.prior(self.kernel, self.nugget, X, graph)

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
        return replace(self, nugget=float(values["nugget"]), **parts)


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
    start : of the first q.
    careful : find each q as a final fit would, for second derivatives; otherwise as well as a climb needs it.
    """

    def __init__(
        self,
        X: NDArray,
        data: Data,
        basis: NDArray,
        graph: Graph,
        start: Start | None = None,
        careful: bool = False,
    ) -> None:
        self.X, self.data, self.basis, self.graph, self.start, self.careful = X, data, basis, graph, start, careful
        self._noise = Noise(graph.order)

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        data, fit = self._fit(model)
        prior, posterior = fit.mean_function.prior, fit.posterior
        centred = fit.mean_function.centred(posterior.mean)
        n_draws = None if fit.near or fit.factor is None else fit.info["draws"]
        noise = None if n_draws is None else self._noise.columns(0, n_draws)
        found = model.structure.gradient(prior, centred, posterior, fit.factor, noise)
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget}
        slopes = parameter_gradient(
            model.likelihood, data.y, posterior.mean, posterior.variance, data.row, data.weight, data.coarse
        )
        gradient |= {f"likelihood__{name}": slope for name, slope in slopes.items()}
        return fit.elbo, gradient

    def leave_one_out(self, model: Model) -> Vector:
        """The log density of each observation given all others."""
        data, fit = self._fit(model)
        mean, variance = without_own(fit.posterior, data, fit.mean_function.prior)
        return predictive_log_prob(model.likelihood, data.y, mean, variance, data.row)

    def _fit(self, model: Model) -> tuple[Data, Fit]:
        prior = model.prior(self.X, self.graph)
        data = replace(self.data, likelihood=model.likelihood, coarse=not self.careful)
        mean_function = MeanFunction(prior, self.basis)
        if self.careful:
            family = AllCovariances(prior, self._noise)
            fit = fit_posterior(family, prior, data, mean_function, self.start, max_iterations=20)
        else:
            family = AllCovariances(prior, self._noise, _DRAWS, strict=True)
            fit = fit_posterior(
                family, prior, data, mean_function, self.start, 1e-2, 3 if self.start else 12, enough=0.1
            )
        self.start = Start(fit.posterior.mean, fit.posterior.variance)
        return data, fit


def can_collapse(data: Data) -> bool:
    """Whether f can be integrated out: Gaussian noise of one variance, perhaps on the log scale."""
    return type(data.likelihood) in (Gaussian, LogNormal) and not data.row and data.weight is None


class CollapsedObjective:
    """log p(y | θ) with the prior's process on y itself (on log y for log-normal noise).

    Parameters
    ----------
    X, data, basis : in the graph's order.
    rows : positions to sum over; the sum is scaled up to all.
    """

    def __init__(self, X: NDArray, data: Data, basis: NDArray, graph: Graph, rows: NDArray[np.int32]) -> None:
        self.X, self.basis, self.graph, self.rows = X, basis, graph, rows
        log_normal = isinstance(data.likelihood, LogNormal)
        self.y = np.log(data.y) if log_normal else data.y
        self.log_jacobian = -np.log(data.y) if log_normal else np.zeros(len(data.y))

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        part = self._part(model)
        residual, centred = self._residual(part)
        found = part.gradient(centred)
        scale = len(self.y) / len(self.rows)
        constant = self.log_jacobian.sum() - 0.5 * len(self.y) * np.log(2.0 * np.pi)
        value = constant - 0.5 * scale * (part.logdet + residual @ residual)
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget, "likelihood__variance": found.nugget}
        return float(value), gradient

    def leave_one_out(self, model: Model) -> Vector:
        """The log density of each observation given all others; NaN for those that are not in `rows`."""
        part = self._part(model)
        off, variance = part.leave_one_out(self._residual(part)[1])
        scores = np.full(len(self.y), np.nan)
        scores[self.rows] = self.log_jacobian[self.rows] - 0.5 * (off**2 / variance + np.log(2.0 * np.pi * variance))
        return scores

    def _part(self, model: Model) -> Part:
        nugget = model.nugget + float(model.likelihood.variance)  # type: ignore[attr-defined]
        return model.structure.part(model.kernel, nugget, self.X, self.graph, self.rows)

    def _residual(self, part: Part) -> tuple[Vector, Vector]:
        """y − Hβ at the best β, whitened and as it is."""
        whitened = part.whiten(np.column_stack([self.y, self.basis]))
        target, columns = whitened[:, 0], whitened[:, 1:]
        coefficients = np.linalg.lstsq(columns, target, rcond=None)[0] if columns.shape[1] else np.zeros(0)
        return target - columns @ coefficients, self.y - self.basis @ coefficients


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


def information(
    objective: Objective, model: Model, space: SearchSpace, step: float, here: Vector | None = None
) -> NDArray[np.float64]:
    """Minus the second derivatives of the objective at a model, by differences of its gradient: to both sides, or
    to one where the gradient at the model itself is given as `here`."""
    z = space.vector()

    def gradient(z: Vector) -> Vector:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return space.pull_back(z, objective(model.at(space.named(z)))[1])

    rows = []
    for e in step * np.eye(len(z)):
        if here is not None:
            e = np.where(z + e > space.high, -e, e)
            rows.append((here - gradient(z + e)) / e.sum())
        else:
            ends = np.clip([z - e, z + e], space.low, space.high)
            rows.append((gradient(ends[0]) - gradient(ends[1])) / max(float((ends[1] - ends[0]).sum()), 1e-12))
    found = np.array(rows).reshape(len(z), len(z))
    return 0.5 * (found + found.T)
