"""The zero-fill factor U Uᵀ ≈ P + W on the graph's own pattern."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npvi.linalg.many_columns import ends_of
from npvi.linalg.triangular import Triangular, products
from npvi.linalg.walking import walk
from npvi.runtime.compiling import compiled

__all__ = ["ZeroFillFactor", "scratch", "zero_fill_factor"]

#: points that are worth a thread (about 1 ms)
_WORTH = 2048
#: what is left of a pivot at least, where the diagonal makes up for what is lost
_LEAST = 0.1


@dataclass(frozen=True)
class ZeroFillFactor:
    """Uᵀ as a `Triangular`, and the positions whose pivot broke down and was replaced by the prior's own, 1/d + w."""

    transpose: Triangular
    breakdowns: NDArray[np.int64]
    root: Triangular | None = None
    """T, where this is the factor of TᵀT + W by elimination."""

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(U Uᵀ)⁻¹ x: the preconditioner."""
        return self.transpose.solve(self.transpose.transpose_solve(x))

    def half(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """U⁻¹ x."""
        return self.transpose.transpose_solve(x)

    def half_transpose(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """U⁻ᵀ x."""
        return self.transpose.solve(x)

    @property
    def finite(self) -> bool:
        """Whether the factor can be used: after breakdowns its entries may have run to infinity."""
        return bool(np.isfinite(self.transpose.diagonal).all() and np.isfinite(self.transpose.edges).all())

    def extended(self, root: Triangular, site_precision: NDArray[np.float64]) -> ZeroFillFactor:
        """Rows for more points at the end, of TᵀT + W; the others stay, though the new points would change them.

        To solve with it is nearly as good as one of its own.
        """
        n = len(self.transpose.diagonal)
        own = root.diagonal[n:]
        diagonal = np.sqrt(own**2 + site_precision[n:])
        edges = root.edges[n:] * (own / diagonal)[:, None]
        transpose = Triangular(
            root.graph,
            np.concatenate([self.transpose.diagonal, diagonal]),
            np.concatenate([self.transpose.edges, edges]),
        )
        return ZeroFillFactor(transpose, self.breakdowns)

    def log_determinant(self) -> float:
        """log |U Uᵀ|."""
        return 2.0 * float(np.log(self.transpose.diagonal).sum())

    def log_determinant_gradient(
        self, noise: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The derivatives of log |U Uᵀ| in the diagonal and the edges of T, breakdowns aside.

        With `noise`, columns ε of standard normal numbers, those of log |U Uᵀ| less the mean of ‖Uᵀx‖² over x = U⁻ᵀε,
        which are 0 in expectation: they are about as far from it as an estimate of the former by these x.
        """
        at_diagonal = 2.0 / self.transpose.diagonal
        if noise is None:
            return self._unwound(at_diagonal, np.zeros(self.transpose.edges.shape))[:2]
        x = self.transpose.solve(noise)
        at_diagonal -= 2.0 * np.einsum("ij,ij->i", noise, x) / noise.shape[1]
        in_factor = products(self.transpose.graph.parents, (-2.0 / noise.shape[1]) * noise, x)
        return self._unwound(at_diagonal, in_factor)[:2]

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """The derivatives of log |U Uᵀ| in w, breakdowns aside: the diagonal of (P + W)⁻¹, were the factor exact.

        They are nearer to it than the diagonal of (U Uᵀ)⁻¹ is, and cost as much as the factor.
        """
        return self._unwound(2.0 / self.transpose.diagonal, np.zeros(self.transpose.edges.shape))[2]

    def _unwound(
        self, at_diagonal: NDArray[np.float64], in_factor: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """From derivatives in the factor's diagonal and edges, which are overwritten, to those in T's and in w."""
        assert self.root is not None
        root, graph, n = self.root, self.root.graph, len(self.root.diagonal)
        in_diagonal, in_edges = np.zeros(n), np.zeros(root.edges.shape)
        lists = (graph.parents, graph.parents.reshape(-1), *graph.children)
        given = (root.diagonal, root.edges.reshape(-1), self.transpose.diagonal, self.transpose.edges.reshape(-1))
        found = (at_diagonal, in_diagonal, in_edges.reshape(-1), in_factor.reshape(-1))

        def unwind(start, stop, rows):
            _unwind(start, stop, rows, *lists, *given, *found, scratch(n))

        walk(graph, unwind, _WORTH)
        return in_diagonal, in_edges, at_diagonal


def zero_fill_factor(
    root: Triangular, site_precision: NDArray[np.float64], compensated: bool = False
) -> ZeroFillFactor:
    """Incomplete Cholesky factor of TᵀT + W, eliminating points from last to first, O(N K²).

    With U_ij = T'_ji, entries on the pattern satisfy U_ii² = (P+W)_ii − Σ_k U_ik² and
    U_ji U_ii = P_ji − Σ_k U_jk U_ik, k over the common children of i and j; P's entries are the same sums over T. The
    exact pivot is never below 1/d_i + w_i (later points only add information), so a pivot that isn't positive is an
    artefact of the zero fill: it is replaced by that value, and reported.

    Parameters
    ----------
    root : T with P = TᵀT, the prior's precision.
    site_precision : w, shape (N,), non-negative.
    compensated : add to both diagonals what the pattern has no place for, so that U Uᵀ 1 = (TᵀT + W) 1 (Gustafsson's
        modified factor): right for functions that hardly change over many points, of which the other one loses much;
        worse where they change. Its derivatives aren't there.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import Matern52
    >>> from npvi.priors import NNGP
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> graph = build_graph(X, 5)
    >>> prior = NNGP(Matern52(2.0), 1e-2, X[graph.order], graph)
    >>> factor, ones = zero_fill_factor(prior.root, np.ones(60), compensated=True), np.ones(60)
    >>> bool(np.allclose(factor.transpose.transpose_dot(factor.transpose.dot(ones)), prior.matvec(ones) + 1.0))
    True
    """
    graph = root.graph
    n = len(root.diagonal)
    diagonal, edges = np.empty(n), np.zeros(root.edges.shape)
    broken = np.zeros(n, dtype=np.bool_)
    lists = (graph.parents, graph.parents.reshape(-1), *graph.children)
    arrays = (root.diagonal, root.edges.reshape(-1), site_precision, diagonal, edges.reshape(-1), broken)

    def eliminate(start, stop, rows):
        _eliminate(start, stop, rows, *lists, *arrays, compensated, scratch(n))

    walk(graph, eliminate, _WORTH, reverse=True)
    return ZeroFillFactor(Triangular(graph, diagonal, edges), np.flatnonzero(broken), None if compensated else root)


_local = threading.local()


def scratch(n: int) -> NDArray[np.int32]:
    """This thread's array of n entries, all −1; whoever writes to it restores the −1."""
    array = getattr(_local, "positions", None)
    if array is None or len(array) < n:
        array = _local.positions = np.full(n, -1, dtype=np.int32)
    return array


@compiled
def _eliminate(
    start,
    stop,
    rows,
    parents,
    all_parents,
    child_ptr,
    child_row,
    child_slot,
    root_diagonal,
    all_before,
    site_precision,
    diagonal,
    all_now,
    broken,
    compensated,
    position,
):
    """What i and a point that is neither its parent nor its child have in common through a child of both is found from
    either side; where `compensated`, it goes to the diagonal."""
    # arrays of all edges in a row, and indices without a sign: a check for negative ones costs a seventh of the time
    K, one = np.uintp(parents.shape[1]), np.uintp(1)
    # products with points that aren't parents of i land in the spare place 0: cheaper than a branch around them. What
    # belongs to children of i goes to another one, the last.
    gathered = np.empty(parents.shape[1] + 2)
    for t in range(start, stop):
        i = np.uintp(rows[t])
        for s in range(len(gathered)):
            gathered[s] = 0.0
        own_start, own_stop = ends_of(parents, i)
        for e in range(own_start, own_stop):
            position[np.uintp(all_parents[e])] = e - own_start
        if compensated:
            for c in range(child_ptr[i], child_ptr[i + one]):
                position[np.uintp(child_row[c])] = K
        own = root_diagonal[i] ** 2 + site_precision[i]
        pivot, least = own, 0.0
        for c in range(child_ptr[i], child_ptr[i + one]):
            child = np.uintp(child_row[c])
            row = child * K
            at_i = row + np.uintp(child_slot[c])
            before, now = all_before[at_i], all_now[at_i]
            pivot += before * before - now * now
            for e in range(row, at_i):  # the child's parents that come before i
                at = np.uintp(position[np.uintp(all_parents[e])] + 1)
                gathered[at] += all_before[e] * before - all_now[e] * now
            if compensated:
                for e in range(at_i + one, ends_of(parents, child)[1]):
                    at = np.uintp(position[np.uintp(all_parents[e])] + 1)
                    gathered[at] += all_before[e] * before - all_now[e] * now
        if compensated:
            pivot += gathered[0]
            least = _LEAST * own
            for c in range(child_ptr[i], child_ptr[i + one]):
                position[np.uintp(child_row[c])] = -1
        if not least < pivot < np.inf:
            broken[i] = True
            pivot = own
        diagonal[i] = np.sqrt(pivot)
        for e in range(own_start, own_stop):
            position[np.uintp(all_parents[e])] = -1
            product = root_diagonal[i] * all_before[e]
            all_now[e] = (product + gathered[e - own_start + one]) / diagonal[i]
            # earlier breakdowns have run away: drop what they left here
            if not (compensated or abs(all_now[e]) < 1e100):
                broken[i] = True
                all_now[e] = product / diagonal[i]


@compiled
def _unwind(
    start,
    stop,
    rows,
    parents,
    all_parents,
    child_ptr,
    child_row,
    child_slot,
    root_diagonal,
    all_before,
    diagonal,
    all_now,
    at_diagonal,
    in_root_diagonal,
    in_all_before,
    in_all_now,
    position,
):
    """`_eliminate` backwards, from derivatives `at_diagonal` and `in_all_now` in the factor itself. Those in the edges
    of i are complete when all of its parents have been here; in the end `at_diagonal` has those in the pivots."""
    K, one = np.uintp(parents.shape[1]), np.uintp(1)
    in_gathered = np.empty(parents.shape[1] + 1)  # as there, place 0 is for points that aren't parents of i
    for t in range(start, stop):
        i = np.uintp(rows[t])
        in_diagonal = at_diagonal[i]
        for s in range(len(in_gathered)):
            in_gathered[s] = 0.0
        own_start, own_stop = ends_of(parents, i)
        for e in range(own_start, own_stop):
            position[np.uintp(all_parents[e])] = e - own_start
            slope = in_all_now[e] / diagonal[i]
            in_gathered[e - own_start + one] = slope
            in_diagonal -= slope * all_now[e]
            in_root_diagonal[i] += slope * all_before[e]
            in_all_before[e] += slope * root_diagonal[i]
        in_pivot = at_diagonal[i] = 0.5 * in_diagonal / diagonal[i]
        in_root_diagonal[i] += 2.0 * in_pivot * root_diagonal[i]
        for c in range(child_ptr[i], child_ptr[i + one]):
            row = np.uintp(child_row[c]) * K
            at_i = row + np.uintp(child_slot[c])
            before, now = all_before[at_i], all_now[at_i]
            in_before, in_now = 2.0 * in_pivot * before, 2.0 * in_pivot * now
            for e in range(row, at_i):
                slope = in_gathered[np.uintp(position[np.uintp(all_parents[e])] + 1)]
                in_before += slope * all_before[e]
                in_now += slope * all_now[e]
                in_all_before[e] += slope * before
                in_all_now[e] -= slope * now
            in_all_before[at_i] += in_before
            in_all_now[at_i] -= in_now
        for e in range(own_start, own_stop):
            position[np.uintp(all_parents[e])] = -1
