"""The family of all covariances: V = (P + W)⁻¹, in closed form, or held by its site precisions, a factor and draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npvi.compiling import compiled
from npvi.inference.mean_solve import PrecisionSolver
from npvi.parallel import over_chunks
from npvi.posteriors import DrawsPosterior, Posterior
from npvi.posteriors.low_rank import LowRankPosterior
from npvi.priors import Prior
from npvi.sparse import Noise, Triangular, ZeroFillFactor, draw, inverse_root
from npvi.sparse.low_rank import WoodburyFactor
from npvi.sparse.many_columns import count_of

__all__ = ["AllCovariances"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: up to this many points everything is done with dense matrices, exactly
_DENSE = 1000
#: draws made at once: vectors of a Lanczos run for all of them are in memory
_AT_ONCE = 16
#: draws that find out how far from exact the factor is
_PROBES = 4
#: for the residuals of mean and covariance, where marginal variances are estimates
_TOLERANCES = (1e-5, 1e-3)
#: how much more neighbours count that are all off to one side: standard deviations of smooth functions were seen to be
#: off by four times as much as each
_TOGETHER = 6.0
#: ‖M ε − ε‖/‖ε‖ from which on a factor is no help
_USELESS = 100.0
#: how far a draw may be from exact, relative to its size
_ACCURACY = 0.01
#: how far rounding to single precision may take one, relative to the largest
_ROUNDING = 1e-4


@dataclass(frozen=True)
class _DenseFactor:
    """(P + W)⁻¹ by its root: solves with it, and with matrices that are near, take a step or a few."""

    inverse_root: NDArray[np.float64]
    finite: ClassVar[bool] = True
    breakdowns: ClassVar[tuple[int, ...]] = ()

    def solve(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.inverse_root @ (self.inverse_root.T @ rhs)


@dataclass(frozen=True)
class _Inverse:
    """V = (P + W)⁻¹: its diagonal and determinant, and columns whose mean square V is (None where the factor has V)."""

    site_precision: Vector
    variance: Vector
    log_determinant: float
    draws: Any
    precision_factor: Any = None
    near: bool = False
    """Whether the factor is as good as exact."""

    def mismatch(self, w: Vector) -> float:
        # the equation is V⁻¹ = P + W; what is off by w − its w changes V_ii by that times V_ii², and by what others are
        # off times V_ij²
        off = (w - self.site_precision) * self.variance
        largest = float(np.max(np.abs(off)))
        if isinstance(self.precision_factor, ZeroFillFactor):
            together = over_chunks(_largest_mean, len(off), self.precision_factor.transpose.graph.parents, off)
            largest = max(largest, _TOGETHER * max(together))
        return largest


class AllCovariances:
    """The best Gaussian: for given w its covariance is (P + W)⁻¹.

    Under a low-rank prior that is a closed form, and up to a thousand points it is computed densely. Beyond, marginal
    variances and all that predictions need come from draws x ~ N(0, (P+W)⁻¹), always made from the same random numbers:
    x = U⁻ᵀ M^{−½} ε with U the zero-fill factor and M = U⁻¹(P+W)U⁻ᵀ, which is the identity where the factor is exact
    and near it where it isn't; the inverse root is found by Lanczos' method, one or two products with M for rough
    kernels, a handful for smooth ones, and skipped where M ε is ε within a hundredth. The same run gives log |M|.
    Marginal variances are Rao–Blackwell's, given the parents: v_i = 1/U_ii² + mean (x_i − ε_i/U_ii)²; or, where M isn't
    the identity, given all other points: v_i = 1/A_ii + mean (x_i − (A x)_i / A_ii)², A = P + W, which is never better
    and costs a product with A.

    Parameters
    ----------
    prior : any.
    noise : the random numbers.
    draws : how many.
    strict : take no step that lowers the bound as these draws have it, though it may lead to where w agrees with v.
    """

    name = "full"

    def __init__(
        self,
        prior: Prior,
        noise: Noise | None = None,
        draws: int = 64,
        strict: bool = False,
    ) -> None:
        self.prior, self.draws, self.strict = prior, draws, strict
        self._noise = noise if noise is not None else Noise(prior.graph.order)
        dense = prior.graph.n_points <= _DENSE and not prior.exact_factor
        self.exact = dense or prior.exact_factor
        self.tolerances = (0.0, 0.0) if self.exact else _TOLERANCES
        self.solve_tolerance = 1e-10 if self.exact else 1e-2
        self._precision = prior.block(np.arange(prior.graph.n_points)) if dense else None
        self._info: dict[str, Any] = {"draws": None if self.exact else draws}

    def covariance(self, w: Vector, solver: PrecisionSolver | None = None) -> _Inverse | None:
        if self._precision is not None:
            return _dense_inverse(self._precision, w)
        solver = solver if solver is not None else PrecisionSolver(self.prior, w)
        if self.exact:
            return _closed_form(solver.factor())
        while True:
            found = self._drawn(solver, solver.factor())
            if found is not None or not solver.fall_back():
                return found

    def noise(self, before: _Inverse, after: _Inverse) -> float:
        """The bound moves with w by ½ Σ δw (v − its estimate), and that is off by √(2/draws) of v at each point, where
        draws are alike in one direction over whole regions; a change far beyond 1/v counts as one of 1/v."""
        if self.exact or self.strict:
            return 0.0
        change = np.abs(after.site_precision - before.site_precision)
        moved = np.minimum(change * np.maximum(before.variance, after.variance), 1.0)
        return float(0.5 * np.sqrt(2.0 / self.draws) * moved.sum()) + 0.01

    def posterior(self, mean: Vector, covariance: _Inverse) -> Posterior:
        if covariance.draws is None:
            return LowRankPosterior(mean, covariance.precision_factor)
        factor = covariance.precision_factor
        own = isinstance(factor, ZeroFillFactor) and factor.root is self.prior.root  # type: ignore[attr-defined]
        w, v = covariance.site_precision, covariance.variance
        return DrawsPosterior(mean, covariance.draws, v, w, factor if own else None)

    def info(self) -> dict[str, Any]:
        return self._info

    def _drawn(self, solver: PrecisionSolver, factor: ZeroFillFactor | None) -> _Inverse | None:
        """V by draws."""
        if factor is None:
            return None
        transpose = factor.transpose

        def around(x: Columns) -> Columns:
            """M x."""
            return transpose.transpose_solve(solver.matvec(transpose.solve(x)))

        solved, departure, logarithms = self._probe(transpose, solver)
        if not departure < _USELESS:
            return None
        near = departure <= _ACCURACY
        logarithms = logarithms if near else []
        self._info |= {"factor_residual": departure, "lanczos_steps": 1}
        # what is left of x given the parents (or all other points) has variance `scale` and adds no noise
        scale = 1.0 / (transpose.diagonal**2 if near else self._diagonal(solver))
        drawn = self._quickly(transpose, solved) if near else None
        if drawn is not None:
            draws, squares = drawn
        else:
            draws, squares = np.empty((len(scale), self.draws), dtype=np.float32), np.zeros(len(scale))
            for first in range(0, self.draws, _AT_ONCE):
                last = min(first + _AT_ONCE, self.draws)
                noise = self._noise.columns(first, last)
                if not near:
                    found = inverse_root(around, noise, _ACCURACY)
                    noise = found.root
                    logarithms.extend(found.logarithm)
                    self._info["lanczos_steps"] = found.steps
                x = transpose.solve(noise)
                draws[:, first:last] = x
                x -= noise / transpose.diagonal[:, None] if near else solver.matvec(x) * scale[:, None]
                squares += np.einsum("ij,ij->i", x, x) / self.draws
        variance = scale + squares
        if not np.isfinite(variance).all():
            return None
        correction = float(np.mean(logarithms))
        self._info["log_determinant_error"] = float(np.std(logarithms) / np.sqrt(len(logarithms)))
        log_determinant = -(factor.log_determinant() + correction)
        return _Inverse(solver.site_precision, variance, log_determinant, draws, factor, near)

    def _probe(self, transpose: Triangular, solver: PrecisionSolver) -> tuple[list[Vector], float, list[float]]:
        """For a few ε: U⁻ᵀε; the largest ‖M ε − ε‖/‖ε‖; and εᵀ log(M) ε, where M ε is about ε.

        One after the other: that is as fast, and loops for many columns are not compiled before they are needed.
        """
        probes = np.ascontiguousarray(self._noise.columns(0, _PROBES).T)
        with np.errstate(over="ignore", invalid="ignore"):  # a factor with breakdowns may be wild
            solved = [transpose.solve(probe) for probe in probes]
            gaps = [transpose.transpose_solve(solver.matvec(x)) - probe for x, probe in zip(solved, probes)]
            size = np.einsum("ij,ij->i", probes, probes)
            off, along = (np.array([one @ gap for one, gap in zip(ones, gaps)]) for ones in (gaps, probes))
            return solved, float(np.max(np.sqrt(off / size))), list(size * np.log1p(along / size))

    def _quickly(self, transpose: Triangular, some: list[Vector]) -> tuple[NDArray[np.float32], Vector] | None:
        """Draws and their squares (see `npvi.sparse.draw`), or None where single precision doesn't do, as `some` of
        them in double precision tell."""
        draws, squares = draw(transpose, self._noise, self.draws)
        some = some[: self.draws]
        rounding = max(np.abs(draws[:, c] - column).max() for c, column in enumerate(some))
        return (draws, squares) if rounding <= _ROUNDING * max(np.abs(column).max() for column in some) else None

    def _diagonal(self, solver: PrecisionSolver) -> Vector:
        return self.prior.precision_diagonal + solver.site_precision


def _closed_form(factor: WoodburyFactor | None) -> _Inverse | None:
    if factor is None:  # w < 0
        return None
    return _Inverse(factor.site_precision, factor.variance, -factor.log_determinant(), None, factor)


def _dense_inverse(P: NDArray, w: Vector) -> _Inverse | None:
    try:
        C = np.linalg.cholesky(P + np.diag(w))
    except np.linalg.LinAlgError:  # w < 0
        return None
    root = np.linalg.inv(C).T  # V = root rootᵀ
    variance = np.einsum("ij,ij->i", root, root)
    log_determinant = -2.0 * float(np.log(np.diag(C)).sum())
    return _Inverse(w, variance, log_determinant, root * np.sqrt(len(w)), _DenseFactor(root))


@compiled
def _largest_mean(start, stop, parents, x):
    """The largest |mean| of x at a point and its parents."""
    largest = 0.0
    for i in range(start, stop):
        count = count_of(parents, i)
        total = x[i]
        for s in range(count):
            total += x[np.uintp(parents[i, s])]
        largest = max(largest, abs(total) / (count + 1))
    return largest
