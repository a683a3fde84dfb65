"""A predictor made of parts: η = Σ_j A_j z_j, z_j ~ N(0, P_j⁻¹), and its precision with sites, Λ = P + AᵀWA.

P has the P_j as its blocks. Of a part in which every row sees one level or position, A_jᵀWA_j is diagonal, or has small
blocks, so that P_j + A_jᵀWA_j has a factor D_j of its own; what remains is how parts overlap. With D = blockdiag(D_j)
and L the blocks of AᵀWA below the diagonal, symmetric Gauss–Seidel is

    M = (D + L) D⁻¹ (D + L)ᵀ = G Gᵀ,  G = (D + L) R⁻ᵀ,  D = R Rᵀ,    |M| = |D|,

the preconditioner of conjugate gradients, and G⁻¹ΛG⁻ᵀ is what Lanczos' method takes the logarithm of. It is exact
where D_j is the Schur complement of what comes before. Of groups that comes near: they come first, and take from the
site precision of each row what is theirs (`_Overlap.thinned`). Where each level of the group sees one position only, as
effects of places beside a surface do, that is the Schur complement itself; there only the sum of both is known where
data are strong, and Gauss–Seidel alone crawls along the difference. Parts of few numbers come last, all together, with
their Schur complement found column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy import linalg

from npvi.components.base import Component
from npvi.components.dense import Dense
from npvi.components.drawn_variance import DrawnVariance
from npvi.components.group import BlockFactor, Group
from npvi.components.nested import Nested, nested_pair
from npvi.components.process import Process, SolverLog
from npvi.linalg import DenseFactor, conjugate_gradients, dense_factor, inverse_root, solve_columns
from npvi.priors import NotPositiveDefiniteError

__all__ = ["Dependence", "LogDeterminant", "Moments", "Parts", "PartsPrecision", "Recent", "Told", "Variances"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: up to so many numbers in all everything is dense, and exact; and up to so many where systems crawl
_DENSE, _DENSE_AT_MOST = 1000, 6000
#: numbers of parts that are taken together, and columns of a Schur complement
_FEW = 64
#: random vectors for the determinant, for variances; to which Lanczos' method and systems are solved
_PROBES, _DRAWS, _TOLERANCE = 16, 64, 1e-3
#: the same on the way to hyper-parameters
_ROUGHLY = 3e-3
#: how far draws may be off, in standard deviations in any direction; in its square, what is left of each of few
#: numbers, beside this part of it: sums of them may have less left than each
_OFF, _ROUGHLY_OFF, _OF_LEFT = 0.03, 0.1, 0.01
#: what rounding may leave of numbers of which nothing else is left; a residual that is small, where that isn't reached
_ROUNDING, _RESIDUAL = 1e-13, 1e-6
#: columns that are solved for at a time, and numbers in them
_TOGETHER, _NUMBERS = 32, 2**23
_MOST_STEPS, _MOST_ROOT = 1000, 100
#: iterations without reaching this tolerance that say that Gauss–Seidel crawls, and those that say what is better
_CRAWLS, _LONGER, _CRAWLING = 30, 60, 1e-4
#: iterations of a single system from which on dense matrices are quicker
_TOO_MANY = 150
#: how much larger site precisions must be for that to be asked again
_STRONGER = 4.0
#: variance of a flat direction, relative to that of all parts, where it must be a number
_WIDE = 1e4


class Variances(NamedTuple):
    """Marginal variances of the posterior with given sites.

    Attributes
    ----------
    predictor : of η, shape (rows,).
    parts : of A_j z_j for each part, shape (rows,) each.
    numbers : of z_j for each part, shape (size,) each.
    """

    predictor: Vector
    parts: list[Vector]
    numbers: list[Vector]


class Moments(NamedTuple):
    """The posterior covariance of a part, (R Rᵀ)⁻¹ + C Cᵀ.

    Attributes
    ----------
    factor : R, given the other parts; None where all is in the columns.
    columns : C, shape (size, any).
    """

    factor: Any
    columns: Columns


class Told(NamedTuple):
    """What the same draws tell: `variances`, and the `moments` of each part."""

    variances: Variances
    moments: list[Moments]


class Dependence(NamedTuple):
    """What tells how parts depend on each other: Λ⁻¹ is about draws drawsᵀ / n + levels levelsᵀ.

    Attributes
    ----------
    draws, means : of all parts, and means of each given the others in the same draw, shape (size, n) each.
    levels, of_levels : the same of what is known without draws, shape (size, any) each.
    """

    draws: NDArray[np.float32]
    means: NDArray[np.float32]
    levels: Columns
    of_levels: Columns


class Recent:
    """Solutions of the last systems by name, where the next ones, which are like them, begin."""

    def __init__(self) -> None:
        self._found: dict[str, NDArray[np.float32]] = {}
        #: whether a factor of two nested processes together was better than one of each, if that is known: it stays so,
        #: as a bound by the other would differ
        self.nested: bool | None = None
        #: the largest site precision at which it was not
        self.enough_at = 0.0
        #: whether systems crawled, and all is dense since
        self.dense = False

    def like(self, name: str, rhs: Columns) -> Columns | None:
        """Of systems with as many right-hand sides."""
        found = self._found.get(name)
        return found.astype(np.float64) if found is not None and found.shape == rhs.shape else None

    def keep(self, name: str, found: Columns) -> Columns:
        """The same."""
        self._found[name] = found.astype(np.float32)
        return found

    def forget(self) -> None:
        """All of them: they take memory."""
        self._found.clear()


class LogDeterminant(NamedTuple):
    """log |Λ|, and the standard error of what random vectors tell of it."""

    logarithm: float
    error: float


class Parts:
    """Several components as one operator. z has those of all components one after the other.

    Parameters
    ----------
    components : processes, groups and dense ones.
    offset : what is added to the predictor of each row, shape (rows,).
    dense : up to so many numbers in all everything is dense, and exact.

    Examples
    --------
    >>> group = Group(2, np.array([0, 0, 1]), 1.0)
    >>> parts = Parts([group, Dense(np.ones((3, 1)), np.zeros((1, 1)))])
    >>> parts.times(np.array([1.0, 2.0, 10.0]))
    array([11., 11., 12.])
    >>> precision = parts.at(np.full(3, 2.0))
    >>> precision.variances().numbers[1].round(4)  # of the mean
    array([0.6818])
    """

    #: no coefficients beside the parts, as a `Stack` may have
    known: ClassVar[bool] = True

    def __init__(self, components: Sequence[Component[Any]], offset: Vector | None = None, dense: int = _DENSE) -> None:
        self.components, self.offset, self.dense = tuple(components), offset, dense
        self.slices = _slices(self.components)
        #: whether two nested processes have a factor together, as soon as that is known; and the largest site precision
        #: at which one of each was enough
        self.nested_together: bool | None = None
        self.enough_at = 0.0
        self.size = self.slices[-1].stop
        #: which parts are taken together, and the others, groups first
        self.together = _together(self.components)
        apart = [j for j in range(len(self.components)) if j not in self.together]
        self.apart = sorted(apart, key=lambda j: (not isinstance(self.components[j], Group), -self.components[j].size))

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z = Σ_j A_j z_j, for one vector (size,) or many (size, R)."""
        return _total(part.times(z[of]) for part, of in zip(self.components, self.slices))

    def seen(self, z: Vector) -> Vector:
        """The predictor η = A z + offset, shape (rows,)."""
        return self.times(z) if self.offset is None else self.times(z) + self.offset

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        return np.concatenate([part.transpose_times(x) for part in self.components])

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P z."""
        return np.concatenate([part.matvec(z[of]) for part, of in zip(self.components, self.slices)])

    def quadratic(self, z: Vector) -> float:
        """zᵀ P z."""
        return sum(part.quadratic(z[of]) for part, of in zip(self.components, self.slices))

    @property
    def logdet(self) -> float:
        """log |P⁻¹|; less 2π for each flat direction."""
        return sum(part.logdet for part in self.components)

    def precision_noise(self, rng: np.random.Generator, n: int) -> Columns:
        """Random vectors with covariance P, shape (size, n)."""
        return np.concatenate([part.precision_noise(rng, n) for part in self.components])

    def split(self, z: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The z_j of each component."""
        return [z[of] for of in self.slices]

    def at(self, site_precision: Vector, recent: Recent | None = None, rough: bool = False) -> PartsPrecision | None:
        """Λ for site precisions w; None where w < 0 leaves none."""
        rest = self.rest
        if rest is not None and rest.nested_together is None and recent is not None:
            rest.nested_together, rest.enough_at = recent.nested, max(rest.enough_at, recent.enough_at)
        if recent is not None and recent.dense:
            self.densely(recent)
        found = PartsPrecision(self, site_precision, recent=recent, rough=rough)
        if not found.usable:
            return None
        if self.dense < self.size <= _DENSE_AT_MOST and found.crawls():
            self.densely(recent)
            return self.at(site_precision, recent, rough)
        return found

    def densely(self, recent: Recent | None) -> bool:
        """Go on with all parts as one dense matrix; False where it is dense already, or would be too large."""
        if not self.dense < self.size <= _DENSE_AT_MOST:
            return False
        self.dense = self.size
        if recent is not None:
            recent.dense = True
        return True

    @cached_property
    def marginal_precision(self) -> Vector:
        """1 / Var η_i under the prior, shape (rows,); a flat direction counts as one much wider than all parts."""
        largest = [float(np.max(part.row_variance(1.0))) for part in self.components if not part.few]
        widest = _WIDE * (sum(largest) or 1.0)
        return 1.0 / _total(part.row_variance(widest) for part in self.components)

    def precision(
        self, site_precision: Vector, log: SolverLog | None, tolerance: float, nearby: Any = None, own: Any = None
    ) -> PartsPrecision:
        """Λ for site precisions w ≥ 0, for systems to a tolerance; what they take is noted in the log."""
        return PartsPrecision(self, site_precision, tolerance, log)

    def solve(self, precision: PartsPrecision, rhs: Vector, less: Any = None) -> Vector:
        """Λ⁻¹ rhs."""
        return precision.solve(rhs)

    def first_step(self, precision: PartsPrecision, eta: Vector, gradient: Vector) -> tuple[Vector, Vector]:
        """Where to begin, and a step from there, for a gradient in η at some η: from 0 to the best z for its sites."""
        w, given = precision.site_precision, eta if self.offset is None else eta - self.offset
        step = precision.solve(self.transpose_times(w * given + gradient))
        if precision.is_dense:  # beside w η what parts that see the same have apart is lost to rounding, but not twice
            left = self.transpose_times(w * (given - self.times(step)) + gradient) - self.matvec(step)
            step = step + precision.solve(left)
        return np.zeros(self.size), step

    @cached_property
    def few(self) -> Dense | None:
        """The parts that are taken together, as one."""
        return _AsOne([self.components[j] for j in self.together]) if self.together else None

    @cached_property
    def whole(self) -> Dense:
        """All parts as one."""
        return _AsOne(self.components)

    @cached_property
    def rest(self) -> Parts | None:
        """The other parts alone, groups first."""
        return Parts([self.components[j] for j in self.apart], dense=0) if self.apart else None

    @cached_property
    def nested(self) -> tuple[tuple[int, int], Nested] | None:
        """The numbers of two processes on top of each other, and both as one."""
        found = nested_pair(self.components)
        return None if found is None else (found, Nested(*(self.components[j] for j in found)))  # type: ignore[arg-type]

    @cached_property
    def overlaps(self) -> dict[tuple[int, int], _Overlap]:
        """How the levels or positions of each part overlap with those of each part after it."""
        parts: Any = self.components
        return {(s, t): _Overlap.of(parts[s], parts[t]) for t in range(len(parts)) for s in range(t)}


class PartsPrecision:
    """Λ = P + AᵀWA for one W.

    Parameters
    ----------
    parts, site_precision : A and P, and w, shape (rows,).
    tolerance : of systems.
    log : where to note what these take.
    recent : systems that are like its own, which begin where those have ended.
    rough : whether systems of many columns are solved roughly, and the next ones have other hyper-parameters.
    """

    #: a factor that others may start from
    best: ClassVar[None] = None

    def __init__(
        self,
        parts: Parts,
        site_precision: Vector,
        tolerance: float = 1e-8,
        log: SolverLog | None = None,
        recent: Recent | None = None,
        rough: bool = False,
    ) -> None:
        self.parts, self.site_precision, self.tolerance = parts, site_precision, tolerance
        self._recent, self._columns, self._once = recent, _ROUGHLY if rough else _TOLERANCE, rough
        self.log = SolverLog() if log is None else log
        together = [parts.slices[j] for j in (*parts.apart, *parts.together)]
        self._inner = np.concatenate([np.arange(parts.size)[of] for of in together])
        self._n_rest = parts.rest.size if parts.rest is not None else 0

    @cached_property
    def usable(self) -> bool:
        """Whether Λ is positive definite, as far as factors tell."""
        if self.is_dense:
            return self._dense is not None
        return (self._rest is None or self._rest.usable) and (self.parts.few is None or self._rough is not None)

    def crawls(self) -> bool:
        """Whether a system in which all directions are takes too many iterations."""
        rhs = np.random.default_rng(0).standard_normal(self.parts.size)
        return not conjugate_gradients(self.matvec, rhs, self.precondition, _CRAWLING, _TOO_MANY).converged

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Λ z, for one vector (size,) or many (size, R)."""
        weighted = (self.site_precision * self.parts.times(z).T).T
        return self.parts.matvec(z) + self.parts.transpose_times(weighted)

    @property
    def iterations(self) -> list[int]:
        """Of conjugate gradients, for each system of one right-hand side so far."""
        return self.log.iterations

    def solve(self, rhs: NDArray[np.float64], tolerance: float | None = None) -> NDArray[np.float64]:
        """x with ‖Λ x − rhs‖ ≤ tolerance·‖rhs‖, or as near as rounding lets it; rhs (size,) or many (size, R)."""
        tolerance = self.tolerance if tolerance is None else tolerance
        if self.is_dense:
            if self._dense is None:  # as the first of all systems may turn out
                raise NotPositiveDefiniteError(
                    "the precision of all terms together has no factor: standard deviations (sd) of terms, weights "
                    "(sample_weight) and parameters of the likelihood are too far from each other: make them more alike"
                )
            return self._dense.solve(rhs)
        if rhs.ndim == 2:
            return _solved(self.matvec, rhs, self.precondition, tolerance)
        found = conjugate_gradients(self.matvec, rhs, self.precondition, tolerance, _MOST_STEPS)
        self.log.iterations.append(found.iterations)
        self.log.residuals.append(found.residual)
        return found.x

    def solve_rows(self, rhs: NDArray[np.float64], tolerance: float | None = None) -> NDArray[np.float64]:
        """A Λ⁻¹ Aᵀ rhs: (P̃ + W)⁻¹ rhs, if P̃ is the precision of η under the prior; shape (rows,) or (rows, R)."""
        return self.parts.times(self.solve(self.parts.transpose_times(rhs), tolerance))

    def precondition(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """M⁻¹ r."""
        inner, n = r[self._inner], self._n_rest
        found = np.empty_like(inner)
        few, rest = self.parts.few, self._rest
        if few is None:
            found = rest.precondition(inner)  # type: ignore[union-attr]
        elif rest is None:
            found = self._rough.solve(inner)  # type: ignore[union-attr]
        else:
            held = rest.precondition(inner[:n])
            last = self._rough.solve(inner[n:] - self._across_transpose(held))  # type: ignore[union-attr]
            found[n:] = last
            found[:n] = held - rest.precondition(self._across(last))
        out = np.empty_like(found)
        out[self._inner] = found
        return out

    def draws(self, rng: np.random.Generator, n: int) -> Columns:
        """Draws of N(0, Λ⁻¹), shape (size, n): for w ≥ 0 Λ⁻¹(P^½ε + AᵀW^½ε')."""
        if self.is_dense:
            return self._dense.half_transpose(rng.standard_normal((self.parts.size, n)))
        found = [self._drawn(rng, len(some)) for some in _batches(n, self.parts.size)]
        return np.concatenate(found, axis=1)

    def _drawn(self, rng: np.random.Generator, n: int) -> Columns:
        inner = np.zeros((self.parts.size, n))
        if self.parts.few is not None:
            last = self._reduced.factor.half_transpose(rng.standard_normal((self.parts.few.size, n)))
            inner[self._n_rest :] = last
            inner[: self._n_rest] = -self._reduced.held @ last
        if self._rest is not None:
            inner[: self._n_rest] += self._rest.draws(rng, n)
        out = np.empty_like(inner)
        out[self._inner] = inner
        return out

    def determinant(self, rng: np.random.Generator, probes: int = _PROBES) -> LogDeterminant:
        """log |Λ|, by the parts' factors and what random vectors tell of the rest."""
        if self.is_dense:
            return LogDeterminant(self._dense.log_determinant(), 0.0)
        known = LogDeterminant(0.0, 0.0) if self._rest is None else self._rest.determinant(rng, probes)
        if self.parts.few is None:
            return known
        return LogDeterminant(known.logarithm + self._reduced.factor.log_determinant(), known.error)

    def variances(self, rng: np.random.Generator | None = None, draws: int = _DRAWS) -> Variances:
        """Marginal variances of the predictor and of each part.

        Those given all other parts are the factors'; what the other parts add is told by draws of them. What parts of
        few numbers add is known without draws.
        """
        return self._told(rng, draws, keep=False).variances

    def moments(self, rng: np.random.Generator | None = None, draws: int = _DRAWS) -> list[Moments]:
        """The posterior covariance of each part, as derivatives in its hyper-parameters ask for it."""
        return self.told(rng, draws).moments

    def told(self, rng: np.random.Generator | None = None, draws: int = _DRAWS) -> Told:
        """Both, by the same draws."""
        return self._told(rng, draws, keep=True)

    def _told(self, rng: np.random.Generator | None, draws: int, keep: bool) -> Told:
        rng = np.random.default_rng(0) if rng is None else rng
        if self.is_dense:
            root = self._dense.inverse_root
            return Told(self._by_root(root), [Moments(None, some) for some in self.parts.split(root)])
        rest = self._rest
        predictor = np.zeros(len(self.site_precision))
        rows, numbers, moments = {}, {}, {}
        if rest is not None:
            (predictor, found_rows, found_numbers), found = rest.told(rng, draws, keep)
            rows, numbers = dict(zip(self.parts.apart, found_rows)), dict(zip(self.parts.apart, found_numbers))
            moments = dict(zip(self.parts.apart, found))
        if self.parts.few is not None:
            added = self._by_root(self.few_root)
            predictor = predictor + added.predictor
            for j, root in enumerate(self.parts.split(self.few_root)):
                rows[j] = rows.get(j, 0.0) + added.parts[j]
                numbers[j] = numbers.get(j, 0.0) + added.numbers[j]
                own = moments.get(j, Moments(None, np.zeros((len(root), 0))))
                moments[j] = Moments(own.factor, np.hstack([own.columns, root]) if keep else own.columns)
        order = range(len(self.parts.components))
        variances = Variances(predictor, [rows[j] for j in order], [numbers[j] for j in order])
        return Told(variances, [moments[j] for j in order])

    @property
    def is_dense(self) -> bool:
        """Whether all is dense, and exact."""
        return self.parts.size <= self.parts.dense

    @property
    def root(self) -> Columns:
        """C with Λ⁻¹ = C Cᵀ, where all is dense."""
        return self._dense.inverse_root

    def apart(self) -> tuple[Sequence[Any], list[Any]]:
        """The parts that aren't taken together, and a factor of each given all others."""
        return (self._rest.parts.components, self._rest.alone) if self._rest is not None else ((), [])

    def apart_slices(self) -> list[slice]:
        """Where each of these is in `apart_draws`."""
        return [] if self._rest is None else self._rest.parts.slices

    def apart_draws(self, rng: np.random.Generator, n: int) -> Dependence:
        """Draws of these, given those taken together, and the means of each given the others in the same draw."""
        if self._rest is None:
            return Dependence(*np.zeros((2, 0, n), np.float32), *np.zeros((2, 0, 0)))
        return self._rest.dependence(rng, n)

    @cached_property
    def few_root(self) -> Columns:
        """How z moves with the few numbers, shape (size, of these): their part of Λ⁻¹ is this times its transpose."""
        few = self.parts.few
        root = np.zeros((self.parts.size, 0 if few is None else few.size))
        if few is not None:
            own = self._reduced.factor.inverse_root
            root[self._inner[: self._n_rest]] = self._reduced.held @ -own
            root[self._inner[self._n_rest :]] = own
        return root

    def _by_root(self, root: Columns) -> Variances:
        """Of covariances root rootᵀ."""
        parts, n = self.parts.components, len(self.site_precision)
        predictor, rows, roots = np.zeros(n), [np.zeros(n) for _ in parts], self.parts.split(root)
        together = max(1, _NUMBERS // n)
        for start in range(0, root.shape[1], together):
            seen = [part.times(some[:, start : start + together]) for part, some in zip(parts, roots)]
            predictor += _squares(_total(seen))
            for own, x in zip(rows, seen):
                own += _squares(x)
        return Variances(predictor, rows, list(map(_squares, roots)))

    @cached_property
    def _dense(self) -> Any:
        return self.parts.whole.factor(self.site_precision)

    @cached_property
    def _rest(self) -> _Apart | None:
        if self.parts.rest is None:
            return None
        return _Apart(self.parts.rest, self.site_precision, self._columns, self._recent, self._once)

    def _across(self, few: NDArray[np.float64]) -> NDArray[np.float64]:
        """A_<ᵀ W A_f z of the few numbers z."""
        seen = self.parts.few.times(few)  # type: ignore[union-attr]
        return self.parts.rest.transpose_times((self.site_precision * seen.T).T)  # type: ignore[union-attr]

    def _across_transpose(self, others: NDArray[np.float64]) -> NDArray[np.float64]:
        """A_fᵀ W A_< z of all others."""
        seen = self.parts.rest.times(others)  # type: ignore[union-attr]
        return self.parts.few.transpose_times((self.site_precision * seen.T).T)  # type: ignore[union-attr]

    @cached_property
    def _rough(self) -> DenseFactor | None:
        """Of what is left of the few numbers, by the preconditioner of the others."""
        rest = self._rest
        found = self._schur(None if rest is None else lambda x, *_: rest.precondition(x))
        return None if found is None else found.factor

    @cached_property
    def _reduced(self) -> _Schur:
        """The same, by solutions whose errors are small beside what is left."""
        rest = self._rest
        found = self._schur(None if rest is None else rest.left)
        assert found is not None
        return found

    def _schur(self, solve: Any) -> _Schur | None:
        few: Any = self.parts.few
        S = few.precision + few.information(self.site_precision)
        if solve is None:
            factor = dense_factor(S)
            return None if factor is None else _Schur(np.zeros((0, len(S))), factor)
        held = np.empty((self._n_rest, len(S)))
        batches, whole = _batches(len(S), self.parts.size), np.diagonal(S).copy()
        for some in batches:
            held[:, some] = solve(self._across(np.eye(len(S))[:, some]), whole[some], f"few {some.start}")
        for some in batches:  # XᵀΛX with X = [−Y, I]: never less than the complement
            twice = self._across(2.0 * np.eye(len(S))[:, some])
            S[:, some] += held.T @ (self._rest.matvec(held[:, some]) - twice)  # type: ignore[union-attr]
        factor = dense_factor(0.5 * (S + S.T))
        return None if factor is None else _Schur(held, factor)


class _Share(NamedTuple):
    """Which number of another part each level of a group sees, and how the level's mean falls with it: G⁻¹b."""

    level: NDArray[np.intp]
    seen: NDArray[np.intp]
    mean: NDArray[np.float64]


class _Schur(NamedTuple):
    """Of the few numbers: Y = Λ_<⁻¹ A_<ᵀWA_f, and a factor of Λ_ff − A_fᵀWA_< Y."""

    held: Columns
    factor: DenseFactor


@dataclass(frozen=True)
class _Block:
    """A part, or two, with a factor of its own; `numbers` are those of its parts."""

    numbers: tuple[int, ...]
    part: Any
    factor: Any

    def of(self, z: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Its own, of vectors of all parts."""
        return z[self.numbers[0]] if len(self.numbers) == 1 else np.concatenate([z[j] for j in self.numbers])


class _Apart:
    """Λ of parts with factors of their own, groups first."""

    def __init__(
        self, parts: Parts, site_precision: Vector, tolerance: float, recent: Recent | None, once: bool
    ) -> None:
        self.parts, self.site_precision, self.tolerance, self.recent = parts, site_precision, tolerance, recent
        self._once, self._off = once, _ROUGHLY_OFF if once else _OFF
        self.blocks: list[_Block] = []
        self.usable = True
        self._found: dict[int, NDArray[np.float64]] = {}
        together = parts.nested_together if site_precision.min(initial=0.0) >= 0.0 else False
        if together and self._make(parts.nested):
            return
        if not self._make(None) or together is not None or parts.nested is None:
            return
        if site_precision.max(initial=0.0) <= _STRONGER * parts.enough_at:
            return
        parts.enough_at = float(site_precision.max(initial=0.0))
        if self._effort(_CRAWLS)[0]:
            alone, effort = self.blocks, self._effort(_LONGER)
            if self._make(parts.nested) and self._effort(_LONGER) < effort:
                parts.nested_together = True
            else:  # where data are stronger it may be
                self.blocks, self.usable = alone, True
        if recent is not None:
            recent.nested, recent.enough_at = parts.nested_together, parts.enough_at

    def _make(self, nested: tuple[tuple[int, int], Nested] | None) -> bool:
        """The blocks, two nested processes as one, which comes last; whether each has a factor."""
        parts, self.blocks = self.parts, []
        numbers: tuple[int, ...] = () if nested is None else nested[0]
        for target, part in enumerate(parts.components):
            if target not in numbers:
                self._add((target,), part, target)
        if nested is not None:
            self._add(numbers, nested[1], numbers[1])
        self.usable = all(block.factor is not None for block in self.blocks)
        return self.usable

    def _add(self, numbers: tuple[int, ...], part: Any, target: int) -> None:
        """One more block, if all before it could be made; where it sees what is left of the precisions of rows is the
        matter of one of its parts."""
        if self.blocks and self.blocks[-1].factor is None:
            return
        w = self.site_precision
        for block in self.blocks:
            source = block.numbers[0]
            if source < target:
                w = self.parts.overlaps[source, target].thinned(w, self._covariances(source, block.factor))
        self.blocks.append(_Block(numbers, part, self._factor(part, w)))

    def _effort(self, limit: int) -> tuple[bool, float]:
        """Of a system: whether it isn't solved within some iterations, and how many it took, or the residual then; all
        directions are in it, also those that rows don't see."""
        rhs = np.random.default_rng(0).standard_normal(self.parts.size)
        found = conjugate_gradients(self.matvec, rhs, self.precondition, _CRAWLING, limit)
        if found.converged:
            return False, float(found.iterations)
        return True, found.residual if np.isfinite(found.residual) else np.inf

    def _covariances(self, number: int, factor: Any) -> NDArray[np.float64]:
        """Of each level or position of a part, given all others but their neighbours of the same part."""
        if number not in self._found:
            part: Any = self.parts.components[number]
            self._found[number] = part.covariances(factor)
        return self._found[number]

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Λ z."""
        return self.parts.matvec(z) + self.parts.transpose_times(self._weighted(self.parts.times(z)))

    def precondition(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """M⁻¹ r, but exact in the levels S of parts: (I − QΛ) M⁻¹ (I − ΛQ) r + Q r with Q = S (SᵀΛS)⁻¹ Sᵀ.

        Of the level of a surface and the mean of all effects of observers only the sum is seen.
        """
        if self._levels is None:
            return self.half_transpose(self.half(r))
        S, across, factor = self._levels
        level = factor.solve(S.T @ r)
        found = r - across @ level
        found = self.half_transpose(self.half(found))
        return found + S @ (level - factor.solve(across.T @ found))

    @cached_property
    def _levels(self) -> tuple[Columns, Columns, DenseFactor] | None:
        """S, which has a column for each number that is constant over a part; Λ S, and a factor of SᵀΛS."""
        parts = self.parts.components
        if len(parts) == 1:
            return None
        widths = [part.width if isinstance(part, Group) else 1 for part in parts]
        S = linalg.block_diag(*(np.tile(np.eye(d), (part.size // d, 1)) for part, d in zip(parts, widths)))
        across = self.matvec(S)
        factor = dense_factor(S.T @ across)
        return None if factor is None else (S, across, factor)

    def half(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """G⁻¹ r, block by block."""
        found: list[NDArray[np.float64]] = []
        split, eta = self.parts.split(r), None
        for block in self.blocks:
            some = block.of(split)
            if eta is not None:
                some = some - block.part.transpose_times(self._weighted(eta))
            found.append(block.factor.half(some))
            if len(found) < len(self.blocks):
                seen = block.part.times(block.factor.half_transpose(found[-1]))
                eta = seen if eta is None else eta + seen
        return np.concatenate(found)

    def half_transpose(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """G⁻ᵀ v, for v block by block."""
        found: dict[int, NDArray[np.float64]] = {}
        stop, eta = len(v), None
        for block in reversed(self.blocks):
            sizes = [self.parts.components[j].size for j in block.numbers]
            left = v[stop - sum(sizes) : stop]
            stop -= sum(sizes)
            if eta is not None:
                left = left - block.factor.half(block.part.transpose_times(self._weighted(eta)))
            own = block.factor.half_transpose(left)
            found |= zip(block.numbers, np.split(own, np.cumsum(sizes)[:-1]))
            if len(found) < len(self.parts.components):
                seen = block.part.times(own)
                eta = seen if eta is None else eta + seen
        return np.concatenate([found[j] for j in range(len(found))])

    def left(self, rhs: Columns, whole: Vector, name: str) -> Columns:
        """Λ⁻¹ b for columns b, to an error that is small beside whole − bᵀΛ⁻¹b, also of sums of columns."""
        return self.solve(rhs, name, lambda energy: np.maximum(_OF_LEFT * (whole - energy), _ROUNDING * whole))

    def solve(self, rhs: Columns, name: str = "", unit: Any = lambda energy: 1.0) -> Columns:
        """Λ⁻¹ rhs, many columns; systems that have a name begin where the recent ones of this name have ended."""
        if self.recent is None or not name:
            return _solved(self.matvec, rhs, self.precondition, self._off, unit=unit)
        start = self.recent.like(name, rhs)
        return self.recent.keep(name, _solved(self.matvec, rhs, self.precondition, self._off, start, unit))

    def determinant(self, rng: np.random.Generator, probes: int) -> LogDeterminant:
        """log |Λ| = Σ log |D_j| + log |G⁻¹ΛG⁻ᵀ|."""
        logarithms = np.empty(probes)
        for some in _batches(probes, self.parts.size):
            noise = rng.standard_normal((self.parts.size, len(some)))
            logarithms[some] = inverse_root(self._around, noise, self.tolerance, _MOST_ROOT, rooted=False).logarithm
        known = sum(block.factor.log_determinant() for block in self.blocks)
        error = float(np.std(logarithms) / np.sqrt(probes))
        return LogDeterminant(known + float(np.mean(logarithms)), error)

    def told(
        self, rng: np.random.Generator, draws: int, keep: bool
    ) -> tuple[tuple[Vector, list[Vector], list[Vector]], list[Moments]]:
        """Variances of the predictor, and of each part at rows and by its numbers; moments of each part, if these are
        to be kept."""
        parts = self.parts.components
        alone = self._exact if self._exact is not None else self.alone
        rows = [part.within_rows(factor) for part, factor in zip(parts, alone)]
        numbers = [factor.inverse_diagonal() for factor in alone]
        if self._exact is not None:
            known = rows[0] if len(parts) == 1 else self._of_both(rows[0])
            return (known, rows, numbers), [Moments(f, np.zeros((len(v), 0))) for f, v in zip(alone, numbers)]
        levels = self._covariance_of_levels[0]
        seen, means = self._given_others(levels)
        at_rows = [part.times(mean) for part, mean in zip(parts, means)]
        predictor = DrawnVariance(rows, seen, at_rows)
        added_rows, added = list(map(_squares, at_rows)), list(map(_squares, means))
        of_levels, kept = means, [[np.zeros((len(x), 0))] for x in numbers]
        for z in self._draws_beside_levels(rng, draws):
            seen, means = self._given_others(z)
            at_rows = [part.times(mean) for part, mean in zip(parts, means)]
            predictor.add(seen, at_rows)
            for j, mean in enumerate(means):
                added[j] += _squares(mean) / draws
                added_rows[j] += _squares(at_rows[j]) / draws
                if keep:
                    kept[j].append(mean)
        columns = [np.hstack([*(x / np.sqrt(draws) for x in some), known]) for some, known in zip(kept, of_levels)]
        found = (predictor.value(), [a + b for a, b in zip(rows, added_rows)], [a + b for a, b in zip(numbers, added)])
        return found, [Moments(factor, some) for factor, some in zip(alone, columns)]

    def draws(self, rng: np.random.Generator, n: int, name: str = "") -> Columns:
        """Of N(0, Λ⁻¹)."""
        w = self.site_precision
        if w.min(initial=0.0) < 0.0:  # no noise has such a precision
            noise = rng.standard_normal((self.parts.size, n))
            return self.half_transpose(inverse_root(self._around, noise, self.tolerance, _MOST_ROOT).root)
        noise = np.sqrt(w)[:, None] * rng.standard_normal((len(w), n))
        return self.solve(self.parts.precision_noise(rng, n) + self.parts.transpose_times(noise), name)

    @cached_property
    def _covariance_of_levels(self) -> tuple[Columns, Columns]:
        """C with CCᵀ = Λ⁻¹S (SᵀΛ⁻¹S)⁻¹ SᵀΛ⁻¹, what of Λ⁻¹ moves the sums Sᵀz; and T, so that z − CTᵀz has the rest.

        All levels of a group share it: by draws they would all be off by the same.
        """
        none = np.zeros((self.parts.size, 0))
        if self._levels is None:
            return none, none
        S = self._levels[0]
        found = self.solve(S, "levels", lambda energy: _OF_LEFT * energy)
        factor = dense_factor(S.T @ found)
        return (none, none) if factor is None else (found @ factor.inverse_root, S @ factor.inverse_root)

    def _draws_beside_levels(self, rng: np.random.Generator, n: int) -> Iterator[Columns]:
        """Draws of what `_covariance_of_levels` leaves, some at a time."""
        along, across = self._covariance_of_levels
        for some in _batches(n, self.parts.size):
            z = self.draws(rng, len(some), f"draws {some.start}")
            yield z - along @ (across.T @ z)

    def _given_others(self, z: Columns) -> tuple[list[Columns], list[Columns]]:
        """All parts as rows see them, and the means of each given the others."""
        parts, w = self.parts.components, self.site_precision
        seen = [part.times(own) for part, own in zip(parts, self.parts.split(z))]
        eta = _total(seen)
        means = [
            -_alone(part, factor, w, part.transpose_times(self._weighted(eta - own)), self._off)
            for part, factor, own in zip(parts, self.alone, seen)
        ]
        return seen, means

    def dependence(self, rng: np.random.Generator, n: int) -> Dependence:
        """What draws tell of how parts depend on each other, in single precision."""
        levels = self._covariance_of_levels[0]
        of_levels = np.concatenate(self._given_others(levels)[1])
        draws, means = np.empty((2, self.parts.size, n), np.float32)
        stop = 0
        for z in self._draws_beside_levels(rng, n):
            some = slice(stop, stop := stop + z.shape[1])
            draws[:, some] = z
            means[:, some] = np.concatenate(self._given_others(z)[1])
        return Dependence(draws, means, levels, of_levels)

    @cached_property
    def alone(self) -> list[Any]:
        """Factors of each part's own P + AᵀWA."""
        if len(self.parts.components) == 1:
            return [self.blocks[0].factor]
        found = [self._factor(part, self.site_precision) for part in self.parts.components]
        if any(factor is None for factor in found):
            raise NotPositiveDefiniteError("site precisions below 0 leave a part no covariance")
        return found

    def _factor(self, part: Any, w: Vector) -> Any:
        """Of a part alone; None where w < 0 leaves none."""
        return part.factor_for_many(w) if isinstance(part, Process) and not self._once else part.factor(w)

    @cached_property
    def _exact(self) -> list[Any] | None:
        """Factors of the inverse of each part's own block of Λ⁻¹, where these are known: of one part, and of a group
        whose levels see one number each of another part, z: of level l given z_p it is G_l⁻¹ with mean −G_l⁻¹b z_p."""
        factors = [block.factor for block in self.blocks]
        if len(factors) == 1 and len(self.parts.components) == 1:
            return factors
        if self._share is None:
            return None
        v = factors[1].inverse_diagonal()[self._share.seen]
        covariance = factors[0].inverse.copy()
        along = self._share.mean
        covariance[self._share.level] += v[:, None, None] * along[:, :, None] * along[:, None, :]
        return [BlockFactor(np.linalg.cholesky(covariance).transpose(0, 2, 1)), factors[1]]

    @cached_property
    def _share(self) -> _Share | None:
        if len(self.parts.components) != 2 or not isinstance(self.parts.components[0], Group):
            return None
        if not isinstance(self.parts.components[1], Process):
            return None
        overlap = self.parts.overlaps[0, 1]
        if len(np.unique(overlap.level)) < len(overlap.level):
            return None
        along = overlap.along(self.site_precision)
        mean = np.einsum("pjk,pk->pj", self.blocks[0].factor.inverse[overlap.level], along)
        return _Share(overlap.level, overlap.seen, mean)

    def _of_both(self, of_group: Vector) -> Vector:
        """Variances of the sum of a group and what its levels see one number of, given those of the group."""
        parts: Any = self.parts.components
        (group, process), share = parts, self._share
        assert share is not None
        v, c = self.blocks[1].factor.inverse_diagonal()[process.at], process.weight[:, 0]
        mean = np.zeros((group.levels, group.width))
        mean[share.level] = share.mean
        return of_group + c**2 * v - 2.0 * c * v * np.einsum("ij,ij->i", group.weight, mean[group.at])

    def _around(self, x: Columns) -> Columns:
        """G⁻¹ΛG⁻ᵀ x."""
        return self.half(self.matvec(self.half_transpose(x)))

    def _weighted(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        return (self.site_precision * eta.T).T


@dataclass(frozen=True)
class _Overlap:
    """Which rows see which pair of one part's level, or position, and another's.

    Attributes
    ----------
    pair : of each row, shape (rows,).
    level, seen : of the first part, and of the second, for each pair.
    weight : the first part's, shape (rows, d).
    other : the second part's, shape (rows,): of several numbers a level has, the first.
    """

    pair: NDArray[np.intp]
    level: NDArray[np.intp]
    seen: NDArray[np.intp]
    weight: NDArray[np.float64]
    other: Vector

    @classmethod
    def of(cls, first: Any, second: Any) -> _Overlap:
        """Of two parts of which each row sees one level or position."""
        at, count = second.at, int(second.at.max(initial=0)) + 1
        labels, pair = np.unique(first.at.astype(np.int64) * count + at, return_inverse=True)
        return cls(pair, labels // count, labels % count, first.weight, second.weight[:, 0])

    def thinned(self, w: Vector, inverse: NDArray[np.float64]) -> Vector:
        """What site precisions w leave to the second part where the first takes its share.

        It is the diagonal of the Schur complement; `inverse` are the covariances of the first part's levels.
        """
        total = np.bincount(self.pair, w * self.other**2)
        along = self.along(w)
        taken = np.einsum("pj,pjk,pk->p", along, inverse[self.level], along)
        share = np.divide(taken, total, out=np.zeros_like(taken), where=total > 0.0)
        return w * (1.0 - np.minimum(share, 1.0))[self.pair]

    def along(self, w: Vector) -> NDArray[np.float64]:
        """b, the block of AᵀWA that belongs to each pair, shape (pairs, d)."""
        own = w * self.other
        return np.column_stack([np.bincount(self.pair, own * column) for column in self.weight.T])


def _alone(part: Component[Any], factor: Any, w: Vector, rhs: Columns, tolerance: float) -> Columns:
    """(P_j + A_jᵀWA_j)⁻¹ rhs, columns."""

    def matvec(z: Columns) -> Columns:
        return part.matvec(z) + part.transpose_times((w * part.times(z).T).T)

    def precondition(z: Columns) -> Columns:
        return factor.half_transpose(factor.half(z))

    if isinstance(part, Group):
        return precondition(rhs)
    return _solved(matvec, rhs, precondition, tolerance, unit=lambda energy: 1.0)


def _solved(
    matvec: Any,
    rhs: Columns,
    precondition: Any,
    tolerance: float,
    start: Columns | None = None,
    unit: Any = None,
) -> Columns:
    found = solve_columns(matvec, rhs, precondition, tolerance, _MOST_STEPS, start, unit)
    if found is not None:
        return found
    tolerance = tolerance if unit is None else _RESIDUAL
    one = [conjugate_gradients(matvec, np.ascontiguousarray(x), precondition, tolerance, _MOST_STEPS).x for x in rhs.T]
    return np.column_stack(one)


class _AsOne(Dense):
    """Several components of few numbers, taken together."""

    def __init__(self, components: Sequence[Component[Any]]) -> None:
        self.components = components
        seen = scipy.sparse.hstack([part.matrix() for part in components], format="csr")
        super().__init__(seen, linalg.block_diag(*(part.precision_matrix() for part in components)))

    def precision_root(self) -> Columns:
        return np.asarray(linalg.block_diag(*(part.precision_root() for part in self.components)))


def _slices(components: Sequence[Component[Any]]) -> list[slice]:
    stops = np.cumsum([part.size for part in components]).tolist()
    return [slice(stop - part.size, stop) for stop, part in zip(stops, components)]


def _together(components: Sequence[Component[Any]]) -> list[int]:
    """Which parts are taken together: all dense ones, and the smallest others while there are few numbers in all."""
    chosen = [j for j, part in enumerate(components) if part.few]
    total = sum(components[j].size for j in chosen)
    for j in sorted(range(len(components)), key=lambda j: components[j].size):
        if j not in chosen and total + components[j].size <= _FEW:
            chosen.append(j)
            total += components[j].size
    return sorted(chosen)


def _batches(n: int, size: int) -> list[range]:
    """Of n columns of some size."""
    together = min(_TOGETHER, max(1, _NUMBERS // size))
    return [range(start, min(n, start + together)) for start in range(0, n, together)]


def _squares(root: Columns) -> Vector:
    return np.einsum("ij,ij->i", root, root)


def _total(arrays: Any) -> NDArray[np.float64]:
    first, *others = arrays
    for other in others:
        first = first + other
    return first
