"""f at many new points together under a fitted model: draws, and the covariance of sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.components import Trend
from npvi.graph import build_tree
from npvi.linalg import Noise, Triangular, draw, solve_columns
from npvi.posteriors import Posterior, PrecisionPosterior, covariance_times
from npvi.priors import Joint, JointPrediction, Prior
from npvi.runtime.parallel import threads

__all__ = ["JointPrediction", "JointSampler"]

Columns = NDArray[np.float64]

#: numbers of one array held at a time
_NUMBERS = 2**24
#: to which systems of P + W are solved, relatively
_TOLERANCE = 1e-6
#: regions of the new points over which draws have the right sums
_REGIONS = 16


@dataclass(frozen=True)
class JointSampler:
    """f at new points under a fitted model: f at the training points first, then all new ones given those.

    The means are the caller's: each from its nearest training points, of which joint neighbours keep only some.
    Draws add to them what deviates from the mean. Neighbours and weights are found when they are first needed.

    With g = B f + C g + D^½ ε at the new points, a sum cᵀg sees Bᵀa of f and D^½a of the noise, a = (I − C)⁻ᵀc, so that
    Var cᵀg = (Bᵀa)ᵀ V (Bᵀa) + Σ a²d and what the mean's coefficients add. Where V is (P + W)⁻¹, held by a factor that
    is nearly right, that is a system of P + W to be solved: sums see smooth directions, in which the factor may be
    several per cent off though single predictions are not.

    Parameters
    ----------
    prior, posterior : at the training points, in the graph's order.
    Z : (M, d) new inputs.
    mean : (M,) means of f there.
    n_neighbors : as in `JointPrediction`.
    n_jobs : threads.
    trend, basis : the posterior of the mean function's coefficients, and its columns at the new points.
    nugget : whether each new point has one of its own.
    """

    prior: Prior
    posterior: Posterior
    Z: NDArray[np.float64]
    mean: NDArray[np.float64]
    n_neighbors: int | None = None
    n_jobs: int | None = None
    trend: Trend | None = None
    basis: NDArray[np.float64] | None = None
    nugget: bool = False

    @property
    def n_points(self) -> int:
        """Points, old and new, that a draw has."""
        return self.prior.graph.n_points + len(self.Z)

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws, shape (M, n)."""
        return self._draws(n, rng)

    def rough(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """The same where the posterior's factor may be off in smooth directions: in half the time, for those who know
        sums better."""
        return self._draws(n, rng, correct=False)

    def _draws(self, n: int, rng: np.random.Generator, correct: bool = True) -> NDArray[np.float64]:
        quick = isinstance(self._prediction, JointPrediction) and isinstance(self.posterior, PrecisionPosterior)
        one = self._draw_quickly if quick else self._draw
        size = self.n_points if quick else self.prior.graph.n_points
        step = max(1, _NUMBERS // size)
        with threads(self.n_jobs):
            if n <= step:
                return one(n, rng, correct)
            draws = np.empty((len(self.Z), n))
            for start in range(0, n, step):
                stop = min(n, start + step)
                draws[:, start:stop] = one(stop - start, rng, correct)
        return draws

    def covariance(self, weights: Columns | None = None) -> Columns:
        """The covariance of weightsᵀg, g being f without nuggets and weights of shape (M, R): (R, R), or (M, M) of g
        itself."""
        with threads(self.n_jobs):
            across = self._across(weights, self._covariance_times)
            found = across if weights is None else weights.T @ across
        return 0.5 * (found + found.T)

    def _across(self, weights: Columns | None, times: Callable[[Columns], Columns]) -> Columns:
        """The covariance of g with weightsᵀg, (M, R), some columns at a time; `times` multiplies with V."""
        m = len(self.Z)
        count = m if weights is None else weights.shape[1]
        across = np.empty((m, count))
        step = max(1, _NUMBERS // self.n_points)
        for start in range(0, count, step):
            some = slice(start, min(count, start + step))
            columns = np.eye(m, some.stop - start, -start) if weights is None else weights[:, some]
            old, noise = self._prediction.adjoint(columns)
            across[:, some] = self._prediction.propagate(times(old), noise)
        if self.trend is not None and self._n_coefficients:
            along = self._along_coefficients
            across += along @ self.trend.covariance @ (along if weights is None else weights.T @ along).T
        return across

    def _covariance_times(self, A: Columns) -> Columns:
        """V A, at the training points."""
        if not isinstance(self.posterior, PrecisionPosterior):
            return covariance_times(self.posterior, A)
        w = self.posterior.site_precision[:, None]
        found = solve_columns(lambda x: self.prior.matvec(x) + w * x, A, self.posterior.covariance_times, _TOLERANCE)
        return self.posterior.covariance_times(A) if found is None else found

    def _draw(self, n: int, rng: np.random.Generator, correct: bool = True) -> NDArray[np.float64]:
        deviations = np.ascontiguousarray(self.posterior.sample(n, rng) - self.posterior.mean[:, None])
        mean = self.mean
        if self.trend is not None and self.basis is not None and self._n_coefficients:
            moved = self.trend.sample(n, rng)
            deviations += self.trend.sensitivity @ moved
            mean = mean[:, None] + self.basis @ moved
        return self._prediction.draw(deviations, rng, mean, self.nugget)

    def _draw_quickly(self, n: int, rng: np.random.Generator, correct: bool = True) -> NDArray[np.float64]:
        """The same in single precision, with all points, old and new, in one triangular system."""
        joint: Any = self._prediction
        noise = Noise(np.arange(self.n_points), int(rng.integers(2**62)))
        found, _ = draw(self._system.matrix, noise, n)
        of_trend = np.zeros((0, n)) if self.trend is None else self.trend.sample(n, rng)
        of_modes = self._system.of_modes @ found[: self.prior.graph.n_points]
        draws = np.empty((len(self.Z), n))
        draws[joint.visit] = found[self.prior.graph.n_points :]
        draws += self._system.along @ np.concatenate([of_trend, of_modes], dtype=np.float32)
        if correct:
            regions, follow = self._correction
            draws += follow @ (regions @ draws)
        draws += self.mean[:, None]
        if self.nugget and joint.fresh_variance > 0.0:
            draws += np.sqrt(joint.fresh_variance) * rng.standard_normal(draws.shape)
        return draws

    @property
    def _n_coefficients(self) -> int:
        return 0 if self.trend is None or self.basis is None else self.basis.shape[1]

    @cached_property
    def _prediction(self) -> Joint:
        with threads(self.n_jobs):
            return self.prior.joint(self.Z, self.n_neighbors)

    @cached_property
    def _along_coefficients(self) -> Columns:
        """How g follows the mean's coefficients, (M, p)."""
        if self.trend is None or self.basis is None or not self._n_coefficients:
            return np.zeros((len(self.Z), 0))
        return self.basis + self._propagated(self.trend.sensitivity)

    def _propagated(self, f: Columns) -> Columns:
        """What follows at the new points from f (N, R), without noise."""
        return self._prediction.propagate(f, np.zeros((self._prediction.n_noise, f.shape[1])))

    @cached_property
    def _system(self) -> _System:
        posterior: Any = self.posterior
        joint: Any = self._prediction
        # with S = U⁻ᵀQ a draw is U⁻ᵀ(ε + Q (√(1+c) − 1) Qᵀε), and Qᵀε = (U Uᵀ S)ᵀ U⁻ᵀε
        transpose = posterior.transpose
        modes = posterior.modes.reshape(self.prior.graph.n_points, -1).astype(np.float64)
        along = np.hstack([self._along_coefficients, self._propagated(modes)])
        reading = transpose.transpose_dot(transpose.dot(modes)) if modes.shape[1] else modes
        reading *= np.sqrt(1.0 + posterior.gains) - 1.0
        return _System(joint.extend(transpose), along.astype(np.float32), reading.T.astype(np.float32))

    @cached_property
    def _correction(self) -> tuple[Any, Columns]:
        """A, means over compact regions of the new points, and G: draws + G A draws have the right covariance of these.

        The factor may be off in smooth directions. With C for the covariance of A g, as it should be, and C̃ as the
        factor has it, G = Cov(g, A g) C̃⁻¹ (R R̃⁻¹ − I), C = R Rᵀ and C̃ = R̃ R̃ᵀ.
        """
        m = len(self.Z)
        count = min(_REGIONS, m)
        region = np.empty(m, np.int64)
        region[build_tree(self.prior.kernel.coordinates(self.Z)).rows] = np.arange(m) * count // m
        sums = scipy.sparse.csr_array((1.0 / np.bincount(region)[region], (region, np.arange(m))), shape=(count, m))
        A = sums.toarray().T
        posterior: Any = self.posterior
        exact, across = self.covariance(A), self._across(A, posterior.covariance_times)
        found = A.T @ across
        try:
            root, own = np.linalg.cholesky(exact), np.linalg.cholesky(found)
        except np.linalg.LinAlgError:  # regions on top of each other
            return sums, np.zeros((m, count))
        moved = np.linalg.solve(own.T, root.T).T - np.eye(count)
        return sums, across @ np.linalg.solve(found, moved)


@dataclass(frozen=True)
class _System:
    """What draws at old and new points are made of.

    Attributes
    ----------
    matrix : T, with T⁻¹ε a draw but for the mean's coefficients and the posterior's modes.
    along : (M, p + r): how the new points follow these.
    of_modes : (r, N): what a draw at the old points, times this, is moved along the modes.
    """

    matrix: Triangular
    along: NDArray[np.float32]
    of_modes: NDArray[np.float32]
