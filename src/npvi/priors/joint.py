"""f at many new points together, each given its nearest training points and earlier new points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph, arrange, build_tree, grid_order, search
from npvi.kernels import diagonal
from npvi.linalg import Triangular
from npvi.priors.conditionals import conditionals
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

if TYPE_CHECKING:
    from npvi.priors.nngp import NNGP

__all__ = ["JointPrediction"]

#: how much of the nugget new points keep when later ones are conditioned on them, in units of the prior variance
_LEAST, _MOST = 1e-8, 1e-6
#: rows that share a stream of random numbers, whatever the number of threads
_ROWS = 2**15


class JointPrediction:
    """f at M new points given f at the training points: a Vecchia approximation of the joint conditional.

    New points come after the training points, from coarse to fine, and each is conditioned on the K nearest points
    before it, old or new. With g for f without its nugget,

        g_i = b_iᵀ (f at old neighbours, g at new ones) + √d_i ε_i ,    f_i = g_i + √nugget ε'_i ,

    so that every new row has a nugget of its own, and no neighbour is blurred by its nugget. With K ≥ N + M − 1 this
    is the Gaussian process itself.

    Blocks without any nugget would be singular where points coincide. So g keeps up to 1e-6 of the prior variance of
    the nugget; and a nugget below 1e-8 of the prior variance counts as that much.

    Parameters
    ----------
    prior : NNGP over the training points.
    Z : (M, d) new inputs.
    n_neighbors : K, optional; as many as the prior has parents, and all where those are all.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import Matern32
    >>> from npvi.priors import NNGP
    >>> X = np.linspace(0.0, 1.0, 11)[:, None]
    >>> graph = build_graph(X, 5)
    >>> joint = JointPrediction(NNGP(Matern32(), 1e-4, X[graph.order], graph), np.array([[0.5], [0.501], [9.0]]))
    >>> f = joint.draw(np.zeros((11, 4000)), np.random.default_rng(0))
    >>> f.std(axis=1).round(1)
    array([0., 0., 1.])
    """

    def __init__(self, prior: NNGP, Z: NDArray[np.float64], n_neighbors: int | None = None) -> None:
        n, m = prior.graph.n_points, len(Z)
        k = prior.graph.n_neighbors if n_neighbors is None else n_neighbors
        if n_neighbors is None and k >= n - 1:
            k = n + m - 1
        points = np.vstack([prior.X, Z])
        self.visit, self._neighbors = _arrange(prior.kernel.coordinates(points), n, min(k, n + m - 1))
        scale = float(diagonal(prior.kernel, points).max()) or 1.0
        nugget = max(prior.nugget, _LEAST * scale)
        kept = min(nugget, _MOST * scale)
        new = np.asarray(Z)[self.visit]
        self._weights, variance = conditionals(
            prior.kernel, kept, points, self._neighbors, new, noisier=(n, nugget - kept)
        )
        self._n_old = n
        self._deviation = np.sqrt(np.maximum(variance, 0.0))
        self.fresh_variance = nugget - kept

    @property
    def n_noise(self) -> int:
        """One for each new point."""
        return len(self.visit)

    def propagate(self, f: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """g, the part of f with a common surface: linear in `f` (N, S) and in `noise` (M, S), which it overwrites."""
        over_chunks(
            lambda a, b: _propagate(a, b, self.visit, self._neighbors, self._weights, self._deviation, f, noise),
            f.shape[1],
            grain=max(1, 16384 // len(noise)),
            per_thread=1,
        )
        return noise

    def adjoint(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What sums over the new points, weights (M, R), see of f and of the noise that `propagate` takes.

        Returns
        -------
        (N, R) and (M, R) : weightsᵀ propagate(f, noise) is the first, transposed, times f and the second times noise.
        """
        noise = np.array(weights, dtype=np.float64, order="C")
        old = np.zeros((self._n_old, noise.shape[1]))
        over_chunks(
            lambda a, b: _adjoint(a, b, self.visit, self._neighbors, self._weights, self._deviation, old, noise),
            noise.shape[1],
            grain=max(1, 16384 // len(noise)),
            per_thread=1,
        )
        return old, noise

    def extend(self, matrix: Triangular) -> Triangular:
        """T on old and new points, in the order of `visit`, with T⁻¹ε what `propagate` makes of T_old⁻¹ε and ε."""
        n, m = self._n_old, len(self.visit)
        place = np.empty(m, np.int32)
        place[self.visit] = np.arange(n, n + m, dtype=np.int32)
        k = max(matrix.graph.n_neighbors, self._neighbors.shape[1])
        parents, edges = np.full((n + m, k), -1, np.int32), np.zeros((n + m, k))
        parents[:n, : matrix.graph.n_neighbors] = matrix.graph.parents
        edges[:n, : matrix.graph.n_neighbors] = matrix.edges
        width = self._neighbors.shape[1]
        new = self._neighbors >= n
        parents[n:, :width] = np.where(new, place[np.where(new, self._neighbors - n, 0)], self._neighbors)
        scale = 1.0 / np.maximum(self._deviation, np.finfo(np.float32).tiny)
        edges[n:, :width] = -self._weights * scale[:, None]
        graph = Graph(np.arange(n + m), parents, np.arange(n + m, dtype=np.int32))
        return Triangular(graph, np.concatenate([matrix.diagonal, scale]), edges)

    def draw(
        self,
        f: NDArray[np.float64],
        rng: np.random.Generator,
        offset: NDArray[np.float64] | float = 0.0,
        nugget: bool = True,
    ) -> NDArray[np.float64]:
        """One draw of f at the new points for each draw at the training points.

        Parameters
        ----------
        f : (N, S) draws at the training points in the graph's order, without the mean function's part.
        offset : the mean function's part at the new points: a number, (M,) or (M, S).
        nugget : whether to draw f or g, without the nugget (but for the part that g keeps).

        Returns
        -------
        (M, S), rows as in Z.
        """
        m, s = len(self.visit), f.shape[1]
        offset = np.asarray(offset, dtype=np.float64)
        offset = np.broadcast_to(offset[:, None] if offset.ndim == 1 else offset, (m, s))
        deviation = np.sqrt(self.fresh_variance) if nugget else 0.0
        draws = np.empty((m, s))

        def surface(rows: slice, stream: np.random.Generator) -> None:
            stream.standard_normal(out=draws[rows])

        def finish(rows: slice, stream: np.random.Generator) -> None:
            draws[rows] += offset[rows]
            if deviation > 0.0:
                draws[rows] += deviation * stream.standard_normal(draws[rows].shape)

        _in_streams(surface, m, rng)
        self.propagate(f, draws)
        _in_streams(finish, m, rng)
        return draws


def _in_streams(work, n_rows, rng):
    """work(rows, generator) for slices of rows, on all threads; the result doesn't depend on their number."""
    pieces = -(-n_rows // _ROWS)
    seeds = rng.integers(2**63, size=pieces)

    def loop(start, stop):
        for piece in range(start, stop):
            work(slice(piece * _ROWS, min(n_rows, (piece + 1) * _ROWS)), np.random.default_rng(seeds[piece]))

    over_chunks(loop, pieces, grain=1)


def _arrange(coordinates, n, k):
    """In which order to visit the new rows (those from n on), and the k nearest points before each, in that order.

    Neighbours are rows of `coordinates`, padded with −1.
    """
    coarse = grid_order(coordinates[n:], seed=0)
    order = np.concatenate([np.arange(n), n + coarse])
    arranged = arrange(build_tree(coordinates), order)
    new = np.flatnonzero(arranged.positions >= n).astype(np.int32)
    positions = arranged.positions[new]
    nearest = np.empty((len(new), k), np.int32)
    search(arranged, arranged.points[new], new, positions, positions - np.int32(n), nearest)
    # Neighbours in space are visited one after the other, each after the new points it depends on.
    visit = np.empty(len(new), np.int32)
    _visit(nearest, n, positions - np.int32(n), visit)
    neighbors = np.empty_like(nearest)
    over_chunks(_to_rows, len(new), visit, nearest, n, coarse, neighbors)
    return coarse[visit], neighbors


@compiled
def _visit(nearest, n, spatial, visit):
    """Positions (from n on, counted from 0) along `spatial`, those a point depends on before the point itself."""
    m, k = nearest.shape
    placed = 0
    done = np.zeros(m, np.bool_)
    following = np.zeros(m, np.int32)
    stack = np.empty(m, np.int32)
    for s in spatial:
        if done[s]:
            continue
        stack[0] = s
        top = 0
        while top >= 0:
            i = stack[top]
            j = following[i]
            while j < k and (nearest[i, j] < n or done[nearest[i, j] - n]):
                j += 1
            following[i] = j
            if j < k:
                top += 1
                stack[top] = nearest[i, j] - n
            else:
                visit[placed] = i
                done[i] = True
                placed += 1
                top -= 1


@compiled
def _to_rows(start, stop, visit, nearest, n, coarse, neighbors):
    for t in range(start, stop):
        for s in range(nearest.shape[1]):
            j = nearest[visit[t], s]
            neighbors[t, s] = j if j < n else n + coarse[j - n]


@compiled
def _propagate(start, stop, visit, neighbors, weights, deviation, f, x):
    """Columns [start, stop) of x: from noise to g, point by point along `visit`."""
    n = len(f)
    for t in range(len(visit)):
        i = visit[t]
        for r in range(start, stop):
            x[i, r] *= deviation[t]
        for s in range(neighbors.shape[1]):
            j = neighbors[t, s]
            if j < 0:
                break
            weight = weights[t, s]
            if j < n:
                for r in range(start, stop):
                    x[i, r] += weight * f[j, r]
            else:
                for r in range(start, stop):
                    x[i, r] += weight * x[j - n, r]


@compiled
def _adjoint(start, stop, visit, neighbors, weights, deviation, f, x):
    """Columns [start, stop) of x: from weights of g to weights of the noise; f, zero at first, has those of f."""
    n = len(f)
    for t in range(len(visit) - 1, -1, -1):
        i = visit[t]
        for s in range(neighbors.shape[1]):
            j = neighbors[t, s]
            if j < 0:
                break
            weight = weights[t, s]
            if j < n:
                for r in range(start, stop):
                    f[j, r] += weight * x[i, r]
            else:
                for r in range(start, stop):
                    x[j - n, r] += weight * x[i, r]
        for r in range(start, stop):
            x[i, r] *= deviation[t]
