"""Ordered categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.normal import log_normal_cdf
from npvi.likelihoods.support import Support
from npvi.parameters import Interval, numbers_in, value_of
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp, ndtr

__all__ = ["Ordinal"]


#: more are no categories that can be counted
_CATEGORIES = 100
#: standard deviation of the prior of ends that nothing is known of, or of their logarithms
_OPEN = 0.5
#: standard deviations below which a series tells how steep log Φ is
_FAR = 20.0
#: from the outer cuts to where log p is smooth over a share of the distance
_MARGIN = 4.0


class Ordinal(Likelihood, name="ordinal", about="ranks 0, 1, 2, …"):
    """Ordered categories 0, 1, …, C − 1 (ordered probit): P(y ≤ c) = Φ(cuts[c] − f).

    y is the number of cuts below f plus standard normal noise.

    Parameters
    ----------
    cuts : sequence of C − 1 increasing numbers
        Where one category ends and the next begins, on the scale of f.

    Notes
    -----
    Only differences cut − f matter. f has mean 0 under the prior, so the cuts can all be learned; where the model
    adds a constant to f that is learned too, one of the two has to be fixed.

    Examples
    --------
    >>> round(float(Ordinal(cuts=[0.0, 1.0]).log_prob(0.0, 0.0)), 4)  # log Φ(0)
    -0.6931
    """

    log_concave = True
    resolution = 0.9  # the zeros of Φ are 2.8 from the real axis
    domains: ClassVar = {"cuts": Interval(increasing=True)}

    def __init__(self, cuts: Sequence[float] = (-1.0, 1.0)) -> None:
        self.cuts = cuts

    @property
    def support(self) -> Support:
        cuts = numbers_in(value_of(self.cuts))
        last = 0 if cuts is None else cuts.size  # `validate` has a word on cuts that are no numbers
        words = f"whole numbers from 0 to {last}, one category more than there are cuts"
        return Support("ordinal", words, lower=0.0, upper=float(last), discrete=True)

    def sized_for(self, y: np.ndarray) -> Likelihood:
        """With a cut between each two of the categories up to the largest.

        >>> Ordinal().sized_for(np.array([0.0, 3.0, 1.0])).cuts
        [0.0, 1.0, 2.0]
        """
        last = float(np.max(y, initial=0.0))
        return self.replace(cuts=np.arange(last).tolist()) if 1.0 <= last < _CATEGORIES else self

    def bend(self, **row: np.ndarray) -> tuple[float, float]:
        """Zeros of Φ are off the cuts on either side, at angles of 45°: beyond `_MARGIN` their distance grows."""
        cuts = np.atleast_1d(np.asarray(self.cuts, dtype=np.float64))
        return float(cuts[0]) - _MARGIN, float(cuts[-1]) + _MARGIN

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        cuts = jnp.atleast_1d(jnp.asarray(self.cuts))
        c, last = jnp.asarray(y).astype(int), len(cuts)
        above, below = cuts[jnp.minimum(c, last - 1)] - f, cuts[jnp.maximum(c - 1, 0)] - f
        # of two numbers on the right the distribution function has no digits: there, mirrored
        mirrored = below > 0.0
        high, low = jnp.where(mirrored, -below, above), jnp.where(mirrored, -above, below)
        between = (c > 0) & (c < last)
        low = jnp.where(between, low, high - 1.0)  # not used there, but differentiated: anything below `high`
        log_high = log_normal_cdf(high)
        inside = log_high + _log1mexp(log_normal_cdf(low) - log_high)
        return jnp.where(between, inside, log_normal_cdf(jnp.where(c == 0, above, -below)))

    def log_prob_slopes(
        self, y: np.ndarray, f: np.ndarray, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cuts = np.concatenate([[-np.inf], np.atleast_1d(np.asarray(self.cuts, dtype=np.float64)), [np.inf]])
        c = np.asarray(y).astype(int)
        above, below = cuts[c + 1] - f, cuts[c] - f
        mirrored = (below > 0.0) | (above == np.inf)
        high, low = np.where(mirrored, -below, above), np.where(mirrored, -above, below)
        log_high = special.log_ndtr(high)
        less = special.log_ndtr(low) - log_high  # log of Φ(low)/Φ(high)
        inside = -np.expm1(less)
        share = np.exp(less) / inside  # Φ(low) in units of what lies between
        low = np.where(share > 0.0, low, 0.0)
        (ratio, rest), (below, _) = _mills(high), _mills(low)
        change = share * (ratio - below)
        slope = ratio + change
        bend = -ratio * rest - share * (high * ratio - low * below) - change * (ratio + slope)
        return log_high + np.log(inside), np.where(mirrored, slope, -slope), bend

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.sum(ndtr(f - jnp.atleast_1d(jnp.asarray(self.cuts))))

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        distance = f - jnp.atleast_1d(jnp.asarray(self.cuts))
        return _variance(ndtr(distance), ndtr(-distance), jnp)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return self.marginal_cdf(y, np.asarray(f, dtype=np.float64), np.zeros(()))

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        f = np.asarray(f, dtype=np.float64)
        return np.searchsorted(np.atleast_1d(self.cuts), rng.normal(f)).astype(np.float64)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        cuts = np.atleast_1d(np.asarray(self.cuts, dtype=np.float64))
        # the middle of each category; the first and the last have no middle, and get one unit of noise
        middles = 0.5 * (np.append(cuts, cuts[-1] + 2.0) + np.append(cuts[0] - 2.0, cuts))
        return middles[np.asarray(y).astype(int)]

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        # cuts that give each category its share of the data; empty ones count as half a row
        counts = np.bincount(np.asarray(y).astype(int), minlength=len(np.atleast_1d(self.cuts)) + 1) + 0.5
        return {"cuts": special.ndtri(np.cumsum(counts)[:-1] / counts.sum())}

    def unseen(self, y: np.ndarray) -> dict[str, list[tuple[float, float] | None]]:
        """The ends of categories that nobody chose: the further apart those of others the likelier is y, for ever.

        >>> Ordinal(cuts=[-2.0, -1.0, 1.0]).unseen(np.array([1.0, 2.0, 3.0]))
        {'cuts': [(-2.0, 0.5), (0.0, 0.5), None]}
        """
        cuts = np.atleast_1d(np.asarray(self.cuts, dtype=np.float64))
        empty = np.flatnonzero(np.bincount(np.asarray(y).astype(int), minlength=len(cuts) + 1) == 0)
        # the category below the first cut has no lower end, so that the next one's step is what grows in its place
        open_ = set(np.minimum(empty, len(cuts) - 1).tolist()) | ({1} if 0 in empty else set())
        means = np.append(cuts[:1], np.log(np.diff(cuts)))
        return {"cuts": [(float(mean), _OPEN) if entry in open_ else None for entry, mean in enumerate(means)]}

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        cuts = np.concatenate([[-np.inf], np.atleast_1d(self.cuts), [np.inf]])
        c, scale = np.asarray(y).astype(int), np.sqrt(1.0 + v)
        above, below = (cuts[c + 1] - m) / scale, (cuts[c] - m) / scale
        mirrored = below > 0.0
        log_high = special.log_ndtr(np.where(mirrored, -below, above))
        log_low = special.log_ndtr(np.where(mirrored, -above, below))
        return log_high + np.log(-np.expm1(log_low - log_high))

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distance = (np.asarray(m) - np.atleast_1d(self.cuts)[:, None]) / np.sqrt(1.0 + v)
        over = special.ndtr(distance)
        return over.sum(0), _variance(over, special.ndtr(-distance), np)

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        cuts = np.concatenate([[-np.inf], np.atleast_1d(self.cuts), [np.inf]])
        c = np.clip(np.floor(np.asarray(y, dtype=np.float64)), -1.0, len(cuts) - 2).astype(int)
        return special.ndtr((cuts[c + 1] - m) / np.sqrt(1.0 + v))


def _mills(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ/Φ, the derivative of log Φ, and x + φ/Φ, the two of which cancel far to the left.

    >>> _mills(np.array([-1e9, 0.0]))[1]
    array([1.00000000e-09, 7.97884561e-01])
    """
    ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-np.sqrt(0.5) * x)
    square = 1.0 / np.minimum(x, -_FAR) ** 2
    series = 1.0 - square * (2.0 - square * (10.0 - square * (74.0 - square * (706.0 - 8162.0 * square))))
    return ratio, np.where(x < -_FAR, np.sqrt(square) * series, x + ratio)


def _variance(over: Any, under: Any, xp: Any) -> Any:
    """Variance of the number of cuts passed, from P(y > c) and P(y ≤ c) along the first axis: positive terms only."""
    return xp.sum(over * (2.0 * xp.cumsum(under, axis=0) - under), axis=0)


def _log1mexp(x: jax.Array) -> jax.Array:
    """log(1 − e^x) for x < 0, to all digits on either side of −log 2."""
    near = x > -0.6931
    return jnp.where(near, jnp.log(-jnp.expm1(jnp.where(near, x, -1.0))), jnp.log1p(-jnp.exp(jnp.where(near, -1.0, x))))
