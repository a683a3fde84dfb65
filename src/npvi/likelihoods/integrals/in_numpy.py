"""Expectations, densities and moments of likelihoods that have their derivatives in NumPy.

The same rules and the same steps as in `expectations`, `density` and `moments`, where JAX differentiates
and compiles them. Compiling takes a new process seconds, which a few thousand rows never earn back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.likelihoods.base import Likelihood

__all__ = ["FEW", "conditional", "derivatives", "has", "integral", "interval", "moments", "moments_on_grid", "on_grid"]

Vector = NDArray[np.float64]
Row = dict[str, np.ndarray]
Slopes = tuple[Vector, Vector, Vector]

FEW = 2**13
"""Up to this many rows, integrals by nodes are taken in NumPy where a likelihood can."""
_AT_ONCE = 2**14
"""Numbers in the making."""


def has(likelihood: Likelihood, method: str) -> bool:
    """Whether a likelihood has `method`, in NumPy, of its own density: not of one that a subclass has replaced since.

    >>> from npvi.likelihoods import Bernoulli, Poisson
    >>> has(Poisson(), "log_prob_slopes"), has(Bernoulli(), "log_prob_slopes")
    (True, False)
    >>> class Thinned(Poisson):
    ...     def log_prob(self, y, f, **row):
    ...         return super().log_prob(y, f - 1.0, **row)
    >>> has(Thinned(), "log_prob_slopes")
    False
    """
    return _has(type(likelihood), method)  # type: ignore[arg-type]


_IN_JAX = {
    "expected_slopes": ("log_prob", "expected_log_prob"),
    "log_prob_slopes": ("log_prob",),
    "conditional_moments": ("conditional_mean", "conditional_variance"),
}
"""What each method in NumPy says the same as."""


@lru_cache
def _has(kind: type, method: str) -> bool:
    order = kind.__mro__

    def depth(name: str) -> int:
        return next(k for k, each in enumerate(order) if name in vars(each))

    return order[depth(method)] is not Likelihood and all(depth(method) <= depth(name) for name in _IN_JAX[method])


# -- E log p(y | f); rows that overflow, or are no numbers, harm no others, and nobody is warned, as in JAX


@np.errstate(invalid="ignore", over="ignore")
def derivatives(
    second: bool,
    likelihood: Likelihood,
    nodes: Vector,
    weights: Vector,
    count: int,
    y: Vector,
    m: Vector,
    v: Vector,
    row: Row,
) -> tuple[Vector, ...]:
    """E log p(y | f) by a rule with its derivatives in m and s, then those in mm, ms and ss if they are wanted."""
    sd = np.sqrt(v)
    sums = np.zeros((6 if second else 3, len(m)))
    for z, weight in zip(nodes[:count], weights[:count]):
        value, slope, bend = likelihood.log_prob_slopes(y, m + sd * z, **row)
        weight_z = weight * z
        terms = [weight * value, weight * slope, weight_z * slope]
        if second:
            terms += [weight * bend, weight_z * bend, z * weight_z * bend]
        for total, term in zip(sums, terms):
            total += term
    return tuple(sums)


@np.errstate(invalid="ignore", over="ignore")
def on_grid(
    second: bool,
    likelihood: Likelihood,
    nodes: Vector,
    spacings: Vector,
    reach: float,
    y: Vector,
    m: Vector,
    v: Vector,
    row: Row,
) -> tuple[Vector, ...]:
    """The same by a `Grid`."""
    sd, orders = np.sqrt(v), 5 if second else 3
    first, last = np.searchsorted(nodes, [np.min(m - reach * sd), np.max(m + reach * sd)])
    sums = np.zeros((orders, len(m)))
    step = max(1, _AT_ONCE // len(m))
    for start in range(first, last, step):
        f, spacing = (part[start : min(last, start + step), None] for part in (nodes, spacings))
        z = (f - m) / sd
        value = likelihood.log_prob_slopes(y, f, **row)[0]
        # where a row has no business log p may have overflowed
        term = np.where(np.abs(z) <= reach, spacing * np.exp(-0.5 * z * z) * value, 0.0)
        polynomials = [np.ones_like(z), z]
        for j in range(2, orders):
            polynomials.append(z * polynomials[-1] - (j - 1) * polynomials[-2])
        sums += [np.einsum("kn,kn->n", polynomial, term) for polynomial in polynomials]
    total, one, two, *more = sums / (sd * np.sqrt(2.0 * np.pi))
    # s^j times the j-th derivative in m; ∂/∂s = s ∂²/∂m²
    in_m_and_s = total, one / sd, two / sd
    return (*in_m_and_s, two / v, more[0] / v, (two + more[1]) / v) if second else in_m_and_s


# -- moments


def conditional(likelihood: Likelihood, f: Vector, row: Row) -> tuple[Vector, Vector]:
    """E[y | f] and Var[y | f]."""
    mean, variance = likelihood.conditional_moments(f, **row)
    return np.array(np.broadcast_to(mean, f.shape)), np.array(np.broadcast_to(variance, f.shape))


def moments(
    likelihood: Likelihood, nodes: Vector, weights: Vector, count: int, m: Vector, v: Vector, row: Row
) -> tuple[Vector, Vector]:
    """Mean and variance of y by a rule."""
    sd = np.sqrt(v)
    # deviations from the mean at m, so that a small variance does not drown in the square of a large mean
    centre = likelihood.conditional_moments(m, **row)[0]
    first, second = np.zeros((2, len(m)))
    for z, weight in zip(nodes[:count], weights[:count]):
        mean, noise = likelihood.conditional_moments(m + sd * z, **row)
        deviation = mean - centre
        first += weight * deviation
        second += weight * (deviation**2 + noise)
    return centre + first, second - first**2


def moments_on_grid(
    likelihood: Likelihood, nodes: Vector, spacings: Vector, reach: float, m: Vector, v: Vector, row: Row
) -> tuple[Vector, Vector]:
    """The same by a `Grid`."""
    sd = np.sqrt(v)
    centre = likelihood.conditional_moments(m, **row)[0]
    start, stop = np.searchsorted(nodes, [np.min(m - reach * sd), np.max(m + reach * sd)])
    first, second = np.zeros((2, len(m)))
    step = max(1, _AT_ONCE // len(m))
    for at in range(start, stop, step):
        f, spacing = (part[at : min(stop, at + step), None] for part in (nodes, spacings))
        z = (f - m) / sd
        weight = np.where(np.abs(z) <= reach, spacing * np.exp(-0.5 * z * z), 0.0)
        mean, noise = likelihood.conditional_moments(f, **row)
        deviation = mean - centre
        first += np.sum(weight * deviation, axis=0)
        second += np.sum(weight * (deviation**2 + noise), axis=0)
    first, second = (total / (sd * np.sqrt(2.0 * np.pi)) for total in (first, second))
    return centre + first, second - first**2


# -- the density of y with f integrated out; t = f − m, because a small v would be lost in the digits of m


def interval(likelihood: Likelihood, depth: float, y: Vector, m: Vector, v: Vector, start: Vector, row: Row) -> Slopes:
    """Where h(t) = log p(y | m + t) − t²/2v is within `depth` of its peak: from, to, and the peak (`density`)."""

    def h(t: Vector) -> Slopes:
        with np.errstate(invalid="ignore", over="ignore"):
            value, slope, bend = likelihood.log_prob_slopes(y, m + t, **row)
            return value - 0.5 * t**2 / v, slope - t / v, 1.0 / v - bend

    origin = start - m
    mode = _mode(h, origin, np.sqrt(v))
    peak, _, curvature = h(mode)
    lowest = peak - depth
    width = 9.0 / np.sqrt(np.fmax(curvature, 1.0 / v))
    # m and the start lie inside the interval where they matter: a second mode is not cut off
    inside = [np.where(h(t)[0] > lowest, t - mode, 0.0) for t in (np.zeros_like(m), origin)]
    reach_right = np.maximum(np.maximum(inside[0], inside[1]), 0.0)
    reach_left = np.maximum(np.maximum(-inside[0], -inside[1]), 0.0)
    right = _reach(lambda t: h(mode + t)[0] > lowest, reach_right, width)
    left = _reach(lambda t: h(mode - t)[0] > lowest, reach_left, width)
    return mode - left, mode + right, peak


def _mode(h: Callable[[Vector], Slopes], origin: Vector, sd: Vector) -> Vector:
    """A maximum of h, by Newton's method kept inside a bracket of the root of h′; see `density`."""
    scale = np.maximum(sd, np.abs(origin))

    def expand(outside: Callable[[Vector], Any], end: Vector, direction: float) -> Vector:
        step = scale
        for _ in range(200):
            further = outside(h(end)[1])
            if not further.any():
                break
            end, step = np.where(further, end + direction * step, end), 2.0 * step
        return end

    low = expand(lambda slope: slope < 0.0, np.minimum(origin, 0.0), -1.0)
    high = expand(lambda slope: slope > 0.0, np.maximum(origin, 0.0), 1.0)
    at = np.where(h(origin)[0] > h(np.zeros_like(origin))[0], origin, 0.0)
    step, last_step = high - low, 2.0 * (high - low)
    moving = np.ones(len(at), dtype=bool)
    for _ in range(200):
        _, gradient, bend = h(at)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            newton = gradient / bend
            low, high = np.where(gradient > 0.0, at, low), np.where(gradient > 0.0, high, at)
            trusted = (bend > 0.0) & (at + newton > low) & (at + newton < high)
            trusted &= np.abs(newton) <= 0.5 * np.abs(last_step)
            moving &= ~((bend > 0.0) & (gradient**2 < 1e-6 * bend))
        step, last_step = np.where(trusted, newton, 0.5 * (low + high) - at), step
        if not moving.any():
            break
        at = np.where(moving, at + step, at)
    return at


def _reach(above: Callable[[Vector], Any], inside: Vector, width: Vector) -> Vector:
    """The distance t at which above(t) stops to hold, from outside and to 2 %, given one where it holds."""
    inner, outer = inside, np.maximum(width, 2.0 * inside)
    for _ in range(200):
        holds = above(outer)
        if not holds.any():
            break
        inner, outer = np.where(holds, outer, inner), np.where(holds, 2.0 * outer, outer)
    for _ in range(60):
        coarse = outer - inner > 0.02 * outer
        if not coarse.any():
            break
        middle = 0.5 * (inner + outer)
        holds = above(middle)
        inner, outer = np.where(coarse & holds, middle, inner), np.where(coarse & ~holds, middle, outer)
    return outer


def integral(
    likelihood: Likelihood,
    row: Row,
    n: int,
    y: Vector,
    m: Vector,
    v: Vector,
    left: Vector,
    right: Vector,
    peak: Vector,
) -> Vector:
    """log ∫ exp h(t) dt − ½ log 2πv by the trapezoidal rule with n nodes from `left` to `right`."""
    step = (right - left) / (n - 1)
    total = np.zeros(len(m))
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        for k in range(n):
            t = left + k * step
            total += np.exp(likelihood.log_prob_slopes(y, m + t, **row)[0] - 0.5 * t**2 / v - peak)
        return peak + np.log(total * step) - 0.5 * np.log(2.0 * np.pi * v)
