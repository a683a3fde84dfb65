"""How a Gaussian process is approximated: from hyper-parameters and points to a prior, and to what learning asks of it.

A structure is what stays the same while hyper-parameters change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from npvi.graph import Graph
from npvi.kernels import Kernel
from npvi.linalg import ZeroFillFactor
from npvi.parameters import map_numbers
from npvi.posteriors import DrawsPosterior, LowRankPosterior
from npvi.priors.conditionals import conditionals
from npvi.priors.gradient import PriorGradient, expected_log_density_gradient, marginal_gradient
from npvi.priors.low_rank import FITC, LowRank, Nystrom
from npvi.priors.low_rank.prior import low_rank_gradient
from npvi.priors.nngp import NNGP

__all__ = ["LOW_RANK", "InducingPoints", "NearestNeighbors", "Part", "Structure"]

Vector = NDArray[np.float64]

#: low-rank priors by name
LOW_RANK: dict[str, type[LowRank]] = {"fitc": FITC, "nystrom": Nystrom}


class Part(Protocol):
    """What some of the points contribute to a prior's log density −½ [log |Σ| + xᵀPx]."""

    logdet: float
    """Their part of log |Σ|."""

    def whiten(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns whose squares add up to their part of xᵀPx, for x at all points."""
        ...

    def gradient(self, x: NDArray[np.float64]) -> PriorGradient:
        """Of −½ [log |Σ| + Σ xᵀPx] over the columns x at all points, in the hyper-parameters; scaled up from these
        points to all."""
        ...

    def leave_one_out(self, x: Vector) -> tuple[Vector, Vector]:
        """By how much each of these points is off what the others say, and the variance of that."""
        ...


class Structure(Protocol):
    """A way to make a prior."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    def prior(self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph) -> Any:
        """The prior of points in the graph's order."""
        ...

    def part(
        self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph, rows: NDArray[np.int32]
    ) -> Part:
        """What the points at positions `rows` contribute to its log density."""
        ...

    def gradient(
        self,
        prior: Any,
        functions: NDArray,
        posterior: Any,
        factor: Any = None,
        noise: NDArray | None = None,
        rows: NDArray[np.integer] | None = None,
    ) -> PriorGradient:
        """Of E log p(f) in the hyper-parameters, for f with the covariance (P + W)⁻¹ of `posterior` and the mean, and
        whatever else adds its squares, in the columns of `functions`; `factor` is one of P + W, if there is one; if it
        isn't as good as exact, `noise` has the random numbers that the draws were made from. By what the positions
        `rows` contribute, where they are given, scaled up from these to all."""
        ...


@dataclass(frozen=True)
class NearestNeighbors:
    """Each point given its parents in the graph: `NNGP`.

    >>> NearestNeighbors().kind
    'nngp'
    """

    kind: ClassVar[str] = "nngp"

    def prior(self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph) -> NNGP:
        """The prior of points in the graph's order."""
        return NNGP(kernel, nugget, X, graph)

    def part(
        self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph, rows: NDArray[np.int32]
    ) -> Part:
        """The sum over the conditionals of `rows`."""
        return _Conditionals(NNGP(kernel, nugget, X, graph, rows=rows), rows)

    def gradient(
        self,
        prior: NNGP,
        functions: NDArray,
        posterior: DrawsPosterior,
        factor: Any = None,
        noise: Any = None,
        rows: NDArray[np.integer] | None = None,
    ) -> PriorGradient:
        """Of E log p(f), by the factor, the posterior's draws or both."""
        draws = posterior.draws
        visit = None if rows is None else rows.astype(np.int32)
        if isinstance(factor, ZeroFillFactor) and factor.root is prior.root and not len(factor.breakdowns):
            return marginal_gradient(prior, functions, factor, None if noise is None else draws, noise, visit)
        weights = np.append(np.ones(functions.shape[1]), np.full(draws.shape[1], 1.0 / draws.shape[1]))
        return expected_log_density_gradient(prior, np.hstack([functions, draws]), weights, visit)


@dataclass(frozen=True)
class InducingPoints:
    """All points through a few inducing ones: `FITC` or `Nystrom`.

    Attributes
    ----------
    kind : "fitc" or "nystrom".
    points : (M, d) the inducing points.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = InducingPoints("nystrom", X[:2]).prior(RBF(), 0.1, X, build_graph(X, 2))
    >>> type(prior).__name__, prior.features.shape
    ('Nystrom', (3, 2))
    """

    kind: str
    points: NDArray[np.float64]

    def prior(self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph) -> LowRank:
        """The prior of points in the graph's order."""
        return LOW_RANK[self.kind](kernel, nugget, X, graph, self.points)

    def part(
        self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph, rows: NDArray[np.int32]
    ) -> Part:
        """The log density of `rows` by themselves."""
        # nobody will sweep over columns: the graph of all points does no harm
        return _Marginal(self.prior(kernel, nugget, X[rows], graph), rows, len(X) / len(rows))

    def gradient(
        self,
        prior: LowRank,
        functions: NDArray,
        posterior: LowRankPosterior,
        factor: Any = None,
        noise: Any = None,
        rows: NDArray[np.integer] | None = None,
    ) -> PriorGradient:
        """Of E log p(f), exactly."""
        assert rows is None  # only tiles ask for some, and they have no inducing points
        functions = np.hstack([functions, posterior.factor.columns])
        return low_rank_gradient(prior, functions, np.ones(functions.shape[1]), posterior.factor.diagonal)


class _Conditionals:
    """Some of the conditionals that a nearest-neighbour prior is the product of."""

    def __init__(self, prior: NNGP, rows: NDArray[np.int32]) -> None:
        self.prior, self.rows = prior, rows
        self.logdet = float(np.log(prior.conditional_variance[rows]).sum())

    def whiten(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.prior.root.dot(x)[self.rows]

    def gradient(self, x: NDArray[np.float64]) -> PriorGradient:
        return expected_log_density_gradient(self.prior, x, np.ones(x.shape[1]), self.rows)

    def leave_one_out(self, x: Vector) -> tuple[Vector, Vector]:
        """Each given its nearest others."""
        kernel, X, rows = self.prior.kernel, self.prior.X, self.rows
        points = kernel.coordinates(X)
        k = min(self.prior.graph.n_neighbors, len(points) - 1)
        near = cKDTree(points).query(points[rows], k + 1)[1].reshape(len(rows), -1)
        # the point itself goes; where k others share its place it may not be among them, and the farthest goes
        at = np.where((near == rows[:, None]).any(axis=1), np.argmax(near == rows[:, None], axis=1), k)
        others = near[np.arange(k + 1) != at[:, None]].reshape(len(near), k).astype(np.int32)
        weights, variance = conditionals(kernel, self.prior.nugget, X, others, X[rows])
        return x[rows] - np.einsum("ij,ij->i", weights, x[others]), variance


class _Marginal:
    """Some points of a low-rank prior by themselves, which is the same kind of prior."""

    def __init__(self, prior: LowRank, rows: NDArray[np.int32], scale: float) -> None:
        self.prior, self.rows, self.scale = prior, rows, scale
        self.logdet = prior.logdet

    def whiten(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.prior.whiten(x[self.rows])

    def gradient(self, x: NDArray[np.float64]) -> PriorGradient:
        found = low_rank_gradient(self.prior, x[self.rows], np.ones(x.shape[1]))
        return PriorGradient(map_numbers(lambda slope: self.scale * slope, found.kernel), self.scale * found.nugget)

    def leave_one_out(self, x: Vector) -> tuple[Vector, Vector]:
        """Each given all others: P x and the diagonal of P say it."""
        variance = 1.0 / self.prior.precision_diagonal
        return self.prior.matvec(x[self.rows]) * variance, variance
