"""Every likelihood of the library beside its log-density by SciPy, and data to try it on.

Each has all the extras that it takes. Of the links, which are the same functions for all, every one is here once. One
that isn't written down here stands beside its own formula, which `tests/contracts` looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from npvi.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Beta,
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    CensoredLogNormal,
    Custom,
    Exponential,
    Gamma,
    Gaussian,
    HurdlePoisson,
    Laplace,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from npvi.runtime.precision import float64
from tests.support import oracle


@dataclass(frozen=True)
class Noise:
    likelihood: Likelihood
    log_density: Callable
    """y, f and the extras, which broadcast → log p(y | f)."""
    level: float = 0.0
    """About which f varies by ±1 or so: counts and amounts are of the size exp(level)."""
    kink: bool = False
    """log p(y | f) isn't smooth at f = y."""
    draw: Callable | None = None
    """Random numbers and f → responses, where the likelihood's own way takes long."""

    def data(self, rng, f):
        """A response for each f, and the extras: every one that the likelihood takes."""
        row = {name: EXTRAS[name](rng, len(f)) for name in self.likelihood.extras if name != "censored"}
        y = self.draw(rng, f) if self.draw else self.likelihood.sample(rng, f, **row)
        if "censored" in self.likelihood.extras:
            low, high = np.quantile(y, [0.2, 0.8])  # a detection limit, and the top of the scale
            row["censored"] = np.where(y > high, 1.0, np.where(y < low, -1.0, 0.0))
            y = np.clip(y, low, high)
        return y, row

    def of(self, y, row):
        """f, one row per response → log p(y | f)."""
        y, row = y[:, None], {name: values[:, None] for name, values in row.items()}
        return lambda f: self.log_density(y, f, **row)

    def observations(self, y, row):
        return oracle.Smoothed(self.of(y, row), y if self.kink else None)


EXTRAS = {
    "exposure": lambda rng, n: rng.uniform(0.5, 3.0, n),
    "trials": lambda rng, n: rng.integers(1, 13, n).astype(float),
    "noise_variance": lambda rng, n: rng.uniform(0.01, 0.5, n),
}


def softplus(f):
    return np.logaddexp(0.0, f)


def normal(y, f, variance):
    return stats.norm.logpdf(y, f, np.sqrt(variance))


def censored_normal(y, f, censored, variance):
    sd = np.sqrt(variance)
    side = np.where(censored > 0.0, stats.norm.logsf(y, f, sd), stats.norm.logcdf(y, f, sd))
    return np.where(censored == 0.0, stats.norm.logpdf(y, f, sd), side)


def negative_binomial(y, mean, dispersion):
    return stats.nbinom.logpmf(y, dispersion, dispersion / (dispersion + mean))


def with_zeros(y, log_counts, inflation):
    log_counts = np.log1p(-inflation) + log_counts
    return np.where(y == 0.0, np.logaddexp(np.log(inflation), log_counts), log_counts)


def hurdle(y, rate, zero):
    positive = np.log1p(-zero) + stats.poisson.logpmf(y, rate) - np.log(-np.expm1(-rate))
    return np.where(y == 0.0, np.log(zero), positive)


def ordinal(y, f, cuts):
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = ends[y.astype(int)] - f, ends[y.astype(int) + 1] - f
    low, high = np.where(low > 0.0, -high, low), np.where(low > 0.0, -low, high)  # the side that has digits
    return np.log(special.ndtr(high) - special.ndtr(low))


def tweedie(y, mean, power, dispersion):
    """Every term of the density's series has the same power of the mean, none: it is a number for each y."""
    shape, j = (2.0 - power) / (power - 1.0), np.arange(1.0, 200.0)
    amounts, scale = 1.0 / (dispersion * (2.0 - power)), dispersion * (power - 1.0)  # at mean 1
    size = np.where(y > 0.0, y, 1.0)
    terms = j * (np.log(amounts) + shape * np.log(size / scale)) - special.gammaln(j + 1.0) - special.gammaln(j * shape)
    series = special.logsumexp(terms, axis=-1, keepdims=True) - np.log(size)
    return np.where(y > 0.0, series - y / (scale * mean ** (power - 1.0)), 0.0) - amounts * mean ** (2.0 - power)


def logistic(y, f, scale):
    z = (y - f) / scale
    return -z - 2.0 * jnp.logaddexp(0.0, -z) - jnp.log(scale)


CUTS = [-1.0, 0.2, 0.5, 1.4]
NOISES = {
    "gaussian": Noise(Gaussian(0.1), lambda y, f, noise_variance: normal(y, f, 0.1 + noise_variance)),
    "lognormal": Noise(
        LogNormal(0.3), lambda y, f, noise_variance: normal(np.log(y), f, 0.3 + noise_variance) - np.log(y)
    ),
    "censored-gaussian": Noise(CensoredGaussian(0.3), lambda y, f, censored: censored_normal(y, f, censored, 0.3)),
    "censored-lognormal": Noise(
        CensoredLogNormal(0.3),
        lambda y, f, censored: censored_normal(np.log(y), f, censored, 0.3) - np.where(censored == 0.0, np.log(y), 0.0),
    ),
    "student-t": Noise(StudentT(0.4, 5.0), lambda y, f: stats.t.logpdf(y, 5.0, f, 0.4)),
    "laplace": Noise(Laplace(0.4), lambda y, f: stats.laplace.logpdf(y, f, 0.4), kink=True),
    "poisson": Noise(Poisson(), lambda y, f, exposure: stats.poisson.logpmf(y, exposure * np.exp(f)), 1.0),
    "poisson-softplus": Noise(
        Poisson("softplus"), lambda y, f, exposure: stats.poisson.logpmf(y, exposure * softplus(f)), 3.0
    ),
    "negative-binomial": Noise(
        NegativeBinomial(2.0), lambda y, f, exposure: negative_binomial(y, exposure * np.exp(f), 2.0), 1.0
    ),
    "zero-inflated-poisson": Noise(
        ZeroInflatedPoisson(0.2),
        lambda y, f, exposure: with_zeros(y, stats.poisson.logpmf(y, exposure * np.exp(f)), 0.2),
        1.0,
    ),
    "zero-inflated-negative-binomial": Noise(
        ZeroInflatedNegativeBinomial(0.1, 4.0),
        lambda y, f, exposure: with_zeros(y, negative_binomial(y, exposure * np.exp(f), 4.0), 0.1),
        1.0,
    ),
    "hurdle-poisson": Noise(HurdlePoisson(0.3), lambda y, f, exposure: hurdle(y, exposure * np.exp(f), 0.3), 1.0),
    "bernoulli": Noise(Bernoulli(), lambda y, f: stats.bernoulli.logpmf(y, special.expit(f))),
    "bernoulli-probit": Noise(Bernoulli("probit"), lambda y, f: stats.norm.logcdf(np.where(y > 0.0, f, -f))),
    "binomial": Noise(Binomial(), lambda y, f, trials: stats.binom.logpmf(y, trials, special.expit(f))),
    "beta-binomial": Noise(
        BetaBinomial(6.0),
        lambda y, f, trials: stats.betabinom.logpmf(y, trials, 6.0 * special.expit(f), 6.0 * special.expit(-f)),
    ),
    "ordinal": Noise(Ordinal(CUTS), lambda y, f: ordinal(y, f, CUTS)),
    "tweedie": Noise(Tweedie(1.4, 0.8), lambda y, f, exposure: tweedie(y, exposure * np.exp(f), 1.4, 0.8), 1.0),
    "gamma": Noise(Gamma(3.0), lambda y, f: stats.gamma.logpdf(y, 3.0, scale=np.exp(f) / 3.0)),
    "exponential": Noise(Exponential(), lambda y, f: stats.expon.logpdf(y, scale=np.exp(f))),
    "weibull": Noise(
        Weibull(1.5), lambda y, f: stats.weibull_min.logpdf(y, 1.5, scale=np.exp(f) / special.gamma(1.0 + 1.0 / 1.5))
    ),
    "beta": Noise(Beta(7.0), lambda y, f: stats.beta.logpdf(y, 7.0 * special.expit(f), 7.0 * special.expit(-f))),
    "custom": Noise(
        Custom(logistic, {"scale": 0.3}),
        lambda y, f: stats.logistic.logpdf(y, f, 0.3),
        draw=lambda rng, f: rng.logistic(f, 0.3),
    ),
}


def of_its_own(likelihood):
    """The likelihood's own log p(y | f), for arrays."""

    def log_density(y, f, **row):
        names, given = list(row), np.broadcast_arrays(y, f, *row.values())
        one = jax.vmap(lambda y, f, *extras: likelihood.log_prob(y, f, **dict(zip(names, extras))))
        with float64():
            return np.asarray(one(*(array.ravel() for array in given))).reshape(given[0].shape)

    return log_density


written_down = {type(noise.likelihood) for noise in NOISES.values()}
NOISES |= {name: Noise(kind(), of_its_own(kind())) for name, kind in LIKELIHOODS.items() if kind not in written_down}
