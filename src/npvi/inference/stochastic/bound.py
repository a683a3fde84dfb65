"""The bound from a batch of points, as a function of what is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from npvi.components import Stack
from npvi.inference.data import Data
from npvi.inference.stochastic.cross_entropy import ConditionalPrior, LowRankPrior
from npvi.inference.stochastic.expected_likelihood import Observed, observed
from npvi.inference.stochastic.gaussian import SparseGaussian, entropy, neighbourhoods
from npvi.priors import NNGP, LowRank, Prior

__all__ = ["Parameters", "StochasticBound", "loss", "stochastic_bound"]


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
