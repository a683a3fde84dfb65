"""The paper's variational posterior: q = N(μ, L Lᵀ) with L on the graph's pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from npvi.graph import Graph
from npvi.linalg import Triangular
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["FactorPosterior", "match_covariance"]


@dataclass(frozen=True)
class FactorPosterior:
    """q(f) = N(mean, L Lᵀ) over the training points, in the graph's order.

    Attributes
    ----------
    mean : μ, shape (N,)
    factor : L
    site_precision : w, shape (N,): how much each observation says about its own f.
    """

    mean: NDArray[np.float64]
    factor: Triangular
    site_precision: NDArray[np.float64]

    @cached_property
    def variance(self) -> NDArray[np.float64]:
        """Marginal variances v_i = Σ_c L_ic²."""
        return self.factor.row_norms_squared()

    def projected_variance(self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f[neighbors_ij] for each row i: ‖L[neighbors]ᵀ weights‖²."""
        out = np.empty(len(neighbors))
        parents, edges, diagonal = self.factor.graph.parents, self.factor.edges, self.factor.diagonal
        over_chunks(_projected_variance, len(out), neighbors, weights, parents, edges, diagonal, out)
        return out

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws of f at the training points, μ + L ε, shape (N, n)."""
        return self.mean[:, None] + self.factor.dot(rng.standard_normal((len(self.mean), n)))


def match_covariance(graph: Graph, V: ArrayLike) -> scipy.sparse.csr_array:
    """L on the graph's pattern with (L Lᵀ)_ij = V_ij on every edge and the diagonal: the paper's theorem.

    Row by row, L_iα = V_iα L_αα⁻ᵀ and L_ii² = V_ii − ‖L_iα‖². The paper's proof overlooks that the latter can be
    negative: L Lᵀ doesn't match V between two parents that aren't joined by an edge, and smooth posteriors under weak
    data do make it fail.

    Parameters
    ----------
    graph : Graph
    V : (N, N) covariance matrix, rows and columns in the graph's order.

    Raises
    ------
    ValueError
        Where no such L exists; the message names the row.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> V = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> L = match_covariance(build_graph([[0.0], [1.0]], 1, order="given"), V)
    >>> (L @ L.T).toarray().round(12)
    array([[2., 1.],
           [1., 3.]])
    """
    V = np.ascontiguousarray(V, dtype=np.float64)
    n = graph.n_points
    if V.shape != (n, n):
        raise ValueError(f"V must have shape ({n}, {n}), one row per point of the graph; got {V.shape}")
    diagonal, edges = np.zeros(n), np.zeros(graph.parents.shape)
    failed, rest = _match(graph.parents, V, diagonal, edges)
    if failed >= 0:
        raise ValueError(
            f"no L on this graph matches V: at position {failed} (row {graph.order[failed]} of the data) "
            f"L_ii² = V_ii − ‖L_αα⁻¹ V_αi‖² would be {rest:.3g}; V is too smooth for a sparse covariance factor"
        )
    return Triangular(graph, diagonal, edges).to_scipy()


@compiled
def _match(parents, V, diagonal, edges):
    """Fill L; return (−1, 0), or the first row that fails and its L_ii²."""
    n, K = parents.shape
    for i in range(n):
        rest = V[i, i]
        for s in range(K):
            j = parents[i, s]
            if j < 0:
                break
            # forward substitution in L_αα: row j of L against what is known of row i; both lists ascend
            value = V[i, j]
            u, t = 0, 0
            while u < s and t < K and parents[j, t] >= 0:
                if parents[i, u] == parents[j, t]:
                    value -= edges[i, u] * edges[j, t]
                    u += 1
                    t += 1
                elif parents[i, u] < parents[j, t]:
                    u += 1
                else:
                    t += 1
            edges[i, s] = value / diagonal[j]
            rest -= edges[i, s] ** 2
        if not rest > 0.0:
            return i, rest
        diagonal[i] = np.sqrt(rest)
    return -1, 0.0


@compiled
def _projected_variance(start, stop, neighbors, weights, parents, edges, diagonal, out):
    total = np.zeros(len(diagonal))
    for i in range(start, stop):
        value = 0.0
        for s in range(neighbors.shape[1]):
            j = neighbors[i, s]
            total[j] += weights[i, s] * diagonal[j]
            for t in range(parents.shape[1]):
                if parents[j, t] < 0:
                    break
                total[parents[j, t]] += weights[i, s] * edges[j, t]
        for s in range(neighbors.shape[1]):
            j = neighbors[i, s]
            value += total[j] ** 2
            total[j] = 0.0
            for t in range(parents.shape[1]):
                k = parents[j, t]
                if k < 0:
                    break
                value += total[k] ** 2
                total[k] = 0.0
        out[i] = value
