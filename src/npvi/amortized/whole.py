"""All points together, by conjugate gradients and sweeps: exact, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision, SolverLog, Stack
from npvi.inference import Data, SparseFactors

__all__ = ["Whole"]

Vector = NDArray[np.float64]

#: to which the systems of a round are solved; sites are no better known than that
_TOLERANCE = 1e-4


class Whole:
    """A `View` of all points.

    Parameters
    ----------
    data, stack : in the graph's order; the latter knows the prior.
    """

    xp = np

    def __init__(self, data: Data, stack: Stack, log: SolverLog | None = None) -> None:
        prior: Any = stack.prior
        self.data, self.stack, self.prior = data, stack, prior
        self.log = log if log is not None else SolverLog()
        self.start = data.likelihood.initial_latent(data.y, **data.row)
        self.precision_diagonal: Vector = prior.precision_diagonal
        self.conditional_variance: Vector = prior.conditional_variance
        self.marginal_variance: Vector = prior.marginal_variance

    def pull(self, mean: Vector) -> Vector:
        return self.stack.matvec(mean)

    def solve(self, precision: Vector, slope: Vector) -> Vector:
        solver = ProcessPrecision(self.prior, precision, self.log, _TOLERANCE)
        return self.stack.solve(solver, slope)

    def variance(self, precision: Vector) -> Vector:
        covariance = SparseFactors(self.prior).covariance(precision)
        assert covariance is not None  # P + W is positive definite for w ≥ 0
        return covariance.variance

    def expectations(self, mean: Vector, variance: Vector) -> tuple[Vector, Vector]:
        expected = self.data.expectations(mean, variance)
        return expected.gradient, expected.precision

    def curvatures(self, mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        at = self.data.curvatures(mean, sd)
        return at.in_mean, at.in_sd, at.in_mean_mean, at.in_mean_sd, at.in_sd_sd
