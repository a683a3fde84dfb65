"""How good a q is, whatever way it was found: its bound, the residuals of the optimum's equations, what it lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data
from npvi.inference.fit import Family
from npvi.inference.mean_function import MeanFunction
from npvi.inference.mean_solve import PrecisionSolver
from npvi.likelihoods import Expectations
from npvi.priors import NNGP, Prior
from npvi.priors.low_rank import LowRank
from npvi.sparse import Triangular

__all__ = ["Certificate", "bound", "certify"]

Vector = NDArray[np.float64]

#: site precisions beyond this are those of a training that went astray
_LARGEST = 1e12


class Certificate(NamedTuple):
    """What is known of one q."""

    elbo: float
    mean_residual: float
    """Of the equation for μ, relative to its largest term."""
    covariance_residual: float
    """Of the equation for L, relative to its largest term."""
    gain: float
    """What a Newton step for μ and the best L for the present site precisions promise to add to the bound: right to
    second order near the optimum, and large far from it."""
    site_precision: Vector
    solver: PrecisionSolver
    """For P + W."""


def bound(prior: Prior, data: Data, mean_function: MeanFunction, mean: Vector, factor: Triangular) -> float:
    """The bound of N(mean, L Lᵀ), every term exact."""
    expected = data.expectations(mean, factor.row_norms_squared())
    return _bound(prior, mean_function, mean, factor, expected, _trace(prior, factor))


def certify(
    family: Family, prior: Prior, data: Data, mean_function: MeanFunction, mean: Vector, factor: Triangular
) -> Certificate:
    """The bound of N(mean, L Lᵀ) and how far it is from the optimum."""
    variance = factor.row_norms_squared()
    expected = data.expectations(mean, variance)
    w, trace = expected.precision, _trace(prior, factor)
    pull = mean_function.penalty_gradient(mean)
    slope = expected.gradient - pull
    solver = PrecisionSolver(prior, np.clip(w, 0.0, _LARGEST))
    largest = max(np.abs(expected.gradient).max(), np.abs(pull).max(), np.max(np.abs(w) * np.sqrt(variance)))
    # the largest term of the equation for L is the inverse of its smallest diagonal entry, as in a closed-form fit
    left_over, _ = prior.lower_half.stationarity(factor, w)
    return Certificate(
        _bound(prior, mean_function, mean, factor, expected, trace),
        float(np.abs(slope).max() / max(largest, np.finfo(float).tiny)),
        float(left_over * factor.diagonal.min()),
        0.5 * float(slope @ mean_function.solve(solver, slope)) + _gain(family, solver, factor, variance, trace),
        w,
        solver,
    )


def _gain(family: Family, solver: PrecisionSolver, factor: Triangular, variance: Vector, trace: float) -> float:
    """By how much −½ tr((P+W) L Lᵀ) + log|L| falls short of its largest value."""
    best = family.covariance(solver.site_precision, solver)
    at_best = 0.5 * (best.log_determinant - len(variance))
    return float(at_best + 0.5 * (trace + solver.site_precision @ variance) - np.log(factor.diagonal).sum())


def _bound(
    prior: Prior, mean_function: MeanFunction, mean: Vector, factor: Triangular, expected: Expectations, trace: float
) -> float:
    rest = len(mean) - trace - mean_function.penalty(mean) - prior.logdet
    return float(expected.value.sum() + 0.5 * rest + np.log(factor.diagonal).sum())


def _trace(prior: Prior, factor: Triangular) -> float:
    """tr(P L Lᵀ)."""
    L = factor.to_scipy()
    if isinstance(prior, LowRank):
        return float(factor.row_norms_squared() @ (1.0 / prior.own_variance) - np.sum((L.T @ prior.loadings) ** 2))
    assert isinstance(prior, NNGP)
    return float((prior.root.to_scipy() @ L).power(2).sum())
