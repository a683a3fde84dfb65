"""q = N(μ, L Lᵀ) in JAX: rows of L for some of the points, and how the rows of neighbours meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from npvi.graph import Graph
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["Neighbourhoods", "SparseGaussian", "entropy", "neighbourhoods"]


class SparseGaussian(NamedTuple):
    """μ and L, with row i of L on {i} ∪ parents(i); the logarithm keeps its diagonal positive.

    >>> q = SparseGaussian(jnp.zeros(2), jnp.array([[0.0], [3.0]]), jnp.log(jnp.array([2.0, 4.0])))
    >>> q.rows(jnp.array([[-1], [0]]), jnp.array([1])).round(5)
    Array([[3., 4.]], dtype=float32)
    """

    mean: jax.Array
    """μ, shape (N,)."""
    edges: jax.Array
    """L at the parents, shape (N, K); what stands where there is no parent doesn't count."""
    log_diagonal: jax.Array
    """Logarithms of the diagonal of L, shape (N,)."""

    def rows(self, parents: jax.Array, points: jax.Array) -> jax.Array:
        """Rows of L for `points`, shape (…, K + 1), the own entry last."""
        edges = jnp.where(parents[points] >= 0, self.edges[points], 0.0)
        return jnp.concatenate([edges, jnp.exp(self.log_diagonal[points])[..., None]], axis=-1)


def entropy(q: SparseGaussian, points: jax.Array) -> jax.Array:
    """The entropy of q from a batch of points (eq. entropy): ½ N log 2πe + N/|S| Σ_S log L_ii.

    >>> q = SparseGaussian(jnp.zeros(2), jnp.zeros((2, 1)), jnp.array([0.0, 1.0]))
    >>> round(float(entropy(q, jnp.array([0, 1]))), 4), round(float(entropy(q, jnp.array([1]))), 4)
    (3.8379, 4.8379)
    """
    n = len(q.mean)
    return 0.5 * n * jnp.log(2.0 * jnp.pi * jnp.e) + n * jnp.mean(q.log_diagonal[points])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Neighbourhoods:
    """Where the rows of L of a point and of its parents meet.

    The columns of all those rows are numbered from 0, for each point by itself: sums and products of the rows are then
    sums and products of short dense vectors.

    Attributes
    ----------
    parents : shape (N, K), padded with −1.
    slots : shape (N, K + 1, K + 1): the number of the column in which entry t of the row of parent s stands, −1 where
        there is none; the last s is the point itself, the last t the diagonal.
    width : more than any of these numbers.
    """

    parents: jax.Array
    slots: jax.Array
    width: int = field(metadata={"static": True})

    def members(self, points: jax.Array) -> jax.Array:
        """Parents and the point itself, shape (…, K + 1); −1 where there is no parent."""
        return jnp.concatenate([self.parents[points], points[..., None]], axis=-1)

    def added(self, points: jax.Array, rows: jax.Array) -> jax.Array:
        """The sum of the rows, shape (B, K + 1, K + 1), of the members of each point, shape (B, width)."""

        def one(slots: jax.Array, values: jax.Array) -> jax.Array:
            # −1 is the place at the end, which is left out
            return jnp.zeros(self.width + 1, values.dtype).at[slots].add(values)[:-1]

        return jax.vmap(one)(self.slots[points], rows)

    def products(self, points: jax.Array, rows: jax.Array) -> jax.Array:
        """L_i L_jᵀ for every member j of each point i, shape (B, K + 1); `rows` as in `added`."""

        def one(slots: jax.Array, values: jax.Array) -> jax.Array:
            own = jnp.zeros(self.width + 1, values.dtype).at[slots[-1]].add(values[-1]).at[-1].set(0.0)
            return jnp.sum(own[slots] * values, axis=-1)

        return jax.vmap(one)(self.slots[points], rows)


def neighbourhoods(graph: Graph) -> Neighbourhoods:
    """The table of a graph, which costs O(N K²) once.

    >>> from npvi.graph import build_graph
    >>> table = neighbourhoods(build_graph([[0.0], [1.0], [2.0]], 1, order="given"))
    >>> table.slots[2].tolist(), table.width  # row 1 of L has columns 0 and 1, row 2 has 1 and 2
    ([[0, 1], [1, 2]], 3)
    """
    n, k = graph.parents.shape
    most = min(n, (k + 1) ** 2)
    slots = np.full((n, k + 1, k + 1), -1, dtype=np.int16 if most <= np.iinfo(np.int16).max else np.int32)
    widths = over_chunks(_fill, n, graph.parents, slots)
    return Neighbourhoods(jnp.asarray(graph.parents), jnp.asarray(slots), max(widths))


@compiled
def _fill(start, stop, parents, slots):
    """Number the columns of points [start, stop) in the order in which they are met; return the largest count."""
    n, k = parents.shape
    number = np.empty(n, dtype=np.int32)
    met_by = np.full(n, -1, dtype=np.int32)
    widest = 0
    for i in range(start, stop):
        count = 0
        for s in range(k + 1):
            j = parents[i, s] if s < k else i
            if j < 0:
                continue
            for t in range(k + 1):
                c = parents[j, t] if t < k else j
                if c < 0:
                    continue
                if met_by[c] != i:
                    met_by[c] = i
                    number[c] = count
                    count += 1
                slots[i, s, t] = number[c]
        widest = max(widest, count)
    return widest
