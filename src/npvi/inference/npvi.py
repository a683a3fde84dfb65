"""NPVI to its optimum: Newton steps for the mean, closed-form sweeps for L, and a certificate.

    ELBO(μ, L) = Σ_i E log p(y_i|f) − ½ tr(P L Lᵀ) − ½ (μ−m)ᵀP(μ−m) + Σ log L_ii − ½ log|Σ| + N/2

No step is taken that lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data
from npvi.inference.mean_function import MeanFunction
from npvi.inference.mean_solve import PrecisionSolver, SolverLog
from npvi.likelihoods import Expectations
from npvi.posteriors import FactorPosterior
from npvi.priors import NNGP
from npvi.sparse import Triangular

__all__ = ["Data", "Fit", "Start", "fit_npvi"]

Vector = NDArray[np.float64]

#: relative rounding error of the bound: a step that seems to lose no more than this is accepted
_ROUNDING = 1e-13
#: a step is tried whole, then halved until it is given up
_SHARES = tuple(0.5**halving for halving in range(12))


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
    max_iterations: int = 200,
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
            state = problem.improve(state)
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
        "cg_residuals": log.residuals,
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
        self.relaxation = _Relaxation(prior.graph.n_points)

    def initial(self, start: Start | None) -> _State:
        """The sites at `start`, by default at y's own fitted values: the best mean and L for them."""
        if start is None:
            fitted = self.data.likelihood.initial_latent(self.data.y, **self.data.row)
            start = Start(fitted, np.full_like(fitted, 1e-6))
        expected = self.data.expectations(start.mean, start.variance)
        w = np.maximum(expected.precision, 0.0)
        mean = start.mean + self._mean_step(start.mean, expected.gradient, w)
        state = self._state(mean, self.prior.lower_half.sweep(w), w)
        assert state is not None  # P + W is positive definite for w ≥ 0
        return state

    def improve(self, state: _State) -> _State:
        """A better state: by Newton's method for μ and v together, else for μ and L one after the other."""
        return self._newton(state) or self._improve_factor(self._improve_mean(state))

    def _newton(self, state: _State) -> _State | None:
        """A Newton step for μ and the standard deviations s, halved until it doesn't lower the bound, or None.

        The means move together, held by P; each s_i is held by what the other points say of f_i, the precision
        c_i = 1/v_i − w_i, and is eliminated: (P̃ + W̃) δ = r with W̃ = −E_mm − E_ms²/b, b = c + 1/s² − E_ss. Steps for μ
        and L in turn crawl where the two are strongly coupled, as for counts under a wide prior (the optimum for a zero
        count lies far down, and is wide). The sweep is then made at the sites of the new (μ, s).
        """
        sd, w = np.sqrt(state.variance), state.site_precision
        others = np.maximum(1.0 / state.variance - w, 1.0 / self.prior.marginal_variance)
        at = self.data.curvatures(state.mean, sd)
        slope_sd = at.in_sd - others * sd + 1.0 / sd
        bend_sd = others + 1.0 / state.variance - np.minimum(at.in_sd_sd, 0.0)
        bend_mean = np.maximum(-at.in_mean_mean - at.in_mean_sd**2 / bend_sd, 0.0)
        step = self._mean_step(state.mean, at.in_mean + at.in_mean_sd * slope_sd / bend_sd, bend_mean)
        step_sd = (slope_sd + at.in_mean_sd * step) / bend_sd
        for share in _SHARES:
            mean = state.mean + share * step
            variance = np.clip(sd + share * step_sd, 0.5 * sd, 2.0 * sd) ** 2
            change = self.data.expectations(mean, variance).precision - w
            if share == 1.0:
                relaxation = self.relaxation.of(change)
            trial = self._swept(mean, w + share * relaxation * change)
            if trial is not None and _no_worse(trial, state):
                return trial
        return None

    def _improve_mean(self, state: _State) -> _State:
        """A step for μ alone, which is uphill if anything is."""
        step = self._mean_step(state.mean, state.expected.gradient, np.maximum(state.expected.precision, 0.0))
        for share in _SHARES:
            trial = self._state(state.mean + share * step, state.factor, state.site_precision)
            if trial is not None and _no_worse(trial, state):
                return trial
        return state

    def _improve_factor(self, state: _State) -> _State:
        """A sweep for L alone, at site precisions on the way to those of (μ, v)."""
        w = state.site_precision
        for share in _SHARES:
            trial = self._swept(state.mean, w + share * (state.expected.precision - w))
            if trial is not None and _no_worse(trial, state):
                return trial
        return state

    def certificate(self, state: _State) -> dict[str, float]:
        """Both residuals, relative to the largest term of their equation, and the bound."""
        gradient, w = state.expected.gradient, state.expected.precision
        pull = self.mean_function.penalty_gradient(state.mean)
        # the last term is the gradient of a mean that is off by one standard deviation: where gradient and pull cancel
        # to rounding (all y equal to the constant mean) there is no other scale
        largest_term = max(np.abs(gradient).max(), np.abs(pull).max(), np.max(np.abs(w) * np.sqrt(state.variance)))
        # L solves ((P+W)L)_ic = δ_ic/L_cc for its own w, so what is left of the equation is (w − its w)_i L_ic
        L = state.factor
        largest_entry = np.maximum(L.diagonal, np.abs(L.edges).max(axis=1, initial=0.0))
        mismatch = np.abs(w - state.site_precision) * largest_entry
        return {
            "elbo": state.elbo,
            "mean_residual": float(np.abs(gradient - pull).max() / max(largest_term, np.finfo(float).tiny)),
            "covariance_residual": float(mismatch.max() * L.diagonal.min()),
        }

    def _mean_step(self, mean: Vector, gradient: Vector, w: Vector) -> Vector:
        """(P̃ + W)⁻¹ (gradient − P̃ mean)."""
        slope = gradient - self.mean_function.penalty_gradient(mean)
        return self.mean_function.solve(PrecisionSolver(self.prior, w, self.log), slope)

    def _swept(self, mean: Vector, w: Vector) -> _State | None:
        return self._state(mean, self.prior.lower_half.sweep(w), w)

    def _state(self, mean: Vector, factor: Triangular, w: Vector) -> _State | None:
        """The state at (mean, factor); None where the sweep met a block that isn't positive definite (w < 0)."""
        variance = factor.row_norms_squared()
        if not np.isfinite(variance).all():
            return None
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


def _no_worse(trial: _State, state: _State) -> bool:
    return trial.elbo >= state.elbo - _ROUNDING * max(1.0, abs(state.elbo))


class _Relaxation:
    """Which share of the proposed change of each w to take (Aitken's rule).

    Points that share a place answer for each other: all of them correct w at once, each as if alone, and overshoot.
    Then successive proposals change sign, and their ratio says by how much to hold back.
    """

    def __init__(self, n: int) -> None:
        self._proposal, self._share = np.zeros(n), np.ones(n)

    def of(self, proposal: Vector) -> Vector:
        ratio = np.divide(proposal, self._proposal, out=np.zeros_like(proposal), where=self._proposal != 0.0)
        held_back = np.maximum(self._share / (1.0 - np.minimum(ratio, 0.0)), 0.2)
        # a proposal that turned but shrank to a third will be gone soon enough by itself
        self._share = np.where(ratio < -0.3, held_back, np.minimum(1.0, 1.5 * self._share))
        self._proposal = proposal
        return self._share
