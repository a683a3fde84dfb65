"""The nearest-neighbour Gaussian process, a Vecchia approximation: each point given its parents (Datta et al. 2016)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph, NeighborIndex
from npvi.kernels import Kernel, diagonal
from npvi.kernels.fast import NO_FORMULA, formula_of
from npvi.linalg import LowerHalf, Triangular, ZeroFillFactor, lower_half, widened, zero_fill_factor
from npvi.priors.base import NeighborConditional, NotPositiveDefiniteError
from npvi.priors.conditionals import conditionals
from npvi.priors.joint import JointPrediction

__all__ = ["FACTORS", "NNGP", "classical", "conditional_root"]

#: factors of P + W in the order in which they are tried
FACTORS = ("zero-fill", "zero-fill on a wider pattern", "classical")


#: products of sparse matrices are quicker where rows have no more than this part of all columns
_CROWDED = 12


class NNGP:
    """p(f) = Π_i N(f_i; b_iᵀ f_parents(i), d_i), a Gaussian with precision P = (I−B)ᵀ D⁻¹ (I−B).

    The Vecchia approximation of the Gaussian process: of all points before it in the order, each depends on a few
    near ones only, its parents (Vecchia 1988; Datta et al. 2016).

    Points are in the graph's order throughout.

    Parameters
    ----------
    kernel : covariance of f, without the nugget.
    nugget : variance added to the diagonal; part of f.
    X : (N, d) inputs in the graph's order.
    graph : Graph
    rows : positions whose conditionals are wanted, all by default; the others are left as independent points.

    Attributes
    ----------
    conditional_variance : d, shape (N,)
    marginal_variance : k(x, x) + nugget, shape (N,)
    root : T = D^{−½}(I−B), with which P = TᵀT

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = NNGP(RBF(), 0.0, X, build_graph(X, 2, order="given"))
    >>> np.linalg.inv(prior.block(np.arange(3))).round(3)
    array([[1.   , 0.607, 0.135],
           [0.607, 1.   , 0.607],
           [0.135, 0.607, 1.   ]])
    """

    exact_factor = False

    def __init__(
        self,
        kernel: Kernel,
        nugget: float,
        X: NDArray[np.float64],
        graph: Graph,
        rows: NDArray[np.int32] | None = None,
    ) -> None:
        self.kernel, self.nugget, self.X, self.graph = kernel, float(nugget), X, graph
        b, d = conditionals(kernel, self.nugget, X, graph.parents, X, graph.spatial if rows is None else rows)
        self.marginal_variance = self._marginal_variance(X)
        if rows is not None:
            others = np.ones(len(d), dtype=bool)
            others[rows] = False
            d[others] = self.marginal_variance[others]
        self._check(d, self.marginal_variance)
        self.conditional_mean_weights, self.conditional_variance = b, d
        self.root = Triangular(graph, *_rows_of_root(b, d))

    def extended(self, X: NDArray[np.float64], graph: Graph) -> NNGP:
        """The prior with the last points of `graph` added; those it has are not computed again."""
        new = NNGP.__new__(NNGP)
        new.kernel, new.nugget, new.X, new.graph = self.kernel, self.nugget, np.vstack([self.X, X]), graph
        b, d = conditionals(self.kernel, self.nugget, new.X, graph.parents[self.graph.n_points :], X)
        added = self._marginal_variance(X)
        new.marginal_variance = np.concatenate([self.marginal_variance, added])
        new._check(d, added, self.graph.n_points)
        new.conditional_variance = np.concatenate([self.conditional_variance, d])
        scale, edges = _rows_of_root(b, d)
        new.root = Triangular(
            graph, np.concatenate([self.root.diagonal, scale]), np.concatenate([self.root.edges, edges])
        )
        return new

    @property
    def fresh_variance(self) -> NDArray[np.float64]:
        """The nugget, for each point."""
        return np.full(len(self.X), self.nugget)

    def _marginal_variance(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        known = formula_of(self.kernel) != NO_FORMULA
        prior = np.full(len(X), float(self.kernel.variance)) if known else diagonal(self.kernel, X)  # type: ignore[attr-defined]
        return prior + self.nugget

    def _check(self, variance: NDArray[np.float64], marginal: NDArray[np.float64], first: int = 0) -> None:
        degenerate = ~(variance > 1e-14 * marginal)
        if degenerate.any():
            raise self._not_positive_definite(first + np.flatnonzero(degenerate))

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P x, for one vector (N,) or many (N, R)."""
        if x.ndim == 2 and x.shape[1] == 1:
            return self.matvec(x[:, 0])[:, None]
        return self.root.gram_dot(x)

    def quadratic(self, x: NDArray[np.float64]) -> float:
        """xᵀ P x."""
        return float(np.sum(self.root.dot(x) ** 2))

    def block(self, S: NDArray[np.int64]) -> NDArray[np.float64]:
        """P[S, S], dense."""
        columns = self.root.to_scipy()[:, S]
        if _CROWDED * self.graph.n_neighbors < self.graph.n_points:
            return (columns.T @ columns).toarray()
        dense = columns.toarray()
        return dense.T @ dense

    @property
    def logdet(self) -> float:
        """log |P⁻¹| = Σ log d_i."""
        return float(np.log(self.conditional_variance).sum())

    def draw(self, rng: np.random.Generator, n: int = 1) -> NDArray[np.float64]:
        """Draws with covariance P, shape (N, n)."""
        return self.root.transpose_dot(rng.standard_normal((self.graph.n_points, n)))

    def conditional(self, Z: NDArray[np.float64], times: int = 1) -> NeighborConditional:
        """f at new points given f at their `times` K nearest points of X: the nugget is fresh for every new row."""
        n = self.graph.n_points
        k = n if self.graph.n_neighbors >= n - 1 else min(n, times * self.graph.n_neighbors)
        return self._conditional(Z, self._index.query(self.kernel.coordinates(Z), k))

    def conditional_of_last(self, Z: NDArray[np.float64], graph: Graph) -> NeighborConditional:
        """f at the last points of an extended graph given f at the old ones among their parents; where these are few
        for some point, all are given their nearest old points instead."""
        parents = graph.parents[self.graph.n_points :]
        old = parents < self.graph.n_points
        if np.any(2 * old.sum(axis=1) < parents.shape[1]):
            return self.conditional(Z)
        return self._conditional(Z, np.where(old, parents, -1))

    def _conditional(self, Z: NDArray[np.float64], neighbors: NDArray[np.int32]) -> NeighborConditional:
        weights, variance = conditionals(self.kernel, self.nugget, self.X, neighbors, Z)
        return NeighborConditional(neighbors, weights, np.maximum(variance, 0.0))

    def nearest(self, Z: NDArray[np.float64]) -> NDArray[np.int32]:
        """Position of the nearest point of X to each new one."""
        return self._index.query(self.kernel.coordinates(Z), 1)[:, 0]

    def joint(self, Z: NDArray[np.float64], n_neighbors: int | None = None) -> JointPrediction:
        """f at all new points together given f at X, each with its own nugget."""
        return JointPrediction(self, Z, n_neighbors)

    @property
    def routes(self) -> tuple[str, ...]:
        """The zero-fill factor, on a wider pattern (at once where most of P lies outside the graph's: too much would be
        dropped), and the classical one."""
        return FACTORS[1:] if self.graph.moral_density > 3.0 else FACTORS

    def factor(self, site_precision: NDArray[np.float64], route: str, compensated: bool = False) -> ZeroFillFactor:
        """A factor of P + W by one of the `routes`."""
        if route == "classical":
            return classical(self, site_precision)
        return zero_fill_factor(self.root if route == "zero-fill" else self.wide_root, site_precision, compensated)

    @cached_property
    def precision_diagonal(self) -> NDArray[np.float64]:
        """The diagonal of P."""
        return self.root.column_norms_squared()

    @cached_property
    def lower_half(self) -> LowerHalf:
        """P itself, for the column sweep."""
        return lower_half(self.root)

    @cached_property
    def wide_root(self) -> Triangular:
        """T on a pattern twice as wide, for a factor that loses less."""
        return widened(self.root, self.lower_half)

    @cached_property
    def conditional_mean_weights(self) -> NDArray[np.float64]:
        """b, shape (N, K)."""
        return -self.root.edges * np.sqrt(self.conditional_variance)[:, None]

    def forget_precision(self) -> None:
        """Drop what is only needed while fitting, and can be found again."""
        for name in ("conditional_mean_weights", "lower_half", "wide_root"):
            self.__dict__.pop(name, None)

    @cached_property
    def _index(self) -> NeighborIndex:
        return NeighborIndex(self.kernel.coordinates(self.X))

    def _not_positive_definite(self, positions: NDArray[np.int64]) -> NotPositiveDefiniteError:
        i = int(positions[0])
        members = np.append(self.graph.parents[i][self.graph.parents[i] >= 0], i)
        points = self.kernel.coordinates(self.X[members])
        distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
        distances[np.tril_indices(len(members))] = np.inf
        a, b = divmod(int(np.argmin(distances)), len(members))
        rows = tuple(self.graph.order[members[[a, b] if a != b else [a]]].tolist())
        variances = self.marginal_variance[np.isfinite(self.marginal_variance) & (self.marginal_variance > 0.0)]
        enough = max(1e-4 * (float(variances.max()) if len(variances) else 1.0), 10.0 * max(self.nugget, 0.0))
        where = f"rows {{}} and {{}} are only {distances[a, b]:.3g} apart" if a != b else "row {}"
        asked = "take a larger" if self.nugget > 0.0 else "add a"
        return NotPositiveDefiniteError(
            f"the kernel matrix of a point and its neighbours isn't positive definite ({len(positions)} of "
            f"{self.graph.n_points} points; {where} and the nugget is {self.nugget:.3g}): {asked} nugget, for example "
            f"nugget={enough:.3g}, or choose a smaller variance or a rougher kernel",
            rows,
        )


def conditional_root(
    kernel: Kernel,
    X: NDArray[np.float64],
    neighbors: NDArray[np.int32],
    Z: NDArray[np.float64],
    visit: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows of D^{−½}(I−B) for points Z given f at their `neighbors` among X: their diagonal, shape (M,), and the
    entries of neighbours, shape (M, K); not finite where rounding leaves no variance. Both are found in the order
    `visit`.

    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [9.0]])
    >>> root = conditional_root(RBF(), X, np.array([[0]], np.int32), np.array([[1.0]]), np.zeros(1, np.int32))
    >>> [part.round(4).tolist() for part in root]
    [[1.2578], [[-0.7629]]]
    """
    b, d = conditionals(kernel, 0.0, X, neighbors, Z, visit)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _rows_of_root(b, d)


def _rows_of_root(b: NDArray[np.float64], d: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Diagonal and edges of T = D^{−½}(I−B)."""
    scale = 1.0 / np.sqrt(d)
    return scale, -b * scale[:, None]


def classical(prior: NNGP, site_precision: NDArray[np.float64]) -> ZeroFillFactor:
    """The usual preconditioner (I−B)ᵀ(D⁻¹+W)(I−B), in the same clothes as the zero-fill factor."""
    with np.errstate(invalid="ignore"):  # NaN where sites take away more than there is: that is no factor
        scale = np.sqrt(1.0 + site_precision * prior.conditional_variance)
    root = prior.root
    transpose = type(root)(root.graph, root.diagonal * scale, root.edges * scale[:, None])
    return ZeroFillFactor(transpose, np.empty(0, dtype=np.int64))
