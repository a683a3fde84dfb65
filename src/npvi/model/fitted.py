"""A fitted model as a whole: what it was said to be, its numbers, prior and posterior, and the models beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference import Data, MeanFunction, Start, Trend
from npvi.learning.objective import Model
from npvi.likelihoods.families.softmax import Softmax
from npvi.model.linear_part import LinearPart
from npvi.model.spec import Spec
from npvi.posteriors import Posterior

__all__ = ["Fitted", "Hyper", "Interrupted"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Hyper:
    """Models around the best one, at other hyper-parameters.

    Attributes
    ----------
    models : fitted to the same rows.
    weights : of each, in predictions.
    table : for each number that was learned ``parameter``, ``standard_error`` (root mean square about the value), and
        the ends of a 95 % interval, ``lower`` and ``upper``.
    """

    models: Sequence[Any]
    weights: Vector
    table: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model. Nothing in it changes: `npvi.model.update` makes another one.

    Attributes
    ----------
    spec : what it was said to be.
    model : its numbers, learned or given.
    graph : with the caller's rows; ``prior.graph`` has those of the fit, which are in an order of their own.
    prior, posterior, trend : at the training points, in the graph's order, and of the mean's coefficients; of several
        classes the latter two have ``parts``.
    data, basis : the observations, and the columns of the prior mean, in the graph's order.
    linear_part : which columns the process sees, and which enter the mean.
    elbo : the evidence lower bound.
    info : how it went, ``fit_info_`` of an estimator.
    recognizer : the network that was used, if one was.
    companion, companion_weight : a model of another smoothness that predictions are mixed with, and its share.
    hyper : models at other hyper-parameters, which predict in its place.
    """

    spec: Spec
    model: Model
    graph: Graph
    prior: Any
    posterior: Posterior
    trend: Any
    data: Data
    basis: NDArray[np.float64]
    linear_part: LinearPart
    elbo: float
    n_iter: int
    info: dict[str, Any]
    recognizer: Any = None
    companion: Fitted | None = None
    companion_weight: float = 0.0
    hyper: Hyper | None = None

    @property
    def several(self) -> bool:
        """Whether every label has a function of its own."""
        return isinstance(self.model.likelihood, Softmax)

    @property
    def mean_function(self) -> MeanFunction:
        """The prior mean at the training points."""
        return self.model.mean_function(self.prior, self.basis)

    @property
    def marginal_variance(self) -> Vector:
        """Of f at the training points, in the graph's order, what isn't known of the mean's coefficients included."""
        if self.several:  # which have theirs without
            return self.posterior.variance
        return self.posterior.variance + self.trend.own_variance(self.basis)

    @property
    def start(self) -> Start:
        """Where the posterior of a model much like it may start."""
        return Start(self.posterior.mean, self.marginal_variance)

    @property
    def neighbors(self) -> int:
        """K, were there rows enough."""
        return self.spec.neighbors(*self._size)

    @property
    def fewest_neighbors(self) -> int:
        """With fewer than these it can't grow."""
        return self.spec.fewest_neighbors(*self._size)

    @property
    def _size(self) -> tuple[int, int]:
        X = self.prior.X
        return X.shape[0], self.model.kernel.coordinates(X[:1]).shape[1]

    @property
    def trends(self) -> tuple[Trend, ...]:
        """The coefficients of each function's mean."""
        return getattr(self.trend, "parts", (self.trend,))

    def coefficients(self) -> list[dict[str, tuple[float, float]]]:
        """Of each function's mean by name, for the covariates as they came: value and standard error."""
        found = []
        for trend in self.trends:
            values, covariance = self.linear_part.in_units(trend.coefficients, trend.covariance)
            errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            found.append({name: (float(a), float(b)) for name, a, b in zip(self.linear_part.names, values, errors)})
        return found

    def shares(self) -> list[tuple[Fitted, float]]:
        """The models that have a say in predictions, and the share of each."""
        own = [(self, 1.0)]
        if self.hyper is not None:
            own = list(zip(self.hyper.models, self.hyper.weights.tolist()))
        if self.companion is None:
            return own
        second, share = self.companion.shares(), self.companion_weight
        return [(model, (1.0 - share) * part) for model, part in own] + [(m, share * part) for m, part in second]


class Interrupted(KeyboardInterrupt):
    """A fit was interrupted; `fitted` is the last good state."""

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted
