"""How the expected log-likelihood changes with the likelihood's own parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npvi.batching import map_rows
from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.expectations import by_tier, has_closed_form

__all__ = ["parameter_gradient"]


def parameter_gradient(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
) -> dict[str, float]:
    """∂/∂θ Σ_i E log p(y_i | f_i; θ) under f_i ~ N(mean_i, variance_i), for every number θ that is a
    parameter.

    The same rules as in `expectations`, so it is the gradient of the sum of those values. Empty for a
    likelihood that has no parameters to learn.

    Parameters
    ----------
    likelihood : Likelihood
    y, mean, variance : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        The likelihood's extras.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian, Poisson
    >>> y, mean, variance = np.array([1.0, 3.0]), np.array([0.0, 0.0]), np.array([1.0, 1.0])
    >>> round(parameter_gradient(Gaussian(variance=6.0), y, mean, variance)["variance"], 6)  # 6 is the mean (y − f)²
    0.0
    >>> parameter_gradient(Poisson(), y, mean, variance)
    {}
    """
    row = row or {}
    leaves, structure = jax.tree.flatten(likelihood)
    names = [name for name in likelihood._get_param_names() if name not in likelihood.static]
    if not names:
        return {}
    columns = (y, mean, variance)
    if has_closed_form(structure, len(leaves)):
        parts = map_rows(partial(_closed_form, structure, leaves), columns, row, results=len(names))
    else:
        function = partial(_by_rule, structure, leaves)
        parts = by_tier(function, columns, row, likelihood.resolution, results=len(names))
    return {name: float(part.sum()) for name, part in zip(names, parts)}


@partial(jax.jit, static_argnums=0)
def _closed_form(structure: Any, leaves: list, y: jax.Array, m: jax.Array, v: jax.Array, row: dict) -> list:
    def value(leaves: list, y: jax.Array, m: jax.Array, v: jax.Array, row: dict) -> jax.Array:
        return jax.tree.unflatten(structure, leaves).expected_log_prob(y, m, v, **row)

    return jax.vmap(jax.grad(value), in_axes=(None, 0, 0, 0, 0))(leaves, y, m, v, row)


@partial(jax.jit, static_argnums=0)
def _by_rule(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    weights: jax.Array,
    n_nodes: int,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    row: dict,
) -> list:
    def value(leaves: list, y: jax.Array, f: jax.Array, row: dict) -> jax.Array:
        return jax.tree.unflatten(structure, leaves).log_prob(y, f, **row)

    gradient = jax.vmap(jax.grad(value), in_axes=(None, 0, 0, 0))
    sd = jnp.sqrt(v)

    def add(k: int, sums: list) -> list:
        slopes = gradient(leaves, y, m + sd * nodes[k], row)
        return [total + weights[k] * slope for total, slope in zip(sums, slopes)]

    return jax.lax.fori_loop(0, n_nodes, add, [jnp.zeros_like(m) for _ in leaves])
