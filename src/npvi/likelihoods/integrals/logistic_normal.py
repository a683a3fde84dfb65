"""E log(1 + exp g) under g ~ N(m, v), in closed form: the logistic distribution is a mixture of normal ones.

Its density is ∫ N(x; 0, (2k)²) dF(k) with F Kolmogorov's distribution. Gauss' rule for F in log k turns the mixture
into a sum of `_COMPONENTS` normals, right to 3e-11 everywhere, and each of them stays normal when N(0, v) is added: no
quadrature over g, however wide it is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from npvi.runtime.lazy import custom_jvp, jax, jnp

__all__ = ["LARGEST_FACTOR", "expected_softplus", "logistic_mixture"]

LARGEST_FACTOR = 1e6
"""What `expected_softplus` may be multiplied with: 3e-5 nats is then what it is off."""

_COMPONENTS = 16
_GRID = 2**12


def expected_softplus(m: jax.Array, v: jax.Array) -> jax.Array:
    """E log(1 + exp g) under g ~ N(m, v).

    >>> round(float(expected_softplus(jnp.asarray(0.0), jnp.asarray(0.0))), 5)  # log 2
    0.69315
    """
    return _expected((0,), m, v)[0]


@custom_jvp(nondiff_argnums=(0,))
def _expected(orders: tuple[int, ...], m: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    """E of the derivatives of log(1 + exp g) of these orders."""
    shares, variances = (jnp.asarray(values) for values in logistic_mixture())

    def add(k: int, totals: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        scale = jnp.sqrt(v + variances[k])
        parts = _normal_parts(orders, m / scale, scale)
        return tuple(total + shares[k] * part for total, part in zip(totals, parts))

    # a loop, not a sum over an axis: rows are what the compiler vectorises over, and it compiles in a fraction
    return jax.lax.fori_loop(0, _COMPONENTS, add, tuple(jnp.zeros_like(m + v) for _ in orders))


@_expected.defjvp
def _(orders, primals, tangents):
    # the heat equation: ∂/∂v = ½ ∂²/∂m²; all orders in one loop, which have much in common
    every = tuple(sorted({order + more for order in orders for more in range(3)}))
    found = dict(zip(every, _expected(every, *primals)))
    in_mean, in_variance = tangents
    slopes = tuple(found[order + 1] * in_mean + 0.5 * found[order + 2] * in_variance for order in orders)
    return tuple(found[order] for order in orders), slopes


def _normal_parts(orders: tuple[int, ...], u: jax.Array, scale: jax.Array) -> list[jax.Array]:
    """The derivatives of ∫_{−∞}^m Φ(x / scale) dx of these orders, at m = u · scale."""
    density = jnp.exp(-0.5 * u * u) * (1.0 / np.sqrt(2.0 * np.pi))
    size = jnp.abs(u)
    ratio = _mills_ratio(size)  # which the compiler leaves out where nothing needs it

    def part(order: int) -> jax.Array:
        if order == 0:
            return scale * (density * (1.0 - size * ratio) + jnp.maximum(u, 0.0))
        if order == 1:
            tail = density * ratio
            return jnp.where(u > 0.0, 1.0 - tail, tail)
        hermite, last = jnp.ones_like(u), jnp.zeros_like(u)
        for k in range(order - 2):
            hermite, last = u * hermite - k * last, hermite
        return (-1) ** order * hermite * density / scale ** (order - 1)

    return [part(order) for order in orders]


def _mills_ratio(u: jax.Array) -> jax.Array:
    """Φ(−u)/φ(u) for u ≥ 0: with the density at hand a quarter of the cost of Φ itself."""
    t, one, last = (u - 4.0) / (u + 4.0), jnp.zeros_like(u), jnp.zeros_like(u)
    first, *rest = _mills_series()
    for coefficient in reversed(rest):  # Clenshaw
        one, last = coefficient + 2.0 * t * one - last, one
    return (first + t * one - last) / (1.0 + u)


@lru_cache
def _mills_series() -> tuple[float, ...]:
    """(1 + u) times Mills' ratio as a Chebyshev series in t = (u − 4)/(u + 4), to 1e-12."""

    def function(t: np.ndarray) -> np.ndarray:
        u = 4.0 * (1.0 + t) / (1.0 - t)
        return (1.0 + u) * np.sqrt(0.5 * np.pi) * special.erfcx(u / np.sqrt(2.0))

    return tuple(np.polynomial.chebyshev.Chebyshev.interpolate(function, 22).coef.tolist())


@lru_cache
def logistic_mixture() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Shares and variances of the normal distributions whose mixture is the standard logistic distribution.

    >>> shares, variances = logistic_mixture()
    >>> round(float(np.dot(shares, variances)), 6)  # π²/3
    3.289868
    """
    log_k = np.linspace(np.log(0.1), np.log(7.0), _GRID)
    k = np.exp(log_k)
    # trapezoidal on a smooth density that vanishes at both ends: exact to rounding
    weight = _kolmogorov_density(k) * k
    nodes, shares = _gauss_rule(log_k, weight / weight.sum(), _COMPONENTS)
    return tuple(shares.tolist()), tuple((4.0 * np.exp(2.0 * nodes)).tolist())


def _kolmogorov_density(k: np.ndarray) -> np.ndarray:
    """By the series that converges faster, on either side of 1."""
    n = np.arange(1, 12)[:, None]
    right = 8.0 * k * np.sum((-1.0) ** (n + 1) * n**2 * np.exp(-2.0 * (n * k) ** 2), axis=0)
    rate = ((2 * n - 1) * np.pi / k) ** 2
    left = np.sqrt(2.0 * np.pi) / k**2 * np.sum((rate / 4.0 - 1.0) * np.exp(-rate / 8.0), axis=0)
    return np.where(k < 1.0, left, right)


def _gauss_rule(x: np.ndarray, weight: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss' rule with n nodes for a discrete measure, by Lanczos' method."""
    basis = [np.sqrt(weight)]
    diagonal, off = np.empty(n), np.empty(n)
    for j in range(n):
        v = x * basis[j]
        diagonal[j] = basis[j] @ v
        for _ in range(2):
            for earlier in basis:
                v -= (earlier @ v) * earlier
        off[j] = np.linalg.norm(v)
        basis.append(v / off[j])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1))
    return nodes, vectors[0] ** 2
