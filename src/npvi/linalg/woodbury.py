"""Precisions P = Λ⁻¹ − A Aᵀ: the inverse of P + W in closed form, and the entries that the column sweep looks at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from npvi.graph import Graph
from npvi.linalg.sweep import LowerHalf, _sort
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["WoodburyFactor", "divided", "gram", "low_rank_lower_half", "raised_root", "woodbury"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: rows that are worth a thread
_GRAIN = 2048


@dataclass(frozen=True)
class WoodburyFactor:
    """(P + W)⁻¹ = diag(diagonal) + columns columnsᵀ, exactly; not finite where P + W isn't positive definite.

    Attributes
    ----------
    site_precision : w, shape (N,)
    diagonal : shape (N,)
    columns : shape (N, M)
    log_precision : log |P + W|
    """

    site_precision: Vector
    diagonal: Vector
    columns: Columns
    log_precision: float
    breakdowns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P + W)⁻¹ x, for one vector (N,) or many (N, R)."""
        return (self.diagonal * x.T).T + self.columns @ (self.columns.T @ x)

    @property
    def variance(self) -> Vector:
        """The diagonal of (P + W)⁻¹."""
        return self.diagonal + np.einsum("ij,ij->i", self.columns, self.columns)

    @property
    def finite(self) -> bool:
        """Whether there is an inverse."""
        return bool(np.isfinite(self.log_precision))

    def log_determinant(self) -> float:
        """log |P + W|."""
        return self.log_precision


def gram(columns: Columns, weights: Vector) -> NDArray[np.float64]:
    """columnsᵀ diag(weights) columns.

    >>> gram(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.5]))
    array([[ 5.5,  8. ],
           [ 8. , 12. ]])
    """

    def some(start: int, stop: int) -> NDArray[np.float64]:
        rows = columns[start:stop]
        return (rows.T * weights[start:stop]) @ rows

    return np.sum(over_chunks(some, len(columns), grain=_GRAIN), axis=0)


def woodbury(features: Columns, own_variance: Vector, log_inner: float, site_precision: Vector) -> WoodburyFactor:
    """(P + W)⁻¹ for P⁻¹ = F Fᵀ + Λ.

    With f = F u + e, u ~ N(0, I) and e ~ N(0, Λ), the precision of u once f is observed with precision W is
    E Eᵀ = I + Fᵀ diag(w/(1+λw)) F; then (P+W)⁻¹ = diag(λ/(1+λw)) + J Jᵀ with J = diag(1/(1+λw)) F E⁻ᵀ. For w ≥ 0 all
    terms are sums of positive ones: nothing cancels, however small λ is.

    Parameters
    ----------
    features : F, shape (N, M)
    own_variance : the diagonal λ of Λ, shape (N,)
    log_inner : log |I + Fᵀ Λ⁻¹ F|
    site_precision : w, shape (N,); some may be negative.

    Examples
    --------
    >>> F, own, w = np.ones((2, 1)), np.full(2, 0.5), np.ones(2)
    >>> woodbury(F, own, np.log(5.0), w).solve(np.eye(2)).round(4)  # of ([[1.5, 1], [1, 1.5]]⁻¹ + I)⁻¹
    array([[0.5238, 0.1905],
           [0.1905, 0.5238]])
    """
    shrink = 1.0 + own_variance * site_precision
    failed = WoodburyFactor(site_precision, own_variance, features, np.nan)
    if not shrink.min() > 0.0:
        return failed
    try:
        E = raised_root(gram(features, site_precision / shrink))
    except np.linalg.LinAlgError:
        return failed
    columns = divided(features / shrink[:, None], E)
    log_precision = float(np.log(shrink / own_variance).sum() + 2.0 * np.log(np.diag(E)).sum() - log_inner)
    return WoodburyFactor(site_precision, own_variance / shrink, columns, log_precision)


def raised_root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Cholesky factor of I + matrix.

    >>> raised_root(np.array([[3.0]]))
    array([[2.]])
    """
    return np.asarray(np.linalg.cholesky(np.eye(len(matrix)) + matrix), dtype=np.float64)


def divided(
    rows: NDArray[np.float64], root: NDArray[np.float64], transposed: Literal["N", "T"] = "N"
) -> NDArray[np.float64]:
    """rows root⁻ᵀ for a lower triangular root, or rows root⁻¹ for its transpose ("T"), in the place of `rows`.

    >>> root = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> divided(np.array([[1.0, 5.0]]), root), divided(np.array([[3.0, 4.0]]), root, "T")
    (array([[1., 2.]]), array([[1., 2.]]))
    """

    def some(start: int, stop: int) -> None:
        part = rows[start:stop]
        part[:] = solve_triangular(root, part.T, lower=True, trans=transposed, check_finite=False).T

    over_chunks(some, len(rows), grain=_GRAIN)
    return rows


def low_rank_lower_half(graph: Graph, own_precision: Vector, A: Columns) -> LowerHalf:
    """P = diag(own_precision) − A Aᵀ, of which only those entries that the column sweep looks at.

    P is dense, but a column's block P[S_c, S_c] with S_c = {c} ∪ children(c) only asks for pairs of points that share a
    parent, or of which one is the other's. Each is computed once, however many columns and sweeps ask for it.

    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0], [-1.0]], 1, order="given")
    >>> half = low_rank_lower_half(graph, np.full(3, 2.0), np.ones((3, 1)))
    >>> half.counts.tolist()  # both others have the first point for a parent
    [1, 2, 3]
    """
    lists = (graph.parents, graph.children.child_ptr, graph.children.child_row)

    def loop(start, stop):
        return _entries(start, stop, graph.spatial, *lists, own_precision, A)

    parts = zip(*over_chunks(loop, graph.n_points))
    counts_in_space, columns, values = (np.concatenate(part) for part in parts)
    counts, ends = np.empty_like(counts_in_space), np.empty_like(counts_in_space)
    counts[graph.spatial], ends[graph.spatial] = counts_in_space, np.cumsum(counts_in_space)
    return LowerHalf(graph, counts, ends, columns, values)


@compiled
def _entries(start, stop, order, parents, child_ptr, child_row, own_precision, A):
    """How many entries each row has, their columns ascending with the diagonal last, and their values."""
    counts = np.empty(stop - start, dtype=np.int64)
    seen = np.full(len(parents), -1, dtype=np.int32)
    nothing = np.empty(0, dtype=np.int32)
    for t in range(start, stop):
        counts[t - start] = _list(order[t], parents, child_ptr, child_row, seen, nothing, 0) + 1
    seen[:] = -1
    columns = np.empty(counts.sum(), dtype=np.int32)
    values = np.empty(len(columns), dtype=np.float64)
    first = 0
    for t in range(start, stop):
        i = order[t]
        last = first + counts[t - start] - 1
        _list(i, parents, child_ptr, child_row, seen, columns, first)
        _sort(columns, first, last)
        for p in range(first, last):
            values[p] = -_dot(A[i], A[columns[p]])
        columns[last] = i
        values[last] = own_precision[i] - _dot(A[i], A[i])
        first = last + 1
    return counts, columns, values


@compiled
def _list(i, parents, child_ptr, child_row, seen, columns, first):
    """The parents of i, and the points before i that have one of them for a parent too: how many there are.

    They are written to `columns` from `first` on, where that has room; `seen` remembers who was met at which i.
    """
    found = 0
    for s in range(parents.shape[1]):
        p = parents[i, s]
        if p < 0:
            break
        if seen[p] != i:
            seen[p] = i
            if len(columns) > 0:
                columns[first + found] = p
            found += 1
        for e in range(child_ptr[p], child_ptr[p + 1]):
            j = child_row[e]
            if j >= i:
                break
            if seen[j] != i:
                seen[j] = i
                if len(columns) > 0:
                    columns[first + found] = j
                found += 1
    return found


# sums may be taken in any order: that is what lets the compiler use vector units
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for m in range(len(a)):
        total += a[m] * b[m]
    return total
