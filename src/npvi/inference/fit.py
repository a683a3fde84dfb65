"""The best Gaussian q = N(μ, V) for data and prior: Newton steps for the mean, site precisions for V, a certificate.

    ELBO(μ, V) = Σ_i E log p(y_i|f) − ½ tr(P V) − ½ (μ−m)ᵀP(μ−m) + ½ log|V| − ½ log|Σ| + N/2

What V may be is a family (`npvi.inference.families.base`): the paper's L Lᵀ on the graph's pattern, or any covariance
at all. In either one the best V is known for given site precisions w = −2 ∂E/∂v, so the iteration
(`npvi.inference.newton`) is the same for both: it looks for the (μ, w) that agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import CoefficientSpread, Parts, Stack, Trend
from npvi.inference.data import Data
from npvi.inference.families.base import Covariance, Family, Start
from npvi.inference.loop import ascend, joined
from npvi.inference.newton import Problem, WithCoefficients, without_coefficients
from npvi.posteriors import Posterior
from npvi.priors import PrecisionFactor

__all__ = ["Covariance", "Family", "Fit", "Start", "fit_from_sites", "fit_posterior"]

Vector = NDArray[np.float64]

#: residuals below this mean nothing where the spread of the mean's coefficients comes out of solves
_COEFFICIENTS = 3e-7


@dataclass(frozen=True)
class Fit:
    """The posterior, the bound, and how it was reached."""

    posterior: Posterior
    elbo: float
    info: dict[str, Any]
    stack: Any
    """A `Stack`, or `Parts`."""
    solver: Any
    """Of systems with its precision and the sites that the fit ended with."""
    factor: PrecisionFactor | None = field(default=None, kw_only=True)
    """That of P + W, if there is one."""
    spread: CoefficientSpread | None = field(default=None, kw_only=True)
    """Of the mean's coefficients, if it is known."""

    def unless_interrupted(self) -> Fit:
        """The same; or KeyboardInterrupt, where a Ctrl-C ended a fit early that was a step of something larger."""
        if self.info["interrupted"]:
            raise KeyboardInterrupt
        return self

    @cached_property
    def variance(self) -> Vector:
        """Marginal variances of f at the training points, what isn't known of the mean's coefficients included."""
        own = self.posterior.variance
        return own if self.stack.known else own + self.trend.own_variance(self.stack.linear.basis)

    @cached_property
    def trend(self) -> Trend:
        """The posterior of the prior mean's coefficients."""
        if self.spread is None:
            return self.stack.trend(self.solver, self.posterior.mean)
        coefficients = self.stack.coefficients(self.posterior.mean)
        return Trend(coefficients, self.spread.covariance, self.spread.sensitivity)


def fit_posterior(
    family: Family,
    data: Data,
    stack: Stack | Parts,
    start: Start | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 200,
    enough: float = -np.inf,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Fit:
    """Maximise the bound over μ and V.

    Parameters
    ----------
    family : what V may be.
    data : in the graph's order; with `Parts`, in any.
    stack : the prior and its mean Hβ, or what the predictor is a sum of.
    start : warm start; by default y's own sites.
    tolerance : for both residuals, max-norms relative to the largest term of their equation.
    enough : an iteration that raises the bound by less is the last one; one that promises less than half is not made.
    progress : called with the numbers of each iteration.

    Notes
    -----
    A keyboard interrupt ends the iteration early; what was reached is returned with ``info["interrupted"]`` true.
    """
    if not stack.known:
        tolerance = max(tolerance, _COEFFICIENTS)
    tolerances = (max(tolerance, family.tolerances[0]), max(tolerance, family.tolerances[1]))
    problem = Problem(family, data, stack, tolerances, enough)
    if start is not None:
        family.begin(start)
    return _ascended(problem, problem.initial(start), tolerances, max_iterations, enough, progress)


def fit_from_sites(
    family: Family,
    data: Data,
    stack: Stack,
    mean: Vector,
    site_precision: Vector,
    iterations: int = 0,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Fit:
    """N(mean, V) with the best V for given site precisions w ≥ 0, and some iterations from there on."""
    tolerances = (1e-7, 1e-7)
    problem = Problem(family, data, stack, tolerances)
    state = problem.at(mean, problem.covariance(site_precision))
    return _ascended(problem, state, tolerances, iterations, -np.inf, progress)


def _ascended(
    problem: Problem, state: Any, tolerances: tuple[float, float], max_iterations: int, enough: float, progress: Any
) -> Fit:
    family, stack = problem.family, problem.stack
    state, info = ascend(problem, state, tolerances, max_iterations, enough, progress)
    covariance = without_coefficients(state.covariance)
    posterior = family.posterior(state.mean, covariance)
    wanted = max_iterations and not info["interrupted"]
    better = family.corrected(posterior, covariance) if wanted else None
    if better is not None:
        state, more = ascend(
            problem, problem.with_covariance(state, better), tolerances, max_iterations, enough, progress
        )
        info, covariance = joined(info, more), without_coefficients(state.covariance)
        posterior = family.posterior(state.mean, covariance, posterior)
    guarantee = _GUARANTEES[problem.data.likelihood.log_concave]
    info = {"method": family.name, "guarantee": guarantee, **info, **family.info()}
    w, factor = covariance.site_precision, covariance.precision_factor
    solver = problem.solver_with(covariance, np.maximum(w, 0.0), max(1e-10, 0.1 * family.solve_tolerance))
    spread = state.covariance.coefficients if isinstance(state.covariance, WithCoefficients) else None
    return Fit(posterior, state.elbo, info, stack, solver, factor=factor, spread=spread)


_GUARANTEES = {
    True: "the likelihood is log-concave: a converged fit is the global optimum of the bound",
    False: "the likelihood is not log-concave: a converged fit is a stationary point that no step lowered on the way",
}
