"""Every likelihood beside the distribution of SciPy that it should be, and integrals by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special, stats

from npvi.likelihoods import Bernoulli, Gaussian, Likelihood, LogNormal, Poisson
from npvi.likelihoods.support import POSITIVE
from npvi.precision import float64


class Gamma(Likelihood):
    """A continuous likelihood without a single closed form: the general routes have to do."""

    support = POSITIVE
    log_concave = True

    def __init__(self, shape=3.0):
        self.shape = shape

    def log_prob(self, y, f):
        a = self.shape
        return a * (jnp.log(a) - f) + (a - 1.0) * jnp.log(y) - a * y * jnp.exp(-f) - gammaln(a)

    def conditional_mean(self, f):
        return jnp.exp(f)

    def conditional_variance(self, f):
        return jnp.exp(2.0 * f) / self.shape

    def cdf(self, y, f):
        return special.gammainc(self.shape, self.shape * np.maximum(y, 0.0) * np.exp(-f))

    def sample(self, rng, f):
        return rng.gamma(self.shape, np.exp(f) / self.shape)

    def initial_latent(self, y):
        return np.log(y)


class StudentT(Likelihood):
    """Not log-concave: with an outlier the posterior of f has two modes."""

    resolution = 0.06  # poles at y ± 0.2i, a third of which is the scale that counts
    static = ("df",)

    def __init__(self, scale=0.1, df=4.0):
        self.scale = scale
        self.df = df

    def log_prob(self, y, f):
        half = 0.5 * (self.df + 1.0)
        constant = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * jnp.log(self.df * jnp.pi) - jnp.log(self.scale)
        return constant - half * jnp.log1p(((y - f) / self.scale) ** 2 / self.df)

    def conditional_mean(self, f):
        return f

    def conditional_variance(self, f):
        return self.scale**2 * self.df / (self.df - 2.0) * jnp.ones_like(f)

    def cdf(self, y, f):
        return special.stdtr(self.df, (y - f) / self.scale)

    def sample(self, rng, f):
        return f + self.scale * rng.standard_t(self.df, np.shape(f))

    def initial_latent(self, y):
        return np.array(y)


def softplus(f):
    return np.logaddexp(0.0, f)


@dataclass
class Case:
    likelihood: Likelihood
    given: Callable
    """f, exposure → the SciPy distribution of y."""
    responses: list[float]
    exposures: list[float] = field(default_factory=lambda: [1.0])

    @property
    def discrete(self) -> bool:
        return self.likelihood.support.discrete

    @cached_property
    def _compiled(self) -> Callable:
        def log_prob(f, y, exposure):
            return self.likelihood.log_prob(y, f, **({"exposure": exposure} if self.likelihood.extras else {}))

        return jax.jit(jax.vmap(log_prob, in_axes=(0, None, None)))

    def own_log_prob(self, y, exposure):
        """The library's log p(y | f) as a function of an array f, for integrals of it."""

        def log_prob(f):
            with float64():
                return np.asarray(self._compiled(f, y, exposure))

        return log_prob

    def row(self, exposure, n=1):
        return {"exposure": np.full(n, exposure)} if self.likelihood.extras else {}

    def log_prob(self, y, f, exposure=1.0):
        frozen = self.given(f, exposure)
        return frozen.logpmf(y) if self.discrete else frozen.logpdf(y)


CASES = {
    "gaussian": Case(Gaussian(0.3), lambda f, e: stats.norm(f, np.sqrt(0.3)), [-2.0, 0.0, 5.5]),
    "lognormal": Case(LogNormal(0.3), lambda f, e: stats.lognorm(np.sqrt(0.3), scale=np.exp(f)), [0.01, 1.0, 30.0]),
    "poisson": Case(Poisson(), lambda f, e: stats.poisson(e * np.exp(f)), [0.0, 1.0, 40.0], [1.0, 2.5]),
    "poisson-softplus": Case(
        Poisson("softplus"), lambda f, e: stats.poisson(e * softplus(f)), [0.0, 1.0, 12.0], [1.0, 2.5]
    ),
    "bernoulli": Case(Bernoulli(), lambda f, e: stats.bernoulli(special.expit(f)), [0.0, 1.0]),
    "bernoulli-probit": Case(Bernoulli("probit"), lambda f, e: stats.bernoulli(special.ndtr(f)), [0.0, 1.0]),
    "gamma": Case(Gamma(), lambda f, e: stats.gamma(3.0, scale=np.exp(f) / 3.0), [0.05, 1.0, 20.0]),
    "student-t": Case(StudentT(), lambda f, e: stats.t(4.0, f, 0.1), [-1.0, 0.3, 4.0]),
}
LATENT = [(m, v) for m in (-2.0, 0.4, 3.0) for v in (1e-8, 1e-2, 1.0, 50.0, 300.0)]


def integral(log_integrand, m, v, near=()):
    """log ∫ exp(log_integrand(f)) N(f; m, v) df by brute force: a fine grid, refined where the mass is."""
    sd = np.sqrt(v)
    low, high = min([m, *near]) - 12.0 * sd, max([m, *near]) + 12.0 * sd
    for n in (20_001, 20_001, 20_000):
        f = np.linspace(low, high, n)
        h = log_integrand(f) - 0.5 * (f - m) ** 2 / v
        inside = np.flatnonzero(h > h.max() - 45.0)
        edges = f[max(inside[0] - 1, 0)], f[min(inside[-1] + 1, n - 1)]
        low, high = edges
    return h.max() + np.log(np.trapezoid(np.exp(h - h.max()), f)) - 0.5 * np.log(2.0 * np.pi * v)


def expectation(function, m, v):
    """E function(f) for f ~ N(m, v), by a fine grid in z."""
    z = np.linspace(-11.0, 11.0, 100_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.trapezoid(function(m + np.sqrt(v) * z) * density, z)
