"""Linear coefficients: Hβ with β ~ N(0, Λ⁻¹), and their posterior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.linalg import DenseFactor, dense_factor
from npvi.priors import Conditional

__all__ = ["CoefficientSpread", "Coefficients", "Trend", "inverse_root"]

Vector = NDArray[np.float64]


class Coefficients:
    """Hβ, β ~ N(0, Λ⁻¹): no columns, a constant, covariates.

    Parameters
    ----------
    basis : H, shape (rows, p); p may be 0.
    precision : diagonal of Λ, the prior precision of β, shape (p,); zero is a flat prior.

    Examples
    --------
    >>> linear = Coefficients(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([0.0, 4.0]))
    >>> linear.times(np.array([1.0, 1.0])), linear.quadratic(np.array([5.0, 1.0]))
    (array([3., 4.]), 4.0)
    >>> linear.row_variance(100.0)
    array([101.  , 102.25])
    """

    few: ClassVar[bool] = True

    def __init__(self, basis: NDArray[np.float64], precision: Vector | None = None) -> None:
        self.basis = basis
        self.precision = np.zeros(basis.shape[1]) if precision is None else precision

    @property
    def size(self) -> int:
        """Columns of H."""
        return int(self.basis.shape[1])

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Hβ, for one vector (p,) or many (p, R)."""
        return self.basis @ z

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Hᵀ x."""
        return self.basis.T @ x

    def of_rows(self, rows: NDArray[np.intp]) -> Coefficients:
        """The same coefficients, for some of the rows."""
        return Coefficients(self.basis[rows], self.precision)

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Λ β."""
        return (self.precision * z.T).T

    def quadratic(self, z: Vector) -> float:
        """βᵀ Λ β."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a step that goes too far, which no bound accepts
            return float(z**2 @ self.precision)

    @cached_property
    def logdet(self) -> float:
        """log |Λ⁻¹|, less 2π for each flat direction, which has a density of 1 all over."""
        flat = self.precision == 0.0
        return -float(np.log(self.precision[~flat]).sum() + np.log(2.0 * np.pi) * flat.sum())

    def variance(self, widest: float) -> Vector:
        """Prior variances of β, shape (p,), no more than `widest`."""
        return np.minimum(1.0 / np.maximum(self.precision, 1.0 / widest), widest)

    def precision_noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Random vectors with covariance Λ, shape (p, n)."""
        return np.sqrt(self.precision)[:, None] * rng.standard_normal((self.size, n))

    def factor(self, site_precision: Vector) -> DenseFactor | None:
        """Of Λ + HᵀWH; None where w < 0 leaves none, or nothing is known of a coefficient."""
        return dense_factor(self.basis.T @ (site_precision[:, None] * self.basis), self.precision)

    def within_rows(self, factor: DenseFactor) -> Vector:
        """The diagonal of H (Λ + HᵀWH)⁻¹ Hᵀ, shape (rows,)."""
        return np.sum((self.basis @ factor.inverse_root) ** 2, axis=1)

    def matrix(self) -> scipy.sparse.csr_array:
        """H, a sparse matrix."""
        return scipy.sparse.csr_array(self.basis)

    def precision_matrix(self) -> NDArray[np.float64]:
        """Λ."""
        return np.diag(self.precision)

    def precision_root(self) -> NDArray[np.float64]:
        """T with Λ = TᵀT."""
        return np.diag(np.sqrt(self.precision))

    def row_variance(self, widest: float) -> Vector:
        """Prior variances of Hβ, shape (rows,); those of β are no more than `widest`."""
        return self.basis**2 @ self.variance(widest)


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
        with np.errstate(invalid="ignore", over="ignore"):
            change = self.along.T @ (off[:, None] * self.along)
        return float(np.linalg.norm(change, 2)) if np.isfinite(change).all() else np.inf


def inverse_root(precision: NDArray[np.float64], scale: Vector) -> tuple[float, NDArray[np.float64]] | None:
    """log |S| and C with C Cᵀ = S, the inverse of a precision, or None where that isn't positive definite.

    Without information in the data (W → 0) and with a flat prior nothing is known of β: a part in 10¹² of what f itself
    would tell keeps it finite.
    """
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    if not values.min() > -1e-6:
        return None
    values = np.maximum(values, 1e-12)
    return -float(np.log(values * scale**2).sum()), vectors / scale[:, None] / np.sqrt(values)
