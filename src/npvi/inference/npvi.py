"""NPVI to its optimum: Newton steps for the mean, closed-form sweeps for L, and a certificate.

    ELBO(μ, L) = Σ_i E log p(y_i|f) − ½ tr(P L Lᵀ) − ½ (μ−m)ᵀP(μ−m) + Σ log L_ii − ½ log|Σ| + N/2

Both steps are guarded: none is taken that lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference.mean_function import MeanFunction
from npvi.inference.mean_solve import PrecisionSolver, SolverLog
from npvi.likelihoods import Expectations, Likelihood, expectations
from npvi.posteriors import FactorPosterior
from npvi.priors import NNGP
from npvi.sparse import Triangular

__all__ = ["Data", "Fit", "Start", "fit_npvi"]

Vector = NDArray[np.float64]

#: relative rounding error of the bound: a step that seems to lose no more than this is accepted
_ROUNDING = 1e-13
#: halvings of a step before it is given up
_HALVINGS = 12


@dataclass(frozen=True)
class Data:
    """Observations in the graph's order."""

    likelihood: Likelihood
    y: Vector
    row: dict[str, Vector] = field(default_factory=dict)
    weight: Vector | None = None

    def expectations(self, mean: Vector, variance: Vector) -> Expectations:
        """E log p(y|f), its gradient and w = −2 ∂/∂v, times the observation weights."""
        result = expectations(self.likelihood, self.y, mean, variance, self.row)
        return result if self.weight is None else Expectations(*(part * self.weight for part in result))


@dataclass(frozen=True)
class Start:
    """Where to begin: marginal means and variances of f."""

    mean: Vector
    variance: Vector


@dataclass(frozen=True)
class Fit:
    """The posterior, the prior mean's coefficients, the bound, and how it was reached."""

    posterior: FactorPosterior
    coefficients: Vector
    elbo: float
    info: dict[str, Any]


@dataclass(frozen=True)
class _State:
    mean: Vector
    factor: Triangular
    site_precision: Vector
    """The w that L solves for; at the optimum it is the w of (mean, variance)."""
    variance: Vector
    expected: Expectations
    elbo: float


def fit_npvi(
    prior: NNGP,
    data: Data,
    basis: NDArray[np.float64],
    start: Start | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 100,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Fit:
    """Maximise the bound over μ and L.

    Parameters
    ----------
    prior, data : in the graph's order.
    basis : H of the prior mean Hβ, shape (N, p), p = 0 for a zero mean.
    start : warm start; by default y's own sites.
    tolerance : for both residuals, max-norms relative to the largest term of their equation.
    progress : called with the numbers of each iteration.

    Notes
    -----
    A keyboard interrupt ends the iteration early; what was reached is returned with ``info["interrupted"]`` true.
    """
    problem = _Problem(prior, data, MeanFunction(prior, basis))
    history: dict[str, list[float]] = {"elbo": [], "mean_residual": [], "covariance_residual": []}
    state = problem.initial(start)

    def converged() -> bool:
        certificate = problem.certificate(state)
        for name, value in certificate.items():
            history[name].append(value)
        if progress is not None:
            progress(certificate)
        return max(certificate["mean_residual"], certificate["covariance_residual"]) <= tolerance

    interrupted = False
    done = converged()
    try:
        while not done and len(history["elbo"]) <= max_iterations:
            before = state
            state = problem.improve_factor(problem.improve_mean(state))
            done = converged()
            if state is before:  # no step raises the bound any more: rounding is reached
                break
    except KeyboardInterrupt:
        interrupted = True
    log = problem.log
    info = {
        "method": "npvi",
        **history,
        "n_iter": len(history["elbo"]) - 1,
        "converged": done,
        "interrupted": interrupted,
        "guarantee": _GUARANTEES[data.likelihood.log_concave],
        "cg_iterations": log.iterations,
        "factor_breakdowns": log.breakdowns,
        "preconditioner_fallbacks": log.fallbacks,
    }
    posterior = FactorPosterior(state.mean, state.factor, state.site_precision)
    return Fit(posterior, problem.mean_function.coefficients(state.mean), state.elbo, info)


_GUARANTEES = {
    True: "the likelihood is log-concave: a converged fit is the global optimum of the bound",
    False: "the likelihood is not log-concave: a converged fit is a stationary point that no step lowered on the way",
}


class _Problem:
    def __init__(self, prior: NNGP, data: Data, mean_function: MeanFunction) -> None:
        self.prior, self.data, self.mean_function = prior, data, mean_function
        self.log = SolverLog()

    def initial(self, start: Start | None) -> _State:
        """One Newton step with the sites at `start`, by default y's own fitted values, and one sweep at those sites."""
        if start is None:
            fitted = self.data.likelihood.initial_latent(self.data.y, **self.data.row)
            start = Start(fitted, np.full_like(fitted, 1e-6))
        expected = self.data.expectations(start.mean, start.variance)
        w = np.maximum(expected.precision, 0.0)
        mean = start.mean + self._newton_step(start.mean, expected.gradient, w)
        return self._state(mean, self.prior.lower_half.sweep(w), w)

    def improve_mean(self, state: _State) -> _State:
        """A Newton step for μ, halved until it doesn't lower the bound."""
        w = np.maximum(state.expected.precision, 0.0)
        step = self._newton_step(state.mean, state.expected.gradient, w)
        for halving in range(_HALVINGS):
            trial = self._state(state.mean + 0.5**halving * step, state.factor, state.site_precision)
            if self._no_worse(trial, state):
                return trial
        return state

    def improve_factor(self, state: _State) -> _State:
        """A sweep at the site precisions that L and the data agree on, damped until it doesn't lower the bound."""
        target = self._agreed_precision(state)
        for halving in range(_HALVINGS):
            w = state.site_precision + 0.5**halving * (target - state.site_precision)
            trial = self._state(state.mean, self.prior.lower_half.sweep(w), w)
            if self._no_worse(trial, state):
                return trial
        return state

    def certificate(self, state: _State) -> dict[str, float]:
        """Both residuals, relative to the largest term of their equation, and the bound."""
        gradient, w = state.expected.gradient, state.expected.precision
        pull = self.mean_function.penalty_gradient(state.mean)
        # L solves ((P+W)L)_ic = δ_ic/L_cc for its own w, so what is left of the equation is (w − its w)_i L_ic
        L = state.factor
        largest_entry = np.maximum(L.diagonal, np.abs(L.edges).max(axis=1, initial=0.0))
        mismatch = np.abs(w - state.site_precision) * largest_entry
        largest_term = max(np.abs(gradient).max(), np.abs(pull).max(), np.finfo(float).tiny)
        return {
            "elbo": state.elbo,
            "mean_residual": float(np.abs(gradient - pull).max() / largest_term),
            "covariance_residual": float(mismatch.max() * L.diagonal.min()),
        }

    def _newton_step(self, mean: Vector, gradient: Vector, w: Vector) -> Vector:
        solver = PrecisionSolver(self.prior, w, self.log)
        return self.mean_function.solve(solver, gradient - self.mean_function.penalty_gradient(mean))

    def _agreed_precision(self, state: _State) -> Vector:
        """w with w_i = w_i(v_i), v_i = 1/(c_i + w_i), c_i what the other points say of f_i: one secant step.

        The plain iteration w ← w(v) overshoots where w rises with v; this solves each point's own equation instead, so
        that only the coupling between points is left to the iteration.
        """
        old, new = state.site_precision, state.expected.precision
        others = np.maximum(1.0 / state.variance - old, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(others + new > 0.0, 1.0 / (others + new), state.variance)
            newer = self.data.expectations(state.mean, variance).precision
            slope = (newer - new) / (new - old)
            secant = (new - slope * old) / (1.0 - slope)
        low, high = np.minimum(new, newer), np.maximum(new, newer)
        usable = np.isfinite(secant) & (slope < 0.5)
        return np.where(usable, np.clip(secant, np.minimum(low, old), np.maximum(high, old)), new)

    def _state(self, mean: Vector, factor: Triangular, w: Vector) -> _State:
        variance = factor.row_norms_squared()
        expected = self.data.expectations(mean, variance)
        n = len(mean)
        # L solves its columns for w, so tr(P L Lᵀ) = N − Σ w_i v_i
        trace = n - w @ variance
        elbo = (
            expected.value.sum()
            - 0.5 * (trace + self.mean_function.penalty(mean) + self.prior.logdet - n)
            + np.log(factor.diagonal).sum()
        )
        return _State(mean, factor, w, variance, expected, float(elbo))

    @staticmethod
    def _no_worse(trial: _State, state: _State) -> bool:
        return trial.elbo >= state.elbo - _ROUNDING * max(1.0, abs(state.elbo))
