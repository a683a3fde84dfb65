"""E_q log p(f) from a batch of points, for the two kinds of priors that the paper has."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from npvi.inference.stochastic.gaussian import Neighbourhoods, SparseGaussian

__all__ = ["ConditionalPrior", "LowRankPrior"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConditionalPrior:
    """p(f) = Π_i N(f_i; b_iᵀ f_parents(i), d_i): the nearest-neighbour process.

    Attributes
    ----------
    near : of the graph.
    weights : b, shape (N, K).
    variance : d, shape (N,).
    log_determinant : log |Σ| = Σ log d_i.

    Examples
    --------
    Two independent points under q = N(0, I), which is their prior: minus the entropy of q.

    >>> from npvi.graph import build_graph
    >>> from npvi.inference.stochastic import neighbourhoods
    >>> near = neighbourhoods(build_graph([[0.0], [1.0]], 1, order="given"))
    >>> prior = ConditionalPrior(near, jnp.zeros((2, 1)), jnp.ones(2), jnp.zeros(()))
    >>> q = SparseGaussian(jnp.zeros(2), jnp.zeros((2, 1)), jnp.zeros(2))
    >>> round(float(prior.cross_entropy(q, jnp.array([0, 1]), jax.random.key(0))), 4)
    -2.8379
    """

    near: Neighbourhoods
    weights: jax.Array
    variance: jax.Array
    log_determinant: jax.Array

    def cross_entropy(self, q: SparseGaussian, points: jax.Array, key: jax.Array) -> jax.Array:
        """−½ log|2πΣ| − ½ N/|S| Σ_S (Q Qᵀ + (μ_i − b_iᵀμ_α)²)/d_i with Q = L_i − b_iᵀL_α (eq. cond_cross).

        One batch costs O(|S| K²). It takes no random numbers of its own, whence `key` is not used.
        """
        return -0.5 * (_log_volume(self, q) + len(q.mean) * jnp.mean(self.quadratic(q, points)))

    def quadratic(self, q: SparseGaussian, points: jax.Array) -> jax.Array:
        """The share of each of the points in tr(P(L Lᵀ + μμᵀ)), shape (B,)."""
        members = self.near.members(points)
        # what isn't a parent has the weight 0; the first point stands for it
        there = jnp.maximum(members, 0)
        weights = jnp.concatenate([-self.weights[points], jnp.ones((len(points), 1))], axis=1)
        Q = self.near.added(points, weights[:, :, None] * q.rows(self.near.parents, there))
        residual = jnp.sum(weights * q.mean[there], axis=1)
        return (jnp.sum(Q**2, axis=1) + residual**2) / self.variance[points]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRankPrior:
    """A precision P = diag(diagonal) + sign · R Rᵀ: Nyström's method (+) or FITC (−).

    Attributes
    ----------
    near : of the graph that L lives on.
    diagonal : shape (N,).
    rows : R, shape (N, M).
    sign : 1.0 or −1.0.
    log_determinant : log |Σ|.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.inference.stochastic import neighbourhoods
    >>> near = neighbourhoods(build_graph([[0.0], [1.0], [2.0]], 1, order="given"))
    >>> prior = LowRankPrior(near, jnp.ones(3), jnp.zeros((3, 1)), jnp.ones(()), jnp.zeros(()))
    >>> prior.draw_others(jnp.array([1, 2]), jax.random.key(0)).tolist()  # all but 0 and 1, all but 1 and 2
    [2, 0]
    """

    near: Neighbourhoods
    diagonal: jax.Array
    rows: jax.Array
    sign: jax.Array
    log_determinant: jax.Array

    def cross_entropy(self, q: SparseGaussian, points: jax.Array, key: jax.Array) -> jax.Array:
        """−½ log|2πΣ| − ½ N/|S| Σ_S [Σ_{j ∈ α(i)∪{i}} C_ij P_ij + N'_i C_ij' P_ij'], C = L Lᵀ + μμᵀ (eq. nystr_cross).

        j' is a random point that is neither i nor a parent of it, one of N'_i = N − |α(i)| − 1. Parents get their own
        terms because C_ij is largest there, and 0 for most other pairs but for the means.
        """
        others = self.draw_others(points, key)
        return -0.5 * (_log_volume(self, q) + len(q.mean) * jnp.mean(self.quadratic(q, points, others)))

    def draw_others(self, points: jax.Array, key: jax.Array) -> jax.Array:
        """j' for each of the points: all that are allowed have the same probability."""
        n, members = len(self.diagonal), self.near.members(points)
        excluded = jnp.where(members >= 0, members, 2 * n)  # what isn't there lies beyond all ranks
        rank = jax.random.randint(key, points.shape, 0, jnp.maximum(n - jnp.sum(members >= 0, axis=1), 1))
        return self.other(jnp.sort(excluded, axis=1), rank)

    def other(self, excluded: jax.Array, rank: jax.Array) -> jax.Array:
        """The point with this rank, from 0, among those that aren't `excluded`, which ascend."""
        # below the k-th excluded point there are e_k − k others
        below = excluded - jnp.arange(excluded.shape[1])
        return jnp.minimum(rank + jnp.sum(below <= rank[:, None], axis=1), len(self.diagonal) - 1)

    def quadratic(self, q: SparseGaussian, points: jax.Array, others: jax.Array) -> jax.Array:
        """The bracket of the sum for each of the points, given its j', shape (B,)."""
        members = self.near.members(points)
        there = jnp.maximum(members, 0)
        rows = q.rows(self.near.parents, there)
        inner = jnp.einsum("im,ijm->ij", self.rows[points], self.rows[there])
        P = (self.sign * inner).at[:, -1].add(self.diagonal[points])
        C = self.near.products(points, rows) + q.mean[points][:, None] * q.mean[there]
        with_members = jnp.sum(jnp.where(members >= 0, C * P, 0.0), axis=1)
        how_many = len(self.diagonal) - jnp.sum(members >= 0, axis=1)
        columns, other_columns = members, self.near.members(others)
        shared = (columns[:, :, None] == other_columns[:, None, :]) & (columns >= 0)[:, :, None]
        other_rows = q.rows(self.near.parents, others)
        V = jnp.einsum("is,it,ist->i", rows[:, -1], other_rows, shared.astype(rows.dtype))
        P_other = self.sign * jnp.sum(self.rows[points] * self.rows[others], axis=1)
        return with_members + how_many * (V + q.mean[points] * q.mean[others]) * P_other


def _log_volume(prior: ConditionalPrior | LowRankPrior, q: SparseGaussian) -> jax.Array:
    """log |2πΣ|."""
    return prior.log_determinant + len(q.mean) * jnp.log(2.0 * jnp.pi)
