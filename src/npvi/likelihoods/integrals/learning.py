"""How the expected log-likelihood changes with the likelihood's own parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.expectations import has_closed_form, nodes_needed, rules
from npvi.likelihoods.integrals.grid import Grid
from npvi.runtime.lazy import jax, jit, jnp
from npvi.runtime.precision import float64

__all__ = ["parameter_gradient"]

#: rows in a chunk: one of two numbers, because each is compiled for
_FEW, _ROWS = 2**8, 2**11


def parameter_gradient(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
    weight: np.ndarray | None = None,
    coarse: bool = False,
) -> dict[str, np.ndarray]:
    """∂/∂θ Σ_i weight_i E log p(y_i | f_i; θ) under f_i ~ N(mean_i, variance_i), for every parameter θ.

    The same rules as in `expectations`, so it is the gradient of the sum of those values. Empty for a
    likelihood that has no parameters to learn.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian, Poisson
    >>> y, mean, variance = np.array([1.0, 3.0]), np.array([0.0, 0.0]), np.array([1.0, 1.0])
    >>> slopes = parameter_gradient(Gaussian(variance=6.0), y, mean, variance)  # 6 is the mean (y − f)²
    >>> abs(round(float(slopes["variance"]), 6))
    0.0
    >>> parameter_gradient(Poisson(), y, mean, variance)
    {}
    """
    names = [name for name in likelihood.get_params(deep=False) if name not in likelihood.static]
    learned = [name for name in names if name not in likelihood.held]
    if not learned:
        return {}
    leaves, structure = jax.tree.flatten(likelihood)
    row = row or {}
    weight = np.ones(len(y)) if weight is None else weight
    totals = [np.zeros(np.shape(leaf)) for leaf in leaves]
    closed = has_closed_form(structure, len(leaves))
    if likelihood.location:
        y, mean = np.zeros_like(mean), mean - y
    with float64():
        for rule, chosen in _ways(likelihood, closed, y, mean, variance, row, coarse):
            arrays = [column[chosen] for column in (y, mean, variance, weight)]
            extras = {name: values[chosen] for name, values in row.items()}
            for start in range(0, len(arrays[0]), _ROWS):
                rows = slice(start, start + _ROWS)
                part = [_padded(column[rows]) for column in arrays]
                part[3][len(arrays[3][rows]) :] = 0.0
                more = {name: _padded(values[rows]) for name, values in extras.items()}
                if rule is None:
                    found = _closed_form(structure, leaves, *part, more)
                elif isinstance(rule, Grid):
                    found = _by_grid(structure, leaves, *rule, *part, more)
                else:
                    found = _by_rule(structure, leaves, *rule, *part, more)
                totals = [total + np.asarray(slope) for total, slope in zip(totals, found)]
    found = dict(zip(names, totals, strict=True))
    return {name: found[name] for name in learned}


def _ways(
    likelihood: Likelihood,
    closed: bool,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray],
    coarse: bool,
) -> Iterator[tuple[Any, np.ndarray | slice]]:
    """Rules, or None for the likelihood's own formula, each with its rows."""
    holds = np.broadcast_to(likelihood.keeps_digits(y, **row) if closed else False, np.shape(y))
    if holds.any():
        yield None, slice(None) if holds.all() else np.flatnonzero(holds)
    rest = np.flatnonzero(~holds)
    if len(rest):
        some = {name: values[rest] for name, values in row.items()}
        for rule, chosen in rules(likelihood, mean[rest], np.sqrt(variance[rest]), some, coarse):
            yield rule, rest[chosen]


def _padded(rows: np.ndarray) -> np.ndarray:
    size = _FEW if len(rows) <= _FEW else _ROWS
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


@jit(static_argnums=0)
def _closed_form(
    structure: Any, leaves: list, y: jax.Array, m: jax.Array, v: jax.Array, weight: jax.Array, row: dict
) -> list:
    def value(leaves: list) -> jax.Array:
        likelihood = jax.tree.unflatten(structure, leaves)
        values = jax.vmap(lambda y, m, v, row: likelihood.expected_log_prob(y, m, v, **row))(y, m, v, row)
        return jnp.sum(jnp.where(weight > 0.0, values, 0.0) * weight)

    return jax.grad(value)(leaves)


@jit(static_argnums=0)
def _by_rule(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    weights: jax.Array,
    n_nodes: int,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    weight: jax.Array,
    row: dict,
) -> list:
    sd = jnp.sqrt(v)

    def value(leaves: list, f: jax.Array) -> jax.Array:
        likelihood = jax.tree.unflatten(structure, leaves)
        values = jax.vmap(lambda y, f, row: likelihood.log_prob(y, f, **row))(y, f, row)
        return jnp.sum(jnp.where(weight > 0.0, values, 0.0) * weight)

    def add(k: int, sums: list) -> list:
        slopes = jax.grad(value)(leaves, m + sd * nodes[k])
        return [total + weights[k] * slope for total, slope in zip(sums, slopes)]

    return jax.lax.fori_loop(0, n_nodes, add, [jnp.zeros_like(leaf) for leaf in leaves])


@jit(static_argnums=0)
def _by_grid(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    spacings: jax.Array,
    reach: float,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    weight: jax.Array,
    row: dict,
) -> list:
    scale = 1.0 / jnp.sqrt(v)

    def value(leaves: list, k: int) -> jax.Array:
        likelihood = jax.tree.unflatten(structure, leaves)
        z = (nodes[k] - m) * scale
        share = weight * spacings[k] * scale * jnp.exp(-0.5 * z * z) * (1.0 / np.sqrt(2.0 * np.pi))
        values = jax.vmap(lambda y, row: likelihood.log_prob(y, nodes[k], **row))(y, row)
        counts = (weight > 0.0) & (jnp.abs(z) <= reach)
        return jnp.sum(jnp.where(counts, values, 0.0) * share)

    def add(k: int, sums: list) -> list:
        return [total + slope for total, slope in zip(sums, jax.grad(value)(leaves, k))]

    first, last = nodes_needed(nodes, reach, m, v)
    return jax.lax.fori_loop(first, last, add, [jnp.zeros_like(leaf) for leaf in leaves])
