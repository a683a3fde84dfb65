"""The paper's family: V = L Lᵀ with L on the graph's pattern, found by closed-form sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision
from npvi.inference.families.base import DENSE, Start
from npvi.linalg import Triangular
from npvi.posteriors import FactorPosterior
from npvi.priors import Prior

__all__ = ["SparseFactors"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class _Swept:
    site_precision: Vector
    factor: Triangular
    precision_factor: None = None

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        n = len(self.site_precision)
        if n > DENSE:
            return None
        L = self.factor.dot(np.eye(n))
        return L @ L.T

    @cached_property
    def variance(self) -> Vector:
        return self.factor.row_norms_squared()

    @property
    def log_determinant(self) -> float:
        return 2.0 * float(np.log(self.factor.diagonal).sum())

    def mismatch(self, w: Vector) -> float:
        # L solves ((P+W)L)_ic = δ_ic/L_cc for its own w, so what is left of the equation is (w − its w)_i L_ic
        L = self.factor
        largest_entry = np.maximum(L.diagonal, np.abs(L.edges).max(axis=1, initial=0.0))
        return float((np.abs(w - self.site_precision) * largest_entry).max() * L.diagonal.min())


class SparseFactors:
    """NPVI: for given w one sweep over the columns of L is the optimum."""

    name = "npvi"
    tolerances = (0.0, 0.0)
    solve_tolerance = 1e-10

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    def begin(self, start: Start) -> None:
        """It is all in closed form."""

    def covariance(self, w: Vector, solver: ProcessPrecision | None = None) -> _Swept | None:
        """One sweep; None where it met a block that isn't positive definite (w < 0)."""
        swept = _Swept(w, self.prior.lower_half.sweep(w))
        return swept if np.isfinite(swept.variance).all() else None

    def noise(self, before: _Swept, after: _Swept) -> float:
        return 0.0

    def posterior(self, mean: Vector, covariance: _Swept, like: Any = None) -> FactorPosterior:
        return FactorPosterior(mean, covariance.factor, covariance.site_precision)

    def corrected(self, posterior: Any, covariance: Any) -> None:
        return None

    def info(self) -> dict[str, Any]:
        return {}
