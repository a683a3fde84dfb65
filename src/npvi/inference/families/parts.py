"""The family of all covariances for a predictor made of parts: V = A (P + AᵀWA)⁻¹ Aᵀ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npvi.components import Moments, Parts, PartsPrecision, Recent, Variances
from npvi.inference.families.base import Start
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime.arrays import Vector

__all__ = ["AllOfParts", "PartsPosterior"]

#: for the residuals of mean and covariance, where factors and draws tell variances
_TOLERANCES, _ROUGH_TOLERANCES = (1e-5, 3e-4), (1e-3, 1e-2)
#: how far these may be off, relatively: steps may seem to lower the bound by what follows from it
_VARIANCES = 0.05
#: draws for variances and for the determinant: always the same random numbers
_DRAWS, _PROBES = 64, 32
#: on the way to hyper-parameters, where what counts is how the bound differs from place to place by the same numbers
_FEW_DRAWS, _FEW_PROBES = 16, 8


@dataclass(frozen=True)
class _OfParts:
    """The best covariance for some site precisions."""

    site_precision: Vector
    variances: Variances
    log_determinant: float
    precision: PartsPrecision
    moments: list[Moments] | None = None
    precision_factor: None = None
    matrix: None = None

    @property
    def variance(self) -> Vector:
        """Of η."""
        return self.variances.predictor

    def mismatch(self, w: Vector) -> float:
        """How far w is from the site precisions, relative to 1/v."""
        return float(np.max(np.abs(w - self.site_precision) * self.variance))


@dataclass(frozen=True)
class PartsPosterior:
    """q(z) = N(mean, Λ⁻¹).

    Attributes
    ----------
    mean : of z, that of all parts one after the other.
    precision : Λ.
    variances : of η and of each part.
    site_precision : w, shape (rows,).
    moments : of each part, where derivatives are wanted.
    """

    mean: Vector
    precision: PartsPrecision
    variances: Variances
    site_precision: Vector
    moments: list[Moments] | None = None

    @property
    def variance(self) -> Vector:
        """Of the predictor η at the rows."""
        return self.variances.predictor

    def sample(self, n: int, rng: np.random.Generator) -> Vector:
        """Draws of z, shape (size, n)."""
        return self.mean[:, None] + self.precision.draws(rng, n)


class AllOfParts:
    """The best Gaussian for a predictor made of parts: for given w its precision is P + AᵀWA.

    Where there are few numbers all is dense and exact, else as `PartsPrecision` has it, by the same random numbers
    whatever w is; `rough` by fewer of them, and with the moments that derivatives ask for, on the way to
    hyper-parameters. Systems begin where `recent` ones have ended.
    """

    name = "full"

    def __init__(self, parts: Parts, seed: int = 0, rough: bool = False, recent: Recent | None = None) -> None:
        self.parts, self.rough, self._seed, self._recent = parts, rough, seed, recent
        self._draws, self._probes = (_FEW_DRAWS, _FEW_PROBES) if rough else (_DRAWS, _PROBES)
        self.exact = parts.size <= parts.dense
        self.tolerances = (0.0, 0.0) if self.exact else _ROUGH_TOLERANCES if rough else _TOLERANCES
        self.solve_tolerance = 1e-10 if self.exact else 1e-3 if rough else 1e-4

    def begin(self, start: Start) -> None:
        """Nothing helps."""

    def covariance(self, w: Vector, solver: PartsPrecision | None = None) -> _OfParts | None:
        """None where Λ isn't positive definite."""
        found = self.parts.at(w, self._recent, self.rough)
        if found is None:
            return None
        rng, moments = np.random.default_rng(self._seed), None
        try:
            if self.rough:
                variances, moments = found.told(rng, self._draws)
            else:
                variances = found.variances(rng, self._draws)
            logarithm = found.determinant(np.random.default_rng(self._seed), self._probes).logarithm
        except NotPositiveDefiniteError:  # of single parts' factors, as w < 0 may leave none
            if not self.parts.densely(self._recent):
                raise
            return self.covariance(w)
        if not (np.isfinite(logarithm) and np.isfinite(variances.predictor).all()):
            return None
        return _OfParts(w, variances, -logarithm, found, moments)

    def noise(self, before: _OfParts, after: _OfParts) -> float:
        """The bound moves with w by ½ Σ δw v, and v is not quite that of the determinant."""
        if self.exact:
            return 0.0
        change = np.abs(after.site_precision - before.site_precision)
        moved = np.minimum(change * np.maximum(before.variance, after.variance), 1.0)
        return 0.01 + 0.5 * _VARIANCES * float(moved.sum())

    def posterior(self, mean: Vector, covariance: _OfParts, like: Any = None) -> PartsPosterior:
        """Of z."""
        precision, w = covariance.precision, covariance.site_precision
        return PartsPosterior(mean, precision, covariance.variances, w, covariance.moments)

    def corrected(self, posterior: Any, covariance: Any) -> None:
        """Nothing better is known."""
        return

    def info(self) -> dict[str, Any]:
        """Nothing to say."""
        return {}
