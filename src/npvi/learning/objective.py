"""Learning hyper-parameters: the bound at its best q as a function of them, its gradient, and the climb.

At the optimum of q the derivative of the bound in θ is that of its explicit part alone (the envelope theorem): for the
kernel Σ_i −½ ∂[log d_i + E r_i²/d_i], for the likelihood Σ_i ∂E log p(y_i|f_i). For Gaussian and log-normal noise of
more than a few rows f is integrated out instead, and nothing is iterated: the nearest-neighbour process is put on the
observations themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.components import Coefficients, Process, Stack
from npvi.graph import Graph
from npvi.inference import AllCovariances, Data, Fit, Start, fit_posterior, places_of, without_own, without_place
from npvi.kernels import Kernel
from npvi.learning.bfgs import Ascent, climb
from npvi.learning.space import SearchSpace
from npvi.likelihoods import Gaussian, Likelihood, LogNormal, parameter_gradient, predictive_log_prob
from npvi.linalg import Noise
from npvi.priors import NearestNeighbors, NotPositiveDefiniteError, Part, Prior, Structure

__all__ = [
    "BoundObjective",
    "CollapsedObjective",
    "Model",
    "Objective",
    "can_collapse",
    "information",
    "optimise",
    "with_values",
]

Vector = NDArray[np.float64]

#: draws of the posterior for a gradient, where the factor won't do
_DRAWS = 32
#: rows beyond which half of them will do
_MANY = 100_000
#: residual of a climb's q: the nats that are missing grow with its square and with the number of rows
_NEAR, _NEAR_IN_ALL = 1e-2, 0.1
#: nats below the best bound so far from which on a start is to blame
_LOST = 100.0
#: columns of a covariance that are found at a time
_COLUMNS = 64


@dataclass(frozen=True)
class Model:
    """Everything that defines a model, what is learned of it included: for learning and for the final fit alike."""

    kernel: Kernel
    nugget: float
    likelihood: Likelihood
    structure: Structure = field(default_factory=NearestNeighbors)
    coefficient_precision: Vector | None = None
    """Of the prior of each of the mean's coefficients; all flat where None."""
    open_smoothness: tuple[str, ...] = ()
    """Names of each smoothness in the kernel that was learned, or is yet to be."""

    def prior(self, X: NDArray, graph: Graph) -> Prior:
        """The prior of points in the graph's order."""
        return self.structure.prior(self.kernel, self.nugget, X, graph)

    def stack(self, prior: Prior, basis: NDArray[np.float64]) -> Stack:
        """The prior mean of points in the graph's order."""
        return Stack(Process(prior), Coefficients(basis, self.coefficient_precision))

    def named(self) -> dict[str, Any]:
        """All numbers by their full names."""
        from npvi.learning.space import learnable

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
            parts[prefix] = with_values(obj, own)
        return replace(self, nugget=float(values["nugget"]), **parts)


def with_values(obj: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a parametrised object with some numbers replaced, those of its parts included."""
    own = {name: value for name, value in values.items() if "__" not in name}
    for part in {name.split("__")[0] for name in values if "__" in name}:
        inner = {k[len(part) + 2 :]: v for k, v in values.items() if k.startswith(part + "__")}
        own[part] = with_values(getattr(obj, part), inner)
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
    noise : random numbers of the rows; by their order otherwise.
    rows : positions whose part of the gradient is wanted; all by default.
    """

    #: nats that an iteration of a careful one must gain
    enough = -np.inf
    #: standard error of the last bound, of which random vectors tell a part where the factor isn't exact
    error = 0.0

    def __init__(
        self,
        X: NDArray,
        data: Data,
        basis: NDArray,
        graph: Graph,
        start: Start | None = None,
        careful: bool = False,
        noise: Noise | None = None,
        rows: NDArray[np.integer] | None = None,
    ) -> None:
        self.X, self.data, self.basis, self.graph, self.start, self.careful = X, data, basis, graph, start, careful
        self._noise, self._best = Noise(graph.order) if noise is None else noise, -np.inf
        self._rows = rows

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        data, fit = self._fit(model)
        self.error = float(fit.info.get("log_determinant_error", 0.0))
        prior, posterior = fit.stack.prior, fit.posterior
        centred = fit.stack.centred(posterior.mean)[:, None]
        if fit.spread is not None:
            centred = np.hstack([centred, fit.spread.left])
        draws = getattr(posterior, "draws", None)
        noise = None if fit.factor is None or draws is None else self._noise.columns(0, draws.shape[1])
        found = model.structure.gradient(prior, centred, posterior, fit.factor, noise, self._rows)
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget}
        mean, variance = posterior.mean, fit.variance
        if self._rows is not None:
            share = len(self._rows) / len(mean)
            gradient = {name: share * np.asarray(slope) for name, slope in gradient.items()}
            data, mean, variance = data.take(self._rows), mean[self._rows], variance[self._rows]
        slopes = parameter_gradient(model.likelihood, data.y, mean, variance, data.row, data.weight, data.coarse)
        gradient |= {f"likelihood__{name}": slope for name, slope in slopes.items()}
        return fit.elbo, gradient

    def leave_one_out(self, model: Model) -> Vector:
        """The log density of each observation given all others."""
        data, fit = self._fit(model)
        posterior, least = fit.posterior, fit.stack.marginal_precision
        mean, variance = without_own(data, posterior.mean, fit.variance, posterior.site_precision, least)
        return predictive_log_prob(model.likelihood, data.y, mean, variance, data.row)

    def leave_place_out(self, model: Model, most: int) -> LeftOut | None:
        """Every observation of some places, `most` of them, given those of all other places: all observations, where no
        two share one. None where the posterior has no factor to say it."""
        data, fit = self._fit(model)
        factor, posterior, basis = fit.factor, fit.posterior, self.basis
        places = places_of(self.X)
        if len(places) == len(self.X):
            least = fit.stack.marginal_precision
            left = without_own(data, posterior.mean, fit.variance, posterior.site_precision, least)
            return LeftOut(np.arange(len(self.X)), np.arange(len(self.X)), *left)
        if factor is None:
            return None
        if len(places) > most:
            chosen = np.random.default_rng(0).choice(len(places), most, replace=False)
            places = [places[i] for i in chosen]
        gradient = data.expectations(posterior.mean, fit.variance).gradient
        along = np.zeros((len(self.X), 0)) if fit.spread is None else fit.spread.along
        variance, spread = fit.stack.prior.marginal_variance, fit.stack.coefficient_variance
        found: list[tuple] = []
        for some in _batches(places, _COLUMNS):
            rows = np.concatenate(some)
            units = np.zeros((len(self.X), len(rows)))
            units[rows, np.arange(len(rows))] = 1.0
            V = factor.solve(units)[rows]
            at = 0
            for place in some:
                own = slice(at, at + len(place))
                at += len(place)
                H = basis[place]
                prior = variance[place[0]] - model.nugget + model.nugget * np.eye(len(place)) + (H * spread) @ H.T
                mean, var = without_place(
                    posterior.mean[place],
                    gradient[place],
                    posterior.site_precision[place],
                    V[own, own] + along[place] @ along[place].T,
                    prior,
                )
                found.append((place, np.full(len(place), len(found)), mean, var))
        parts = [np.concatenate(column) for column in zip(*found)]
        return LeftOut(*parts)

    def _fit(self, model: Model) -> tuple[Data, Fit]:
        prior = model.prior(self.X, self.graph)
        data = replace(self.data, likelihood=model.likelihood, coarse=not self.careful)
        stack = model.stack(prior, self.basis)
        if self.careful:
            family = AllCovariances(prior, self._noise, strict=True)
            fit = fit_posterior(family, data, stack, self.start, 1e-7, 20, self.enough)
        else:
            draws = _DRAWS if len(self.X) <= _MANY else _DRAWS // 2  # sums over many rows need fewer
            family = AllCovariances(prior, self._noise, draws, strict=True)
            near = min(_NEAR, _NEAR_IN_ALL / np.sqrt(len(self.X)))
            fit = fit_posterior(family, data, stack, self.start, near, 3 if self.start else 12, enough=0.1)
        fit = fit.unless_interrupted()
        if self.start is not None and not fit.elbo > self._best - max(_LOST, 0.2 * abs(self._best)):
            # the start has led astray: from the data's own sites
            self.start = None
            return self._fit(model)
        self._best = max(self._best, fit.elbo)
        self.start = Start(fit.posterior.mean, fit.variance)
        return data, fit


@dataclass(frozen=True)
class LeftOut:
    """Rows (positions in the graph's order), at which place each is, and means and variances of f there given other
    places."""

    rows: NDArray[np.int64]
    place: NDArray[np.int64]
    mean: Vector
    variance: Vector


def _batches(places: list[NDArray[np.int64]], columns: int) -> Iterator[list[NDArray[np.int64]]]:
    """Places that have about so many rows together."""
    batch: list[NDArray[np.int64]] = []
    count = 0
    for place in places:
        batch.append(place)
        count += len(place)
        if count >= columns:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


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
        found = self._coefficients(part, model)
        slopes = part.gradient(np.column_stack([self.y - self.basis @ found.mean, self.basis @ found.root]))
        flat = int(np.sum(found.precision == 0.0))
        constant = self.log_jacobian.sum() - 0.5 * (len(self.y) - flat) * np.log(2.0 * np.pi)
        value = constant - 0.5 * (self._scale * part.logdet + found.penalty) + 0.5 * found.log_determinant
        gradient = _by_name(slopes.kernel, "kernel") | {"nugget": slopes.nugget, "likelihood__variance": slopes.nugget}
        return float(value), gradient

    def leave_one_out(self, model: Model) -> Vector:
        """The log density of each observation given all others; NaN for those that are not in `rows`."""
        part = self._part(model)
        off, variance = part.leave_one_out(self.y - self.basis @ self._coefficients(part, model).mean)
        scores = np.full(len(self.y), np.nan)
        scores[self.rows] = self.log_jacobian[self.rows] - 0.5 * (off**2 / variance + np.log(2.0 * np.pi * variance))
        return scores

    @property
    def _scale(self) -> float:
        return len(self.y) / len(self.rows)

    def _part(self, model: Model) -> Part:
        nugget = model.nugget + float(model.likelihood.variance)  # type: ignore[attr-defined]
        return model.structure.part(model.kernel, nugget, self.X, self.graph, self.rows)

    def _coefficients(self, part: Part, model: Model) -> _Coefficients:
        """The posterior of β, with f integrated out."""
        whitened = np.sqrt(self._scale) * part.whiten(np.column_stack([self.y, self.basis]))
        target, columns = whitened[:, 0], whitened[:, 1:]
        precision = np.zeros(columns.shape[1])
        if model.coefficient_precision is not None:
            precision = model.coefficient_precision
        # rows that say what the prior says
        columns = np.vstack([columns, np.diag(np.sqrt(precision))])
        target = np.append(target, np.zeros(len(precision)))
        left, singular, right = np.linalg.svd(columns, full_matrices=False)
        singular = np.maximum(singular, 1e-8 * singular.max(initial=0.0))
        root = right.T / singular
        mean = root @ (left.T @ target)
        log_determinant = float(np.log(precision[precision > 0.0]).sum() - 2.0 * np.log(singular).sum())
        return _Coefficients(mean, root, float(np.sum((target - columns @ mean) ** 2)), log_determinant, precision)


@dataclass(frozen=True)
class _Coefficients:
    """Of the prior mean, given y: mean, C with C Cᵀ their covariance, what is left of y and of the prior, squared; and
    log |C Cᵀ| + log |Λ|, without the flat directions of Λ."""

    mean: Vector
    root: NDArray[np.float64]
    penalty: float
    log_determinant: float
    precision: Vector


def _by_name(obj: Any, prefix: str) -> dict[str, Any]:
    from npvi.learning.space import learnable

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
    visited: Callable[[Vector, float, Vector], None] | None = None,
    least: float = -np.inf,
) -> tuple[Model, Ascent, SearchSpace]:
    """The model near `model` with the largest value of the objective, unless that isn't thought to come to `least`;
    `visited` is told of each place on the way, its value and its gradient without priors."""
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
        slopes = searched.pull_back(z, gradient)
        if visited is not None and np.isfinite(value):
            visited(z, value, slopes - searched.prior_slopes(z))
        return value + searched.log_prior(z), slopes

    found = climb(
        function,
        searched.vector(),
        searched.low,
        searched.high,
        enough=enough,
        max_evaluations=max_evaluations,
        curvature=curvature,
        least=least,
    )
    return model.at(searched.named(found.z)), found, searched


def information(
    objective: Objective, model: Model, space: SearchSpace, step: float, here: Vector | None = None
) -> NDArray[np.float64]:
    """Minus the second derivatives of the objective at a model, by differences of its gradient: to both sides, or
    to one where the gradient at the model itself is given as `here`."""
    z = space.vector()
    start = getattr(objective, "start", None)

    def gradient(z: Vector) -> Vector:
        if start is not None:  # all from one place: the order of the parameters says nothing
            objective.start = start  # type: ignore[attr-defined]
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
    if start is not None:
        objective.start = start  # type: ignore[attr-defined]
    found = np.array(rows).reshape(len(z), len(z))
    return 0.5 * (found + found.T)
