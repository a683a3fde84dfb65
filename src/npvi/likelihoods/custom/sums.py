"""What follows from a user's log p(y | f), given f: moments, distribution function, samples, for rows of f."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npvi.likelihoods.integrals import responses
from npvi.likelihoods.integrals.density import reach
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit, jnp
from npvi.runtime.precision import float64

if TYPE_CHECKING:
    from npvi.likelihoods.custom.likelihood import Custom

__all__ = [
    "below_by_table",
    "cdf",
    "estimated_resolution",
    "map_f",
    "map_table",
    "moments_by_table",
    "moments_given",
    "most_likely_latent",
    "place_of",
    "sample",
    "table_of",
    "totals",
    "value_and_slope",
]

_ROWS = 2**12
"""Rows at a time: each has up to a thousand numbers in the making."""
_TABLE = 2048


def moments_given(likelihood: Custom, f: jax.Array) -> tuple:
    """∫ p(y | f) dy, E[y | f] and Var[y | f], for one f, in JAX."""
    log_prob = _given(likelihood, f)
    return responses.moments(log_prob, likelihood.support, responses.place(log_prob, likelihood.support))


def totals(likelihood: Custom, f: np.ndarray) -> np.ndarray:
    """∫ p(y | f) dy."""
    return map_f(_totals, likelihood, f)[0]


def value_and_slope(likelihood: Custom, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, ...]:
    """log p(y | f) and its derivative in f."""
    return map_f(_value_and_slope, likelihood, y, f, results=2)


def cdf(likelihood: Custom, y: Any, f: Any) -> np.ndarray:
    """P(Y ≤ y | f); arguments broadcast."""
    y, f = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64))
    if f.size <= _TABLE:
        return map_f(_below, likelihood, y.ravel(), f.ravel())[0].reshape(y.shape)
    return map_table(below_by_table, likelihood, table_of(likelihood, f.min(), f.max()), y, f)[0]


def sample(likelihood: Custom, rng: np.random.Generator, f: Any) -> np.ndarray:
    """A draw of y for each f."""
    f = np.asarray(f, dtype=np.float64)
    levels = rng.random((2, f.size))
    return map_f(_draw, likelihood, f.ravel(), *levels)[0].reshape(f.shape)


def most_likely_latent(likelihood: Custom, y: Any) -> np.ndarray:
    """The f under which y is most likely, held back a little from infinity."""
    y = np.asarray(y, dtype=np.float64)
    return map_f(_most_likely, likelihood, y.ravel())[0].reshape(y.shape)


def estimated_resolution(likelihood: Custom) -> float:
    """The scale of f over which log p(y | f) is smooth: a quarter of the radius within which 33 points tell it all.

    That is 1 for the logistic function. A kink has no such radius, a polynomial any: then the width of the log-density
    counts, the distance in f over which it falls by a half.
    """
    leaves, structure = jax.tree.flatten(likelihood)
    with float64():
        radii, widths = (np.asarray(part) for part in _smoothness(structure, leaves))
    return float(np.clip(0.25 * radii.min(), 0.1 * widths.min(), widths.max()))


def _given(likelihood: Custom, f: jax.Array) -> Any:
    return lambda y: likelihood.log_prob(y, f)


def map_f(function: Any, likelihood: Custom, *columns: np.ndarray, results: int = 1) -> tuple[np.ndarray, ...]:
    leaves, structure = jax.tree.flatten(likelihood)
    if not len(columns[0]):
        return tuple(np.empty(0) for _ in range(results))
    return map_rows(partial(function, structure, leaves), columns, results=results, largest=_ROWS)


def map_table(
    function: Any, likelihood: Custom, table: responses.Table, *arrays: np.ndarray, results: int = 1
) -> tuple[np.ndarray, ...]:
    """`function` at every entry of arrays of one shape, with places from the table."""
    leaves, structure = jax.tree.flatten(likelihood)
    columns = [np.ascontiguousarray(array).ravel() for array in arrays]
    found = map_rows(partial(function, structure, leaves, table), columns, results=results, largest=_ROWS)
    return tuple(part.reshape(arrays[0].shape) for part in found)


def table_of(likelihood: Custom, start: float, stop: float) -> responses.Table:
    """Where the mass of p(y | f) is, for f from start to stop."""
    f = np.linspace(start, stop, _TABLE)
    step = max((stop - start) / (_TABLE - 1), np.finfo(np.float64).tiny)
    return responses.Table(np.float64(start), np.float64(step), *map_f(_place_and_total, likelihood, f, results=5))


def _per_row(one: Any) -> Any:
    """``one(likelihood, *numbers)`` compiled for rows of numbers."""

    @jit(static_argnums=0)
    def rows(structure: Any, leaves: list, *columns: jax.Array) -> tuple:
        return jax.vmap(partial(one, jax.tree.unflatten(structure, leaves)))(*columns)

    return rows


def _per_row_with_table(one: Any) -> Any:
    """``one(likelihood, table, *numbers)`` compiled for rows of numbers."""

    @jit(static_argnums=0)
    def rows(structure: Any, leaves: list, table: responses.Table, *columns: jax.Array) -> tuple:
        return jax.vmap(partial(one, jax.tree.unflatten(structure, leaves), table))(*columns)

    return rows


@_per_row
def _totals(likelihood: Custom, f: jax.Array) -> tuple:
    return (moments_given(likelihood, f)[0],)


@_per_row
def _value_and_slope(likelihood: Custom, y: jax.Array, f: jax.Array) -> tuple:
    return jax.value_and_grad(lambda f: likelihood.log_prob(y, f).astype(f.dtype))(f)


@_per_row
def _below(likelihood: Custom, y: jax.Array, f: jax.Array) -> tuple:
    log_prob, support = _given(likelihood, f), likelihood.support
    return (responses.below(log_prob, support, responses.place(log_prob, support), y),)


@_per_row_with_table
def below_by_table(likelihood: Custom, table: responses.Table, y: jax.Array, f: jax.Array) -> tuple:
    log_prob, support = _given(likelihood, f), likelihood.support
    at, log_total = responses.looked_up(table, log_prob, support, f)
    return (responses.below(log_prob, support, at, y, log_total),)


@_per_row_with_table
def moments_by_table(likelihood: Custom, table: responses.Table, f: jax.Array) -> tuple:
    log_prob, support = _given(likelihood, f), likelihood.support
    return responses.moments(log_prob, support, responses.looked_up(table, log_prob, support, f)[0])[1:]


@_per_row
def _draw(likelihood: Custom, f: jax.Array, level: jax.Array, within: jax.Array) -> tuple:
    log_prob, support = _given(likelihood, f), likelihood.support
    return (responses.draw(log_prob, support, responses.place(log_prob, support), level, within),)


@_per_row
def place_of(likelihood: Custom, f: jax.Array) -> tuple:
    return responses.place(_given(likelihood, f), likelihood.support)[:4]


@_per_row
def _place_and_total(likelihood: Custom, f: jax.Array) -> tuple:
    log_prob, support = _given(likelihood, f), likelihood.support
    at = responses.place(log_prob, support)
    return (*at[:4], jnp.log(responses.moments(log_prob, support, at)[0]))


@_per_row
def _most_likely(likelihood: Custom, y: jax.Array) -> tuple:
    def pulled(u: jax.Array) -> jax.Array:
        f = jnp.sinh(u)
        value = likelihood.log_prob(y, f) - 0.1 * jnp.log1p(f**2)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    # f is about y, or a logarithm
    far = jnp.arcsinh(20.0 + 2.0 * jnp.abs(y))
    return (jnp.sinh(responses.refine(pulled, -far, far)),)


@jit(static_argnums=0)
def _smoothness(structure: Any, leaves: list) -> tuple:
    """At usual f, and y that go with them: the radius within which log p(y | f) is told by 33 values, and its width."""
    likelihood = jax.tree.unflatten(structure, leaves)
    support = likelihood.support
    angles = jnp.pi * (jnp.arange(33) + 0.5) / 33.0
    to_chebyshev = jnp.cos(jnp.arange(33)[:, None] * angles) * (2.0 / 33.0)

    def one(f: jax.Array, where: jax.Array) -> tuple:
        at = responses.place(_given(likelihood, f), support)
        x = at.centre + where * at.scale
        y = jnp.clip(responses.to_y(support)(jnp.round(x) if support.discrete else x), *responses.ends(support))

        def drop(t: jax.Array) -> jax.Array:
            return jnp.abs(likelihood.log_prob(y, f + t) - likelihood.log_prob(y, f))

        nothing, small = jnp.zeros_like(f), jnp.full_like(f, 1e-9)
        width = jnp.minimum(
            reach(lambda t: drop(t) < 0.5, nothing, small), reach(lambda t: drop(-t) < 0.5, nothing, small)
        )
        radii = width * 2.0 ** jnp.arange(-5.0, 5.0, 0.5)

        def told(radius: jax.Array) -> jax.Array:
            values = jax.vmap(lambda c: likelihood.log_prob(y, f + radius * c))(jnp.cos(angles))
            size = jnp.abs(to_chebyshev @ values)
            return size[-4:].max() < 1e-10 * size[1:].max()

        smooth = jnp.cumprod(jax.vmap(told)(radii)) > 0
        return jnp.where(smooth, radii, 0.0).max(), width

    f, where = jnp.meshgrid(jnp.array([-3.0, -1.0, 0.0, 1.0, 3.0]), jnp.array([-1.0, 0.0, 1.0]))
    return jax.vmap(one)(f.ravel(), where.ravel())
