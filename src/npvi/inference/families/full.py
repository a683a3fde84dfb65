"""The family of all covariances: V = (P + W)⁻¹, in closed form, or held by its site precisions and a factor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from npvi.components import ACCURACY, PROBES, ProcessPrecision
from npvi.components.precision_posterior import again, precision_posterior
from npvi.inference.families.base import DENSE, Start
from npvi.linalg import DenseFactor, Noise, WoodburyFactor, ZeroFillFactor, count_of, dense_factor
from npvi.posteriors import DrawsPosterior, LowRankPosterior, Posterior, PrecisionPosterior
from npvi.priors import Prior
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["AllCovariances", "dense_posterior"]

Vector = NDArray[np.float64]

#: for the residuals of mean and covariance, where marginal variances are those of the factor
_TOLERANCES = (1e-5, 3e-4)
#: how far these may be off, relatively: steps may seem to lower the bound by what follows from it
_VARIANCES = 0.02
#: how much more neighbours count that are all off to one side: standard deviations of smooth functions were seen to be
#: off by four times as much as each
_TOGETHER = 6.0
#: error of the marginal standard deviations that is left alone; share of a fit's work that exact ones may cost, and
#: rows that are looked at in any case
_FINE, _SHARE, _SOME = 0.001, 0.1, 1000
#: rows whose variances are found together, and groups of them that tell what more will cost
_GROUP, _GROUPS = 16, 8
#: conjugate gradient iterations and factors of an ordinary fit
_ITERATIONS, _FACTORS = 30, 6
#: rows nearby that an unknown one is taken to be like
_LIKE = 4


@dataclass(frozen=True)
class _Inverse:
    """V = (P + W)⁻¹: its diagonal and determinant, and a factor of P + W."""

    site_precision: Vector
    variance: Vector
    log_determinant: float
    precision_factor: Any = None
    route: str = ""
    """The factor's name among the prior's routes."""
    departure: float = 0.0
    """How far the factor is from exact."""
    draws: Any = None
    """Some of N(0, V), where the factor has no derivatives."""

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        n = len(self.variance)
        if n > DENSE or isinstance(self.precision_factor, ZeroFillFactor):
            return None
        return np.asarray(self.precision_factor.solve(np.eye(n)))

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

    Under a low-rank prior that is a closed form, and of few points it is computed densely. Beyond, with the
    zero-fill factor U Uᵀ of P + W, marginal variances are the derivatives of log |U Uᵀ| in w, a pass back through the
    factor: nothing is drawn, and two fits of the same data agree. How far M = U⁻¹(P+W)U⁻ᵀ is from the identity a few
    random vectors tell, always the same ones; what they know of log |M| is added to the determinant. The posterior of a
    fit has a better factor where it needs one (see `npvi.components.precision_posterior`); marginal variances follow.

    Parameters
    ----------
    prior : any.
    noise : the random numbers.
    draws : of N(0, V), for derivatives in the hyper-parameters, where the factor isn't as good as exact.
    strict : take no step that lowers the bound, and leave the posterior as the factor has it: for learning.
    """

    name = "full"

    def __init__(
        self,
        prior: Prior,
        noise: Noise | None = None,
        draws: int = PROBES,
        strict: bool = False,
    ) -> None:
        self.prior, self.draws, self.strict = prior, draws, strict
        self._noise = noise if noise is not None else Noise(prior.graph.order)
        dense = prior.graph.n_points <= DENSE and not prior.exact_factor
        self.exact = dense or prior.exact_factor
        self.tolerances = (0.0, 0.0) if self.exact else _TOLERANCES
        self.solve_tolerance = 1e-10 if self.exact else 1e-2
        self._precision = prior.block(np.arange(prior.graph.n_points)) if dense else None
        self._info: dict[str, Any] = {}
        self._ratio: Vector | float = 1.0  # of marginal variances to what the factor says they are
        self._known = 0  # points that it is known of from a fit before
        self._left_alone = False  # whether it was 1 there

    def begin(self, start: Start) -> None:
        """Which marginal variances the factor tells, and how well, is a matter of the points around."""
        if not self.exact and start.ratio is not None:
            self._known, self._left_alone = len(start.ratio), np.allclose(start.ratio, 1.0, rtol=0.0, atol=1e-6)
            self._ratio = np.append(start.ratio, np.ones(self.prior.graph.n_points - self._known))

    def covariance(self, w: Vector, solver: ProcessPrecision | None = None) -> _Inverse | None:
        if self._precision is not None:
            return _exactly(w, dense_factor(self._precision, w))
        solver = solver if solver is not None else ProcessPrecision(self.prior, w)
        if self.exact:
            return _exactly(w, solver.factor())
        while True:
            found = self._factored(solver, solver.factor())
            if found is not None or not solver.fall_back():
                return found

    def noise(self, before: _Inverse, after: _Inverse) -> float:
        """The bound moves with w by ½ Σ δw v, and v is not quite that of the determinant; a change far beyond 1/v
        counts as one of 1/v."""
        if self.exact:
            return 0.0
        change = np.abs(after.site_precision - before.site_precision)
        moved = np.minimum(change * np.maximum(before.variance, after.variance), 1.0)
        return 0.01 + (0.0 if self.strict else 0.5 * _VARIANCES * float(moved.sum()))

    def posterior(self, mean: Vector, covariance: _Inverse, like: Any = None) -> Posterior:
        factor, w, v = covariance.precision_factor, covariance.site_precision, covariance.variance
        if self._precision is not None:
            return _exact_posterior(mean, covariance)
        if self.exact:
            return LowRankPosterior(mean, factor)
        if self.strict:
            draws = covariance.draws
            if draws is None:
                most = max(self.draws, PROBES)
                # where derivatives of the factor are known, draws tell no more than what it lacks
                own = factor.root is getattr(self.prior, "root", None) and not len(factor.breakdowns)
                count = min(most, PROBES * max(1, math.ceil(covariance.departure / ACCURACY))) if own else most
                draws = ProcessPrecision(self.prior, w).draws(factor, self._noise.columns(0, count))
            return PrecisionPosterior(mean, factor.transpose, v, w, draws=draws)
        if like is not None:
            return again(self.prior, mean, v, w, like)
        found, self._info["variance_error"] = precision_posterior(self.prior, mean, v, w, factor, covariance.route)
        return found

    def corrected(self, posterior: Posterior, covariance: _Inverse) -> _Inverse | None:
        """A covariance with marginal variances that are nearer to the posterior's own, where those of the factor were
        off: all of them where that costs a tenth of the fit or less, by counted work, else as those at some places
        nearby. They stay so from now on."""
        if self.strict or not isinstance(posterior, PrecisionPosterior):
            return None
        n = len(posterior.mean)
        if self._known:
            # of points that a fit before has seen more is known than of new ones, unless there were too many of these
            old, new = _spaced(self.prior.graph.spatial, min(n, _SOME)), np.arange(self._known, n, dtype=np.int32)
            if _rms(np.sqrt(_ratio(posterior, old[old < self._known])) - 1.0) <= _FINE:
                every = np.ones(n)
                every[new] = _ratio(posterior, new)
                # as that fit has done: all are corrected, or none where they are off by little on the whole
                off = _rms(np.sqrt(every if self._left_alone else every[new]) - 1.0)
                return self._better(covariance, every, len(old) + len(new), off, 0.0)
        rows = self._compared(posterior)
        ratio = _ratio(posterior, rows)
        off = _rms(np.sqrt(ratio) - 1.0)
        if len(rows) == n:
            every, left = np.empty(n), 0.0
            every[rows] = ratio
        else:
            points: Any = self.prior.kernel.coordinates(self.prior.X)  # type: ignore[attr-defined]
            tree = cKDTree(points[rows])
            every = ratio[tree.query(points, _LIKE)[1]].mean(axis=1)
            nearest: Any = tree.query(points[rows], _LIKE + 1)[1]  # the first is the row itself
            others = ratio[nearest[:, 1:]].mean(axis=1)
            left = _rms(np.sqrt(ratio / others) - 1.0)
        return self._better(covariance, every, len(rows), off, left)

    def _better(self, covariance: _Inverse, ratio: Vector, compared: int, off: float, left: float) -> _Inverse | None:
        fine = off <= max(_FINE, left)
        self._info["marginal_variances"] = {"compared": compared, "off": off, "left": off if fine else left}
        if fine:
            return None
        self._ratio = self._ratio * ratio
        return replace(covariance, variance=covariance.variance * ratio)

    def _compared(self, posterior: PrecisionPosterior) -> NDArray[np.int32]:
        """Rows whose variances the ancestors are asked for: all, or as many as a share of the fit's work pays for."""
        spatial, (n, K) = self.prior.graph.spatial, self.prior.graph.parents.shape
        # in products of a number, or of a vector register, with an edge: a conjugate gradient iteration goes through
        # all edges four times, a factor through K of every edge, and its derivatives through twice as many. It is that
        # of an ordinary fit: one with a good start, as an update has, must not end elsewhere
        work = n * K * (4.0 * _ITERATIONS + (3.0 * K + 8.0) * _FACTORS)
        together = min(n, _GROUP * _GROUPS)
        starts = np.linspace(0, n - _GROUP, together // _GROUP).astype(np.int64)
        neighbours = spatial[(starts[:, None] + np.arange(_GROUP)).ravel()]
        if _SHARE * work >= n * posterior.work(neighbours) / together:
            return spatial
        apart = _spaced(spatial, together)
        paid = int(_SHARE * work * together / posterior.work(apart))
        return _spaced(spatial, min(n, max(_SOME, paid)))

    def info(self) -> dict[str, Any]:
        return self._info

    def _factored(self, solver: ProcessPrecision, factor: ZeroFillFactor | None) -> _Inverse | None:
        """V as a factor has it; None where that won't do."""
        if factor is None:
            return None
        found = solver.determinant(factor, self._noise, self.draws)
        if found is None:
            return None
        variance = solver.marginal_variance(factor, self._noise, found.draws, self._ratio)
        if variance is None:
            return None
        self._info |= {"factor_residual": found.departure, "log_determinant_error": found.error}
        w, log_determinant = solver.site_precision, -found.logarithm
        return _Inverse(w, variance, log_determinant, factor, solver.route, found.departure, found.draws)


def _spaced(rows: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def _ratio(posterior: PrecisionPosterior, rows: NDArray[np.int32]) -> Vector:
    """Of variances by the ancestors to those that the posterior has."""
    return posterior.projected_variance(rows[:, None], np.ones((len(rows), 1))) / posterior.variance[rows]


def _rms(x: Vector) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _exactly(w: Vector, factor: DenseFactor | WoodburyFactor | None) -> _Inverse | None:
    return None if factor is None else _Inverse(w, factor.variance, -factor.log_determinant(), factor)


def dense_posterior(prior: Prior, mean: Vector, w: Vector) -> DrawsPosterior:
    """N(mean, (P + W)⁻¹) in closed form, from its site precisions; ValueError where there is none."""
    found = _exactly(w, dense_factor(prior.block(np.arange(len(w))), w))
    if found is None:
        raise ValueError("its site_precision makes no posterior")
    return _exact_posterior(mean, found)


def _exact_posterior(mean: Vector, covariance: _Inverse) -> DrawsPosterior:
    w = covariance.site_precision
    root = covariance.precision_factor.inverse_root
    return DrawsPosterior(mean, root * np.sqrt(len(w)), covariance.variance, w)


@compiled
def _largest_mean(start, stop, parents, x):
    """The largest |mean| of x at a point and its parents."""
    largest = 0.0
    for i in range(start, stop):
        count = count_of(parents, np.uintp(i))
        total = x[i]
        for s in range(count):
            total += x[np.uintp(parents[i, s])]
        largest = max(largest, abs(total) / (count + 1))
    return largest
