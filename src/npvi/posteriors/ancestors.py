"""A posterior held by a factor of its precision: variances from the ancestors of what is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import Triangular, ZeroFillFactor, combined, scratch
from npvi.runtime.compiling import compiled, inlined, inner
from npvi.runtime.parallel import over_chunks

__all__ = ["PrecisionPosterior"]

#: share of a row's standard deviation from which on what an ancestor knows of it is passed on to its own parents
_PASSED_ON = 0.001
#: rows that are handled together: neighbours have most of their ancestors in common
_TOGETHER = 16
#: rows that are worth a thread
_GRAIN = 64
#: ancestors that there is a place for at first; memory that isn't needed isn't touched
_ROOM = 4096


@dataclass(frozen=True)
class PrecisionPosterior:
    """q(f) = N(mean, V) over the training points, in the graph's order, with V = (U Uᵀ)⁻¹ + S diag(c) Sᵀ.

    U Uᵀ is nearly the posterior's precision P + W; S, of few columns, makes up for the rest. U is upper triangular, so
    that bᵀ(U Uᵀ)⁻¹b = ‖U⁻¹b‖² is a sum over the ancestors of b's points: nothing is drawn.

    Attributes
    ----------
    mean : μ, shape (N,)
    transpose : Uᵀ
    variance : marginal variances, shape (N,)
    site_precision : w, shape (N,): how much each observation says about its own f.
    modes, gains : S, shape (N, r), and c, shape (r,).
    kind : which factor of P + W this is, by its name among the prior's routes and whether it is compensated: what makes
        it again.
    factor : of V⁻¹ on the graph's own pattern, if there is one: more data can start from it. Copies do without.
    draws : some of N(0, V), where somebody has made them; copies do without.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0]], 1, order="given")
    >>> transpose = Triangular(graph, np.array([1.0, 2.0]), np.array([[0.0], [-1.0]]))
    >>> q = PrecisionPosterior(np.zeros(2), transpose, np.array([1.25, 0.25]), np.ones(2))
    >>> U = transpose.to_scipy().toarray().T
    >>> np.linalg.inv(U @ U.T)
    array([[1. , 0.5],
           [0.5, 0.5]])
    >>> q.projected_variance(np.array([[0, 1]], dtype=np.int32), np.array([[1.0, -1.0]]))
    array([0.5])
    """

    mean: NDArray[np.float64]
    transpose: Triangular
    variance: NDArray[np.float64]
    site_precision: NDArray[np.float64]
    modes: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    gains: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    kind: tuple[str, bool] = ("zero-fill", False)
    factor: ZeroFillFactor | None = field(default=None, repr=False)
    draws: NDArray[np.float64] | None = field(default=None, repr=False)

    exact = False

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"factor": None, "draws": None}

    @cached_property
    def _modes(self) -> NDArray[np.float64]:
        return self.modes.astype(np.float64)

    def projected_variance(self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f[neighbors_ij] for each row i: quick where rows near each other follow each other."""
        out, _ = self._from_ancestors(neighbors, weights)
        if len(self.gains):
            along = combined(np.zeros((len(out), len(self.gains))), neighbors, weights, self._modes)
            out += along**2 @ self.gains
        return np.maximum(out, 0.0)

    def work(self, rows: NDArray[np.int32]) -> int:
        """What it takes to find the variances at some rows, in this order: products of an edge with a vector register
        of eight numbers."""
        _, edges = self._from_ancestors(rows[:, None], np.ones((len(rows), 1)))
        return edges * _TOGETHER // 8

    def _from_ancestors(
        self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], int]:
        """‖U⁻¹b‖² for each row b, and how many edges were gone through."""
        out = np.empty(len(neighbors))
        return out, self._over_rows(_from_ancestors, neighbors, weights, out)

    def third_cumulants(
        self, neighbors: NDArray[np.int32], weights: NDArray[np.float64], third: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Σ_i third_i Cov(f_i, Σ_j weights_ij f[neighbors_ij])³ for each row, over the row's ancestors, which it is
        correlated with most; without what `modes` make up for."""
        out = np.empty(len(neighbors))
        self._over_rows(_third_cumulants, neighbors, weights, third, out)
        return out

    def _over_rows(
        self, compiled_loop: Any, neighbors: NDArray[np.int32], weights: NDArray[np.float64], *others: NDArray
    ) -> int:
        """Call a loop that says how far it came before it had more ancestors than room, and how many edges it took."""
        given = (neighbors, weights, self.transpose.graph.parents, self.transpose.edges, self.transpose.diagonal)
        room = _ROOM

        def loop(start: int, stop: int) -> int:
            nonlocal room
            gone_through = 0
            while start < stop:
                here = room
                lists = np.empty((here, _TOGETHER)), np.empty(here, np.int32), np.empty(here, np.int32)
                start, edges = compiled_loop(start, stop, *given, *others, scratch(len(self.mean)), *lists)
                gone_through += edges
                if start < stop:
                    room = max(room, 2 * here)
            return gone_through

        return sum(over_chunks(loop, len(neighbors), grain=_GRAIN))

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws of f at the training points, shape (N, n)."""
        return self.mean[:, None] + self.deviations(rng.standard_normal((len(self.mean), n)))

    def deviations(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draws of N(0, V) from standard normal numbers, shape (N, n)."""
        draws = self.transpose.solve(noise)
        if len(self.gains):
            # with S = U⁻ᵀQ a draw is U⁻ᵀ(ε + Q (√(1+c) − 1) Qᵀε)
            along = self.modes.T @ self.transpose.transpose_dot(noise)
            draws += self.modes @ ((np.sqrt(1.0 + self.gains) - 1.0)[:, None] * along)
        return draws

    def covariance(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cov Aᵀf = Aᵀ V A for A of shape (N, M)."""
        root = self.transpose.transpose_solve(A)
        along = self.modes.T @ A if len(self.gains) else np.zeros((0, A.shape[1]))
        return root.T @ root + along.T @ (self.gains[:, None] * along)

    def covariance_times(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """V A for A of shape (N, M)."""
        product = self.transpose.solve(self.transpose.transpose_solve(A))
        if len(self.gains):
            product += self.modes @ (self.gains[:, None] * (self.modes.T @ A))
        return product


@compiled
def _from_ancestors(start, stop, neighbors, weights, parents, edges, diagonal, out, place, values, free, heap):
    """‖U⁻¹b‖² for rows b, some at a time: from the last position down, each point passes on to its parents. Returns at
    which row there was no more room, `stop` if there was, and how many edges that took. `place` is all −1, and is left
    so; `values`, `free` and `heap` are the room.

    What is passed on of a row is decided by that row alone, so that its variance is the same to the last bit whatever
    other rows are asked for with it."""
    gone_through = 0
    K = parents.shape[1]
    y, total = np.empty(_TOGETHER), np.empty(_TOGETHER)
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        width = last - first
        for r in range(width):
            total[r] = 0.0
        size = _begun(first, last, neighbors, weights, place, values, heap)
        if size < 0:
            return first, gone_through
        used, n_free, edges_here = size, np.int64(0), 0
        while size:
            i = heap[0]
            size = _pop(heap, size)
            at = place[i]
            place[i] = -1
            matters = False
            for r in range(width):
                y[r] = values[at, r] / diagonal[i]
                square = y[r] * y[r]
                total[r] += square
                if square > _PASSED_ON**2 * total[r]:
                    matters = True
                else:
                    y[r] = 0.0
            free[n_free] = at
            n_free += 1
            if not matters:
                continue
            edges_here += K
            for s in range(K):
                j = parents[i, s]
                if j < 0:
                    break
                to = place[j]
                if to < 0:
                    if n_free:
                        n_free -= 1
                        to = free[n_free]
                    elif used < len(heap):
                        to = used
                        used += 1
                    else:
                        _forget(heap, size, place)
                        return first, gone_through
                    place[j] = to
                    for r in range(width):
                        values[to, r] = 0.0
                    size = _push(heap, size, j)
                edge = edges[i, s]
                for r in range(width):
                    values[to, r] -= edge * y[r]
        gone_through += edges_here
        for i in range(first, last):
            out[i] = total[i - first]
    return stop, gone_through


@compiled
def _third_cumulants(start, stop, neighbors, weights, parents, edges, diagonal, third, out, place, values, order, heap):
    """As above, down to the ancestors with y = U⁻¹b, and up again with U⁻ᵀy: the covariances of Σ b f with theirs."""
    K = parents.shape[1]
    y, total = np.empty(_TOGETHER), np.empty(_TOGETHER)
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        width = last - first
        for r in range(width):
            total[r] = 0.0
        size = _begun(first, last, neighbors, weights, place, values, heap)
        if size < 0:
            return first, 0
        used, seen = size, 0
        while size:
            i = heap[0]
            size = _pop(heap, size)
            at = place[i]
            order[seen] = i
            seen += 1
            matters = False
            for r in range(width):
                y[r] = values[at, r] / diagonal[i]
                values[at, r] = y[r]
                square = y[r] * y[r]
                total[r] += square
                if square > _PASSED_ON**2 * total[r]:
                    matters = True
                else:
                    y[r] = 0.0
            if not matters:
                continue
            for s in range(K):
                j = parents[i, s]
                if j < 0:
                    break
                to = place[j]
                if to < 0:
                    if used == len(heap):
                        _forget(heap, size, place)
                        _forget(order, seen, place)
                        return first, 0
                    to = used
                    used += 1
                    place[j] = to
                    for r in range(width):
                        values[to, r] = 0.0
                    size = _push(heap, size, j)
                edge = edges[i, s]
                for r in range(width):
                    values[to, r] -= edge * y[r]
        for i in range(first, last):
            out[i] = 0.0
        for k in range(seen - 1, -1, -1):
            i = order[k]
            at = place[i]
            for r in range(width):
                y[r] = values[at, r]
            for s in range(K):
                j = parents[i, s]
                if j < 0:
                    break
                to = place[j]
                if to >= 0:
                    edge = edges[i, s]
                    for r in range(width):
                        y[r] -= edge * values[to, r]
            for r in range(width):
                # of a row's own ancestors only, not of those that others have
                values[at, r] = y[r] / diagonal[i] if values[at, r] != 0.0 else 0.0
                out[first + r] += third[i] * values[at, r] ** 3
        _forget(order, seen, place)
    return stop, 0


@inlined
def _begun(first, last, neighbors, weights, place, values, heap):
    """Rows at the points that they are made of: values by place, and a heap of these points. Returns how many there
    are; −1 where that is more than there is room for."""
    size = np.int64(0)  # a plain zero would compile `_push` for 0 by itself
    for i in range(first, last):
        for s in range(neighbors.shape[1]):
            j = neighbors[i, s]
            if place[j] < 0:
                if size == len(heap):
                    _forget(heap, size, place)
                    return np.int64(-1)
                place[j] = size
                for r in range(last - first):
                    values[size, r] = 0.0
                size = _push(heap, size, j)
            values[place[j], i - first] += weights[i, s]
    return size


@inlined
def _forget(rows, count, place):
    for k in range(count):
        place[rows[k]] = -1


@inner
def _push(heap, size, item):
    """Add to a heap with the largest on top; return its new size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] >= item:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item
    return size + 1


@inlined
def _pop(heap, size):
    """Remove the top; return the new size."""
    size -= 1
    item = heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= item:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = item
    return size
