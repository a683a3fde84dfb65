"""The family of all covariances: V = (P + W)⁻¹, held by its site precisions, the zero-fill factor and draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference.mean_solve import PrecisionSolver
from npvi.posteriors import DrawsPosterior
from npvi.priors import NNGP
from npvi.sparse import inverse_root

__all__ = ["AllCovariances"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: up to this many points everything is done with dense matrices, exactly
_DENSE = 1000
#: draws made at once: vectors of a Lanczos run for all of them are in memory
_AT_ONCE = 8
#: for the residuals of mean and covariance, where marginal variances are estimates
_TOLERANCES = (1e-5, 1e-3)
#: how far a draw may be from exact, relative to its size
_ACCURACY = 0.01


@dataclass(frozen=True)
class _Inverse:
    """V = (P + W)⁻¹: its diagonal and determinant, and columns whose mean square V is."""

    site_precision: Vector
    variance: Vector
    log_determinant: float
    draws: NDArray

    def mismatch(self, w: Vector) -> float:
        # the equation is V⁻¹ = P + W; what is off by w − its w changes V_ii by that times V_ii²
        return float(np.max(np.abs(w - self.site_precision) * self.variance))


class AllCovariances:
    """The best Gaussian: for given w its covariance is (P + W)⁻¹.

    Up to a thousand points it is computed exactly. Beyond, marginal variances and all that predictions need come from
    draws x ~ N(0, (P+W)⁻¹), always made from the same random numbers: x = U⁻ᵀ M^{−½} ε with U the zero-fill factor and
    M = U⁻¹(P+W)U⁻ᵀ, which is the identity where the factor is exact and near it where it isn't; the inverse root is
    found by Lanczos' method, one or two products with M for rough kernels, a handful for smooth ones, and skipped where
    M ε is ε within a hundredth. The same run gives log |M|. Marginal variances are Rao–Blackwell's:
    v_i = 1/A_ii + mean (x_i − (A x)_i / A_ii)², A = P + W.

    Parameters
    ----------
    prior : NNGP
    seed : of the random numbers.
    draws, final_draws : how many, while iterating and in the end.
    """

    name = "full"

    def __init__(self, prior: NNGP, seed: int = 0, draws: int = 32, final_draws: int = 64) -> None:
        self.prior, self.seed, self.draws, self.final_draws = prior, seed, draws, final_draws
        self.exact = prior.graph.n_points <= _DENSE
        self.tolerances = (0.0, 0.0) if self.exact else _TOLERANCES
        self.solve_tolerance = 1e-10 if self.exact else 1e-3
        self._precision = prior.block(np.arange(prior.graph.n_points)) if self.exact else None
        self._info: dict[str, Any] = {"draws": None if self.exact else final_draws}

    def covariance(self, w: Vector, solver: PrecisionSolver | None = None) -> _Inverse | None:
        if self._precision is not None:
            return _dense_inverse(self._precision, w)
        solver = solver if solver is not None else PrecisionSolver(self.prior, w)
        return self._drawn(solver, self.draws)

    def noise(self, before: _Inverse, after: _Inverse) -> float:
        """The bound moves with w by ½ Σ δw (v − its estimate), and that is off by √(2/draws) of v at each point."""
        if self.exact:
            return 0.0
        change = np.abs(after.site_precision - before.site_precision)
        return float(0.5 * np.sqrt(2.0 / self.draws) * (change @ np.maximum(before.variance, after.variance))) + 0.01

    def posterior(self, mean: Vector, covariance: _Inverse) -> DrawsPosterior:
        w = covariance.site_precision
        if not self.exact and self.final_draws > self.draws:
            more = self._drawn(PrecisionSolver(self.prior, w), self.final_draws, self.draws)
            covariance = _pooled(covariance, more) if more is not None else covariance
        return DrawsPosterior(mean, covariance.draws, covariance.variance, w)

    def info(self) -> dict[str, Any]:
        return self._info

    def _drawn(self, solver: PrecisionSolver, stop: int, start: int = 0) -> _Inverse | None:
        """V by draws number `start` to `stop` of all that the random numbers would give."""
        n = stop - start
        factor = solver.factor()
        if factor is None:
            return None
        A_diagonal = self.prior.precision_diagonal + solver.site_precision
        variance = 1.0 / A_diagonal
        draws = np.empty((len(variance), n), dtype=np.float32)
        transpose = factor.transpose
        logarithms: list[float] = []
        steps = None
        for first, noise in self._noise(start, stop):
            if steps is None or steps > 1:  # the first batch finds out how many steps it takes
                found = inverse_root(
                    lambda x: transpose.transpose_solve(solver.matvec(transpose.solve(x))), noise, _ACCURACY
                )
                if steps is None:
                    steps = found.steps
                    self._info["factor_residual"] = float(found.departure.max())
                    self._info["lanczos_steps"] = steps
                logarithms.extend(found.logarithm)
                noise = found.root
            x = transpose.solve(noise)
            variance += np.einsum("ij,ij->i", *2 * (x - solver.matvec(x) / A_diagonal[:, None],)) / n
            draws[:, first - start : first - start + x.shape[1]] = x
        if not np.isfinite(variance).all():
            return None
        correction = float(np.mean(logarithms))
        self._info["log_determinant_error"] = float(np.std(logarithms) / np.sqrt(len(logarithms)))
        return _Inverse(solver.site_precision, variance, -(factor.log_determinant() + correction), draws)

    def _noise(self, start: int, stop: int) -> Iterator[tuple[int, Columns]]:
        for first in range(start, stop, _AT_ONCE):
            rng = np.random.default_rng((self.seed, first))
            # each point has its own numbers, whatever its place in the order and whoever comes after it
            noise = rng.standard_normal((self.prior.graph.n_points, min(_AT_ONCE, stop - first)))
            yield first, noise[self.prior.graph.order]


def _pooled(one: _Inverse, other: _Inverse) -> _Inverse:
    """Both sets of draws together."""
    shares = np.array([one.draws.shape[1], other.draws.shape[1]]) / (one.draws.shape[1] + other.draws.shape[1])
    variance = shares[0] * one.variance + shares[1] * other.variance
    return replace(one, variance=variance, draws=np.hstack([one.draws, other.draws]))


def _dense_inverse(P: NDArray, w: Vector) -> _Inverse | None:
    try:
        C = np.linalg.cholesky(P + np.diag(w))
    except np.linalg.LinAlgError:  # w < 0
        return None
    root = np.linalg.inv(C).T  # V = root rootᵀ
    variance = np.einsum("ij,ij->i", root, root)
    return _Inverse(w, variance, -2.0 * float(np.log(np.diag(C)).sum()), root * np.sqrt(len(w)))
