"""Mean and variance of a response, given f and with f integrated out."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.expectations import by_rules, nodes_needed
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit, jnp

__all__ = ["conditional_moments", "predictive_moments"]


def conditional_moments(
    likelihood: Likelihood, f: np.ndarray, row: dict[str, np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """E[y | f] and Var[y | f] for each row.

    >>> from npvi.likelihoods import Bernoulli
    >>> conditional_moments(Bernoulli(), np.zeros(1))
    (array([0.5]), array([0.25]))
    """
    if in_numpy.has(likelihood, "conditional_moments"):
        return in_numpy.conditional(likelihood, f, row or {})
    leaves, structure = jax.tree.flatten(likelihood)
    mean, variance = map_rows(partial(_conditional, structure, leaves), (f,), row or {}, results=2)
    return mean, variance


def predictive_moments(
    likelihood: Likelihood,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of y for f ~ N(mean, variance): E[y] = E E[y|f], Var[y] = E Var[y|f] + Var E[y|f].

    >>> from npvi.likelihoods import Gaussian
    >>> predictive_moments(Gaussian(variance=0.5), np.array([1.0]), np.array([2.0]))
    (array([1.]), array([2.5]))
    """
    row = row or {}
    closed = likelihood.marginal_moments(mean, variance, **row)
    if closed is not None:
        return closed
    functions = (_by_rule, _by_grid)
    few = None
    if in_numpy.has(likelihood, "conditional_moments"):
        few = partial(in_numpy.moments, likelihood), partial(in_numpy.moments_on_grid, likelihood)
    first, second = by_rules(likelihood, functions, (mean, variance), row, coarse=False, results=2, few=few)
    return first, second


@jit(static_argnums=0)
def _conditional(structure: Any, leaves: list, f: jax.Array, row: dict) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)
    return jax.vmap(lambda f, row: (likelihood.conditional_mean(f, **row), likelihood.conditional_variance(f, **row)))(
        f, row
    )


@jit(static_argnums=0)
def _by_rule(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    weights: jax.Array,
    n_nodes: int,
    m: jax.Array,
    v: jax.Array,
    row: dict,
) -> tuple:
    sd = jnp.sqrt(v)
    # deviations from the mean at m, so that a small variance does not drown in the square of a large mean
    centre = _conditional(structure, leaves, m, row)[0]

    def add(k: int, sums: tuple) -> tuple:
        mean, noise = _conditional(structure, leaves, m + sd * nodes[k], row)
        deviation = mean - centre
        first, second = sums
        return first + weights[k] * deviation, second + weights[k] * (deviation**2 + noise)

    zero = jnp.zeros_like(m)
    first, second = jax.lax.fori_loop(0, n_nodes, add, (zero, zero))
    return centre + first, second - first**2


@jit(static_argnums=0)
def _by_grid(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    spacings: jax.Array,
    reach: float,
    m: jax.Array,
    v: jax.Array,
    row: dict,
) -> tuple:
    scale = 1.0 / jnp.sqrt(v)
    centre = _conditional(structure, leaves, m, row)[0]

    def add(k: int, sums: tuple) -> tuple:
        z = (nodes[k] - m) * scale
        weight = jnp.where(jnp.abs(z) <= reach, spacings[k] * jnp.exp(-0.5 * z * z), 0.0)
        mean, noise = _conditional(structure, leaves, jnp.full_like(m, nodes[k]), row)
        deviation = mean - centre
        first, second = sums
        return first + weight * deviation, second + weight * (deviation**2 + noise)

    start, stop = nodes_needed(nodes, reach, m, v)
    zero = jnp.zeros_like(m)
    sums = jax.lax.fori_loop(start, stop, add, (zero, zero))
    first, second = (total * scale * (1.0 / np.sqrt(2.0 * np.pi)) for total in sums)
    return centre + first, second - first**2
