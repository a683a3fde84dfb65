"""Noise with outliers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.scales import robust_noise_variance, spread, without_outliers
from npvi.likelihoods.support import REAL
from npvi.parameters import Interval
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import gammaln, jax, jnp

__all__ = ["StudentT"]

#: standard deviations beyond which tails matter, by how much the logarithms of variances then go further at a time
_FAR, _FURTHER = 3.0, 8.0
#: numbers in the making at a time
_AT_ONCE = 2**18


class StudentT(Likelihood, name="student_t", about="numbers with outliers"):
    """Student's t noise, y = f + scale · t(df): outliers pull f only so far.

    Not log-concave: the further an outlier lies from its neighbours, the less it counts.

    Parameters
    ----------
    scale : float
        Of the bulk of the noise; its variance is scale² df/(df − 2).
    df : float
        Degrees of freedom, above 2: with fewer the noise, and with it every prediction of y, has no variance.

    Examples
    --------
    >>> round(float(StudentT(scale=1.0, df=3.0).log_prob(0.0, 0.0)), 4)  # −log(√3 π/2)
    -1.0009
    """

    support = REAL
    domains: ClassVar[dict[str, Interval]] = {"df": Interval(2.0)}

    limits: ClassVar[dict[str, tuple[float, float]]] = {"df": (2.05, 1e3)}
    floors: ClassVar[dict[str, float]] = {"scale": 1e-3}

    def __init__(self, scale: float = 1.0, df: float = 4.0) -> None:
        self.scale = scale
        self.df = df

    @property
    def resolution(self) -> float:
        """The log-density is singular at f = y ± i scale √df."""
        return float(self.scale) * float(np.sqrt(self.df)) / 3.0

    @property
    def location(self) -> bool:
        return True

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        constant = _log_gamma_ratio(0.5 * self.df) - 0.5 * jnp.log(self.df * jnp.pi) - jnp.log(self.scale)
        return constant - 0.5 * (self.df + 1.0) * jnp.log1p(((y - f) / self.scale) ** 2 / self.df)

    def log_prob_slopes(
        self, y: np.ndarray, f: np.ndarray, **row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        df, scale = float(self.df), float(self.scale)
        d = (y - f) / scale
        constant = _log_gamma_ratio(0.5 * df, np) - 0.5 * np.log(df * np.pi) - np.log(scale)
        held = df + d**2
        value = constant - 0.5 * (df + 1.0) * np.log1p(d**2 / df)
        return value, (df + 1.0) / scale * d / held, (df + 1.0) / scale**2 * (d**2 - df) / held**2

    def conditional_moments(self, f: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return f, np.broadcast_to(float(self._variance()), np.shape(f))

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return f

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return self._variance() * jnp.ones_like(f)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return special.stdtr(self.df, (np.asarray(y) - f) / self.scale)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return f + self.scale * rng.standard_t(self.df, np.shape(f))

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return without_outliers(y)

    def latent_unit(self, y: np.ndarray, **row: np.ndarray) -> float:
        return spread(y)

    def initial_parameters(self, y: np.ndarray, **row: np.ndarray) -> dict[str, Number]:
        noise = robust_noise_variance(y)
        return {"df": 4.0} if noise is None else {"scale": float(np.sqrt(noise)), "df": 4.0}

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array(m), v + self._variance()

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # t is normal with a variance df/χ²(df), to which that of f is added
        log_variances, shares = _normal_mixture(float(self.df))
        total = v[..., None] + float(self.scale) ** 2 * np.exp(log_variances)
        return np.clip(special.ndtr((y - m)[..., None] / np.sqrt(total)) @ shares, 0.0, 1.0)

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # the same mixture; far out, where f can't be, it goes on to variances as large as the distance squared
        scale, distance = float(self.scale), np.abs(y - m)
        far = distance > _FAR * np.hypot(scale, np.sqrt(v))
        further = np.where(far, 2.0 * np.log1p(distance / scale), 0.0)
        tiers = np.ceil(further / _FURTHER).astype(int)
        out = np.empty(len(distance))
        for tier in np.unique(tiers):
            log_variances, log_shares = _log_mixture(float(self.df), _FURTHER * int(tier))
            rows = np.flatnonzero(tiers == tier)
            for some in np.array_split(rows, -(-len(rows) * len(log_shares) // _AT_ONCE)):
                total = v[some, None] + scale**2 * np.exp(log_variances)
                exponent = log_shares - 0.5 * (distance[some, None] ** 2 / total + np.log(2.0 * np.pi * total))
                out[some] = special.logsumexp(exponent, axis=1)
        return out

    def _variance(self) -> Any:
        return self.scale**2 * self.df / (self.df - 2.0)


@lru_cache
def _normal_mixture(df: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the variances, and shares, of normal distributions whose mixture is t(df).

    >>> log_variances, shares = _normal_mixture(4.0)
    >>> float((shares @ np.exp(-log_variances)).round(10))  # the mean of χ²/df
    1.0
    """
    log_variances, log_shares = _log_mixture(df, 0.0)
    return log_variances, np.exp(log_shares)


@lru_cache
def _log_mixture(df: float, further: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of variances and of shares of that mixture, up to variances exp(further) times as large.

    The trapezoidal rule for u = log(χ²/df), whose density is proportional to exp(df/2 · (u − eᵘ)): smooth over the
    smaller of its own width and 1. Far left it falls like exp(df/2 · u), and then come the tails of t.
    """
    half, drop = 0.5 * df, 32.0
    left = 0.5 * (drop / half + np.sqrt((drop / half) ** 2 + 8.0 * drop / half)) + further
    right = np.log1p(drop / half + np.sqrt(2.0 * drop / half))
    n = int(np.ceil((left + right) / min(0.3, 0.5 / np.sqrt(half)))) + 1
    u = np.linspace(-left, right, n)
    log_shares = half * (u - np.expm1(u))
    return -u, log_shares - special.logsumexp(log_shares)


def _log_gamma_ratio(x: Any, xp: Any = jnp) -> Any:
    """log Γ(x + ½) − log Γ(x); as a series where the difference of the two would have no digits."""
    large = x > 100.0
    big, small = xp.where(large, x, 200.0), xp.where(large, 1.0, x)
    log_gamma = special.gammaln if xp is np else gammaln
    series = 0.5 * xp.log(big) - 1.0 / (8.0 * big) + 1.0 / (192.0 * big**3) - 1.0 / (640.0 * big**5)
    return xp.where(large, series, log_gamma(small + 0.5) - log_gamma(small))
