"""Newton steps for the spread of the mean's coefficients, together with those for the means and variances of rows.

All rows that a coefficient speaks for answer for each other: zeros that a covariate tells from the rest have
w = exp(m + v/2) with nearly all of v the coefficient's. So v_i = g_i² + r_i S r_iᵀ with r_i the directions of β that
matter so much, and S = (I + Θ)² is climbed along with the rest, by the bound's own terms in it:

    Σ_i E log p(y_i|f_i) + ½ log |S| − ½ tr(A S),   A = I − Σ_i w_i r_iᵀ r_i at S = I.

As the bound is concave in (m, s) and roots of covariances where log p is concave, it is in (m, g, Θ).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data
from npvi.likelihoods import Curvatures

__all__ = ["Coupling", "SharedSpread"]

Vector = NDArray[np.float64]

#: how strongly the data must answer a change of the spread, relative to its own terms, for it to be climbed jointly
_STRONG = 0.2
#: directions at most: pairs of them are unknowns
_MOST = 3
#: how far log S may move in half a step, steps at most, and which shares of one are tried
_LONGEST, _STEPS = 1.0, 20
_SHARES = (1.0, 0.5, 0.2, 0.05, 0.01)
#: derivatives beyond which they say no more than that S is too wide
_FAR = 1e10
#: relative rounding error of the bound
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Coupling:
    """What eliminating Θ leaves to the means: less K M⁻¹ Kᵀ in the matrix of the system, less K M⁻¹ Γ in its slope."""

    columns: NDArray[np.float64]
    """K, shape (N, unknowns)."""
    bend: NDArray[np.float64]
    """M, shape (unknowns, unknowns)."""
    slope: Vector
    """Γ, shape (unknowns,)."""

    def product(self, x: Vector) -> Vector:
        """K M⁻¹ Kᵀ x."""
        return np.asarray(self.columns @ np.linalg.solve(self.bend, self.columns.T @ x))

    @property
    def taken(self) -> Vector:
        """K M⁻¹ Γ."""
        return np.asarray(self.columns @ np.linalg.solve(self.bend, self.slope))


@dataclass(frozen=True)
class SharedSpread:
    """S = I in the units of `rows`.

    Attributes
    ----------
    rows : r, shape (N, d); d may be 0.
    precision : A, shape (d, d): what but the data holds S.
    log_determinant : log |S| in the units that it was first in.
    """

    rows: NDArray[np.float64]
    precision: NDArray[np.float64]
    log_determinant: float = 0.0

    @classmethod
    def strongest(cls, along: NDArray[np.float64], w: Vector, at: Curvatures, sd: Vector) -> SharedSpread:
        """The directions among those of `along` (Z C with C Cᵀ the spread for site precisions w) in which the data
        answer strongly, or the spread is far off; `at` are the curvatures at standard deviations `sd`."""
        bend = np.minimum(at.in_sd_sd, 0.0) - np.minimum(at.in_sd, 0.0) / sd
        size = np.abs(bend) * np.einsum("ij,ij->i", along, along) / sd**2 + np.abs(at.in_sd / sd + w)
        strength = along.T @ (size[:, None] * along)
        if not np.isfinite(strength).all():  # far off, for now
            strength = np.zeros_like(strength)
        values, vectors = np.linalg.eigh(strength)
        chosen = vectors[:, values > _STRONG][:, -_MOST:]
        rows = along @ chosen
        return cls(rows, np.eye(chosen.shape[1]) - rows.T @ (w[:, None] * rows))

    def __len__(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def variance(self) -> Vector:
        """r S rᵀ of each row, shape (N,)."""
        return np.einsum("ij,ij->i", self.rows, self.rows)

    @cached_property
    def units(self) -> NDArray[np.float64]:
        """Symmetric matrices of length 1, shape (unknowns, d, d): the unknowns of Θ."""
        d, units = len(self), []
        for k in range(d):
            for j in range(k + 1):
                unit = np.zeros((d, d))
                unit[k, j] = unit[j, k] = 1.0 if j == k else np.sqrt(0.5)
                units.append(unit)
        return np.array(units)

    def coupling(self, at: Curvatures, slope_own: Vector, bend_own: Vector, sd: Vector) -> Coupling:
        """At curvatures for standard deviations `sd` = √(g² + r S rᵀ), with g, of such slopes and bends, eliminated."""
        g = np.sqrt(np.maximum(sd**2 - self.variance, 0.0))
        in_sd = np.minimum(at.in_sd, 0.0) / sd
        bend = np.minimum(at.in_sd_sd, 0.0) - in_sd
        q = np.einsum("ij,ajk,ik->ia", self.rows, self.units, self.rows)
        p, share = q / sd[:, None], g / sd
        slope = q.T @ (at.in_sd / sd) + np.einsum("ajk,jk->a", self.units, np.eye(len(self)) - self.precision)
        slope += p.T @ (share * bend * slope_own / bend_own)
        held = self.precision - self.rows.T @ (in_sd[:, None] * self.rows)
        products = np.einsum("ajk,bkl->abjl", self.units, self.units)
        M = np.eye(len(self.units)) + np.einsum("abjl,lj->ab", products, held)
        M -= p.T @ ((bend * (1.0 + share**2 * bend / bend_own))[:, None] * p)
        K = -(at.in_mean_sd * (1.0 + share**2 * bend / bend_own))[:, None] * p
        return Coupling(K, 0.5 * (M + M.T), slope)

    def moved(self, theta: Vector) -> SharedSpread:
        """With S = exp 2Θ in the place of I, Θ by its unknowns and not too long."""
        values, vectors = np.linalg.eigh(np.einsum("a,ajk->jk", theta, self.units))
        values = np.clip(values, -_LONGEST, _LONGEST)
        root = (vectors * np.exp(values)) @ vectors.T
        log_determinant = self.log_determinant + 2.0 * float(values.sum())
        return SharedSpread(self.rows @ root, root @ self.precision @ root, log_determinant)

    def best(self, data: Data, mean: Vector, own: Vector) -> SharedSpread:
        """The best S at these means, with v = own + r S rᵀ, by Newton steps that don't lower the bound."""
        if not len(self):
            return self
        here, zero = self, np.zeros_like(own)
        for _ in range(_STEPS):
            sd = np.sqrt(own + here.variance)
            at = data.curvatures(mean, sd)
            if not float(np.abs(at).max()) < _FAR:  # far too wide
                here = here.moved(-np.einsum("ajj->a", here.units))
                continue
            found = here.coupling(at, zero, np.full_like(own, np.inf), sd)
            theta = np.asarray(np.linalg.solve(found.bend, found.slope), dtype=np.float64)
            value, promised = float(at.value.sum()) + here._held, float(found.slope @ theta)
            if not promised > _ROUNDING * abs(value):  # too little to see: the last step
                return here.moved(theta) if promised > 0.0 else here
            tried = (here.moved(share * theta) for share in _SHARES)
            better = next((one for one in tried if one._value(data, mean, own) > value), None)
            if better is None:
                break
            here = better
        return here

    @property
    def _held(self) -> float:
        return 0.5 * (self.log_determinant - float(np.trace(self.precision)))

    def _value(self, data: Data, mean: Vector, own: Vector) -> float:
        return float(data.expectations(mean, own + self.variance).value.sum()) + self._held
