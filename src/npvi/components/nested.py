"""Two processes, of which each position of one lies at a position of the other: z₀ in space, z₁ in space and time.

Of z₀ and z₁ the data see the sum u = z₁ + E z₀ alone, E having a single 1 in each row. Where data are strong, block
Gauss–Seidel crawls along the difference. In terms of z₀ and u the posterior's precision is

    ( P₀ + EᵀP₁E   −EᵀP₁  )
    (   −P₁E       P₁ + W )  =  G Gᵀ,   G = ( T₀ᵀ           0 )
                                            ( −P₁E T₀⁻¹     U )

with T₀ᵀT₀ = P₀ + EᵀP₁E, the precision of z₀ given u, in which there is no W, and U Uᵀ = P_u + W, where u, with the
sum of both kernels, has the precision P_u. Neither is at hand, and the zero-fill factor of the former breaks down. Both
have approximations which can't: P_u is a nearest-neighbour process with the sum kernel, its neighbours chosen by
correlation, the nearest in place at other times, and the nearest in time. T₀ follows from the conditionals of z₀ at a
position given z₀ at its parents and u = 0 at places around. Of many visits to a place those would see a few only;
there T₀⁻¹ is found column by column from P₀ + EᵀP₁E itself. As preconditioners they needn't be more than near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.components.process import Process, ProcessPrecision, usable
from npvi.graph import Graph, NeighborIndex, build_graph
from npvi.kernels import Kernel, Linear, Matern12, Subset, evaluate
from npvi.linalg import Triangular, lower_half_of
from npvi.priors import NNGP, NotPositiveDefiniteError, conditional_root

__all__ = ["Nested", "NestedFactor", "nested_pair"]

Vector = NDArray[np.float64]

#: places around a position where u is known, as its conditional sees them
_AROUND = 40
#: visits to a place, on average, from which on these would see too few of them
_VISITS = 4
#: a length scale that leaves no correlation between places
_NOTHING = 1e-100
#: rounding of inputs, relative to the largest
_ROUNDED = 1e-9


def nested_pair(components: Sequence[Any]) -> tuple[int, int] | None:
    """Numbers of the first two processes of which one's positions lie within the other's: the one that they lie in, and
    the finer one; None where there are none. Weights of rows are not for this, nor are inputs that have nothing to do
    with each other, though no two rows may share any.

    >>> from npvi.components.base import Rows
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> from npvi.kernels import RBF
    >>> space, time = (NNGP(RBF(), 0.1, x, build_graph(x, 1, order="given")) for x in (X, Z))
    >>> rows = np.array([0, 1, 2, 2])
    >>> nested_pair([Process(time, Rows(3, rows)), Process(space, Rows(2, np.array([0, 0, 1, 1])))])
    (1, 0)
    """
    alike = [j for j, part in enumerate(components) if isinstance(part, Process) and part.rows.weight is None]
    for coarse in alike:
        for fine in alike:
            if coarse == fine or components[coarse].size > components[fine].size:
                continue
            at = _positions(components[coarse], components[fine])
            if at is not None and _contained(components[coarse].prior.X[at], components[fine].prior.X):
                return coarse, fine
    return None


def _contained(coarse: NDArray[np.float64], fine: NDArray[np.float64]) -> bool:
    """Whether each column of one is one of the other's, in other units perhaps, or what is left of it in cells.

    >>> x, z = np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.4, 0.9])
    >>> _contained(x[:, None], np.column_stack([z, 2.0 * x])), _contained(x[:, None], z[:, None])
    (True, False)
    >>> _contained(np.array([[0.25], [0.25], [0.75]]), x[:, None])  # cells of a half
    True
    """

    def among(column: Vector) -> bool:
        size, squares = np.abs(column).max(initial=0.0), np.einsum("ij,ij->j", fine, fine)
        ratio = np.divide(column @ fine, squares, out=np.zeros_like(squares), where=squares > 0.0)
        apart = float(np.diff(np.unique(column)).min(initial=np.inf))
        off = np.minimum(np.abs(column[:, None] - fine).max(axis=0), np.abs(column[:, None] - ratio * fine).max(axis=0))
        return bool((off <= (0.5 * apart if np.isfinite(apart) else 0.0) + _ROUNDED * size).any())

    return all(among(column) for column in coarse.T)


def _positions(coarse: Process, fine: Process) -> NDArray[np.intp] | None:
    """At which position of one each position of the other lies; None where some lie at several, or no row sees them."""
    found = np.full(fine.size, -1)
    found[fine.at] = coarse.at
    return found if found.min(initial=0) >= 0 and np.array_equal(found[fine.at], coarse.at) else None


class Nested:
    """Both processes as one, z₀ first.

    Parameters
    ----------
    coarse, fine : z₀ and z₁; their priors are nearest-neighbour ones.
    """

    def __init__(self, coarse: Process, fine: Process) -> None:
        self.coarse, self.fine = coarse, fine
        found = _positions(coarse, fine)
        assert found is not None
        self.at = found

    def times(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """What rows see of both, for one vector (size,) or many (size, R)."""
        return self.coarse.times(z[: self.coarse.size]) + self.fine.times(z[self.coarse.size :])

    def transpose_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transpose."""
        return np.concatenate([self.coarse.transpose_times(x), self.fine.transpose_times(x)])

    def factor(self, site_precision: Vector) -> NestedFactor | None:
        """Of Λ for site precisions w ≥ 0 of rows; None where rounding leaves none, as of standard deviations that are
        far from each other."""
        if self.of_sum is None or self._given_sum is None:
            return None
        found = ProcessPrecision(self.of_sum, self.fine.rows.information(site_precision))
        return None if usable(found) is None else NestedFactor(self, self._given_sum, found)

    @cached_property
    def _X(self) -> NDArray[np.float64]:
        """Inputs of both at each position of the finer one."""
        X0, X1 = self._priors[0].X, self._priors[1].X
        return np.column_stack([X0[self.at], X1])

    @cached_property
    def _priors(self) -> tuple[Any, Any]:
        return self.coarse.prior, self.fine.prior

    @cached_property
    def _kernels(self) -> tuple[Kernel, Kernel]:
        """Of z₀ and of z₁ for inputs of both, with their nuggets: moments at one place share that of z₀."""
        kernels, first = [], 0
        for prior in self._priors:
            columns = range(first, first + prior.X.shape[1])
            kernels.append(Subset(prior.kernel + Matern12(_NOTHING, prior.nugget), columns))
            first = columns.stop
        return kernels[0], kernels[1]

    @cached_property
    def of_sum(self) -> NNGP | None:
        """The prior of u; None where it isn't positive definite in rounded numbers."""
        first, second = self._kernels
        parents = self._most_correlated(first + second)
        graph = self._priors[1].graph
        try:
            return NNGP(first + second, 0.0, self._X, Graph(graph.order, parents, graph.spatial))
        except NotPositiveDefiniteError:
            return None

    def _most_correlated(self, kernel: Kernel) -> NDArray[np.int32]:
        """Of the nearest as z₀ sees them and as z₁ does, those before each position in the order whose sum is most
        correlated with its own, as many as z₁ has; padded with −1."""
        prior, graph = self._priors[0], self._priors[1].graph
        k = graph.parents.shape[1]
        by_place = build_graph(prior.kernel.coordinates(prior.X)[self.at], k, order="given").parents
        every = np.sort(np.hstack([by_place, graph.parents]), axis=1)
        every[:, 1:][every[:, 1:] == every[:, :-1]] = -1
        there = every >= 0
        row, slot = np.nonzero(there)
        covariance = np.full(every.shape, -np.inf)
        covariance[there] = evaluate(kernel, self._X[row], self._X[every[row, slot]])
        chosen = np.argsort(-covariance, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(every, chosen, axis=1)
        last = np.iinfo(found.dtype).max
        found = np.sort(np.where(found < 0, last, found), axis=1)
        return np.where(found == last, -1, found).astype(np.int32)

    @cached_property
    def _given_sum(self) -> _Root | None:
        """T₀; None where rounding leaves none."""
        many = self.fine.size >= _VISITS * self.coarse.size
        return self._by_columns() if many else self._by_conditionals()

    def _by_columns(self) -> _Root | None:
        """T₀⁻¹ on the pattern of z₀'s graph, each column the best one there for P₀ + EᵀP₁E."""
        n, (first, second) = self.coarse.size, self._priors
        parts = [_seen(first.root, np.arange(n)), _seen(second.root, self.at)]
        stacked = scipy.sparse.vstack(parts, format="csr")
        inverse = lower_half_of(stacked, first.graph).sweep(np.zeros(n))
        return _Root.usable(inverse, True)

    def _by_conditionals(self) -> _Root | None:
        """T₀ by conditionals of z₀ given z₀ at its parents and u = 0 around."""
        prior, m = self._priors[0], len(self._X)
        first, second = self._kernels
        # a last input says whether z₁ is there: in u, not in z₀ alone
        d = self._X.shape[1]
        kernel = Subset(first, range(d)) + Subset(second, range(d)) * Subset(Linear(), [d])
        alone = np.hstack([prior.X, np.zeros((len(prior.X), d + 1 - prior.X.shape[1]))])
        of_sum = np.column_stack([self._X, np.ones(m)])
        places, parents = prior.kernel.coordinates(prior.X), prior.graph.parents
        around = NeighborIndex(places[self.at]).query(places, min(_AROUND, m))
        neighbors = np.hstack([around, np.where(parents < 0, -1, parents + m)]).astype(np.int32)
        both = np.vstack([of_sum, alone])
        diagonal, edges = conditional_root(kernel, both, neighbors, alone, prior.graph.spatial)
        return _Root.usable(Triangular(prior.graph, diagonal, edges[:, around.shape[1] :].copy()), False)


def _seen(root: Triangular, at: NDArray[np.intp]) -> scipy.sparse.csr_array:
    """T E, the columns of T for positions that lie at one place added up, though not entry by entry."""
    there, width = root.graph.parents >= 0, root.graph.n_neighbors + 1
    columns = np.column_stack([at[np.where(there, root.graph.parents, 0)], at]).astype(np.int32)
    values = np.column_stack([np.where(there, root.edges, 0.0), root.diagonal])
    ends = np.arange(0, columns.size + 1, width, dtype=np.int32 if columns.size < 2**31 else np.int64)
    return scipy.sparse.csr_array((values.ravel(), columns.ravel(), ends), shape=(len(at), int(at.max()) + 1))


@dataclass(frozen=True)
class _Root:
    """T₀, by itself or by its inverse."""

    triangular: Triangular
    inverse: bool

    @classmethod
    def usable(cls, triangular: Triangular, inverse: bool) -> _Root | None:
        """None where there are numbers in it that are none."""
        numbers = np.isfinite(triangular.diagonal).all() and np.isfinite(triangular.edges).all()
        return cls(triangular, inverse) if numbers and (triangular.diagonal > 0.0).all() else None

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T₀⁻¹ x."""
        return self.triangular.dot(x) if self.inverse else self.triangular.solve(x)

    def transpose_solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T₀⁻ᵀ x."""
        return self.triangular.transpose_dot(x) if self.inverse else self.triangular.transpose_solve(x)

    def log_determinant(self) -> float:
        """log |T₀|."""
        logarithm = float(np.log(self.triangular.diagonal).sum())
        return -logarithm if self.inverse else logarithm


@dataclass(frozen=True)
class NestedFactor:
    """R with R Rᵀ ≈ Λ of both.

    Attributes
    ----------
    pair : both.
    given_sum : T₀.
    of_sum : P_u + W, with U.
    """

    pair: Nested
    given_sum: _Root
    of_sum: ProcessPrecision

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻¹ x, for one vector (size,) or many (size, R)."""
        first, second = x[: self.pair.coarse.size], x[self.pair.coarse.size :]
        held = self.given_sum.transpose_solve(first - self._gathered(second))
        follows = self.pair.fine.matvec(self._spread(self.given_sum.solve(held)))
        return np.concatenate([held, self.of_sum.half(second + follows)])

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """R⁻ᵀ x."""
        held, second = x[: self.pair.coarse.size], x[self.pair.coarse.size :]
        both = self.of_sum.half_transpose(second)
        pulled = self.given_sum.transpose_solve(self._gathered(self.pair.fine.matvec(both)))
        first = self.given_sum.solve(held + pulled)
        return np.concatenate([first, both - self._spread(first)])

    def log_determinant(self) -> float:
        """log |R Rᵀ|."""
        return 2.0 * self.given_sum.log_determinant() + self.of_sum.log_determinant()

    def _spread(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """E z₀."""
        return np.take(z, self.pair.at, axis=0)

    def _gathered(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Eᵀ z₁."""
        n = self.pair.coarse.size
        if z.ndim == 1:
            return np.asarray(np.bincount(self.pair.at, z, minlength=n), dtype=np.float64)
        out = np.zeros((n, z.shape[1]))
        np.add.at(out, self.pair.at, z)
        return out
