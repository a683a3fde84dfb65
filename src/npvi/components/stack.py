"""A process and linear coefficients as one operator: f = z + Hβ, z ~ N(0, P⁻¹), β ~ N(0, Λ⁻¹).

With f observed, β can be integrated out: f ~ N(0, P̃⁻¹) with P̃ = P − PH (HᵀPH + Λ)⁻¹ HᵀP. Under q(β) = N(b, S),
q(f | β) = N(μ + Z (β − b), V) the best Z and S for site precisions w are

    Z = H − Y,  Y = (P + W)⁻¹ W H,    S⁻¹ = Λ + YᵀPY + ZᵀWZ,

and for V = (P + W)⁻¹ that makes (P̃ + W)⁻¹ = V + Z S Zᵀ the covariance of f.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components.linear import Coefficients, CoefficientSpread, Trend, inverse_root
from npvi.components.process import Process, ProcessPrecision, SolverLog
from npvi.priors import PrecisionFactor

__all__ = ["Stack"]

Vector = NDArray[np.float64]

#: variance of a coefficient with a flat prior, relative to that of the process, where it must be a number
_WIDE = 1e4


class Stack:
    """The sum of a process, with a row of the data at each of its positions, and linear coefficients.

    Parameters
    ----------
    process, linear : z and Hβ; H may have no columns, as by default.
    """

    def __init__(self, process: Process, linear: Coefficients | None = None) -> None:
        linear = Coefficients(np.zeros((process.size, 0))) if linear is None else linear
        self.process, self.linear = process, linear
        self.prior: Any = process.prior  # families know what kind it is
        basis = linear.basis
        self._PH = process.matvec(basis) if linear.size else basis
        self._HPH = basis.T @ self._PH + np.diag(linear.precision)

    def seen(self, f: Vector) -> Vector:
        """What rows of the data see of f: each its own."""
        return f

    times = transpose_times = seen

    @property
    def logdet(self) -> float:
        """log |P⁻¹|; what coefficients add to the bound is theirs (`spread`)."""
        return self.process.logdet

    @property
    def known(self) -> bool:
        """Whether there are no coefficients to know."""
        return not self.linear.size

    @cached_property
    def marginal_precision(self) -> Vector:
        """1 / Var f_i under the prior, shape (N,), a flat prior of β counts as one much wider than the process."""
        return 1.0 / (self.process.row_variance() + self.linear.row_variance(self._widest))

    @property
    def coefficient_variance(self) -> Vector:
        """Prior variances of β, shape (p,); a flat prior counts as one much wider than the process."""
        return self.linear.variance(self._widest)

    @property
    def _widest(self) -> float:
        return _WIDE * float(np.max(self.prior.marginal_variance))

    def coefficients(self, f: Vector) -> Vector:
        """E[β | f] = (HᵀPH + Λ)⁻¹ HᵀPf, shape (p,)."""
        return np.asarray(np.linalg.solve(self._HPH, self._PH.T @ f), dtype=np.float64)

    def centred(self, f: Vector) -> Vector:
        """f − H E[β | f]."""
        return f if self.known else f - self.linear.times(self.coefficients(f))

    def quadratic(self, f: Vector) -> float:
        """fᵀP̃f."""
        if self.known:
            return self.process.quadratic(f)
        coefficients = self.coefficients(f)
        return self.process.quadratic(f - self.linear.times(coefficients)) + self.linear.quadratic(coefficients)

    def matvec(self, f: Vector) -> Vector:
        """P̃f."""
        return self.process.matvec(self.centred(f))

    def solve(self, solver: ProcessPrecision, rhs: Vector, less: Callable[[Vector], Vector] | None = None) -> Vector:
        """x with (P̃ + W) x = rhs, or less a matrix that `less` is a product with; `solver` is for P + W."""
        if self.known:
            return solver.solve(rhs, less=less)
        if less is None:
            return solver.solve(rhs, less=lambda x: self._PH @ self.coefficients(x))
        return solver.solve(rhs, less=lambda x: self._PH @ self.coefficients(x) + less(x))

    def precision(
        self,
        site_precision: Vector,
        log: SolverLog,
        tolerance: float,
        nearby: PrecisionFactor | None = None,
        own: tuple[str, Any] | None = None,
    ) -> ProcessPrecision:
        """P + W, as `ProcessPrecision` has it."""
        return ProcessPrecision(self.prior, site_precision, log, tolerance, nearby, own)

    def first_step(self, solver: ProcessPrecision, f: Vector, gradient: Vector) -> tuple[Vector, Vector]:
        """Where to begin, and a step from there, for a gradient in f at some f; `solver` is for P + W."""
        return f, self.solve(solver, gradient - self.matvec(f))

    def spread(self, solver: ProcessPrecision) -> CoefficientSpread | None:
        """Of q(β), for the site precisions of `solver`, which is for P + W; None where w < 0 leaves none.

        What is returned is the best S for its Z: an error of the solve enters the bound squared.
        """
        H, w = self.linear.basis, solver.site_precision
        columns = np.ascontiguousarray((w[:, None] * H).T)
        Y = np.column_stack([solver.solve(column) for column in columns])
        Z = H - Y
        information = Y.T @ self.process.matvec(Y) + Z.T @ (w[:, None] * Z) + np.diag(self.linear.precision)
        found = inverse_root(information, np.sqrt(np.diag(self._HPH)))
        if found is None:
            return None
        log_determinant, root = found
        return CoefficientSpread(Z @ root, root @ root.T, -Y, Y @ root, log_determinant - self.linear.logdet)

    def trend(self, solver: ProcessPrecision, f: Vector) -> Trend:
        """The posterior of β at the posterior mean f; `solver` is for P + W."""
        if self.known:
            return Trend(np.zeros(0), np.zeros((0, 0)), self.linear.basis)
        found = self.spread(solver)
        assert found is not None  # a posterior has been found for these site precisions
        return Trend(self.coefficients(f), found.covariance, found.sensitivity)
