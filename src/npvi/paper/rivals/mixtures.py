"""A mixture of Gaussians with diagonal covariances over the inducing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from npvi.paper.rivals.process import Inducing, Places

__all__ = ["Diagonals", "MixturePosterior"]

_LOG_2PI = 1.8378770664093453


class Diagonals(NamedTuple):
    """q(u) = Σ_k π_k N(L means_k, diag(exp log_sd_k)²): means are whitened, covariances are not."""

    means: jax.Array
    """Shape (components, M)."""
    log_sd: jax.Array
    """Shape (components, M)."""
    logits: jax.Array
    """Of π, shape (components,)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixturePosterior:
    """The mixture, and the constant mean of f."""

    inducing: Inducing
    q: Diagonals
    constant: Any

    @property
    def weights(self) -> jax.Array:
        """π."""
        return jax.nn.softmax(self.q.logits)

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        return self.q.means.shape[1]

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Means and variances of f at the places, by component."""
        weights, residual = self.inducing.project(places)
        of_values = solve_triangular(self.inducing.factor, weights, lower=True, trans="T")  # E[f | u] = of_valuesᵀ u
        means = self.constant + self.q.means @ weights
        variances = residual + jnp.exp(2.0 * self.q.log_sd) @ of_values**2
        return list(zip(means, variances))

    def divergence(self) -> jax.Array:
        """An upper bound of KL(q ‖ p): Jensen's inequality bounds the entropy of the mixture from below."""
        return -(self.weights @ self._cross() + self._entropy())

    def _cross(self) -> jax.Array:
        """E log p(u) of each component."""
        factor, (means, log_sd, _) = self.inducing.factor, self.q
        squares = jnp.sum(means**2, axis=1) + jnp.exp(2.0 * log_sd) @ self.inducing.precision_diagonal()
        return -0.5 * (len(factor) * _LOG_2PI + squares) - jnp.sum(jnp.log(jnp.diag(factor)))

    def _entropy(self) -> jax.Array:
        """−Σ_k π_k log Σ_l π_l N(m_k; m_l, S_k + S_l)."""
        means, variance = self.q.means @ self.inducing.factor.T, jnp.exp(2.0 * self.q.log_sd)

        def log_density(m: jax.Array, s: jax.Array) -> jax.Array:
            """Of a component's mean under every component, widened by its own covariance."""
            both = variance + s
            return -0.5 * jnp.sum(_LOG_2PI + jnp.log(both) + (m - means) ** 2 / both, axis=1)

        log_weights = jax.nn.log_softmax(self.q.logits)
        overlap = logsumexp(log_weights + jax.vmap(log_density)(means, variance), axis=1)
        return -(self.weights @ overlap)
