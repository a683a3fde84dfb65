"""The family of all covariances as a zero-fill factor has them: V = (P + W)⁻¹ without draws, and not quite exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision
from npvi.inference.families.base import Start
from npvi.linalg import ZeroFillFactor
from npvi.priors import Prior

__all__ = ["FactoredCovariances", "Marginals"]

Vector = NDArray[np.float64]


class Marginals(NamedTuple):
    """Means, marginal variances and site precisions, in the graph's order."""

    mean: Vector
    variance: Vector
    site_precision: Vector


@dataclass(frozen=True)
class _Factored:
    site_precision: Vector
    variance: Vector
    log_determinant: float
    precision_factor: ZeroFillFactor
    matrix: None = None

    def mismatch(self, w: Vector) -> float:
        return float(np.max(np.abs(w - self.site_precision) * self.variance))


class FactoredCovariances:
    """The best Gaussian, with the zero-fill factor U Uᵀ in the place of P + W.

    Where `AllCovariances` takes draws for log |P + W| and its derivatives in w, the marginal variances, this has those
    of log |U Uᵀ|: a factor and a pass back through it, for a third of the time or less. Standard deviations were off by
    a few hundredths where L Lᵀ on the graph's pattern is any good, and by up to a half where observations say next to
    nothing and the prior is smooth.
    """

    name = "full, as its factor has it"
    tolerances = (1e-4, 1e-3)
    solve_tolerance = 1e-3

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    def begin(self, start: Start) -> None:
        """Nothing but what the factor says is taken."""

    def covariance(self, w: Vector, solver: ProcessPrecision | None = None) -> _Factored | None:
        """None where there is no factor with a positive diagonal."""
        solver = solver if solver is not None else ProcessPrecision(self.prior, w)
        while True:
            factor = solver.factor()
            if factor is None or factor.root is None:  # the classical one has no derivatives
                return None
            variance = factor.inverse_diagonal()
            if not len(factor.breakdowns) and np.all((variance > 0.0) & (variance < np.inf)):
                return _Factored(w, variance, -factor.log_determinant(), factor)
            if not solver.fall_back():
                return None

    def noise(self, before: _Factored, after: _Factored) -> float:
        """Factors of the narrow and of the wide pattern may be compared, which don't agree to rounding."""
        return 0.01

    def posterior(self, mean: Vector, covariance: _Factored, like: Any = None) -> Any:
        return Marginals(mean, covariance.variance, covariance.site_precision)

    def corrected(self, posterior: Any, covariance: Any) -> None:
        return None

    def info(self) -> dict[str, Any]:
        return {}
