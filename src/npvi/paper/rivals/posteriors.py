"""Posteriors over inducing values, and what follows for f elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.inference import Data
from npvi.inference.stochastic import observed
from npvi.paper.rivals.process import Inducing, Places
from npvi.runtime.batching import map_rows
from npvi.runtime.precision import float64

__all__ = ["GaussianPosterior", "InducingPosterior", "Spread", "Whitened", "bound", "marginals", "weights_of"]

Vector = NDArray[np.float64]

#: numbers held at a time
_ENTRIES = 2**21


class InducingPosterior(Protocol):
    """A mixture of Gaussians (mostly of one) that says what f is anywhere."""

    @property
    def weights(self) -> jax.Array:
        """Of the components; they sum to 1."""
        ...

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        ...

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Means and variances of f at the places, by component."""
        ...

    def divergence(self) -> jax.Array:
        """KL(q ‖ p), or an upper bound of it."""
        ...


class Spread(NamedTuple):
    """A covariance C Cᵀ of whitened values, which are N(0, I) a priori.

    >>> float(Spread.prior(3).divergence())
    0.0
    """

    lower: jax.Array
    """C below its diagonal, shape (M, M); the rest doesn't count."""
    log_diagonal: jax.Array
    """Logarithms of the diagonal of C, shape (M,)."""

    @classmethod
    def prior(cls, size: int) -> Spread:
        """C = I."""
        return cls(jnp.zeros((size, size)), jnp.zeros(size))

    @property
    def factor(self) -> jax.Array:
        """C."""
        return jnp.tril(self.lower, -1) + jnp.diag(jnp.exp(self.log_diagonal))

    def along(self, weights: jax.Array) -> jax.Array:
        """|Cᵀw|², the variance of wᵀv, for every column w of `weights`."""
        return jnp.sum((self.factor.T @ weights) ** 2, axis=0)

    def divergence(self) -> jax.Array:
        """KL(N(0, C Cᵀ) ‖ N(0, I))."""
        return 0.5 * (jnp.sum(self.factor**2) - len(self.log_diagonal)) - jnp.sum(self.log_diagonal)


class Whitened(NamedTuple):
    """q(v) = N(mean, C Cᵀ) for the whitened inducing values v."""

    mean: jax.Array
    """Shape (M,)."""
    spread: Spread

    @classmethod
    def prior(cls, size: int) -> Whitened:
        """q = p."""
        return cls(jnp.zeros(size), Spread.prior(size))

    def divergence(self) -> jax.Array:
        """KL(q ‖ N(0, I))."""
        return 0.5 * jnp.sum(self.mean**2) + self.spread.divergence()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianPosterior:
    """q of the whitened inducing values, and the constant mean of f."""

    inducing: Inducing
    q: Whitened
    constant: Any

    @property
    def weights(self) -> jax.Array:
        """One component."""
        return jnp.ones(1)

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        return len(self.q.mean)

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Mean and variance of f at the places."""
        weights, residual = self.inducing.project(places)
        return [(self.constant + self.q.mean @ weights, residual + self.q.spread.along(weights))]

    def divergence(self) -> jax.Array:
        """KL(q ‖ p)."""
        return self.q.divergence()


@partial(jax.jit, static_argnums=0)
def _marginals(structure: Any, leaves: list, X: jax.Array, rows: jax.Array) -> tuple[jax.Array, ...]:
    parts = jax.tree.unflatten(structure, leaves).components(Places(X, rows))
    return tuple(number for part in parts for number in part)


def marginals(posterior: InducingPosterior, places: Places) -> list[tuple[Vector, Vector]]:
    """Means and variances of f at many places, by component, in bounded memory."""
    count, largest = len(weights_of(posterior)), _rows_at_a_time(posterior.size)
    columns = (np.asarray(places.X), np.asarray(places.rows, dtype=np.float64))
    leaves, structure = jax.tree.flatten(posterior)
    found = map_rows(partial(_marginals, structure, leaves), columns, results=2 * count, largest=largest)
    return list(zip(found[0::2], found[1::2]))


def weights_of(posterior: InducingPosterior) -> Vector:
    """The weights of its components, for NumPy."""
    with float64():
        return np.asarray(posterior.weights, dtype=np.float64)


def bound(posterior: InducingPosterior, places: Places, data: Data) -> float:
    """The evidence lower bound of all rows, with expectations in closed form or by quadrature."""
    expected = [_expected_log_likelihood(data, *part) for part in marginals(posterior, places)]
    with float64():
        return float(weights_of(posterior) @ expected - np.asarray(_divergence(posterior)))


@jax.jit
def _divergence(posterior: Any) -> jax.Array:
    return posterior.divergence()


def _expected_log_likelihood(data: Data, mean: Vector, variance: Vector) -> float:
    """Σ E log p(y_i | f_i); unlike `Data.expectations` it never differentiates the likelihood."""
    with float64():
        seen = observed(data, float(np.sqrt(variance.max())))
    leaves, structure = jax.tree.flatten(seen)
    columns = (np.arange(len(mean), dtype=np.float64), mean, variance)
    largest = _rows_at_a_time(len(seen.nodes))
    return float(map_rows(partial(_expectations, structure, leaves), columns, largest=largest)[0].sum())


@partial(jax.jit, static_argnums=0)
def _expectations(
    structure: Any, leaves: list, rows: jax.Array, mean: jax.Array, variance: jax.Array
) -> tuple[jax.Array]:
    seen = jax.tree.unflatten(structure, leaves)
    return (seen.expectations(mean, variance, rows.astype(int), jax.random.key(0)),)


def _rows_at_a_time(entries_of_a_row: int) -> int:
    return 1 << int(np.clip(np.log2(_ENTRIES / entries_of_a_row), 8, 14))
