"""E log p(y | f) under f ~ N(m, v), with first and second derivatives of the very rule that computed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals import in_numpy
from npvi.likelihoods.integrals.grid import Grid, grid, grid_tiers, local_resolution
from npvi.likelihoods.integrals.quadrature import Rule, rule_of_tier, tiers
from npvi.runtime.batching import map_rows
from npvi.runtime.lazy import jax, jit, jnp

__all__ = ["Curvatures", "Expectations", "by_quadrature", "curvatures", "expectations"]

_AT_ONCE = 2**11
"""Rows of a quadrature that are worth a thread."""
_FEW, _MANY = 2**9, 2**14
_SMALLEST_VARIANCE = 1e-14
"""Relative to the square of the resolution, at most 1: below, the difference quotient that the derivative in v amounts
to would be rounding error."""


class Expectations(NamedTuple):
    """What inference needs of the data, one number per row."""

    value: np.ndarray
    """E log p(y | f)."""
    gradient: np.ndarray
    """∂ value / ∂ m."""
    precision: np.ndarray
    """w = −2 ∂ value / ∂ v."""


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


def expectations(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    row: dict[str, np.ndarray] | None = None,
    rule: Rule | None = None,
    coarse: bool = False,
) -> Expectations:
    """E log p(y | f) under f ~ N(mean, variance), its gradient in the mean, and w = −2 ∂/∂variance.

    A likelihood's own `expected_log_prob` is used where it has one, else quadrature with as many nodes as the
    variance of the row asks for. Gradient and w are exact derivatives of the value returned, not
    approximations of the true ones: an iteration that uses them can tell a stationary point from rounding
    error.

    Parameters
    ----------
    likelihood : Likelihood
    y, mean, variance : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        The likelihood's extras.
    rule : Rule, optional
        Quadrature rule to use for all rows, whatever the likelihood knows.
    coarse : bool
        Half as many nodes: an error near 1e-6 rather than 1e-13.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> result = expectations(Gaussian(variance=0.5), np.array([1.0]), np.array([0.0]), np.array([2.0]))
    >>> result.gradient, result.precision
    (array([2.]), array([2.]))
    """
    row = row or {}
    slopes = None if rule is not None else closed_slopes(likelihood, y, mean, variance, row)
    if slopes is not None:
        return Expectations(slopes[0], slopes[1], -slopes[2])
    variance = np.maximum(variance, _SMALLEST_VARIANCE * min(1.0, likelihood.resolution) ** 2)
    value, in_mean, in_sd = _derivatives(likelihood, (y, mean, variance), row, rule, coarse, second=False)
    return Expectations(value, in_mean, -in_sd / np.sqrt(variance))


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
    return Curvatures(*_derivatives(likelihood, (y, mean, np.square(sd)), row, None, coarse, second=True))


def _derivatives(
    likelihood: Likelihood,
    columns: tuple[np.ndarray, ...],
    row: dict[str, np.ndarray],
    rule: Rule | None,
    coarse: bool,
    second: bool,
) -> tuple[np.ndarray, ...]:
    """E log p(y | f) and its derivatives in m and s, then those in mm, ms and ss if the second ones are wanted; for
    columns y, m and v = s². By the likelihood's own formula in JAX where it has one, else by rules."""
    results = 6 if second else 3
    if likelihood.location:
        columns = np.zeros_like(columns[1]), columns[1] - columns[0], columns[2]
    if rule is not None or not in_numpy.has(likelihood, "expected_slopes"):
        leaves, structure = jax.tree.flatten(likelihood)
        if rule is not None:
            return map_rows(partial(_by_rule, second, structure, leaves, *rule), columns, row, results=results)
        if has_closed_form(structure, len(leaves)):
            holds = np.broadcast_to(likelihood.keeps_digits(columns[0], **row), np.shape(columns[0]))
            if holds.all():
                function = partial(_closed_form, second, structure, leaves)
                return map_rows(function, columns, row, results=results, largest=at_once(len(columns[0])))
            if holds.any():
                return _apart(holds, likelihood, columns, row, coarse, second)
    functions = (partial(_by_rule, second), partial(_by_grid, second))
    few = None
    if in_numpy.has(likelihood, "log_prob_slopes"):
        few = partial(in_numpy.derivatives, second, likelihood), partial(in_numpy.on_grid, second, likelihood)
    return by_rules(likelihood, functions, columns, row, coarse, results, few)


def _apart(
    holds: np.ndarray,
    likelihood: Likelihood,
    columns: tuple[np.ndarray, ...],
    row: dict[str, np.ndarray],
    coarse: bool,
    second: bool,
) -> tuple[np.ndarray, ...]:
    """`_derivatives`, of rows whose closed form keeps its digits and of the others."""
    out = tuple(np.empty(len(holds)) for _ in range(6 if second else 3))
    for chosen in (np.flatnonzero(holds), np.flatnonzero(~holds)):
        some = {name: values[chosen] for name, values in row.items()}
        part = _derivatives(likelihood, tuple(column[chosen] for column in columns), some, None, coarse, second)
        for whole, values in zip(out, part):
            whole[chosen] = values
    return out


def closed_slopes(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, row: dict[str, np.ndarray]
) -> list[np.ndarray] | None:
    """E log p(y | f) and its first four derivatives in the mean, where there is a closed form in NumPy."""
    if not in_numpy.has(likelihood, "expected_slopes"):
        return None
    slopes = likelihood.expected_slopes(y, mean, variance, **row)
    if slopes is None:
        return None
    return [np.array(np.broadcast_to(slope, np.shape(y)), dtype=np.float64) for slope in slopes]


def by_quadrature(likelihood: Likelihood, y: np.ndarray, row: dict[str, np.ndarray]) -> bool:
    """Whether E log p(y | f) has no closed form in NumPy.

    >>> from npvi.likelihoods import Poisson
    >>> [by_quadrature(Poisson(link), np.ones(3), {}) for link in ("exp", "softplus")]
    [False, True]
    """
    first = {name: values[:1] for name, values in row.items()}
    return closed_slopes(likelihood, y[:1], np.zeros(1), np.ones(1), first) is None


def at_once(n: int) -> int:
    """Rows of a closed form that are worth a thread: where there are few, fewer, so that every thread has some."""
    return _AT_ONCE if n <= _MANY else _MANY


def by_rules(
    likelihood: Likelihood,
    functions: tuple[Callable[..., Any], Callable[..., Any]],
    columns: tuple[np.ndarray, ...],
    row: dict[str, np.ndarray],
    coarse: bool,
    results: int,
    few: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
) -> tuple[np.ndarray, ...]:
    """``function(structure, leaves, *rule, *columns, row)`` by the rule that each mean and variance ask for.

    Those are the last two columns.

    The first function takes a `Rule`, the second a `Grid`; so do those of `few`, in NumPy, where rows are too few to
    compile for.
    """
    out = tuple(np.empty(len(columns[0])) for _ in range(results))
    for rule, chosen in rules(likelihood, columns[-2], np.sqrt(columns[-1]), row, coarse):
        some = {name: value[chosen] for name, value in row.items()}
        arrays = [column[chosen] for column in columns]
        own = few[isinstance(rule, Grid)] if few is not None and len(arrays[0]) <= in_numpy.FEW else None
        if own is not None:
            part = own(*rule, *arrays, some)
        else:
            leaves, structure = jax.tree.flatten(likelihood)
            function = partial(functions[isinstance(rule, Grid)], structure, leaves, *rule)
            part = map_rows(function, arrays, some, results=results, largest=_AT_ONCE)
        for whole, values in zip(out, part):
            whole[chosen] = values
    return out


def rules(
    likelihood: Likelihood, mean: np.ndarray, sd: np.ndarray, row: dict[str, np.ndarray], coarse: bool = False
) -> Iterator[tuple[Rule | Grid, np.ndarray | slice]]:
    """The rules that rows need, each with its rows."""
    resolution, bend, relief = likelihood.resolution, likelihood.bend(**row), 2.0 if coarse else 1.0
    if likelihood.location:  # means are those of f − y, and singularities at ±i of its own units
        unit = 3.0 * resolution
        for found, chosen in _graded(mean / unit, sd / unit, 1.0 / 3.0, (0.0, 0.0), coarse):
            if isinstance(found, Grid):
                yield Grid(found.nodes * unit, found.spacings * unit, found.reach), chosen
            else:
                yield found, chosen
        return
    if bend is None:
        for tier, chosen in groups(tiers(sd, relief * resolution)):
            yield rule_of_tier(tier), chosen
        return
    yield from _graded(mean, sd, resolution, bend, coarse)


def _graded(
    mean: np.ndarray, sd: np.ndarray, resolution: float, bend: tuple[float, float], coarse: bool
) -> Iterator[tuple[Rule | Grid, np.ndarray | slice]]:
    """Rules that are fine about the bend only."""
    labels = grid_tiers(mean, sd, resolution, bend, coarse)
    if len(mean) <= _FEW:  # calls cost more than nodes: every other grid, the finer one of two
        labels -= (labels > 0) & (labels % 2 == 0)
    relief = 2.0 if coarse else 1.0
    hermite = np.minimum(tiers(sd, relief * local_resolution(mean, resolution, bend)), 0)
    labels = np.where(labels > 0, labels, hermite)
    for tier, chosen in groups(labels):
        if tier > 0:
            yield grid(mean[chosen], sd[chosen], tier, resolution, bend, coarse), chosen
        else:
            yield rule_of_tier(tier), chosen


def groups(labels: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice]]:
    """Each label with the rows that have it: a slice, which copies nothing, where there is only one."""
    if not len(labels):
        return
    low, high = int(labels.min()), int(labels.max())
    if low == high:
        yield low, slice(None)
        return
    for label in range(low, high + 1):
        chosen = np.flatnonzero(labels == label)
        if len(chosen):
            yield label, chosen


@lru_cache
def has_closed_form(structure: Any, n_leaves: int) -> bool:
    """Whether likelihoods of this structure (class, link) override `expected_log_prob`."""

    def value(leaves: list, *arguments: jax.Array) -> jax.Array | None:
        return jax.tree.unflatten(structure, leaves).expected_log_prob(*arguments)

    one = jax.ShapeDtypeStruct((), np.float32)
    return jax.eval_shape(value, [one] * n_leaves, one, one, one) is not None


@jit(static_argnums=(0, 1))
def _closed_form(
    second: bool, structure: Any, leaves: list, y: jax.Array, m: jax.Array, v: jax.Array, row: dict
) -> tuple:
    likelihood = jax.tree.unflatten(structure, leaves)

    def value(m: jax.Array, s: jax.Array, y: jax.Array, row: dict) -> jax.Array:
        return likelihood.expected_log_prob(y, m, s**2, **row)

    arguments = (m, jnp.sqrt(v), y, row)
    values, (in_mean, in_sd) = jax.vmap(jax.value_and_grad(value, argnums=(0, 1)))(*arguments)
    if not second:
        return values, in_mean, in_sd
    slopes = jax.grad(value, argnums=(0, 1))
    (mm, ms), (_, ss) = jax.vmap(jax.jacfwd(slopes, argnums=(0, 1)))(*arguments)
    return values, in_mean, in_sd, mm, ms, ss


@jit(static_argnums=(0, 1))
def _by_rule(
    second: bool,
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

    # The chain rule through f_k = m + s z_k by hand: few derivatives per node, and a loop that keeps a few numbers per
    # row whatever the number of nodes, which may therefore be an argument rather than a shape.
    def add(k: int, sums: tuple) -> tuple:
        f, weight, weight_z = m + sd * nodes[k], weights[k], weights[k] * nodes[k]
        value, slope = value_and_slope(f, y, row)
        terms = [weight * value, weight * slope, weight_z * slope]
        if second:
            bend = curve(f, y, row)
            terms += [weight * bend, weight_z * bend, nodes[k] * weight_z * bend]
        return tuple(total + term for total, term in zip(sums, terms))

    return jax.lax.fori_loop(0, count, add, (jnp.zeros_like(m),) * (6 if second else 3))


@jit(static_argnums=(0, 1))
def _by_grid(second: bool, structure: Any, leaves: list, *arguments: Any) -> tuple:
    v = arguments[-2]
    sd = jnp.sqrt(v)
    total, first, *more = grid_sums(structure, 5 if second else 3, leaves, *arguments)
    # ∂/∂s = s ∂²/∂m²
    in_m_and_s = total, first / sd, more[0] / sd
    return (*in_m_and_s, more[0] / v, more[1] / v, (more[0] + more[2]) / v) if second else in_m_and_s


def grid_sums(
    structure: Any,
    orders: int,
    leaves: list,
    nodes: jax.Array,
    spacings: jax.Array,
    reach: float,
    y: jax.Array,
    m: jax.Array,
    v: jax.Array,
    row: dict,
) -> tuple:
    """s^j times the j-th derivative in m of E log p(y | f), for j below `orders`: E log p(y | f) He_j((f − m)/s).

    Those of the weights spacing_k N(f_k; m, s²), which by the heat equation are also their derivatives in s.
    """
    likelihood = jax.tree.unflatten(structure, leaves)
    scale = 1.0 / jnp.sqrt(v)
    log_prob = jax.vmap(lambda f, y, row: likelihood.log_prob(y, f, **row), in_axes=(None, 0, 0))

    def add(k: int, sums: tuple) -> tuple:
        z = (nodes[k] - m) * scale
        # where a row has no business log p may have overflowed
        term = jnp.where(jnp.abs(z) <= reach, spacings[k] * jnp.exp(-0.5 * z * z) * log_prob(nodes[k], y, row), 0.0)
        polynomials = [jnp.ones_like(z), z]
        for j in range(2, orders):
            polynomials.append(z * polynomials[-1] - (j - 1) * polynomials[-2])
        return tuple(total + polynomial * term for total, polynomial in zip(sums, polynomials))

    first, last = nodes_needed(nodes, reach, m, v)
    sums = jax.lax.fori_loop(first, last, add, (jnp.zeros_like(m),) * orders)
    return tuple(total * scale * (1.0 / np.sqrt(2.0 * np.pi)) for total in sums)


def nodes_needed(nodes: jax.Array, reach: float, m: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """From which node to which any of the rows needs them."""
    ends = jnp.stack([jnp.min(m - reach * jnp.sqrt(v)), jnp.max(m + reach * jnp.sqrt(v))])
    first, last = jnp.searchsorted(nodes, ends)
    return first, last
