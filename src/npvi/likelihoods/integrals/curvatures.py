"""Second derivatives of E log p(y | f), f ~ N(m, s²), in m and s."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.expectations import at_once, by_rules, closed_slopes, grid_sums, has_closed_form
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit, jnp

__all__ = ["Curvatures", "curvatures"]


class Curvatures(NamedTuple):
    """E = E log p(y | f) and its derivatives, one number per row.

    In (m, s) rather than (m, s²), because there E is concave wherever log p(y | f) is concave in f.
    """

    value: np.ndarray
    in_mean: np.ndarray
    in_sd: np.ndarray
    in_mean_mean: np.ndarray
    in_mean_sd: np.ndarray
    in_sd_sd: np.ndarray


def curvatures(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
    coarse: bool = False,
) -> Curvatures:
    """E log p(y | f) under f ~ N(mean, sd²) with its first and second derivatives in mean and sd.

    Parameters
    ----------
    likelihood : Likelihood
    y, mean, sd : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        The likelihood's extras.
    coarse : bool
        Half as many nodes: an error near 1e-6 rather than 1e-13.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> one = np.ones(1)
    >>> [float(part[0]) + 0.0 for part in curvatures(Gaussian(variance=0.5), 3 * one, one, one)[1:]]
    [4.0, -2.0, -2.0, 0.0, -2.0]
    """
    row = row or {}
    slopes = closed_slopes(likelihood, y, mean, np.square(sd), row)
    if slopes is not None:
        value, first, second, third, fourth = slopes
        # ∂/∂s = s ∂²/∂m²
        return Curvatures(value, first, sd * second, second, sd * third, second + sd**2 * fourth)
    if not in_numpy.has(likelihood, "expected_slopes"):
        leaves, structure = jax.tree.flatten(likelihood)
        if has_closed_form(structure, len(leaves)):
            function = partial(_closed_form, structure, leaves)
            return Curvatures(*map_rows(function, (y, mean, sd), row, results=6, largest=at_once(len(y))))
    columns = (y, mean, np.square(sd))
    functions = (_by_rule, _by_grid)
    few = partial(in_numpy.curvatures, likelihood) if in_numpy.has(likelihood, "log_prob_slopes") else None
    return Curvatures(*by_rules(likelihood, functions, columns, row, coarse, 6, few))


@jit(static_argnums=0)
def _closed_form(structure: Any, leaves: list, y: jax.Array, m: jax.Array, s: jax.Array, row: dict) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)

    def value(m: jax.Array, s: jax.Array, y: jax.Array, row: dict) -> jax.Array:
        return likelihood.expected_log_prob(y, m, s**2, **row)

    slopes = jax.grad(value, argnums=(0, 1))
    (mm, ms), (_, ss) = jax.vmap(jax.jacfwd(slopes, argnums=(0, 1)))(m, s, y, row)
    in_mean, in_sd = jax.vmap(slopes)(m, s, y, row)
    return jax.vmap(value)(m, s, y, row), in_mean, in_sd, mm, ms, ss


@jit(static_argnums=0)
def _by_rule(
    structure: Any,
    leaves: list,
    nodes: jax.Array,
    weights: jax.Array,
    count: int,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    row: dict,
) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)
    sd = jnp.sqrt(v)

    def log_prob(f: jax.Array, y: jax.Array, row: dict) -> jax.Array:
        return likelihood.log_prob(y, f, **row)

    value_and_slope = jax.vmap(jax.value_and_grad(log_prob))
    curve = jax.vmap(jax.grad(jax.grad(log_prob)))

    def add(k: int, sums: tuple) -> tuple:
        f, z = m + sd * nodes[k], nodes[k]
        value, slope = value_and_slope(f, y, row)
        bend = curve(f, y, row)
        terms = (value, slope, z * slope, bend, z * bend, z * z * bend)
        return tuple(total + weights[k] * term for total, term in zip(sums, terms))

    return jax.lax.fori_loop(0, count, add, (jnp.zeros_like(m),) * 6)


@jit(static_argnums=0)
def _by_grid(structure: Any, leaves: list, *arguments: Any) -> tuple:
    v = arguments[-2]
    sd = jnp.sqrt(v)
    total, first, second, third, fourth = grid_sums(structure, 5, leaves, *arguments)
    # ∂/∂s = s ∂²/∂m²
    return total, first / sd, second / sd, second / v, third / v, (second + fourth) / v
