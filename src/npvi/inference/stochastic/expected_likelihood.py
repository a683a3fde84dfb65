"""Σ E_q log p(y_i | f_i) from a batch of points: by draws, as in the paper, or without their noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data
from npvi.likelihoods import Likelihood
from npvi.likelihoods.integrals.expectations import has_closed_form
from npvi.likelihoods.integrals.quadrature import rule_of_tier, tiers

__all__ = ["Observed", "observed"]


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
