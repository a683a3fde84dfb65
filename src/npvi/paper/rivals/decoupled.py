"""The decoupled posterior: one basis for the mean of f, another one for its covariance.

In the dual representation of Cheng and Boots (2017), with bases α and β,

    E f(x) = k(x, α) a        cov(f(x), f(z)) = k(x, z) − k(x, β) (B⁻¹ + K_β)⁻¹ k(β, z)

    KL(q ‖ p) = ½ aᵀK_α a + ½ log |I + K_β B| − ½ tr(K_β (B⁻¹ + K_β)⁻¹).

With K_β = L Lᵀ, B stands for the covariance C Cᵀ = (I + LᵀBL)⁻¹ of the whitened values at β, and is found as C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from npvi.paper.rivals.posteriors import Spread
from npvi.paper.rivals.process import JITTER, Inducing, Places

__all__ = ["Basis", "DecoupledPosterior", "Dual", "decoupled_basis"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Basis:
    """The basis α of the mean, in coordinates that make the prior nearly white at a cost linear in its size M.

    β explains K_α up to a diagonal and what is left outside of it: P = U Uᵀ + D, with U of shape (M, |β|). The
    coefficients are a = P^{−½} c, so that aᵀPa = |c|²; and where α is β, P is K_α.

    Attributes
    ----------
    covariance : β and the process.
    points : α.
    explained : U.
    left : D, shape (M,).
    low_rank, shrinkage : P^{−½} = D^{−½} (I + low_rank diag(shrinkage) low_rankᵀ), up to a rotation.
    """

    covariance: Inducing
    points: Places
    explained: jax.Array
    left: jax.Array
    low_rank: jax.Array
    shrinkage: jax.Array

    def coefficients(self, c: jax.Array) -> jax.Array:
        """a."""
        return (c + self.low_rank @ (self.shrinkage * (self.low_rank.T @ c))) / jnp.sqrt(self.left)

    def squared_norm(self, c: jax.Array, some: jax.Array) -> jax.Array:
        """aᵀK_α a: |c|², and M/|S| Σ_S a_s ((K_α − P) a)_s for what that leaves out, from some of the points."""
        a, chosen = self.coefficients(c), self.points.take(some)
        exact = self.covariance.process.covariance(chosen, self.points) @ a
        held = self.explained[some] @ (self.explained.T @ a) + self.left[some] * a[some]
        return jnp.sum(c**2) + len(a) * jnp.mean(a[some] * (exact - held))


@jax.jit
def decoupled_basis(covariance: Inducing, points: Places) -> Basis:
    """The basis of the mean at some points, with everything that doesn't change computed."""
    weights, residual = covariance.project(points)
    total = residual + jnp.sum(weights**2, axis=0)
    # a point that is no row has no nugget of its own
    residual = residual - jnp.where(points.rows >= 0, 0.0, covariance.process.nugget)
    left = jnp.maximum(residual, 0.0) + JITTER * jnp.mean(total)
    scaled = weights.T / jnp.sqrt(left)[:, None]
    size, vectors = jnp.linalg.eigh(scaled.T @ scaled)
    size = jnp.maximum(size, 0.0)
    # (√(1/(1 + s)) − 1)/s, without cancellation
    shrinkage = -1.0 / ((1.0 + size) + jnp.sqrt(1.0 + size))
    return Basis(covariance, points, weights.T, left, scaled @ vectors, shrinkage)


class Dual(NamedTuple):
    """What is trained."""

    mean: jax.Array
    """Coefficients of the mean in the coordinates of `Basis`, shape (M,)."""
    spread: Spread
    """C."""
    constant: jax.Array | None
    """The mean of f, in units of its prior standard deviation."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DecoupledPosterior:
    """The posterior with its two bases, and the constant mean of f."""

    basis: Basis
    dual: Dual
    constant: Any

    @property
    def weights(self) -> jax.Array:
        """One component."""
        return jnp.ones(1)

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        return len(self.dual.mean) + len(self.dual.spread.log_diagonal)

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Mean and variance of f at the places."""
        basis = self.basis
        weights, residual = basis.covariance.project(places)
        between = basis.covariance.process.covariance(places, basis.points)
        mean = self.constant + between @ basis.coefficients(self.dual.mean)
        return [(mean, residual + self.dual.spread.along(weights))]

    def divergence(self, some: jax.Array | None = None) -> jax.Array:
        """KL(q ‖ p), or an estimate of it from `some` of the points of the mean's basis."""
        some = jnp.arange(len(self.dual.mean)) if some is None else some
        return 0.5 * self.basis.squared_norm(self.dual.mean, some) + self.dual.spread.divergence()
