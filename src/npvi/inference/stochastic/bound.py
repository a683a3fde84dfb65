"""The bound from a batch of points, as a function of what is trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.components import Stack
from npvi.inference.data import Data
from npvi.inference.stochastic.gaussian import Neighbourhoods, SparseGaussian, entropy, neighbourhoods
from npvi.likelihoods import Likelihood, has_closed_form, rule_of_tier, tiers
from npvi.priors import NNGP, LowRank, Prior

__all__ = [
    "ConditionalPrior",
    "LowRankPrior",
    "Observed",
    "Parameters",
    "StochasticBound",
    "loss",
    "observed",
    "stochastic_bound",
]


class Parameters(NamedTuple):
    """What is trained: q of f − Hβ, and β; both in units of the prior's standard deviation."""

    posterior: SparseGaussian
    coefficients: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StochasticBound:
    """The bound from a batch of points (eq. est_elbo).

    The mean of f is Hβ + μ, with μ that of the process and β parameters as well: at the optimum β is what it would be
    if it were profiled out.

    Attributes
    ----------
    observed, prior : the terms that the batch estimates.
    basis : H, shape (N, p).
    coefficient_precision : of the prior of β, shape (p,).
    unit : the prior's standard deviation at each point, shape (N,).
    """

    observed: Observed
    prior: ConditionalPrior | LowRankPrior
    basis: jax.Array
    coefficient_precision: jax.Array
    unit: jax.Array

    def posterior(self, parameters: Parameters) -> tuple[SparseGaussian, jax.Array]:
        """q of the process, and β, in the units of f."""
        mean, edges, log_diagonal = parameters.posterior
        q = SparseGaussian(mean * self.unit, edges * self.unit[:, None], log_diagonal + jnp.log(self.unit))
        return q, parameters.coefficients * jnp.mean(self.unit)

    def parameters(self, q: SparseGaussian, coefficients: jax.Array) -> Parameters:
        """The inverse of `posterior`."""
        mean, edges, log_diagonal = q
        scaled = SparseGaussian(mean / self.unit, edges / self.unit[:, None], log_diagonal - jnp.log(self.unit))
        return Parameters(scaled, coefficients / jnp.mean(self.unit))

    def terms(
        self, q: SparseGaussian, coefficients: jax.Array, points: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Expected log-likelihood, cross entropy and entropy; the second with the prior of β."""
        for_likelihood, for_prior = jax.random.split(key)
        variance = jnp.sum(q.rows(self.prior.near.parents, points) ** 2, axis=1)
        mean = q.mean[points] + self.basis[points] @ coefficients
        shrinkage = 0.5 * jnp.sum(self.coefficient_precision * coefficients**2)
        return (
            self.observed.expected_log_likelihood(mean, variance, points, for_likelihood),
            self.prior.cross_entropy(q, points, for_prior) - shrinkage,
            entropy(q, points),
        )


def loss(parameters: Parameters, points: jax.Array, key: jax.Array, estimate: StochasticBound) -> jax.Array:
    """Minus the bound, from a batch."""
    likelihood, cross, own = estimate.terms(*estimate.posterior(parameters), points, key)
    return -(likelihood + cross + own)


def stochastic_bound(prior: Prior, data: Data, stack: Stack, samples: int | None = None) -> StochasticBound:
    """The estimate for a prior of the package; `samples` as in `observed`.

    >>> from npvi.components import Process
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = NNGP(RBF(), 0.1, X, build_graph(X, 1, order="given"))
    >>> estimate = stochastic_bound(prior, Data(Gaussian(0.5), np.zeros(3)), Stack(Process(prior)))
    >>> q = SparseGaussian(jnp.zeros(3), jnp.zeros((3, 1)), jnp.zeros(3))
    >>> [term.shape for term in estimate.terms(q, jnp.zeros(0), jnp.array([0, 2]), jax.random.key(0))]
    [(), (), ()]
    """
    widest = float(np.sqrt(prior.marginal_variance.max()))
    return StochasticBound(
        observed(data, widest, samples),
        _in_jax(prior),
        jnp.asarray(stack.linear.basis),
        jnp.asarray(stack.linear.precision),
        jnp.asarray(np.sqrt(prior.marginal_variance)),
    )


def _in_jax(prior: Prior) -> ConditionalPrior | LowRankPrior:
    near, log_determinant = neighbourhoods(prior.graph), jnp.asarray(prior.logdet)
    if isinstance(prior, LowRank):
        return LowRankPrior(
            near,
            jnp.asarray(1.0 / prior.own_variance),
            jnp.asarray(prior.loadings),
            jnp.asarray(-1.0),
            log_determinant,
        )
    assert isinstance(prior, NNGP)
    return ConditionalPrior(
        near,
        jnp.asarray(prior.conditional_mean_weights),
        jnp.asarray(prior.conditional_variance),
        log_determinant,
    )


# -- Σ E_q log p(y_i | f_i) from a batch of points: by draws, as in the paper, or without their noise -----------------


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Observed:
    """The observations, and how expectations under f_i ~ N(m_i, v_i) are taken.

    Attributes
    ----------
    likelihood, y, row, weight : as in `Data`; weights are there in any case.
    nodes, node_weights : of a quadrature rule, which is used where `how` says so.
    how : "closed form", "quadrature", or the number of draws.
    """

    likelihood: Likelihood
    y: jax.Array
    row: dict[str, jax.Array]
    weight: jax.Array
    nodes: jax.Array
    node_weights: jax.Array
    how: str | int = field(metadata={"static": True})

    def expected_log_likelihood(
        self, mean: jax.Array, variance: jax.Array, points: jax.Array, key: jax.Array
    ) -> jax.Array:
        """N/|S| Σ_S E log p(y_i | f_i), from the marginals of the points in the batch (eq. hatlell)."""
        values = self.expectations(mean, variance, points, key)
        return len(self.y) * jnp.mean(values)

    def expectations(self, mean: jax.Array, variance: jax.Array, points: jax.Array, key: jax.Array) -> jax.Array:
        """E log p(y_i | f_i), or what draws say of it, times its weight, for each of the points."""
        weight = self.weight[points]
        # a row of weight 0 says nothing, whatever its log-density would have overflowed to
        seen = weight > 0.0
        mean, variance = jnp.where(seen, mean, 0.0), jnp.where(seen, variance, 1.0)
        y, row = self.y[points], {name: values[points] for name, values in self.row.items()}
        values: Any
        if self.how == "closed form":
            values = jax.vmap(lambda y, m, v, row: self.likelihood.expected_log_prob(y, m, v, **row))(
                y, mean, variance, row
            )
        elif self.how == "quadrature":
            values = self.node_weights @ self._log_prob(y, mean, variance, self.nodes[:, None], row)
        else:
            draws = jax.random.normal(key, (int(self.how), len(points)), mean.dtype)
            values = jnp.mean(self._log_prob(y, mean, variance, draws, row), axis=0)
        return weight * jnp.where(seen, values, 0.0)

    def _log_prob(self, y: jax.Array, mean: jax.Array, variance: jax.Array, z: jax.Array, row: Any) -> jax.Array:
        """log p(y | f) at f = m + √v z: gradients pass through f (the reparameterisation)."""
        f = mean + jnp.sqrt(variance) * z
        per_point = jax.vmap(lambda y, f, row: self.likelihood.log_prob(y, f, **row))
        return jax.vmap(per_point, in_axes=(None, 0, None))(y, f, row)


def observed(data: Data, widest: float, samples: int | None = None) -> Observed:
    """The observations in JAX.

    Parameters
    ----------
    data : in the graph's order.
    widest : largest standard deviation of f that expectations must be right for.
    samples : draws per point and step; None takes expectations in closed form or by quadrature.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> told = observed(Data(Gaussian(0.5), np.array([1.0, 2.0])), 1.0)
    >>> told.how
    'closed form'
    """
    leaves, structure = jax.tree.flatten(data.likelihood)
    how: str | int = "quadrature"
    if samples is not None:
        how = samples
    elif has_closed_form(structure, len(leaves)):
        how = "closed form"
    nodes: NDArray[Any]
    nodes, weights, count = rule_of_tier(int(tiers(np.array([widest]), data.likelihood.resolution)[0]))
    return Observed(
        jax.tree.map(jnp.asarray, data.likelihood),
        jnp.asarray(data.y),
        {name: jnp.asarray(values) for name, values in data.row.items()},
        jnp.ones(len(data.y)) if data.weight is None else jnp.asarray(data.weight),
        jnp.asarray(nodes[:count]),
        jnp.asarray(weights[:count]),
        how,
    )


# -- E_q log p(f) from a batch of points, for the two kinds of priors that the paper has ------------------------------


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
