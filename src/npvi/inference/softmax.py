"""The best Gaussian q = Π_c N(μ_c, V_c) for classes: a function f_c for each, P(y = c) = softmax(f)_c.

    ELBO = Σ_i E log softmax(f_i)_{y_i} + Σ_c ½ [log|V_c| − tr(P V_c) − (μ_c−m_c)ᵀP(μ_c−m_c) − log|Σ| + N]

All classes share the prior precision P, each has its own mean m_c = Hβ_c. For given site precisions w_c the best V_c is
that of one function, so the iteration is that of `npvi.inference.fit`: Newton steps for the means, of all classes at
once, then V_c at the sites there. The bound is concave, and no step is taken that lowers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision, SolverLog, Stack, Trend
from npvi.graph import Graph
from npvi.inference.data import Data
from npvi.inference.families.full import AllCovariances
from npvi.inference.fit import Covariance, Family, Start
from npvi.inference.loop import ascend
from npvi.likelihoods import Softmax, expected_log_sum_exp
from npvi.linalg import Noise, conjugate_gradients
from npvi.posteriors import StackedPosterior
from npvi.priors import Conditional, NotPositiveDefiniteError, PrecisionFactor

__all__ = ["SoftmaxFit", "StackedTrend", "class_noises", "fit_softmax"]

#: shape (N, C): a column per class
Columns = NDArray[np.float64]

#: relative rounding error of the bound: a step that seems to lose no more than this is accepted
_ROUNDING = 1e-12
#: a step is tried whole, then halved until it is given up
_SHARES = tuple(0.5**halving for halving in range(12))
#: conjugate gradients for the means of all classes
_MOST_SOLVES = 200
#: classes with random numbers of their own
_NOISES = 8
#: variance of f to start from, where there is nothing better
_START_VARIANCE = 0.1


class StackedTrend:
    """The mean functions' coefficients of all classes.

    Attributes
    ----------
    parts : those of each class.
    """

    def __init__(self, parts: Sequence[Trend]) -> None:
        self.parts = tuple(parts)

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """β, shape (p, C)."""
        return np.column_stack([part.coefficients for part in self.parts])

    def projected_variance(self, basis: NDArray[np.float64], given: Conditional) -> NDArray[np.float64]:
        """What not knowing β adds to the variance of each f_c at new points, shape (rows, C)."""
        return np.column_stack([part.projected_variance(basis, given) for part in self.parts])


@dataclass(frozen=True)
class SoftmaxFit:
    """The posteriors of all classes, the bound, and how it was reached."""

    posterior: StackedPosterior
    elbo: float
    info: dict[str, Any]
    stack: Stack
    solvers: Sequence[ProcessPrecision]

    @cached_property
    def trend(self) -> StackedTrend:
        """The posterior of the prior means' coefficients."""
        pairs = zip(self.solvers, self.posterior.parts)
        return StackedTrend([self.stack.trend(solver, part.mean) for solver, part in pairs])


@dataclass(frozen=True)
class _Expected:
    """What the observations say: Σ E log p(y|f), its gradient in the means, and w.

    Of the curvature in the means there are E softmax(f) = p and the strength κ, with which κ (diag p − p pᵀ) has the
    trace of the true one.
    """

    value: float
    gradient: Columns
    precision: Columns
    probability: Columns
    strength: NDArray[np.float64]

    def bend(self, u: Columns) -> Columns:
        """Minus the second derivative in the means, nearly, times u."""
        pu = self.probability * u
        return self.strength[:, None] * (pu - self.probability * pu.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _State:
    mean: Columns
    covariances: list[Covariance]
    expected: _Expected
    elbo: float

    @cached_property
    def variance(self) -> Columns:
        return np.column_stack([covariance.variance for covariance in self.covariances])

    @cached_property
    def site_precision(self) -> Columns:
        return np.column_stack([covariance.site_precision for covariance in self.covariances])


def fit_softmax(
    family: Family,
    data: Data,
    stack: Stack,
    start: Start | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 200,
    enough: float = -np.inf,
    progress: Callable[[dict[str, float]], None] | None = None,
    noises: Sequence[Noise] | None = None,
) -> SoftmaxFit:
    """Maximise the bound over all μ_c and V_c: `fit_posterior` for several classes.

    Parameters are those of `fit_posterior`; the likelihood of `data` is a `Softmax`, and the arrays of `start` have a
    column per class. So do the posterior and the trend that are returned. `noises` are the random numbers of each
    class, where there are draws; by default other ones for each.

    Notes
    -----
    A keyboard interrupt ends the iteration early; what was reached is returned with ``info["interrupted"]`` true.
    """
    families = _one_per_class(family, data, noises)
    problem = _Problem(families, data, stack, _SHARES if enough == -np.inf else _SHARES[:3])
    tolerances = (max(tolerance, family.tolerances[0]), max(tolerance, family.tolerances[1]))
    state, info = ascend(problem, problem.initial(start), tolerances, max_iterations, enough, progress)
    means = np.ascontiguousarray(state.mean.T)
    parts = [one.posterior(m, V) for one, m, V in zip(families, means, state.covariances)]
    guarantee = "the likelihood is log-concave: a converged fit is the global optimum of the bound"
    info = {"method": family.name, "guarantee": guarantee, **info, **families[0].info()}
    posterior = StackedPosterior(parts)
    solvers = [
        ProcessPrecision(stack.prior, V.site_precision, problem.log, nearby=V.precision_factor)
        for V in state.covariances
    ]
    return SoftmaxFit(posterior, state.elbo, info, stack, solvers)


def class_noises(graph: Graph, n_classes: int) -> list[Noise]:
    """Random numbers for every class; beyond a few, some share them."""
    different = [Noise(graph.order, seed) for seed in range(min(n_classes, _NOISES))]
    return [different[c % _NOISES] for c in range(n_classes)]


def _one_per_class(family: Family, data: Data, noises: Sequence[Noise] | None) -> list[Family]:
    """The family once for every class: with draws of its own, so that errors of the classes' variances average out."""
    n_classes = cast(Softmax, data.likelihood).n_classes
    if not isinstance(family, AllCovariances) or family.exact:
        return [family] * n_classes
    noises = class_noises(family.prior.graph, n_classes) if noises is None else noises
    return [AllCovariances(family.prior, own, family.draws, family.strict) for own in noises]


class _Problem:
    def __init__(self, families: list[Family], data: Data, stack: Stack, shares: tuple[float, ...]) -> None:
        assert isinstance(data.likelihood, Softmax)
        self.families, self.prior, self.stack, self.shares = families, stack.prior, stack, shares
        self.seen = data.likelihood.indicators(data.y)
        self.weight = np.ones(len(data.y)) if data.weight is None else data.weight
        self.log = SolverLog()

    def initial(self, start: Start | None) -> _State:
        """The best means and V for the sites at `start`, by default at zero."""
        if start is None:
            start = Start(np.zeros_like(self.seen), np.full_like(self.seen, _START_VARIANCE))
        mean = _centred(start.mean)
        expected = self.expectations(mean, start.variance)
        solvers = self._solvers(expected.precision)
        mean = mean + self._mean_step(mean, expected, [solver.factor() for solver in solvers])
        state = self._state(mean, self._covariances(expected.precision, solvers))
        if state is None:
            raise NotPositiveDefiniteError(
                "the posterior's precision has no usable factor: try a larger nugget, or a smaller variance of the "
                "kernel"
            )
        return state

    def expectations(self, mean: Columns, variance: Columns) -> _Expected:
        """Σ E log p(y|f), its gradient in the means, w = −2 ∂/∂variance, and its curvature in the means."""
        sd = np.sqrt(variance)
        found = expected_log_sum_exp(mean, sd)
        weight = self.weight[:, None]
        # the log of a sum of exponentials is convex: less than 0 is rounding
        precision = np.maximum(found.in_sd, 0.0) / sd
        p = found.in_mean
        spread = np.maximum((p * (1.0 - p)).sum(axis=1), np.finfo(float).tiny)
        strength = self.weight * np.minimum(precision.sum(axis=1) / spread, 1.0)
        values = np.einsum("ic,ic->i", self.seen, mean) - found.value
        return _Expected(float(self.weight @ values), weight * (self.seen - p), weight * precision, p, strength)

    def complete(self, state: _State) -> bool:
        return True

    def improve(self, state: _State) -> _State:
        """A better state: a step for all means and V together, else for the means and V one after the other."""
        factors = [covariance.precision_factor for covariance in state.covariances]
        step = self._mean_step(state.mean, state.expected, factors)
        w = state.site_precision
        for share in self.shares:
            mean = state.mean + share * step
            change = self.expectations(mean, state.variance).precision - w
            trial = self._state(mean, self._covariances(w + share * change))
            if trial is not None and self._no_worse(trial, state):
                return trial
        return self._improve_covariances(self._improve_mean(state, step))

    def _improve_mean(self, state: _State, step: Columns) -> _State:
        for share in self.shares:
            trial = self._state(state.mean + share * step, state.covariances)
            if trial is not None and self._no_worse(trial, state):
                return trial
        return state

    def _improve_covariances(self, state: _State) -> _State:
        w = state.site_precision
        for share in self.shares:
            trial = self._state(state.mean, self._covariances(w + share * (state.expected.precision - w)))
            if trial is not None and self._no_worse(trial, state):
                return trial
        return state

    def rounded(self, state: _State) -> bool:
        return False

    def certificate(self, state: _State) -> dict[str, float]:
        """Both residuals, the largest of all classes, relative to the largest term of their equation; and the bound."""
        gradient, w = state.expected.gradient, state.expected.precision
        pull = self.stack.matvec(state.mean)
        largest_term = max(np.abs(gradient).max(), np.abs(pull).max(), np.max(w * np.sqrt(state.variance)))
        mismatches = [covariance.mismatch(w[:, c]) for c, covariance in enumerate(state.covariances)]
        return {
            "elbo": state.elbo,
            "mean_residual": float(np.abs(gradient - pull).max() / max(largest_term, np.finfo(float).tiny)),
            "covariance_residual": max(mismatches),
        }

    def _mean_step(self, mean: Columns, expected: _Expected, factors: Sequence[PrecisionFactor | None]) -> Columns:
        """(P̃ ⊗ I + H)⁻¹ (gradient − P̃ mean) by conjugate gradients, preconditioned by the factor of each P + W_c.

        What all classes have in common moves no probability, and its best value is known: the prior mean's. Gradients
        have nothing of it, so that iterates stay where the classes sum to zero if the preconditioner does. There its
        condition doesn't depend on how much the data say.
        """
        if any(factor is None for factor in factors):
            factors = [solver.factor() for solver in self._solvers(expected.precision)]
        shifts = self._shifts(expected.precision)

        def apply(u: NDArray[np.float64]) -> NDArray[np.float64]:
            columns = u.reshape(mean.shape)
            return _centred(self.stack.matvec(columns) + expected.bend(columns)).ravel()

        def precondition(r: NDArray[np.float64]) -> NDArray[np.float64]:
            rows = np.ascontiguousarray(r.reshape(mean.shape).T)
            solved = [factor.solve(row) for factor, row in zip(factors, rows) if factor is not None]
            z = np.column_stack(solved)
            for c, shift in enumerate(shifts):
                z[:, c] += shift(rows[c])
            return _centred(z).ravel()

        slope = expected.gradient - self.stack.matvec(mean)
        tolerance = self.families[0].solve_tolerance
        found = conjugate_gradients(apply, _centred(slope).ravel(), precondition, tolerance, _MOST_SOLVES)
        self.log.iterations.append(found.iterations)
        self.log.residuals.append(found.residual)
        return _centred(found.x.reshape(mean.shape))

    def _shifts(self, w: Columns) -> list[Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
        """For each class the solution in the space of H: a shift along it meets no resistance of P̃, which the factor of
        P doesn't know."""
        H = self.stack.linear.basis
        if not H.shape[1]:
            return []
        stiffness = H.T @ self.stack.matvec(H)
        systems = [stiffness + H.T @ (column[:, None] * H) for column in w.T]
        ridge = np.eye(H.shape[1])
        inverses = [np.linalg.inv(A + (1e-12 * np.trace(A) + np.finfo(float).tiny) * ridge) for A in systems]
        return [lambda r, inverse=inverse: H @ (inverse @ (H.T @ r)) for inverse in inverses]  # type: ignore[misc]

    def _solvers(self, w: Columns) -> list[ProcessPrecision]:
        return [ProcessPrecision(self.prior, column, self.log) for column in np.ascontiguousarray(w.T)]

    def _covariances(self, w: Columns, solvers: Sequence[ProcessPrecision] = ()) -> list[Covariance] | None:
        """The best V_c for each column of w; None where one couldn't be had. `solvers` are for w, if there are any."""
        if not solvers:
            solvers = self._solvers(w)
        found = [one.covariance(solver.site_precision, solver) for one, solver in zip(self.families, solvers)]
        there = [covariance for covariance in found if covariance is not None]
        return there if len(there) == len(found) else None

    def _state(self, mean: Columns, covariances: list[Covariance] | None) -> _State | None:
        if covariances is None:
            return None
        expected = self.expectations(mean, np.column_stack([covariance.variance for covariance in covariances]))
        elbo = expected.value
        for column, covariance in zip(np.ascontiguousarray(mean.T), covariances):
            # V is the best one for its w, so tr(P V) = N − Σ w_i v_i
            rest = covariance.site_precision @ covariance.variance - self.stack.quadratic(column)
            elbo += 0.5 * float(rest - self.prior.logdet + covariance.log_determinant)
        return _State(mean, covariances, expected, elbo)

    def _no_worse(self, trial: _State, state: _State) -> bool:
        loss = _ROUNDING * max(1.0, abs(state.elbo))
        if trial.covariances is not state.covariances:
            pairs = zip(self.families, state.covariances, trial.covariances)
            loss += sum(one.noise(before, after) for one, before, after in pairs)
        return trial.elbo >= state.elbo - loss


def _centred(columns: Columns) -> Columns:
    return columns - columns.mean(axis=1, keepdims=True)
