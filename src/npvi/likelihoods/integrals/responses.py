"""Where the mass of p(y | f) lies, and sums over it, from the log-density alone: for one f, in JAX.

Continuous responses are mapped to the whole real line (log, logit), where the density is taken to be one hump. The
hump's peak c is searched on a grid that is refined around its best point; then its width s, and how far it reaches.
With x = c + s sinh t, tails of any weight end within a few units of t, and Gauss–Legendre panels left and right of the
peak are accurate to many digits, even with a kink there. Discrete responses are summed one by one, or, where the hump
is too wide for that, at points spread as sinh t; the smallest response is counted apart, so that extra zeros are found
however far they are from the hump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npvi.likelihoods.integrals.density import reach
from npvi.likelihoods.support import Support
from npvi.runtime.lazy import jax, jnp

__all__ = ["Place", "Table", "below", "draw", "ends", "looked_up", "moments", "place", "refine", "to_x", "to_y"]

_POINTS = 33
_ROUNDS = 14
_DEPTH = 80.0
"""The hump ends where the density is e^−80 of its peak: beyond, y² times the density is nothing, for most tails."""
_LEVEL = 0.02
"""The power of y that a tail must fall by, beyond what an integral needs to be finite: as far as numbers tell."""
_NODES = 64
_WINDOW = 512
_FARTHEST = 1e30
_DRAWN = 512

_GAUSS = np.polynomial.legendre.leggauss(_NODES)


class Place(NamedTuple):
    """The hump of p(y | f), in the coordinate x."""

    centre: jax.Array
    scale: jax.Array
    left: jax.Array
    """Distance from the centre to the left end."""
    right: jax.Array
    peak: jax.Array
    """The log-density at the centre."""


def refine(function: Callable, low: Any, high: Any, rounds: int = _ROUNDS, points: int = _POINTS) -> jax.Array:
    """The u in [low, high] where `function` is largest, given that it has one hump."""

    def zoom(_: int, ends: tuple) -> tuple:
        u = jnp.linspace(ends[0], ends[1], points)
        best = jnp.argmax(jax.vmap(function)(u))
        return u[jnp.maximum(best - 1, 0)], u[jnp.minimum(best + 1, points - 1)], u[best]

    low, high = jnp.asarray(low, dtype=float), jnp.asarray(high, dtype=float)
    return jax.lax.fori_loop(0, rounds, zoom, (low, high, low))[2]


def place(log_prob: Callable, support: Support) -> Place:
    """Where the mass is, for ``log_prob(y)``."""
    h = _density(log_prob, support)
    low, high = np.arcsinh(_range(support))
    centre = jnp.sinh(refine(lambda u: h(jnp.sinh(u)), low, high))
    centre = jnp.round(centre) if support.discrete else centre
    smallest = jnp.ones_like(centre) if support.discrete else 1e-9 * (1.0 + jnp.abs(centre))
    peak = h(centre)

    def end(sign: float, depth: float, width: Any) -> jax.Array:
        return reach(lambda t: h(centre + sign * t) > peak - depth, jnp.zeros_like(centre), width)

    scale = jnp.minimum(end(1.0, 0.5, smallest), end(-1.0, 0.5, smallest))
    return Place(centre, scale, end(-1.0, _DEPTH, scale), end(1.0, _DEPTH, scale), peak)


class Table(NamedTuple):
    """The places for an even grid of f: a search for every f of many would take most of the time."""

    start: Any
    step: Any
    centre: Any
    scale: Any
    left: Any
    right: Any
    total: Any
    """log ∫ p(y | f) dy, which is 0 where the density is normalised."""


def looked_up(table: Table, log_prob: Callable, support: Support, f: jax.Array) -> tuple[Place, jax.Array]:
    """The place for one f, between two of the table and after a short search between their centres; and the total."""
    position = jnp.clip((f - table.start) / table.step, 0.0, len(table.centre) - 1.0)
    i = jnp.clip(jnp.floor(position).astype(int), 0, len(table.centre) - 2)
    share = position - i

    def between(values: jax.Array) -> jax.Array:
        return values[i] + share * (values[i + 1] - values[i])

    # counts often grow exponentially with f
    centre = jnp.sinh(between(jnp.arcsinh(table.centre))) if support.discrete else between(table.centre)
    h = _density(log_prob, support)
    near = jnp.abs(table.centre[i + 1] - table.centre[i])
    centre = refine(h, centre - near, centre + near, rounds=1, points=9)
    centre = jnp.round(centre) if support.discrete else centre
    scale, left, right = (jnp.exp(between(jnp.log(part))) for part in (table.scale, table.left, table.right))
    return Place(centre, scale, left, right, h(centre)), between(table.total)


def moments(log_prob: Callable, support: Support, at: Place) -> tuple[jax.Array, jax.Array, jax.Array]:
    """∫ p(y) dy (1 where the density is normalised), mean and variance, which may be infinite.

    The mean of a density on the whole line that has none (Cauchy's) is that of its hump, cut off where the hump ends.
    """
    y, mass, reference = _nodes(log_prob, support, at)
    total = mass.sum()
    # deviations from the centre: a small variance does not drown in the square of a large mean
    centre = to_y(support)(at.centre)
    mean = (mass * (y - centre)).sum() / total
    variance = (mass * (y - centre - mean) ** 2).sum() / total
    variance = jnp.where(_heavy(log_prob, support, at, 2.0), jnp.inf, variance)
    sides = [sign for sign, end in ((-1.0, support.lower), (1.0, support.upper)) if not np.isfinite(end)]
    if len(sides) == 1:
        mean = jnp.where(_heavy(log_prob, support, at, 1.0), sides[0] * jnp.inf, mean)
    return total * jnp.exp(reference), centre + mean, variance


def below(log_prob: Callable, support: Support, at: Place, y: jax.Array, log_total: Any = None) -> jax.Array:
    """P(Y ≤ y); `log_total`, the logarithm of ∫ p(y) dy, is computed where it is not given."""
    if log_total is None:
        _, mass, reference = _nodes(log_prob, support, at)
        log_total = jnp.log(mass.sum()) + reference
    if support.discrete:
        _, part, reference = _nodes(log_prob, support, at, stop=jnp.floor(y))
        return jnp.clip(part.sum() * jnp.exp(reference - log_total), 0.0, 1.0)
    x = jnp.clip(to_x(support, y), at.centre - at.left, at.centre + at.right)
    t = jnp.arcsinh((x - at.centre) / at.scale)
    is_left = t < 0.0
    start = jnp.where(is_left, -jnp.arcsinh(at.left / at.scale), t)
    stop = jnp.where(is_left, t, jnp.arcsinh(at.right / at.scale))
    part = _panel(log_prob, support, at, start, stop)[1].sum() * jnp.exp(at.peak - log_total)
    return jnp.clip(jnp.where(is_left, part, 1.0 - part), 0.0, 1.0)


def draw(log_prob: Callable, support: Support, at: Place, level: jax.Array, within: jax.Array) -> jax.Array:
    """The y with P(Y ≤ y) = level; `within`, another number from 0 to 1, says which of those that share a node."""
    if support.discrete:
        y, mass, _ = _nodes(log_prob, support, at)
        cumulative = jnp.cumsum(mass)
        k = jnp.minimum(jnp.searchsorted(cumulative, level * cumulative[-1], side="right"), len(y) - 1)
        before = jnp.where(k > 1, y[k] - y[jnp.maximum(k - 1, 0)], 1.0)
        after = jnp.where((k > 0) & (k < len(y) - 1), y[jnp.minimum(k + 1, len(y) - 1)] - y[k], 1.0)
        offset = jnp.floor(0.5 * (before + after) * within) - jnp.floor(0.5 * (before - 1.0))
        return jnp.clip(y[k] + jnp.where(before + after > 2.0, offset, 0.0), *ends(support))
    t = jnp.linspace(-jnp.arcsinh(at.left / at.scale), jnp.arcsinh(at.right / at.scale), _DRAWN)
    x = at.centre + at.scale * jnp.sinh(t)
    density = jnp.exp(jax.vmap(_density(log_prob, support))(x) - at.peak) * jnp.cosh(t)
    cumulative = jnp.concatenate([jnp.zeros(1), jnp.cumsum(0.5 * (density[1:] + density[:-1]))])
    found = jnp.interp(level * cumulative[-1], cumulative, t)
    y = to_y(support)(at.centre + at.scale * jnp.sinh(found))
    # strictly inside, and not so near to 0 that it is lost
    low = np.finfo(np.float64).tiny if support.lower == 0.0 else np.nextafter(support.lower, np.inf)
    return jnp.clip(y, max(low, -_FARTHEST), min(np.nextafter(support.upper, -np.inf), _FARTHEST))


def _density(log_prob: Callable, support: Support) -> Callable:
    """The log-density of x; −∞ where it is not a number, and outside."""
    response, (low, high), (first, last) = to_y(support), _range(support), _digits(support)

    def inner(x: jax.Array) -> jax.Array:
        value = log_prob(response(x)) + _log_slope(support, x)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    if first <= low and last >= high:

        def whole(x: jax.Array) -> jax.Array:
            x = jnp.round(x) if support.discrete else x
            return jnp.where((x >= low) & (x <= high), inner(jnp.clip(x, low, high)), -jnp.inf)

        return whole
    # where y has no more digits to tell it from the end, the log-density goes on as a straight line
    ends = [
        (end, inner(jnp.asarray(end)), inner(jnp.asarray(end + step))) for end, step in ((first, 4.0), (last, -4.0))
    ]

    def h(x: jax.Array) -> jax.Array:
        value = inner(jnp.clip(x, first, last))
        for outside, (end, there, inside) in zip((x < first, x > last), ends):
            slope = (there - inside) / 4.0
            line = there + jnp.where(slope < 0.0, slope, -jnp.inf) * jnp.where(outside, jnp.abs(x - end), 1.0)
            value = jnp.where(outside, jnp.where(jnp.isfinite(line), line, -jnp.inf), value)
        return jnp.where((x >= low) & (x <= high), value, -jnp.inf)

    return h


def _nodes(log_prob: Callable, support: Support, at: Place, stop: Any = None) -> tuple:
    """Responses and their masses in units of exp(reference), and the reference; the discrete ones up to `stop`."""
    if not support.discrete:
        left = _panel(log_prob, support, at, -jnp.arcsinh(at.left / at.scale), jnp.zeros_like(at.scale))
        right = _panel(log_prob, support, at, jnp.zeros_like(at.scale), jnp.arcsinh(at.right / at.scale))
        return jnp.concatenate([left[0], right[0]]), jnp.concatenate([left[1], right[1]]), at.peak
    low, high = ends(support)
    first = jnp.maximum(jnp.ceil(at.centre - at.left), _range(support)[0])
    last = jnp.minimum(jnp.floor(at.centre + at.right), high)
    if stop is not None:
        last = jnp.minimum(last, stop)
    size = int(min(_WINDOW, max(high - low, 1.0)))
    k = jnp.arange(size, dtype=float)
    start, end = (jnp.arcsinh((y - at.centre) / at.scale) for y in (first, last))
    spread = jnp.round(at.centre + at.scale * jnp.sinh(jnp.linspace(start, end, size)))
    y = jnp.where(last - first < size, first + k, jnp.clip(spread, first, last))
    y = jnp.minimum(y, jnp.maximum(last, first))
    # p between two points is a straight line: what it adds up to, from one to before the next
    gap = jnp.diff(y)
    weight = jnp.zeros(size).at[:-1].add(0.5 * (gap + 1.0)).at[1:].add(0.5 * (gap - 1.0)).at[-1].add(1.0)
    weight = jnp.where(last >= first, weight, 0.0)
    values = jax.vmap(_density(log_prob, support))(y)
    if not np.isfinite(support.lower):
        return y, weight * jnp.exp(values - at.peak), at.peak
    smallest = log_prob(jnp.full_like(at.centre, support.lower))
    smallest = jnp.where(jnp.isfinite(smallest), smallest, -jnp.inf)
    reference = jnp.maximum(at.peak, smallest)
    atom = jnp.exp(smallest - reference) * (1.0 if stop is None else jnp.where(stop >= support.lower, 1.0, 0.0))
    y = jnp.concatenate([jnp.full((1,), support.lower), y])
    return y, jnp.concatenate([atom[None], weight * jnp.exp(values - reference)]), reference


def _heavy(log_prob: Callable, support: Support, at: Place, power: float) -> jax.Array:
    """Whether y^power times the density doesn't fall fast enough to be integrated, on a side where y has no end."""
    h, response = _density(log_prob, support), to_y(support)
    middle = response(at.centre)
    found = jnp.zeros_like(at.centre, dtype=bool)
    for sign, end, distance in ((-1.0, support.lower, at.left), (1.0, support.upper, at.right)):
        if np.isfinite(end):
            continue
        last = jnp.arcsinh(distance / at.scale)
        near, far = 0.6 * last, 0.98 * last  # in t, where tails of any weight are as long

        def term(t: jax.Array, sign: float = sign) -> tuple[jax.Array, jax.Array]:
            x = at.centre + sign * at.scale * jnp.sinh(t)
            value = h(x)
            return value - at.peak, value + jnp.log(jnp.cosh(t)) + power * jnp.log(jnp.abs(response(x) - middle))

        (depth, inner), (depth_there, outer) = term(near), term(far)
        # a density that ends all at once has no tail; with one of 1/|y|³ each factor of y adds as much to E y²
        falls = (depth < -0.1 * _DEPTH) & (depth_there < -0.5 * _DEPTH)
        found |= falls & (outer > inner - _LEVEL * (far - near))
    return found


def _panel(log_prob: Callable, support: Support, at: Place, start: jax.Array, stop: jax.Array) -> tuple:
    t = start + (stop - start) * 0.5 * (_GAUSS[0] + 1.0)
    x = at.centre + at.scale * jnp.sinh(t)
    values = jax.vmap(_density(log_prob, support))(x)
    mass = jnp.exp(values - at.peak) * jnp.cosh(t) * at.scale * 0.5 * (stop - start) * _GAUSS[1]
    return to_y(support)(x), mass


def ends(support: Support) -> tuple[float, float]:
    return max(support.lower, -_FARTHEST), min(support.upper, _FARTHEST)


def _range(support: Support) -> tuple[float, float]:
    """The ends of x; the smallest of discrete responses is counted apart."""
    low, high = ends(support)
    if support.discrete:
        return (low + 1.0, high) if np.isfinite(support.lower) else (low, high)
    return (low, high) if support.lower == -np.inf and support.upper == np.inf else (-1e6, 1e6)


def _digits(support: Support) -> tuple[float, float]:
    """Between which x the response y can be told from the ends of the support."""
    if support.discrete or (support.lower == -np.inf and support.upper == np.inf):
        return -np.inf, np.inf
    if support.lower == -np.inf or support.upper == np.inf:
        return (-690.0, 690.0) if 0.0 in (support.lower, support.upper) else (-30.0, 690.0)
    return (-690.0 if support.lower == 0.0 else -30.0), (690.0 if support.upper == 0.0 else 30.0)


def to_y(support: Support) -> Callable:
    low, high = support.lower, support.upper
    if support.discrete or not (np.isfinite(low) or np.isfinite(high)):
        return lambda x: x
    if np.isfinite(low) and np.isfinite(high):
        return lambda x: low + (high - low) * jax.nn.sigmoid(x)
    return (lambda x: low + jnp.exp(x)) if np.isfinite(low) else (lambda x: high - jnp.exp(x))


def to_x(support: Support, y: jax.Array) -> jax.Array:
    low, high = support.lower, support.upper
    if not (np.isfinite(low) or np.isfinite(high)):
        return y
    above, under = jnp.log(jnp.maximum(y - low, 0.0)), jnp.log(jnp.maximum(high - y, 0.0))
    if np.isfinite(low) and np.isfinite(high):
        return above - under
    return above if np.isfinite(low) else -under


def _log_slope(support: Support, x: jax.Array) -> Any:
    """log |dy/dx|."""
    low, high = support.lower, support.upper
    if support.discrete or not (np.isfinite(low) or np.isfinite(high)):
        return 0.0
    if np.isfinite(low) and np.isfinite(high):
        return jnp.log(high - low) - jax.nn.softplus(x) - jax.nn.softplus(-x)
    return x
