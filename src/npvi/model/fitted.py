"""A fitted model as a whole: what it was said to be, its numbers, prior and posterior, and the models beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import Stack, Trend
from npvi.graph import Graph
from npvi.inference import Data, Start
from npvi.learning import Model
from npvi.likelihoods import Softmax, conditional_moments, predictive_moments
from npvi.model.linear_part import LinearPart
from npvi.model.spec import Spec
from npvi.posteriors import Posterior
from npvi.predictive import CategoricalPredictive
from npvi.runtime.warn import warn

__all__ = ["Fitted", "Hyper", "Interrupted", "sums_of", "warn_about_presences", "warn_about_sums"]

Vector = NDArray[np.float64]

#: rows that are all 1, from which on they may be a point pattern
_PATTERN = 10
#: how far off the expected sum may be: relative to what was seen, and in standard errors
_SHARE, _ERRORS = 0.15, 4.0


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
    def stack(self) -> Stack:
        """The prior mean at the training points."""
        return self.model.stack(self.prior, self.basis)

    @cached_property
    def residual(self) -> Vector:
        """What f is beside the prior mean at the training points, in the graph's order: found once, not for each
        prediction."""
        return self.posterior.mean - self.basis @ self.trend.coefficients

    @cached_property
    def third(self) -> Vector:
        """E ∂³ log p(y|f)/∂f³ at the training points, in the graph's order."""
        sd = np.sqrt(self.marginal_variance)
        found = self.data.curvatures(self.posterior.mean, sd).in_mean_sd / sd
        return np.where(np.isfinite(found), found, 0.0)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("residual", "third")}

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

    def sums(self) -> dict[str, Any]:
        """What was seen in all training rows and what the posterior expects there: for ``fit_info_``.

        Σ w_i y_i, Σ w_i E[y_i] with f_i ~ q, and the standard error (Σ w_i² s_i²)^½. s_i² is Var[y_i | f_i = E f_i], or
        the squared residual there, which outliers make larger, or E[y_i] of counts, the largest of them. (Var[y_i]
        itself would grow fastest where the variance of f is the problem, and excuse anything.) Exposure and trials are
        in E[y_i]. Of three or more labels a list with the numbers of each. Censored rows are left out. It takes O(N).

        Returns
        -------
        dict
            with ``sum_seen``, ``sum_expected`` and ``sum_error``; empty where every response is censored, or the
            likelihood has no moments.

        Examples
        --------
        >>> import npvi
        >>> X = np.arange(40.0)[:, None]
        >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, np.arange(40) % 4)
        >>> sums = model.fitted_.sums()
        >>> sums["sum_seen"], bool(abs(sums["sum_expected"] - 60.0) < 1.0)
        (60.0, True)
        """
        return sums_of(self.data, *self._marginals())

    def _marginals(self) -> tuple[Vector, Vector]:
        """Means and variances of f at the training rows, what not knowing the mean's coefficients adds included."""
        posterior, adds = self.posterior, []
        for trend in self.trends:
            along = self.basis + trend.sensitivity
            adds.append(np.einsum("ip,pq,iq->i", along, trend.covariance, along))
        added = np.stack(adds, axis=1) if posterior.mean.ndim > 1 else adds[0]
        return posterior.mean, posterior.variance + added


def sums_of(data: Data, mean: Vector, variance: Vector) -> dict[str, Any]:
    """`Fitted.sums`, for means and variances of f at the rows."""
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    if isinstance(data.likelihood, Softmax):
        labels = np.arange(data.likelihood.n_classes)
        expected = CategoricalPredictive(labels, mean, variance).probabilities
        seen, spread = data.y[:, None] == labels, expected * (1.0 - expected)
    else:
        kept = (weight > 0.0) & np.equal(data.row.get("censored", np.zeros(len(weight))), 0.0)
        if not kept.any():
            return {}
        row = {name: values[kept] for name, values in data.row.items() if name != "censored"}
        weight, seen = weight[kept], data.y[kept]
        try:
            expected = predictive_moments(data.likelihood, mean[kept], variance[kept], row)[0]
            centre, spread = conditional_moments(data.likelihood, mean[kept], row)
        except NotImplementedError:  # a user's own class without moments
            return {}
        with np.errstate(over="ignore"):
            spread = np.maximum(spread, (seen - centre) ** 2)
        if data.likelihood.support.discrete:
            spread = np.maximum(spread, np.minimum(expected, 1e300))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (weight @ seen, weight @ expected, np.sqrt(weight**2 @ spread))
    return {name: values.tolist() for name, values in zip(("sum_seen", "sum_expected", "sum_error"), sums)}


class Interrupted(KeyboardInterrupt):
    """A fit was interrupted; `fitted` is the last good state."""

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted


def warn_about_presences(data: Data) -> None:
    """Warn where all that is there are places where something was seen."""
    if not data.likelihood.support.discrete or len(data.y) < _PATTERN or np.any(data.y != 1.0) or data.one_sided:
        return
    warn(
        "every count is 1: places where something was seen say nothing of where it is not. If the rows are a point "
        "pattern, npvi.fit_points(points, window) counts them in cells, empty ones too"
    )


def warn_about_sums(fitted: Fitted, labels: Any = None) -> None:
    """Warn where the expected sum is off by more than 15 %, and by more than 4 standard errors."""
    info = fitted.info
    # from some of the responses, as long as they are small, nothing follows for those that were seen
    censored = np.any(fitted.data.row.get("censored", 0.0) != 0.0)
    if "sum_seen" not in info or censored or not (info["converged"] or fitted.spec.method == "npvi-nn"):
        return
    seen, expected, error = (np.atleast_1d(info[name]) for name in ("sum_seen", "sum_expected", "sum_error"))
    off = np.abs(expected - seen)
    with np.errstate(invalid="ignore"):
        wrong = (off > _SHARE * np.abs(seen)) & (off > _ERRORS * error)
    if not wrong.any():
        return
    worst = int(np.argmax(np.where(wrong, off, -1.0)))
    what = f" of label {worst if labels is None else labels[worst]}" if len(seen) > 1 else ""
    warn(
        f"the model expects a sum of {expected[worst]:.4g} over its own training rows, where {seen[worst]:.4g} was "
        f"seen{what} (standard error {error[worst]:.2g}): means and totals can't be relied on. Look at summary() for "
        "coefficients with huge standard errors (coefficient_scale=1 holds them) and variances far above those of the "
        "data, try another likelihood or link, or use medians, quantile(0.5)"
    )
