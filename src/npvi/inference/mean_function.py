"""The prior's mean m = H β, a part of the latent Gaussian: no columns, a constant, covariates.

The joint prior is f | β ~ N(Hβ, P⁻¹), β ~ N(0, Λ⁻¹), so f ~ N(0, P̃⁻¹) with P̃ = P − PH (HᵀPH + Λ)⁻¹ HᵀP. Under
q(β) = N(b, S), q(f | β) = N(μ + Z (β − b), V) the best Z and S for site precisions w are

    Z = H − Y,  Y = (P + W)⁻¹ W H,    S⁻¹ = Λ + YᵀPY + ZᵀWZ,

and for V = (P + W)⁻¹ that makes (P̃ + W)⁻¹ = V + Z S Zᵀ the covariance of f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.priors import Conditional, Prior

if TYPE_CHECKING:
    from npvi.inference.solver import PrecisionSolver

__all__ = ["CoefficientSpread", "MeanFunction", "Trend"]

Vector = NDArray[np.float64]

#: variance of a coefficient with a flat prior, relative to that of the process, where it must be a number
_WIDE = 1e4


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

    def own_variance(self, basis: NDArray[np.float64]) -> NDArray[np.float64]:
        """What not knowing β adds to the variance of f at the training points, whose H is `basis`: (Z S Zᵀ)_ii."""
        along = basis + self.sensitivity
        return np.einsum("ip,pq,iq->i", along, self.covariance, along)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Deviations of β from its mean, shape (p, n)."""
        values, vectors = np.linalg.eigh(self.covariance)
        return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * rng.standard_normal((len(values), n)))


@dataclass(frozen=True)
class CoefficientSpread:
    """q(β) for some site precisions w, but for its mean.

    Attributes
    ----------
    along : Z C with S = C Cᵀ, shape (N, p): how f moves with β.
    covariance : S, shape (p, p).
    sensitivity : −Y, shape (N, p): what the process makes up for when β moves.
    left : Y C, shape (N, p): f − Hβ moves by it.
    log_determinant : log |S| + log |Λ|, with 2π for the flat directions of Λ.
    """

    along: NDArray[np.float64]
    covariance: NDArray[np.float64]
    sensitivity: NDArray[np.float64]
    left: NDArray[np.float64]
    log_determinant: float

    @cached_property
    def variance(self) -> Vector:
        """(Z S Zᵀ)_ii, shape (N,)."""
        return np.einsum("ip,ip->i", self.along, self.along)

    def mismatch(self, off: Vector) -> float:
        """How far S is off, relatively, where the site precisions are off by so much."""
        return float(np.linalg.norm(self.along.T @ (off[:, None] * self.along), 2))


class MeanFunction:
    """f ~ N(Hβ, P⁻¹), β ~ N(0, Λ⁻¹).

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

    @property
    def known(self) -> bool:
        """Whether there is nothing to know: no columns."""
        return not self.basis.shape[1]

    @cached_property
    def marginal_precision(self) -> Vector:
        """1 / Var f_i under the prior, shape (N,), a flat prior of β counts as one much wider than the process."""
        variance = self.prior.marginal_variance
        return 1.0 / (variance + self.basis**2 @ self.coefficient_variance)

    @property
    def coefficient_variance(self) -> Vector:
        """Prior variances of β, shape (p,); a flat prior counts as one much wider than the process."""
        widest = _WIDE * float(np.max(self.prior.marginal_variance))
        return np.minimum(1.0 / np.maximum(self.precision, 1.0 / widest), widest)

    def coefficients(self, f: Vector) -> Vector:
        """E[β | f] = (HᵀPH + Λ)⁻¹ HᵀPf, shape (p,)."""
        return np.asarray(np.linalg.solve(self._HPH, self._PH.T @ f), dtype=np.float64)

    def centred(self, f: Vector) -> Vector:
        """f − H E[β | f]."""
        return f if self.known else f - self.basis @ self.coefficients(f)

    def penalty(self, f: Vector) -> float:
        """fᵀP̃f."""
        if self.known:
            return self.prior.quadratic(f)
        coefficients = self.coefficients(f)
        return self.prior.quadratic(f - self.basis @ coefficients) + float(coefficients**2 @ self.precision)

    def penalty_gradient(self, f: Vector) -> Vector:
        """P̃f."""
        return self.prior.matvec(self.centred(f))

    def solve(self, solver: PrecisionSolver, rhs: Vector, less: Callable[[Vector], Vector] | None = None) -> Vector:
        """x with (P̃ + W) x = rhs, or less a matrix that `less` is a product with; `solver` is for P + W."""
        if self.known:
            return solver.solve(rhs, less=less)
        if less is None:
            return solver.solve(rhs, less=lambda x: self._PH @ self.coefficients(x))
        return solver.solve(rhs, less=lambda x: self._PH @ self.coefficients(x) + less(x))

    def spread(self, solver: PrecisionSolver) -> CoefficientSpread | None:
        """Of q(β), for the site precisions of `solver`, which is for P + W; None where w < 0 leaves none.

        What is returned is the best S for its Z: an error of the solve enters the bound squared.
        """
        H, w = self.basis, solver.site_precision
        columns = np.ascontiguousarray((w[:, None] * H).T)
        Y = np.column_stack([solver.solve(column) for column in columns])
        Z = H - Y
        information = Y.T @ self.prior.matvec(Y) + Z.T @ (w[:, None] * Z) + np.diag(self.precision)
        found = _inverse_root(information, np.sqrt(np.diag(self._HPH)))
        if found is None:
            return None
        log_determinant, root = found
        flat = self.precision == 0.0  # a density of 1 all over
        log_determinant += float(np.log(self.precision[~flat]).sum() + np.log(2.0 * np.pi) * flat.sum())
        return CoefficientSpread(Z @ root, root @ root.T, -Y, Y @ root, log_determinant)

    def trend(self, solver: PrecisionSolver, f: Vector) -> Trend:
        """The posterior of β at the posterior mean f; `solver` is for P + W."""
        if self.known:
            return Trend(np.zeros(0), np.zeros((0, 0)), self.basis)
        found = self.spread(solver)
        assert found is not None  # a posterior has been found for these site precisions
        return Trend(self.coefficients(f), found.covariance, found.sensitivity)


def _inverse_root(precision: NDArray[np.float64], scale: Vector) -> tuple[float, NDArray[np.float64]] | None:
    """log |S| and C with C Cᵀ = S, the inverse of a precision, or None where that isn't positive definite.

    Without information in the data (W → 0) and with a flat prior nothing is known of β: a part in 10¹² of what f itself
    would tell keeps it finite.
    """
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    if not values.min() > -1e-6:
        return None
    values = np.maximum(values, 1e-12)
    return -float(np.log(values * scale**2).sum()), vectors / scale[:, None] / np.sqrt(values)
