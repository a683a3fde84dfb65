"""The density of a response with f integrated out, accurate for any ratio of v to the noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.expectations import groups
from npvi.likelihoods.integrals.quadrature import MAX_NODES
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit, jnp

__all__ = ["predictive_log_prob", "reach"]

_DEPTH = 38.0
"""The integral stops where the integrand is e^−38 of its peak."""
_SMALLEST_VARIANCE = 1e-24
_FEWEST_NODES = 128
_STEP = 0.3


def predictive_log_prob(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """log ∫ p(y | f) N(f; mean, variance) df for each row.

    Fixed nodes would miss a likelihood much narrower than N(mean, variance). Here the mode of the integrand
    is found first, then where it has fallen to e^−38 of its peak on either side; the trapezoidal rule in
    between converges geometrically.

    Parameters
    ----------
    likelihood : Likelihood
    y, mean, variance : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        The likelihood's extras.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> predictive_log_prob(Poisson(), np.array([3.0]), np.array([1.0]), np.array([1e-20])).round(6)
    array([-1.510041])
    """
    row = row or {}
    closed = likelihood.marginal_log_prob(y, mean, variance, **row)
    if closed is not None:
        return closed
    start = likelihood.initial_latent(y, **row)
    columns = (y, mean, np.maximum(variance, _SMALLEST_VARIANCE), start)
    few = len(y) <= in_numpy.FEW and in_numpy.has(likelihood, "log_prob_slopes")
    leaves, structure = (None, None) if few else jax.tree.flatten(likelihood)
    if few:
        left, right, peak = in_numpy.interval(likelihood, _DEPTH, *columns, row)
    else:
        left, right, peak = map_rows(partial(_interval, structure, leaves), columns, row, results=3)
    out = np.empty(len(y))
    steps = np.maximum((right - left) / (_STEP * likelihood.resolution), _FEWEST_NODES)
    # rows whose integral did not make sense (a mean that is not a number) pass through with the fewest nodes
    tiers = np.ceil(np.log2(np.fmin(np.fmax(steps, _FEWEST_NODES), MAX_NODES))).astype(int)
    for tier, chosen in groups(tiers):
        some = {name: value[chosen] for name, value in row.items()}
        arrays = [column[chosen] for column in (*columns[:3], left, right, peak)]
        if few:
            out[chosen] = in_numpy.integral(likelihood, some, 2**tier, *arrays)
        else:
            out[chosen] = map_rows(partial(_integral, structure, leaves, 2**tier), arrays, some)[0]
    return out


class _Point(NamedTuple):
    """State of the search for the mode."""

    at: jax.Array
    low: jax.Array
    high: jax.Array
    step: jax.Array
    last_step: jax.Array
    tries: jax.Array
    converged: jax.Array


def _integrand(likelihood: Likelihood, y: jax.Array, m: jax.Array, v: jax.Array, row: dict) -> Callable:
    """h(t) = log p(y | m + t) − t²/2v; t rather than f: a small v would be lost in the digits of m."""
    return lambda t: likelihood.log_prob(y, m + t, **row) - 0.5 * t**2 / v


@jit(static_argnums=0)
def _interval(
    structure: Any, leaves: list, y: jax.Array, m: jax.Array, v: jax.Array, start: jax.Array, row: dict
) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)

    def one(y: jax.Array, m: jax.Array, v: jax.Array, start: jax.Array, row: dict) -> tuple:
        h = _integrand(likelihood, y, m, v, row)
        origin = start - m
        mode, curvature = _mode(h, origin, jnp.sqrt(v))
        peak = h(mode)
        width = 9.0 / jnp.sqrt(jnp.maximum(curvature, 1.0 / v))
        # m and the start lie inside the interval where they matter: a second mode is not cut off
        inside = [jnp.where(h(t) > peak - _DEPTH, t - mode, 0.0) for t in (jnp.zeros_like(m), origin)]
        reach_right = jnp.maximum(jnp.maximum(inside[0], inside[1]), 0.0)
        reach_left = jnp.maximum(jnp.maximum(-inside[0], -inside[1]), 0.0)
        right = reach(lambda t: h(mode + t) > peak - _DEPTH, reach_right, width)
        left = reach(lambda t: h(mode - t) > peak - _DEPTH, reach_left, width)
        return mode - left, mode + right, peak

    return jax.vmap(one)(y, m, v, start, row)


def _mode(h: Callable, origin: jax.Array, sd: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A maximum of h and −h″ there, by Newton's method kept inside a bracket of the root of h′."""
    slope, curvature = jax.grad(h), lambda t: -jax.grad(jax.grad(h))(t)
    scale = jnp.maximum(sd, jnp.abs(origin))

    def expand(outside: Callable, end: jax.Array, direction: float) -> jax.Array:
        def further(state: tuple) -> tuple:
            end, step, tries, _ = state
            end = end + direction * step
            return end, 2.0 * step, tries - 1, outside(end) & (tries > 1)

        return _while(further, (end, scale, 200, outside(end)))[0]

    low = expand(lambda t: slope(t) < 0.0, jnp.minimum(origin, 0.0), -1.0)
    high = expand(lambda t: slope(t) > 0.0, jnp.maximum(origin, 0.0), 1.0)

    def improve(s: _Point) -> _Point:
        gradient, bend = slope(s.at), curvature(s.at)
        low, high = jnp.where(gradient > 0.0, s.at, s.low), jnp.where(gradient > 0.0, s.high, s.at)
        newton = gradient / bend
        # Newton's step where it stays inside and is shrinking, else bisection: far up an exponential the
        # steps are all of size 1 and would never arrive
        trusted = (bend > 0.0) & (s.at + newton > low) & (s.at + newton < high)
        trusted &= jnp.abs(newton) <= 0.5 * jnp.abs(s.last_step)
        step = jnp.where(trusted, newton, 0.5 * (low + high) - s.at)
        # the peak is known to 1e-6: it serves to scale the integrand and to find its ends
        converged = (bend > 0.0) & (gradient**2 < 1e-6 * bend)
        at = jnp.where(converged, s.at, s.at + step)
        return _Point(at, low, high, step, s.step, s.tries - 1, converged)

    at = jnp.where(h(origin) > h(jnp.zeros_like(origin)), origin, 0.0)
    size = high - low
    begin = _Point(at, low, high, size, 2.0 * size, jnp.asarray(200), jnp.zeros_like(at, dtype=bool))
    # what it asks of the state are no numbers that rounding may change (see `_while`)
    found = jax.lax.while_loop(lambda s: ~s.converged & (s.tries > 0), improve, begin).at
    return found, curvature(found)


def reach(above: Callable, inside: jax.Array, width: jax.Array) -> jax.Array:
    """The distance t at which above(t) stops to hold, from outside and to 2 %, given one where it holds."""

    def further(state: tuple) -> tuple:
        _, outer, tries, _ = state
        return outer, 2.0 * outer, tries - 1, above(2.0 * outer) & (tries > 1)

    first = jnp.maximum(width, 2.0 * inside)
    inner, outer, _, _ = _while(further, (inside, first, 200, above(first)))

    def halve(state: tuple) -> tuple:
        inner, outer, tries, _ = state
        middle = 0.5 * (inner + outer)
        holds = above(middle)
        inner, outer = jnp.where(holds, middle, inner), jnp.where(holds, outer, middle)
        return inner, outer, tries - 1, (outer - inner > 0.02 * outer) & (tries > 1)

    return _while(halve, (inner, outer, 60, outer - inner > 0.02 * outer))[1]


def _while(body: Callable, state: tuple) -> tuple:
    """Repeat `body` while the last of the state holds.

    The state has it, because over rows a condition is asked for twice, whether to go on and which rows to change: two
    programs, whose rounding may differ, and a row that only one of them takes for finished has no end.
    """
    return jax.lax.while_loop(lambda state: state[-1], body, state)


@jit(static_argnums=0)
def _integral(
    structure: Any,
    leaves: list,
    n: int,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    left: jax.Array,
    right: jax.Array,
    peak: jax.Array,
    row: dict,
) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)
    step = (right - left) / (n - 1)

    def one(t: jax.Array, y: jax.Array, m: jax.Array, v: jax.Array, peak: jax.Array, row: dict) -> jax.Array:
        return jnp.exp(_integrand(likelihood, y, m, v, row)(t) - peak)

    def add(k: int, total: jax.Array) -> jax.Array:
        return total + jax.vmap(one)(left + k * step, y, m, v, peak, row)

    total = jax.lax.fori_loop(0, n, add, jnp.zeros_like(m))
    return (peak + jnp.log(total * step) - 0.5 * jnp.log(2.0 * jnp.pi * v),)
