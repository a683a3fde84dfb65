"""Two processes, of which each position of one lies at a position of the other: z₀ in space, z₁ in space and time.

Of z₀ and z₁ the data see the sum u = z₁ + E z₀ alone, E having a single 1 in each row. Where data are strong, block
Gauss–Seidel crawls along the difference. In terms of z₀ and u the posterior's precision is

    ( P₀ + EᵀP₁E   −EᵀP₁  )
    (   −P₁E       P₁ + W )  =  G Gᵀ,   G = ( T₀ᵀ           0 )
                                            ( −P₁E T₀⁻¹     U )

with T₀ᵀT₀ = P₀ + EᵀP₁E, the precision of z₀ given u, in which there is no W, and U Uᵀ = P_u + W, where u, with the
sum of both kernels, has the precision P_u. Neither is at hand, and the zero-fill factor of the former breaks down. Both
have Vecchia approximations, which can't: T₀ by the conditionals of z₀ at a position given z₀ at its parents and u = 0
at places around; P_u with the sum kernel, its neighbours chosen by correlation: the nearest in place at other times,
and the nearest in time. As preconditioners they needn't be more than near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components.process import Process, ProcessPrecision, usable
from npvi.graph import Graph, NeighborIndex, build_graph
from npvi.kernels import Kernel, Linear, Matern12, Subset, evaluate
from npvi.linalg import Triangular
from npvi.priors import NNGP, NotPositiveDefiniteError

__all__ = ["Nested", "NestedFactor", "nested_pair"]

Vector = NDArray[np.float64]

#: places around a position where u is known, as its conditional sees them
_AROUND = 40
#: a length scale that leaves no correlation between places
_NOTHING = 1e-100


def nested_pair(components: Sequence[Any]) -> tuple[int, int] | None:
    """Numbers of the first two processes of which one's positions lie within the other's: the one that they lie in, and
    the finer one; None where there are none. Weights of rows are not for this.

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
            if _positions(components[coarse], components[fine]) is not None:
                return coarse, fine
    return None


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
        """Of Λ for site precisions w ≥ 0 of rows; None where there is none."""
        found = ProcessPrecision(self.of_sum, self.fine.rows.information(site_precision))
        if self._given_sum is None or usable(found) is None:
            return None
        return NestedFactor(self, self._given_sum, found)

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
    def of_sum(self) -> NNGP:
        """The prior of u."""
        first, second = self._kernels
        parents = self._most_correlated(first + second)
        graph = self._priors[1].graph
        return NNGP(first + second, 0.0, self._X, Graph(graph.order, parents, graph.spatial))

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
    def _given_sum(self) -> Triangular | None:
        """T₀, by conditionals of z₀ given z₀ at its parents and u = 0 around; None where rounding leaves none."""
        prior, n = self._priors[0], self.coarse.size
        first, second = self._kernels
        # a last input says whether z₁ is there: in u, not in z₀ alone
        d = self._X.shape[1]
        kernel = Subset(first, range(d)) + Subset(second, range(d)) * Subset(Linear(), [d])
        alone = np.hstack([prior.X, np.zeros((n, d + 1 - prior.X.shape[1]))])
        of_sum = np.column_stack([self._X, np.ones(len(self._X))])
        places, m = prior.kernel.coordinates(prior.X), len(self._X)
        around = NeighborIndex(places[self.at]).query(places, min(_AROUND, m))
        parents = np.full((m + n, around.shape[1] + prior.graph.n_neighbors), -1, dtype=np.int32)
        parents[m:, : around.shape[1]] = np.sort(around, axis=1)
        parents[m:, around.shape[1] :] = np.where(prior.graph.parents < 0, -1, prior.graph.parents + m)
        rows = np.arange(m, m + n, dtype=np.int32)
        graph = Graph(np.arange(m + n), parents, np.arange(m + n, dtype=np.int32))
        try:
            both = NNGP(kernel, 0.0, np.vstack([of_sum, alone]), graph, rows)
        except NotPositiveDefiniteError:
            return None
        return Triangular(
            prior.graph, both.root.diagonal[m:], np.ascontiguousarray(both.root.edges[m:, around.shape[1] :])
        )


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
    given_sum: Triangular
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
        return 2.0 * float(np.log(self.given_sum.diagonal).sum()) + self.of_sum.log_determinant()

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
