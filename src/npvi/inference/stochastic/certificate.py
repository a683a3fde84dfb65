"""How good a q is, whatever way it was found: its bound, the residuals of the optimum's equations, what it lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision, Stack
from npvi.inference.data import Data
from npvi.inference.fit import Family
from npvi.likelihoods import Expectations
from npvi.linalg import Triangular
from npvi.priors import NNGP, LowRank, Prior

__all__ = ["Certificate", "bound_of", "certify"]

Vector = NDArray[np.float64]

#: site precisions beyond this are those of a training that went astray
_LARGEST = 1e12
#: times that the spread of the mean's coefficients is found at the sites that go with it
_ROUNDS = 4


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
    solver: ProcessPrecision
    """For P + W."""


def bound_of(prior: Prior, data: Data, stack: Stack, mean: Vector, factor: Triangular) -> float:
    """The bound of N(mean, L Lᵀ) given the mean's coefficients, with the best covariance of these."""
    found = _told(prior, data, stack, mean, factor)
    return _bound(prior, stack, mean, factor, found, _trace(prior, factor))


def certify(family: Family, prior: Prior, data: Data, stack: Stack, mean: Vector, factor: Triangular) -> Certificate:
    """The bound of N(mean, L Lᵀ) given the mean's coefficients, and how far it is from the optimum."""
    found, trace = _told(prior, data, stack, mean, factor), _trace(prior, factor)
    expected, variance, w = found.expected, found.variance, found.expected.precision
    pull = stack.matvec(mean)
    slope = expected.gradient - pull
    solver = ProcessPrecision(prior, np.clip(w, 0.0, _LARGEST))
    largest = max(np.abs(expected.gradient).max(), np.abs(pull).max(), np.max(np.abs(w) * np.sqrt(variance)))
    # the largest term of the equation for L is the inverse of its smallest diagonal entry, as in a closed-form fit
    left_over, _ = prior.lower_half.stationarity(factor, w)
    own = factor.row_norms_squared()
    return Certificate(
        _bound(prior, stack, mean, factor, found, trace),
        float(np.abs(slope).max() / max(largest, np.finfo(float).tiny)),
        float(left_over * factor.diagonal.min()),
        0.5 * float(slope @ stack.solve(solver, slope)) + _gain(family, solver, factor, own, trace),
        w,
        solver,
    )


class _Told(NamedTuple):
    """What the data say at some mean and variance, and what the spread of the mean's coefficients adds to the bound."""

    expected: Expectations
    variance: Vector
    of_coefficients: float


def _told(prior: Prior, data: Data, stack: Stack, mean: Vector, factor: Triangular) -> _Told:
    own = factor.row_norms_squared()
    expected, variance, added = data.expectations(mean, own), own, 0.0
    for _ in range(0 if stack.known else _ROUNDS):  # of sites and spread, until they go with each other
        w = np.clip(expected.precision, 0.0, _LARGEST)
        spread = stack.spread(ProcessPrecision(prior, w))
        assert spread is not None  # P + W is positive definite for w ≥ 0
        variance, added = own + spread.variance, 0.5 * (float(w @ spread.variance) + spread.log_determinant)
        expected = data.expectations(mean, variance)
    return _Told(expected, variance, added)


def _gain(family: Family, solver: ProcessPrecision, factor: Triangular, variance: Vector, trace: float) -> float:
    """By how much −½ tr((P+W) L Lᵀ) + log|L| falls short of its largest value."""
    best = family.covariance(solver.site_precision, solver)
    assert best is not None  # P + W is positive definite for w ≥ 0
    at_best = 0.5 * (best.log_determinant - len(variance))
    return float(at_best + 0.5 * (trace + solver.site_precision @ variance) - np.log(factor.diagonal).sum())


def _bound(prior: Prior, stack: Stack, mean: Vector, factor: Triangular, found: _Told, trace: float) -> float:
    rest = len(mean) - trace - stack.quadratic(mean) - prior.logdet
    return float(found.expected.value.sum() + 0.5 * rest + np.log(factor.diagonal).sum() + found.of_coefficients)


def _trace(prior: Prior, factor: Triangular) -> float:
    """tr(P L Lᵀ)."""
    L = factor.to_scipy()
    if isinstance(prior, LowRank):
        return float(factor.row_norms_squared() @ (1.0 / prior.own_variance) - np.sum((L.T @ prior.loadings) ** 2))
    assert isinstance(prior, NNGP)
    return float((prior.root.to_scipy() @ L).power(2).sum())
