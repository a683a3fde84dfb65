"""The prior's mean m = H β, with β at its best value for any f: no columns, a constant, covariates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.priors import Conditional, Prior

if TYPE_CHECKING:
    from npvi.inference.mean_solve import PrecisionSolver

__all__ = ["MeanFunction", "Trend"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Trend:
    """The posterior of β, and how f follows it.

    Attributes
    ----------
    coefficients : β, shape (p,)
    covariance : of β, shape (p, p)
    sensitivity : ∂E[f − Hβ]/∂β at the training points, shape (N, p): what the process makes up for when β moves.
    """

    coefficients: Vector
    covariance: NDArray[np.float64]
    sensitivity: NDArray[np.float64]

    def projected_variance(self, basis: NDArray[np.float64], given: Conditional) -> NDArray[np.float64]:
        """What not knowing β adds to the variance of f at new points, `given` f at the others; `basis` is their H."""
        if not basis.shape[1]:
            return np.zeros(len(basis))
        along = basis + given.mean(self.sensitivity)
        return np.einsum("ip,pq,iq->i", along, self.covariance, along)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Deviations of β from its mean, shape (p, n)."""
        values, vectors = np.linalg.eigh(self.covariance)
        return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * rng.standard_normal((len(values), n)))


class MeanFunction:
    """f ~ N(Hβ, P⁻¹) with β profiled out: β(f) = (HᵀPH + Λ)⁻¹ HᵀPf.

    What is left of the prior is the quadratic form of P̃ = P − PH (HᵀPH + Λ)⁻¹ HᵀP, so the bound stays a function of q
    alone and every step that raises it raises it for the best β.

    Parameters
    ----------
    prior : the prior of f − Hβ.
    basis : H, shape (N, p); p may be 0.
    precision : diagonal of Λ, the prior precision of β, shape (p,); zero is a flat prior.
    """

    def __init__(self, prior: Prior, basis: NDArray[np.float64], precision: Vector | None = None) -> None:
        self.prior: Any = prior  # families know what kind it is
        self.basis = basis
        self.precision = np.zeros(basis.shape[1]) if precision is None else precision
        self._PH = prior.matvec(basis) if basis.shape[1] else basis
        self._HPH = basis.T @ self._PH + np.diag(self.precision)

    def coefficients(self, f: Vector) -> Vector:
        """β(f), shape (p,)."""
        return np.asarray(np.linalg.solve(self._HPH, self._PH.T @ f), dtype=np.float64)

    def centred(self, f: Vector) -> Vector:
        """f − Hβ(f)."""
        return f - self.basis @ self.coefficients(f) if self.basis.shape[1] else f

    def penalty(self, f: Vector) -> float:
        """fᵀP̃f."""
        if not self.basis.shape[1]:
            return self.prior.quadratic(f)
        coefficients = self.coefficients(f)
        return self.prior.quadratic(f - self.basis @ coefficients) + float(coefficients**2 @ self.precision)

    def penalty_gradient(self, f: Vector) -> Vector:
        """P̃f."""
        return self.prior.matvec(self.centred(f))

    def solve(self, solver: PrecisionSolver, rhs: Vector) -> Vector:
        """x with (P̃ + W) x = rhs; `solver` is for P + W."""
        if not self.basis.shape[1]:
            return solver.solve(rhs)
        return solver.solve(rhs, less=lambda x: self._PH @ self.coefficients(x))

    def trend(self, solver: PrecisionSolver, f: Vector) -> Trend:
        """The posterior of β at the posterior mean f; `solver` is for P + W."""
        if not self.basis.shape[1]:
            return Trend(np.zeros(0), np.zeros((0, 0)), self.basis)
        Z, inner = self._through(solver)
        return Trend(self.coefficients(f), _inverse(inner, np.sqrt(np.diag(self._HPH))), Z - self.basis)

    def _through(self, solver: PrecisionSolver) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(P + W)⁻¹PH, and the precision of β given the data."""
        Z = np.column_stack([solver.solve(np.ascontiguousarray(column)) for column in self._PH.T])
        # without information in the data (W → 0) the inner matrix vanishes; the ridge keeps the step finite
        return Z, self._HPH - self._PH.T @ Z + 1e-14 * np.diag(np.diag(self._HPH))


def _inverse(precision: NDArray[np.float64], scale: Vector) -> NDArray[np.float64]:
    """The covariance of β. Where the data say nothing at all (no counts: log 0 is infinitely far) β counts as known."""
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    root = vectors / scale[:, None]
    return (root * np.where(values > 1e-12, 1.0 / np.maximum(values, 1e-12), 0.0)) @ root.T
