"""The Gaussian process as inducing points see it, in JAX: covariances of some points with some others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

from npvi.kernels import Kernel
from npvi.priors import NotPositiveDefiniteError

__all__ = ["Inducing", "Places", "Process", "Projection", "checked", "new_places"]

#: on the diagonal of the inducing values' covariance, relative to it: they are then f plus next to no noise, and the
#: bound stays a bound
JITTER = 1e-8


class Places(NamedTuple):
    """Points, and which training row each of them is (−1: none), because a nugget belongs to a row."""

    X: Any
    """Shape (n, d)."""
    rows: Any
    """Shape (n,)."""

    def take(self, which: Any) -> Places:
        """Some of them."""
        return Places(self.X[which], self.rows[which])


def new_places(X: NDArray[np.float64]) -> Places:
    """Points that are no training row.

    >>> new_places(np.zeros((2, 1))).rows
    array([-1, -1])
    """
    return Places(X, np.full(len(X), -1))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Process:
    """f with covariance k(x, z), and the nugget where both are the same row.

    >>> from npvi.kernels import RBF
    >>> rows = Places(jnp.zeros((2, 1)), jnp.arange(2))  # two rows at one place
    >>> Process(RBF(), jnp.asarray(0.5)).covariance(rows, rows)
    Array([[1.5, 1. ],
           [1. , 1.5]], dtype=float32)
    """

    kernel: Kernel
    nugget: Any

    def covariance(self, a: Places, b: Places) -> jax.Array:
        """Shape (len(a), len(b))."""
        between = jax.vmap(lambda x: jax.vmap(lambda z: self.kernel(x, z))(b.X))(a.X)
        same = (a.rows[:, None] == b.rows) & (a.rows[:, None] >= 0)
        return between + self.nugget * same

    def variance(self, a: Places) -> jax.Array:
        """Of f at each place, the nugget included."""
        return jax.vmap(lambda x: self.kernel(x, x))(a.X) + self.nugget


class Projection(NamedTuple):
    """What inducing values u = L v, with v ~ N(0, I), say about f at some places."""

    weights: jax.Array
    """L⁻¹ cov(u, f), shape (M, n): E[f | v] = weightsᵀ v."""
    residual: jax.Array
    """Var[f | v], shape (n,)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Inducing:
    """Inducing points of a process, and L, the lower Cholesky factor of their values' covariance."""

    process: Process
    points: Places
    factor: jax.Array

    @classmethod
    def of(cls, process: Process, points: Places) -> Inducing:
        """With L computed."""
        return cls(process, points, _factor(process, points))

    def precision_diagonal(self) -> jax.Array:
        """Of the inverse of their values' covariance, shape (M,)."""
        inverse = solve_triangular(self.factor, jnp.eye(len(self.factor)), lower=True)
        return jnp.sum(inverse**2, axis=0)

    def project(self, places: Places) -> Projection:
        """For some places."""
        weights = solve_triangular(self.factor, self.process.covariance(self.points, places), lower=True)
        # where a place is an inducing point nothing is left, up to rounding
        left = jnp.maximum(self.process.variance(places) - jnp.sum(weights**2, axis=0), 0.0)
        return Projection(weights, left)


@jax.jit
def _factor(process: Process, points: Places) -> jax.Array:
    own = process.covariance(points, points)
    jitter = JITTER * jnp.mean(jnp.diag(own))
    return jnp.linalg.cholesky(own + jitter * jnp.eye(len(own)))


def checked(inducing: Inducing) -> Inducing:
    """`inducing`, or NotPositiveDefiniteError where its matrix has no factor."""
    if not np.isfinite(np.asarray(inducing.factor)).all():
        raise NotPositiveDefiniteError(
            "the kernel matrix of the inducing points is not positive definite: give a larger nugget, or fewer "
            "inducing points"
        )
    return inducing
