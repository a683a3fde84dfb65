"""E log Φ(g) under g ~ N(m, v), for any v: what a response says of f that is only known to be above a number.

Far left log Φ is a parabola, far right it is nothing, and between the two it bends over a range of about 1. In the
coordinate u = asinh g all of that is as smooth as it is near 0, however wide N(m, v): the trapezoidal rule in u takes
some 40 nodes where v is 1, and 200 where it is 10¹², for which equal steps in g would be millions.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from npvi.runtime.lazy import custom_jvp, jax, jnp, ndtr

__all__ = ["expected_log_normal_cdf", "expected_slopes"]

_REACH = 8.75
"""Standard deviations that the rule covers."""
_STEP, _STEEP = 0.1, 0.55
"""Of the rule, in u: zeros of Φ are at angles of π/4 from the axis, and a step d leaves an error of exp(−2π · π/4 / d);
where N(m, v) is narrow beside its mean, a step in its standard deviations."""
_NARROWEST = 1e-12
"""Standard deviation, relative to the mean: narrower, rounded nodes are all one."""
_MOST = 2048
_FAR, _FRACTIONS = 6.0, 20
"""Where a continued fraction takes over, and how many of its terms it takes."""
_TOGETHER, _AT_ONCE = 16, 2**15
"""In NumPy: counts of nodes that are taken for one, and numbers in the making."""


def expected_log_normal_cdf(m: jax.Array, v: jax.Array) -> jax.Array:
    """E log Φ(g) under g ~ N(m, v), with two derivatives in both.

    >>> from npvi.runtime.precision import float64
    >>> with float64():
    ...     round(float(expected_log_normal_cdf(jnp.asarray(0.0), jnp.asarray(1.0))), 6)
    -1.0
    """
    return _expected((0,), m, v)[0]


@custom_jvp(nondiff_argnums=(0,))
def _expected(orders: tuple[int, ...], m: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    """E of the derivatives of log Φ of these orders; those above the second by parts, from the second."""
    size = jnp.sqrt(1.0 + m * m)
    sd = jnp.maximum(jnp.sqrt(v), _NARROWEST * size)
    start, stop = jnp.arcsinh(m - _REACH * sd), jnp.arcsinh(m + _REACH * sd)
    count = jnp.minimum(jnp.ceil((stop - start) / jnp.minimum(_STEP, _STEEP * sd / size)), _MOST).astype(int)
    step = (stop - start) / count

    def add(k: int, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        u = start + k * step
        g = jnp.sinh(u)
        z = (g - m) / sd
        weight = jnp.exp(-0.5 * z * z) * jnp.cosh(u)
        values = _slopes(g)
        terms = [values[min(order, 2)] * _hermite(z, order - 2) for order in orders]
        return (sums[0] + weight, *(total + weight * term for total, term in zip(sums[1:], terms)))

    zero = jnp.zeros_like(m + v)
    whole, *sums = jax.lax.fori_loop(0, count + 1, add, (zero,) * (len(orders) + 1))
    return tuple(total / whole / sd ** max(order - 2, 0) for total, order in zip(sums, orders))


@_expected.defjvp
def _(orders, primals, tangents):
    # the heat equation: ∂/∂v = ½ ∂²/∂m²; all orders in one loop, which have much in common
    every = tuple(sorted({order + more for order in orders for more in range(3)}))
    found = dict(zip(every, _expected(every, *primals)))
    in_mean, in_variance = tangents
    slopes = tuple(found[order + 1] * in_mean + 0.5 * found[order + 2] * in_variance for order in orders)
    return tuple(found[order] for order in orders), slopes


def expected_slopes(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    """E log Φ(g) and its first four derivatives in m by the same rule, in NumPy: what is done for a row is a matter of
    that row alone, and nothing is compiled.

    >>> [round(float(slope[0]), 6) for slope in expected_slopes(np.zeros(1), np.ones(1))[:3]]
    [-1.0, 0.903197, -0.595636]
    """
    size = np.sqrt(1.0 + m * m)
    with np.errstate(invalid="ignore"):  # rows that are no numbers harm no others
        sd = np.maximum(np.sqrt(v), _NARROWEST * size)
        start, stop = np.arcsinh(m - _REACH * sd), np.arcsinh(m + _REACH * sd)
        asked = np.ceil((stop - start) / np.minimum(_STEP, _STEEP * sd / size) / _TOGETHER)
    out = np.full((5, len(m)), np.nan)
    count = np.where(np.isfinite(asked), np.minimum(_TOGETHER * asked, _MOST), 0.0).astype(np.int64)
    for nodes in np.unique(count[count > 0]):
        chosen, many = np.flatnonzero(count == nodes), max(1, _AT_ONCE // int(nodes))
        for rows in (chosen[first : first + many] for first in range(0, len(chosen), many)):
            ends = start[rows, None], stop[rows, None]
            out[:, rows] = _summed(m[rows, None], sd[rows, None], *ends, int(nodes))
    return tuple(out)


def _summed(m: np.ndarray, sd: np.ndarray, start: np.ndarray, stop: np.ndarray, nodes: int) -> list[np.ndarray]:
    u = start + (stop - start) * (np.arange(nodes + 1) / nodes)
    g = np.sinh(u)
    z = (g - m) / sd
    weight = np.exp(-0.5 * z * z) * np.cosh(u)
    weight /= weight.sum(axis=1, keepdims=True)
    value, slope, bend = _slopes_in_numpy(g)
    bend *= weight
    sums = (weight * value, weight * slope, bend, z * bend / sd, (z * z - 1.0) * bend / sd**2)
    return [each.sum(axis=1) for each in sums]


def _slopes_in_numpy(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`_slopes`."""
    with np.errstate(over="ignore"):  # far right φ/Φ is nothing
        slope = np.sqrt(2.0 / np.pi) / special.erfcx(t * -np.sqrt(0.5))
    above = slope + t
    far = t < -_FAR
    if far.any():
        x = -t[far]
        rest = x
        for n in range(_FRACTIONS, 1, -1):
            rest = x + n / rest
        above[far] = 1.0 / rest
    return special.log_ndtr(t), slope, -slope * above


def _slopes(t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """log Φ(t) and its first two derivatives, h = φ(t)/Φ(t) and −h (h + t), to their last digits."""
    far = t < -_FAR
    x, near = jnp.where(far, -t, 2.0 * _FAR), jnp.where(far, 0.0, t)
    # h + t = 1/(x + 2/(x + 3/(x + …))), which far left is a small difference of large numbers
    rest = x
    for n in range(_FRACTIONS, 1, -1):
        rest = x + n / rest
    more = 1.0 / rest
    below = ndtr(-jnp.abs(near))
    log_near = jnp.where(near > 0.0, jnp.log1p(-below), jnp.log(below))
    ratio = jnp.exp(-0.5 * near * near - log_near) * (1.0 / np.sqrt(2.0 * np.pi))
    slope = jnp.where(far, x + more, ratio)
    value = jnp.where(far, -0.5 * x * x - jnp.log(slope) - 0.5 * np.log(2.0 * np.pi), log_near)
    return value, slope, -slope * jnp.where(far, more, ratio + near)


def _hermite(z: jax.Array, order: int) -> jax.Array:
    """The polynomial He of this order; 1 below the first."""
    one, last = jnp.ones_like(z), jnp.zeros_like(z)
    for k in range(max(order, 0)):
        one, last = z * one - k * last, one
    return one
