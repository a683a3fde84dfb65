"""Zeros and positive amounts: rain of a day, claims of a year."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import spread_of_exp
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.log_gamma import stirling_remainder
from npvi.likelihoods.support import ZERO_OR_POSITIVE
from npvi.linalg import LANES, add_blocks
from npvi.parameters import Interval
from npvi.runtime.arrays import Number
from npvi.runtime.batching import map_rows
from npvi.runtime.compiling import reordered
from npvi.runtime.lazy import jax, jit, jnp, logsumexp

__all__ = ["Tweedie", "compound_cdf", "tabled_cdf"]


_TERMS = 64
"""Of the series for the density."""

_BELOW = 5.0
"""How far zeros begin below the smallest number seen, at most, in logarithms."""


class Tweedie(Likelihood, name="tweedie", about="positive numbers and zeros"):
    """The sum of a Poisson number of gamma amounts, with mean μ = exposure · exp(f), variance dispersion · μ^power.

    There are λ = μ^(2−p) / (φ (2−p)) amounts on average, each gamma with shape α = (2−p)/(p−1) and scale
    φ (p−1) μ^(p−1), where p is the power and φ the dispersion. y = 0 has the probability exp(−λ); elsewhere y has a
    density, for which there is only a series (Dunn and Smyth, Statistics and Computing 15, 2005).

    Parameters
    ----------
    power : float
        Between 1 (Poisson) and 2 (gamma).
    dispersion : float

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies the mean. The log-density at y = 0 is the logarithm of a
    probability.

    Examples
    --------
    >>> round(float(Tweedie(power=1.5, dispersion=1.0).log_prob(0.0, 0.0)), 4)  # −λ
    -2.0
    """

    support = ZERO_OR_POSITIVE
    extras = ("exposure",)
    log_concave = True
    domains: ClassVar = {"power": Interval(1.0, 2.0)}

    def __init__(self, power: float = 1.5, dispersion: float = 1.0) -> None:
        self.power = power
        self.dispersion = dispersion

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self._in_f(y, f, 0.0, exposure) + self._normaliser(y)

    def _in_f(self, y: jax.Array, m: jax.Array, v: jax.Array | float, exposure: jax.Array | float) -> jax.Array:
        """The part of log p(y | f) that depends on f, 0 at μ = y, under f ~ N(m, v)."""
        up, down = 2.0 - self.power, self.power - 1.0
        positive = jnp.where(y > 0.0, y, 1.0)
        u = m + jnp.log(exposure) - jnp.log(positive)
        growth, decay = jnp.expm1(up * u + 0.5 * up**2 * v), jnp.expm1(-down * u + 0.5 * down**2 * v)
        amounts = self._amounts(positive)
        return jnp.where(y > 0.0, -amounts * (growth + self._shape() * decay), -amounts * (growth + 1.0))

    def _normaliser(self, y: jax.Array) -> jax.Array:
        """What log p(y | f) has beside its terms in f: log p(y | f) at μ = y, and 0 for y = 0."""
        positive = jnp.where(y > 0.0, y, 1.0)
        alpha, peak = self._shape(), self._amounts(positive)
        # The terms log[λ^j (y/scale)^(jα) / (j! Γ(jα))] at μ = y, by Stirling's formula relative to the largest,
        # near j = peak: nothing large is subtracted from anything large.
        j = jax.lax.stop_gradient(_window(alpha, peak))
        bulk = (1.0 + alpha) * (j - peak - j * jnp.log(j / peak))
        spacing = jax.lax.stop_gradient(j[1] - j[0])
        terms = bulk - stirling_remainder(j) - stirling_remainder(alpha * j)
        series = logsumexp(terms) + jnp.log(spacing) + 0.5 * jnp.log(alpha) - jnp.log(2.0 * jnp.pi)
        return jnp.where(y > 0.0, series - jnp.log(positive), 0.0)

    def _shape(self) -> Any:
        """α, the shape of the gamma amounts."""
        return (2.0 - self.power) / (self.power - 1.0)

    def _amounts(self, mean: Any) -> Any:
        """λ, how many of them there are on average."""
        return mean ** (2.0 - self.power) / (self.dispersion * (2.0 - self.power))

    def _amounts_and_scale(self, f: np.ndarray, exposure: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """λ and the scale of the amounts, in NumPy, kept off 0 and ∞."""
        p = np.asarray(self.power)
        with np.errstate(over="ignore", under="ignore"):
            mean = np.clip(exposure * np.exp(np.asarray(f, dtype=np.float64)), 1e-200, 1e200)
        return self._amounts(mean), self.dispersion * (p - 1.0) * mean ** (p - 1.0)

    def conditional_mean(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return exposure * jnp.exp(f)

    def conditional_variance(self, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self.dispersion * jnp.exp(self.power * (f + jnp.log(exposure)))

    def cdf(self, y: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        amounts, scale = self._amounts_and_scale(f, exposure)
        if not np.any(y > 0.0):
            return np.where(y < 0.0, 0.0, np.exp(-amounts))
        size = np.maximum(y, 0.0) / scale
        return np.where(y < 0.0, 0.0, compound_cdf(float(self._shape()), amounts, size))

    def cdf_at(self, x: np.ndarray, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        alpha = float(self._shape())
        if alpha > _LARGEST_TABLED:
            return self.cdf(np.exp(x), f, exposure)
        amounts, scale = np.broadcast_arrays(*self._amounts_and_scale(f, exposure))
        amounts, size = np.broadcast_arrays(amounts, x - np.log(scale))
        out, most = np.empty(amounts.shape), _many(alpha)
        few = amounts < most
        out[few] = tabled_cdf(alpha, amounts[few], size[few], most)
        with np.errstate(over="ignore", under="ignore"):
            out[~few] = compound_cdf(alpha, amounts[~few], np.exp(size[~few]), least=1e-16)
        return out

    def shared(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[dict, np.ndarray | float]:
        return {}, np.log(exposure)

    def sample(
        self, rng: np.random.Generator, f: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> np.ndarray:
        amounts, scale = self._amounts_and_scale(f, exposure)
        n = rng.poisson(np.minimum(amounts, 9e18)).astype(np.float64)
        return np.where(n > 0.0, scale * rng.standard_gamma(np.maximum(n, 1.0) * self._shape()), 0.0)

    def initial_latent(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        # a zero is as likely as not where there is half an amount on average
        p, y = np.asarray(self.power), np.asarray(y, dtype=np.float64)
        at_zero = np.log(0.5 * self.dispersion * (2.0 - p)) / (2.0 - p)
        seen = y > 0.0
        # next to a power of 2 that is 0 in all computers' numbers: no start for learning
        least = np.log(np.min(y, where=seen, initial=np.inf)) - _BELOW if seen.any() else -_BELOW
        return np.where(seen, np.log(np.where(seen, y, 1.0)), np.maximum(at_zero, least)) - np.log(exposure)

    def initial_parameters(
        self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> dict[str, Number]:
        exposure = np.broadcast_to(exposure, np.shape(y))
        mean = exposure * np.sum(y) / np.sum(exposure)
        squares = np.sum((y - mean) ** 2)
        if squares == 0.0:
            return {}
        # half of the variance; the other half is left to f
        return {"dispersion": 0.5 * float(squares / np.sum(mean ** np.asarray(self.power)))}

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array
    ) -> jax.Array:
        return self._in_f(y, m, v, exposure) + self._normaliser(y)

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # the series once, not once for each node of the integral
        density = predictive_log_prob(_Unnormalised(self.power, self.dispersion), y, m, v, row)
        leaves, structure = jax.tree.flatten(self)
        return density + map_rows(partial(_normalisers, structure, leaves), (y,))[0]

    def marginal_moments(
        self, m: np.ndarray, v: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        p, m = np.asarray(self.power), m + np.log(exposure)
        with np.errstate(over="ignore"):  # beyond float64 the mean is inf
            noise = self.dispersion * np.exp(p * m + 0.5 * p**2 * v)
            return np.exp(m + 0.5 * v), noise + spread_of_exp(m, v)


class _Unnormalised(Tweedie):
    """Only what depends on f."""

    def log_prob(self, y: jax.Array, f: jax.Array, exposure: jax.Array | float = 1.0, **row: jax.Array) -> jax.Array:
        return self._in_f(y, f, 0.0, exposure)

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> None:  # type: ignore[override]
        return None


@jit(static_argnums=0)
def _normalisers(structure: Any, leaves: list, y: jax.Array) -> tuple:
    return (jax.vmap(jax.tree.unflatten(structure, leaves)._normaliser)(y),)


def _window(alpha: jax.Array, peak: jax.Array) -> jax.Array:
    """Evenly spaced j that carry the series, whose terms are about normal in j around `peak`.

    The integers from 1 while they reach far enough. Beyond, the sum over the integers, the integral and the sum over
    any grid finer than the standard deviation agree to all digits.
    """
    sd = jnp.sqrt(peak / (1.0 + alpha))
    spacing = jnp.where(peak + 9.0 * sd < _TERMS, 1.0, jnp.maximum(0.3 * sd, 1.0))
    first = jnp.maximum(jnp.floor(peak) - 0.5 * _TERMS * spacing, 1.0)
    return first + spacing * jnp.arange(_TERMS)


_BLOCK = 2**20
_LARGEST_TABLED = 16.0
"""α up to which tables are small."""


def compound_cdf(
    alpha: float, amounts: np.ndarray, size: np.ndarray, upper: bool = False, least: float = 1e-30
) -> np.ndarray:
    """P(G ≤ size) for the sum G of a Poisson(amounts) number of gamma(α) variables with scale 1, or P(G > size).

    >>> compound_cdf(1.0, np.array([2.0]), np.array([0.0])).round(6)  # no amounts at all: e^−2
    array([0.135335])
    """
    amounts, size = np.broadcast_arrays(amounts, size)
    out = np.empty(amounts.shape)
    many = _many(alpha)
    length = int(_BLOCK / (2.0 * many + 100.0)) + 1
    # rows with about as many amounts together: the longest of their sums is that of all
    kind = np.searchsorted([1.0, 4.0, 12.0, many], amounts, side="right")
    for label in np.unique(kind):
        some, cdf = kind == label, _many_amounts if label == 4 else _few_amounts
        rows, x = amounts[some], size[some]
        blocks = [slice(start, start + length) for start in range(0, len(rows), length)]
        out[some] = np.concatenate(
            [np.empty(0), *(cdf(alpha, rows[block], x[block], upper, least) for block in blocks)]
        )
    return np.clip(out, 0.0, 1.0)


def _many(alpha: float) -> float:
    """Amounts, enough that the sum over their number is an integral to all digits, and that there is always one."""
    return max(44.0, 2.5 * (1.0 + alpha))


def _few_amounts(alpha: float, amounts: np.ndarray, size: np.ndarray, upper: bool, least: float) -> np.ndarray:
    """The sum over the number of amounts."""
    most = amounts.max()
    n = np.arange(1.0, most + 12.0 * np.sqrt(most) + 30.0)[:, None]
    weight = np.exp(n * np.log(amounts) - amounts - special.gammaln(n + 1.0))
    return (0.0 if upper else np.exp(-amounts)) + np.sum(
        weight * _gamma_cdf(alpha * n, size, weight, upper, least), axis=0
    )


def _many_amounts(alpha: float, amounts: np.ndarray, size: np.ndarray, upper: bool, least: float) -> np.ndarray:
    """The same by an even grid: the terms are smooth in n over √(λ / (1 + α)), which are many integers."""
    sd, nodes = np.sqrt(amounts), int(35.0 * np.sqrt(1.0 + alpha)) + 16
    # from λ, because n itself has too few digits where λ is large; all n > 0
    first = np.maximum(-11.5 * sd, 1.0 - amounts)
    offset = first + (12.5 * sd - first) * np.linspace(0.0, 1.0, nodes)[:, None]
    n = amounts + offset
    weight = np.exp(-amounts * _entropy(offset / amounts) - stirling_remainder(n, np)) / np.sqrt(n)
    weight /= weight.sum(axis=0)
    return np.sum(weight * _gamma_cdf(alpha * n, size, weight, upper, least), axis=0)


def _entropy(t: np.ndarray) -> np.ndarray:
    """(1 + t) log(1 + t) − t, to all digits for small t."""
    series = np.zeros(t.shape)
    for k in range(14, 1, -1):
        series = series * t + (-1.0) ** k / (k * (k - 1.0))
    return np.where(np.abs(t) < 0.05, series * t**2, (1.0 + t) * np.log1p(t) - t)


def _gamma_cdf(shape: np.ndarray, size: np.ndarray, weight: np.ndarray, upper: bool, least: float) -> np.ndarray:
    """P(gamma(shape) ≤ size), or the rest to 1: computed where that is neither 0 nor 1 and its weight counts."""
    shape, size = np.broadcast_arrays(shape, size)
    out = ((size > shape) != upper).astype(np.float64)
    near = (np.abs(size - shape) < 12.0 * np.sqrt(shape) + 80.0) & (weight > least)
    out[near] = (special.gammaincc if upper else special.gammainc)(shape[near], size[near])
    return out


# -- distribution functions of compound Poisson sums at many points at once, to 1e-13 and not to all digits of tails --


_STEP = 0.15
"""Of the logarithm of the size, for the width that gamma distribution functions have in it."""
_TINY = 1e-17
_KEPT = 32
"""Tables, of some 100,000 numbers."""


class _Table(NamedTuple):
    """P(gamma(α n) ≤ e^u) for n of an octave each, at even u from `low` on: rows of eight u, all n in a row."""

    first: np.ndarray
    """n that octaves begin with, and the one after the last."""
    low: np.ndarray
    step: np.ndarray
    place: np.ndarray
    blocks: np.ndarray
    """Where the rows of each octave begin, and how many eights of u there are."""
    values: np.ndarray


def tabled_cdf(alpha: float, amounts: np.ndarray, log_size: np.ndarray, most: float) -> np.ndarray:
    """P(G ≤ size) for the sum G of a Poisson(amounts) number of gamma(α) variables with scale 1; no more than `most`
    amounts on average.

    Σ_n Poisson(n; amounts) P(gamma(α n) ≤ size) is a sum of the rows of a table, which is made once for each α, and a
    polynomial through sixteen of those sums.

    >>> tabled_cdf(1.0, np.array([2.0]), np.array([-50.0]), 44.0).round(6)  # no amounts at all: e^−2
    array([0.135335])
    """
    out = np.empty(len(amounts))
    _sums(amounts, log_size, *_table(alpha, most), _WEIGHTS, out)
    return out


_POINTS = 16
_WEIGHTS = np.array([(-1.0) ** j * math.comb(_POINTS - 1, j) for j in range(_POINTS)])
"""Of the barycentric formula for even points."""


@lru_cache(maxsize=_KEPT)
def _table(alpha: float, most: float) -> _Table:
    last = _last(most)
    first = [1]
    while first[-1] <= last:
        first.append(2 * first[-1])
    first[-1] = last + 1
    lows, steps, places, blocks, values = [], [], [0], [], []
    for start, stop in pairwise(first):
        # gamma variables of small shape vary as fast, at their upper end
        step = _STEP / np.sqrt(max(alpha * (stop - 1.0), 8.0))
        # log x where P(gamma(a) ≤ x) is tiny: its first term where x is no number
        a = alpha * start
        low = max(np.log(max(special.gammaincinv(a, _TINY), 1e-300)), (np.log(_TINY) + special.gammaln(a + 1.0)) / a)
        low -= 2.0 * LANES * step
        high = np.log(special.gammainccinv(alpha * (stop - 1.0), _TINY)) + 2.0 * LANES * step
        count = int(np.ceil((high - low) / (LANES * step)))
        u = low + step * np.arange(LANES * count).reshape(count, 1, LANES)
        found = special.gammainc(alpha * np.arange(start, stop)[:, None], np.exp(u))
        lows.append(low)
        steps.append(step)
        blocks.append(count)
        values.append(found.reshape(-1, LANES))
        places.append(places[-1] + len(values[-1]))
    ends, each = np.array(first), np.array(blocks)
    return _Table(ends, np.array(lows), np.array(steps), np.array(places), each, np.concatenate(values))


def _last(amounts: float) -> int:
    return int(amounts + 9.0 * np.sqrt(amounts) + 14.0)


@reordered
def _sums(amounts, log_size, first, low, step, place, blocks, values, weights, out):
    chances, sums = np.empty(first[-1]), np.empty((3, LANES))
    for row in range(len(amounts)):
        mean, u = amounts[row], log_size[row]
        reach = 9.0 * np.sqrt(mean)
        begin, end = max(1, int(mean - reach)), min(first[-1], int(mean + reach + 14.0))
        chance = np.exp(begin * np.log(mean) - mean - math.lgamma(begin + 1.0))
        for n in range(begin, end):
            chances[n] = chance
            chance *= mean / (n + 1.0)
        total = np.exp(-mean)
        for k in range(len(low)):
            start, stop = max(begin, first[k]), min(end, first[k + 1])
            if start >= stop:
                continue
            # beyond the ends of a table all is 0 or 1
            t = min(max((u - low[k]) / step[k], 1.0 * LANES), (blocks[k] - 1.0) * LANES - 1.0)
            block = int(t) // LANES - 1
            width = first[k + 1] - first[k]
            at = place[k] + block * width + start - first[k]
            sums[:] = 0.0
            add_blocks(chances, start, stop - start, values, at, at + width, at + 2 * width, sums)  # type: ignore[call-arg]
            t -= block * LANES
            left = int(t) - (_POINTS // 2 - 1)
            above = below = 0.0
            for j in range(_POINTS):
                c = left + j
                distance = t - c
                if distance == 0.0:
                    distance = 1e-300
                share = weights[j] / distance
                above += share * sums[c // LANES, c % LANES]
                below += share
            total += above / below
        out[row] = total
