"""A process on a graph, and its precision with sites, P + W: systems, draws, the determinant, marginal variances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.components.base import Rows
from npvi.linalg import Noise, Rooted, ZeroFillFactor, conjugate_gradients, inverse_root
from npvi.priors import (
    FACTORS,
    NotPositiveDefiniteError,
    PrecisionFactor,
    Prior,
    PriorGradient,
    expected_log_density_gradient,
    marginal_gradient,
)

__all__ = ["Determinant", "Process", "ProcessPrecision", "SolverLog"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: random vectors that find out how far from exact a factor is, and what is missing of its determinant
PROBES = 8
#: ‖M ε − ε‖/‖ε‖ from which on a factor is no help, from which on its derivatives aren't, and up to which it is as good
#: as exact
_USELESS, _POOR, ACCURACY = 100.0, 0.3, 0.01
#: about what draws may leave out, relatively, that are summed over rows: less than a nat in the slope of a nugget, of a
#: million rows, however they are divided
_LEFT = 1e-6
#: rows for each position from which on a wider factor is worth it: an iteration, which goes through all rows, then
#: costs more than the width does
_VISITS = 8
#: draws for the marginal variances where there is no better factor
_DRAWS = 64


class Process:
    """z ~ N(0, P⁻¹) at the positions of a graph.

    Parameters
    ----------
    prior : of z.
    rows : which of its positions each row of the data sees; by default each its own.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.priors import NNGP
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> process = Process(NNGP(RBF(), 0.0, X, build_graph(X, 2, order="given")), Rows(3, np.array([0, 0, 2])))
    >>> process.times(np.array([1.0, 2.0, 3.0])), process.row_variance()
    (array([1., 1., 3.]), array([1., 1., 1.]))
    """

    few: ClassVar[bool] = False

    def __init__(self, prior: Prior, rows: Rows | None = None) -> None:
        self.prior = prior
        self.rows = Rows(prior.graph.n_points) if rows is None else rows

    @property
    def size(self) -> int:
        """Positions."""
        return self.prior.graph.n_points

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """A z at the rows of the data, for one vector (size,) or many (size, R)."""
        return self.rows.times(z)

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ x, for x of shape (rows,) or (rows, R)."""
        return self.rows.transpose_times(x)

    def of_rows(self, rows: NDArray[np.intp]) -> Process:
        """The same z, seen by some of the rows."""
        weight = None if self.rows.weight is None else self.rows.weight[rows]
        return Process(self.prior, Rows(self.size, self.rows.positions[rows], weight))

    def matvec(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P z, for one vector (size,) or many (size, R)."""
        return self.prior.matvec(z)

    def quadratic(self, z: Vector) -> float:
        """zᵀ P z."""
        return self.prior.quadratic(z)

    @property
    def logdet(self) -> float:
        """log |P⁻¹|."""
        return self.prior.logdet

    def row_variance(self, widest: float = np.inf) -> Vector:
        """Prior variances of A z, shape (rows,)."""
        seen = self.rows.times(self.prior.marginal_variance)
        return seen if self.rows.weight is None else self.rows.weight * seen

    def precision_noise(self, rng: np.random.Generator, n: int) -> Columns:
        """Random vectors with covariance P, shape (size, n)."""
        return self.prior.draw(rng, n)

    def factor(self, site_precision: Vector) -> ProcessPrecision | None:
        """Of P + AᵀWA, by the first of the prior's routes that makes one that can be used, if possible without
        breakdowns; None where w < 0 leaves none."""
        return usable(ProcessPrecision(self.prior, self.rows.information(site_precision)))

    def factor_for_many(self, site_precision: Vector) -> ProcessPrecision | None:
        """The same for many systems, each of which goes through all rows: on a wider pattern where many rows see each
        position, unless it breaks down."""
        if len(self.rows) >= _VISITS * self.size and FACTORS[1] in self.prior.routes:
            information = self.rows.information(site_precision)
            wider: Any = self.prior.factor(information, FACTORS[1])
            if not len(wider.breakdowns):
                return usable(ProcessPrecision(self.prior, information, own=(FACTORS[1], wider)))
        return self.factor(site_precision)

    def gradient(
        self, functions: Columns, factor: ProcessPrecision | None = None, rng: np.random.Generator | None = None
    ) -> PriorGradient:
        """In the hyper-parameters, of E log p(z): for E zzᵀ = `factor`⁻¹ + functions functionsᵀ.

        Where the factor's derivatives aren't known, draws tell them, with random numbers by `rng`.
        """
        prior: Any = self.prior
        if factor is not None:
            own = factor.factor()
            if own.root is not None and not len(own.breakdowns):
                noise = Noise(prior.graph.order).columns(0, PROBES)
                return marginal_gradient(prior, functions, own, factor.draws(own, noise), noise)
            rng = np.random.default_rng(0) if rng is None else rng
            drawn = own.half_transpose(rng.standard_normal((self.size, _DRAWS))) / np.sqrt(_DRAWS)
            functions = np.hstack([functions, drawn])
        return expected_log_density_gradient(prior, functions, np.ones(functions.shape[1]))

    def within_rows(self, factor: ProcessPrecision) -> Vector:
        """The diagonal of A (P + AᵀWA)⁻¹ Aᵀ, shape (rows,), by a factor."""
        seen = self.rows.times(factor.inverse_diagonal())
        return seen if self.rows.weight is None else self.rows.weight * seen

    @property
    def at(self) -> NDArray[np.intp]:
        """The position that each row sees, shape (rows,)."""
        return self.rows.positions

    @property
    def weight(self) -> Columns:
        """What it is multiplied with, shape (rows, 1)."""
        return np.ones((len(self.rows), 1)) if self.rows.weight is None else self.rows.weight[:, None]

    def covariances(self, factor: ProcessPrecision) -> NDArray[np.float64]:
        """The diagonal of (P + AᵀWA)⁻¹, shape (size, 1, 1)."""
        return factor.inverse_diagonal()[:, None, None]

    def matrix(self) -> scipy.sparse.csr_array:
        """A, a sparse matrix."""
        return self.rows.matrix()

    def precision_matrix(self) -> NDArray[np.float64]:
        """P, dense."""
        return self.prior.block(np.arange(self.size))

    def precision_root(self) -> NDArray[np.float64]:
        """T with P = TᵀT, dense, of a nearest-neighbour prior."""
        prior: Any = self.prior
        return np.asarray(prior.root.to_scipy().toarray())


def usable(found: ProcessPrecision) -> ProcessPrecision | None:
    """A precision with a factor to stay with: where the first one breaks down, which leaves it far off in some
    direction, the next one that derivatives are known of. None where w < 0 leaves no factor."""
    with np.errstate(over="ignore", invalid="ignore"):  # w < 0
        factor = found.factor()
        if factor is not None and len(factor.breakdowns) and "classical" not in found.prior.routes[:2]:
            found.fall_back()
            factor = found.factor()
    return None if factor is None else found


@dataclass
class SolverLog:
    """What the solves of one fit took; goes into ``fit_info_``."""

    iterations: list[int] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    breakdowns: list[int] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)


class Determinant(NamedTuple):
    """log |P + W|, by a factor and what random vectors tell of it."""

    logarithm: float
    error: float
    """Its standard error."""
    departure: float
    """‖M ε − ε‖/‖ε‖ with M = U⁻¹(P+W)U⁻ᵀ: how far the factor U Uᵀ is from exact."""
    draws: Columns | None
    """Some of N(0, (P + W)⁻¹), of a factor that has no derivatives."""


class ProcessPrecision:
    """P + W of a process for one W.

    The prior says which factors of P + W there are. A nearest-neighbour prior has the zero-fill factor on the graph's
    pattern first (on a pattern twice as wide, if P is far denser than the graph). Where conjugate gradients haven't
    reached the tolerance in `patience` iterations, the wider factor goes on from there, then the classical
    preconditioner (I−B)ᵀ(D⁻¹+W)(I−B); each change is noted in the log. A low-rank prior's factor is exact: one
    iteration, and another to take back rounding.

    Parameters
    ----------
    prior, site_precision : P and w.
    log : where to note what solves take.
    tolerance : of solves.
    nearby : a factor for other site precisions, if there is one: it is tried first, and a few iterations more may cost
        less than a factor of its own.
    own : the first factor for these site precisions, with the name of its route, where there is one already.
    """

    patience = 25
    #: iterations with another's factor that say how many there will be, and those that are worth a factor of its own
    _few, _worth = 6, 16

    def __init__(
        self,
        prior: Prior,
        site_precision: NDArray[np.float64],
        log: SolverLog | None = None,
        tolerance: float = 1e-10,
        nearby: PrecisionFactor | None = None,
        own: tuple[str, Any] | None = None,
    ) -> None:
        self.prior, self.site_precision, self.tolerance = prior, site_precision, tolerance
        self._nearby = nearby
        self.log = log if log is not None else SolverLog()
        self._preconditioner = own

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P + W) x, for one vector or many."""
        return self.prior.matvec(x) + (self.site_precision * x.T).T

    def factor(self) -> Any:
        """That of the first route that makes one that can be used; None where w < 0 leaves none."""
        self._preconditioner = self._preconditioner or self._build(self._first_route())
        while not self._preconditioner[1].finite:
            if not self.fall_back():
                return None
        return self._preconditioner[1]

    @property
    def route(self) -> str:
        """The name of the factor that there is."""
        return self._first_route() if self._preconditioner is None else self._preconditioner[0]

    @property
    def best(self) -> Any:
        """The factor that solves ended with."""
        return self._nearby if self._preconditioner is None else self._preconditioner[1]

    def fall_back(self) -> bool:
        """Go on to the next route; False where there is none."""
        name = self._preconditioner[0] if self._preconditioner is not None else self._first_route()
        routes = self.prior.routes
        if name == routes[-1]:
            return False
        self._preconditioner = self._build(routes[routes.index(name) + 1])
        self.log.fallbacks.append(self._preconditioner[0])
        return True

    def solve(
        self,
        rhs: NDArray[np.float64],
        tolerance: float | None = None,
        less: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> NDArray[np.float64]:
        """x with ‖(P+W)x − rhs‖ ≤ tolerance·‖rhs‖, or as near as rounding lets it.

        With `less`, a product with a matrix of low rank, the system is that of P + W less this matrix.
        """
        tolerance = self.tolerance if tolerance is None else tolerance
        matvec = self.matvec if less is None else lambda x: self.matvec(x) - less(x)
        x = np.zeros_like(rhs)
        iterations, residual = 0, 1.0
        if self._nearby is not None and self._preconditioner is None:
            found = conjugate_gradients(matvec, rhs, self._nearby.solve, tolerance, self._worth, self._few)
            iterations = found.iterations
            if found.residual < 1.0:
                x, residual = found.x, found.residual
        while residual > tolerance:
            name, factor = self._preconditioner = self._preconditioner or self._build(self._first_route())
            if factor.finite:
                # an exact factor that doesn't get there has met rounding
                last = name == self.prior.routes[-1] and not self.prior.exact_factor
                limit = 3000 if last else self.patience
                left = rhs - matvec(x) if iterations else rhs
                with np.errstate(over="ignore", invalid="ignore"):  # a factor with breakdowns may be wild
                    found = conjugate_gradients(matvec, left, factor.solve, tolerance / residual, limit)
                iterations += found.iterations
                if found.residual < 1.0:
                    x += found.x
                    residual *= found.residual
                if found.converged:
                    break
            if not self.fall_back():
                break
        self.log.iterations.append(iterations)
        self.log.residuals.append(residual)
        return x

    def determinant(self, factor: ZeroFillFactor, noise: Noise, vectors: int = PROBES) -> Any:
        """The `Determinant` of P + W by a factor of it; None where the factor is no help.

        Parameters
        ----------
        factor : one of the routes'.
        noise : the random numbers.
        vectors : how many tell what is missing, where the factor isn't as good as exact.
        """
        drawn = factor.root is None  # the classical factor, the last one, has no derivatives
        with np.errstate(over="ignore", invalid="ignore"):  # a factor with breakdowns may be wild
            found = self._rooted(factor, noise.columns(0, PROBES), ACCURACY, rooted=drawn)
            departure = float(np.max(found.departure))
            if not departure < (_USELESS if drawn else _POOR):
                return None
            parts, count = [found], _DRAWS if drawn else vectors
            if departure > ACCURACY and count > PROBES:
                parts.append(self._rooted(factor, noise.columns(PROBES, count), ACCURACY, rooted=drawn))
        logarithms = np.concatenate([part.logarithm for part in parts])
        if not np.isfinite(logarithms).all():
            return None
        made = (
            factor.transpose.solve(np.hstack([part.root for part in parts])) if drawn and departure > ACCURACY else None
        )
        error = float(np.std(logarithms) / np.sqrt(len(logarithms)))
        return Determinant(factor.log_determinant() + float(np.mean(logarithms)), error, departure, made)

    def draws(self, factor: ZeroFillFactor, noise: Columns) -> Columns:
        """Draws of N(0, (P + W)⁻¹), one for each column ε of standard normal numbers: U⁻ᵀ M^{−½} ε.

        For sums over rows, those of many tiles together: of a million rows draws that were off by 1e-4 hid 11 nats in
        the slope of a nugget.
        """
        some = [noise[:, at : at + PROBES] for at in range(0, noise.shape[1], PROBES)]  # all steps of these are held
        return factor.transpose.solve(np.hstack([self._rooted(factor, x, _LEFT, left=True).root for x in some]))

    def _rooted(
        self, factor: ZeroFillFactor, x: Columns, tolerance: float, rooted: bool = True, left: bool = False
    ) -> Rooted:
        """M^{−½} x and xᵀ log(M) x of M = U⁻¹(P+W)U⁻ᵀ."""
        return inverse_root(lambda x: self._around(factor, x), x, tolerance, rooted=rooted, left=left)

    def marginal_variance(
        self, factor: ZeroFillFactor, noise: Noise, draws: Columns | None, ratio: Vector | float = 1.0
    ) -> Vector | None:
        """The diagonal of (P + W)⁻¹ by a factor, whose derivatives are off by a `ratio`; by draws where it has none.

        None where it can't be right: variances are between those of a point whose neighbours are all known, and (but
        for what a nearest-neighbour prior makes of it) those of the prior.
        """
        known = 1.0 / (self.prior.precision_diagonal + self.site_precision)
        if factor.root is None:
            x = draws if draws is not None else factor.transpose.solve(noise.columns(0, _DRAWS))
            return (known + np.mean((x - self.matvec(x) * known[:, None]) ** 2, axis=1)) * ratio
        variance = factor.inverse_diagonal() * ratio
        right = (variance > 0.0) & (variance < 2.0 * self.prior.marginal_variance)
        return np.maximum(variance, known) if right.all() else None

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """U⁻¹ x, U Uᵀ being the factor that there is."""
        return self.factor().half(x)

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """U⁻ᵀ x."""
        return self.factor().half_transpose(x)

    def log_determinant(self) -> float:
        """log |U Uᵀ|."""
        return self.factor().log_determinant()

    def inverse_diagonal(self) -> Vector:
        """The diagonal of (P + W)⁻¹, by the first factor whose derivatives can be right."""
        noise = Noise(self.prior.graph.order)
        while True:
            factor = self.factor()
            found = None if factor is None else self.marginal_variance(factor, noise, None)
            if found is not None:
                return found
            if not self.fall_back():
                raise NotPositiveDefiniteError("no factor tells the variances of a part: try a larger nugget")

    def _around(self, factor: ZeroFillFactor, x: Columns) -> Columns:
        """M x."""
        return factor.transpose.transpose_solve(self.matvec(factor.transpose.solve(x)))

    def _first_route(self) -> str:
        return self.prior.routes[0]

    def _build(self, name: str) -> tuple[str, Any]:
        factor = self.prior.factor(self.site_precision, name)
        self.log.breakdowns.append(len(factor.breakdowns))
        return name, factor
