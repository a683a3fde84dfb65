"""The prior's mean m = H β, with β at its best value for any f: zero columns (zero mean) or one (a constant)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npvi.priors import NNGP

if TYPE_CHECKING:
    from npvi.inference.mean_solve import PrecisionSolver

__all__ = ["MeanFunction"]

Vector = NDArray[np.float64]


class MeanFunction:
    """f ~ N(Hβ, P⁻¹) with β profiled out: β(f) = (HᵀPH)⁻¹ HᵀPf.

    What is left of the prior is the quadratic form of P̃ = P − PH (HᵀPH)⁻¹ HᵀP, so the bound stays a function of q alone
    and every step that raises it raises it for the best β.

    Parameters
    ----------
    prior : the prior of f − Hβ.
    basis : H, shape (N, p); p may be 0.
    """

    def __init__(self, prior: NNGP, basis: NDArray[np.float64]) -> None:
        self.prior, self.basis = prior, basis
        self._PH = prior.matvec(basis) if basis.shape[1] else basis
        self._HPH = basis.T @ self._PH

    def coefficients(self, f: Vector) -> Vector:
        """β(f), shape (p,)."""
        return np.asarray(np.linalg.solve(self._HPH, self._PH.T @ f), dtype=np.float64)

    def centred(self, f: Vector) -> Vector:
        """f − Hβ(f)."""
        return f - self.basis @ self.coefficients(f) if self.basis.shape[1] else f

    def penalty(self, f: Vector) -> float:
        """fᵀP̃f."""
        return self.prior.quadratic(self.centred(f))

    def penalty_gradient(self, f: Vector) -> Vector:
        """P̃f."""
        return self.prior.matvec(self.centred(f))

    def solve(self, solver: PrecisionSolver, rhs: Vector) -> Vector:
        """x with (P̃ + W) x = rhs, by one solve with P + W and one more per column of H (Woodbury)."""
        x = solver.solve(rhs)
        if self.basis.shape[1]:
            Z = np.column_stack([solver.solve(np.ascontiguousarray(column)) for column in self._PH.T])
            # without information in the data (W → 0) the inner matrix vanishes; the ridge keeps the step finite
            inner = self._HPH - self._PH.T @ Z + 1e-14 * np.diag(np.diag(self._HPH))
            x = x + Z @ np.linalg.solve(inner, self._PH.T @ x)
        return x
