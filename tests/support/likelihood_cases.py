"""Every likelihood beside the distribution of SciPy that it should be, and integrals by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from npvi.likelihoods import (
    Bernoulli,
    Beta,
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    CensoredLogNormal,
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
from tests.support import likelihood_references as references


def softplus(f):
    return np.logaddexp(0.0, f)


@dataclass
class Case:
    likelihood: Likelihood
    given: Callable
    """f and the extra of the row → the SciPy distribution of y."""
    responses: list[float]
    exposures: list[float] = field(default_factory=lambda: [1.0])
    """What the extra is to be."""
    extra: str | None = None
    """The name of the data per row that the likelihood is given."""
    growing: bool = False
    """The moments grow like exp(f): beyond a grid at a large latent variance."""
    kink: Callable | None = None
    """y → the f at which log p(y | f) isn't smooth."""
    steep: bool = False
    """log p grows like exp(f), whose mean at a large latent variance is beyond quadrature."""
    starts_at_mean: bool = True
    """`initial_latent` is an f whose mean is about y."""

    @property
    def discrete(self) -> bool:
        return self.likelihood.support.discrete

    def own_log_prob(self, y, exposure):
        """The library's log p(y | f) as a function of an array f, for integrals of it.

        Not compiled: one operation after the other is shared by all likelihoods, a whole program is not.
        """
        row = {self.extra: exposure} if self.extra else {}

        def log_prob(f):
            with float64():
                return np.asarray(self.likelihood.log_prob(y, jnp.asarray(f), **row))

        return log_prob

    def row(self, exposure, n=1):
        return {self.extra: np.full(n, exposure)} if self.extra else {}

    def log_prob(self, y, f, exposure=1.0):
        frozen = self.given(f, exposure)
        return frozen.logpmf(y) if self.discrete else frozen.logpdf(y)


def weibull(f, e):
    return stats.weibull_min(1.2, scale=np.exp(f) / special.gamma(1.0 + 1.0 / 1.2))


CASES = {
    "gaussian": Case(
        Gaussian(0.3), lambda f, e: stats.norm(f, np.sqrt(0.3 + e)), [-2.0, 0.0, 5.5], [1e-6, 0.7], "noise_variance"
    ),
    "lognormal": Case(
        LogNormal(0.3),
        lambda f, e: stats.lognorm(np.sqrt(0.3 + e), scale=np.exp(f)),
        [0.01, 1.0, 30.0],
        [1e-6, 0.7],
        "noise_variance",
        growing=True,
        starts_at_mean=False,
    ),
    "poisson": Case(
        Poisson(), lambda f, e: stats.poisson(e * np.exp(f)), [0.0, 1.0, 40.0], [1.0, 2.5], "exposure", growing=True
    ),
    "poisson-softplus": Case(
        Poisson("softplus"), lambda f, e: stats.poisson(e * softplus(f)), [0.0, 1.0, 12.0], [1.0, 2.5], "exposure"
    ),
    "bernoulli": Case(Bernoulli(), lambda f, e: stats.bernoulli(special.expit(f)), [0.0, 1.0]),
    "bernoulli-probit": Case(Bernoulli("probit"), lambda f, e: stats.bernoulli(special.ndtr(f)), [0.0, 1.0]),
    "gamma": Case(Gamma(3.0), lambda f, e: stats.gamma(3.0, scale=np.exp(f) / 3.0), [0.05, 1.0, 20.0], growing=True),
    "exponential": Case(Exponential(), lambda f, e: stats.expon(scale=np.exp(f)), [0.05, 1.0, 20.0], growing=True),
    "weibull": Case(Weibull(1.2), weibull, [0.05, 1.0, 20.0], growing=True),
    "beta": Case(
        Beta(7.0), lambda f, e: stats.beta(7.0 * special.expit(f), 7.0 * special.expit(-f)), [0.003, 0.4, 0.98]
    ),
    "student-t": Case(StudentT(0.1, 4.0), lambda f, e: stats.t(4.0, f, 0.1), [-1.0, 0.3, 4.0]),
    "laplace": Case(Laplace(0.4), lambda f, e: stats.laplace(f, 0.4), [-1.0, 0.3, 4.0], kink=lambda y: y),
    "censored-gaussian": Case(CensoredGaussian(0.3), lambda f, e: stats.norm(f, np.sqrt(0.3)), [-2.0, 0.0, 5.5]),
    "censored-lognormal": Case(
        CensoredLogNormal(0.3), lambda f, e: stats.lognorm(np.sqrt(0.3), scale=np.exp(f)), [0.01, 1.0], growing=True
    ),
    "negative-binomial": Case(
        NegativeBinomial(2.3),
        lambda f, e: references.negative_binomial(e * np.exp(f), 2.3),
        [0.0, 1.0, 40.0],
        [1.0, 2.5],
        "exposure",
        growing=True,
    ),
    "negative-binomial-softplus": Case(
        NegativeBinomial(0.7, "softplus"),
        lambda f, e: references.negative_binomial(e * softplus(f), 0.7),
        [0.0, 12.0],
        [2.5],
        "exposure",
    ),
    "zero-inflated-poisson": Case(
        ZeroInflatedPoisson(0.2),
        lambda f, e: references.WithZeros(0.2, stats.poisson(e * np.exp(f))),
        [0.0, 1.0, 30.0],
        [2.5],
        "exposure",
        growing=True,
        steep=True,
    ),
    "zero-inflated-poisson-softplus": Case(
        ZeroInflatedPoisson(0.05, "softplus"),
        lambda f, e: references.WithZeros(0.05, stats.poisson(e * softplus(f))),
        [0.0, 12.0],
        [1.0, 2.5],
        "exposure",
    ),
    "zero-inflated-negative-binomial": Case(
        ZeroInflatedNegativeBinomial(0.1, 4.0),
        lambda f, e: references.WithZeros(0.1, references.negative_binomial(e * np.exp(f), 4.0)),
        [0.0, 1.0, 30.0],
        [2.5],
        "exposure",
        growing=True,
    ),
    "hurdle-poisson": Case(
        HurdlePoisson(0.3),
        lambda f, e: references.WithZeros(0.3, references.PositivePoisson(e * np.exp(f))),
        [0.0, 1.0, 30.0],
        [2.5],
        "exposure",
        growing=True,
        steep=True,
        starts_at_mean=False,
    ),
    "hurdle-poisson-softplus": Case(
        HurdlePoisson(0.6, "softplus"),
        lambda f, e: references.WithZeros(0.6, references.PositivePoisson(e * softplus(f))),
        [0.0, 1.0, 12.0],
        [1.0, 2.5],
        "exposure",
        starts_at_mean=False,
    ),
    "binomial": Case(Binomial(), lambda f, e: stats.binom(e, special.expit(f)), [0.0, 3.0, 12.0], [12.0], "trials"),
    "binomial-probit": Case(
        Binomial("probit"), lambda f, e: stats.binom(e, special.ndtr(f)), [0.0, 3.0, 5.0], [5.0], "trials"
    ),
    "beta-binomial": Case(
        BetaBinomial(3.0),
        lambda f, e: references.beta_binomial(e, 3.0 * special.expit(f), 3.0 * special.expit(-f)),
        [0.0, 2.0, 5.0],
        [5.0],
        "trials",
    ),
    "beta-binomial-probit": Case(
        BetaBinomial(40.0, "probit"),
        lambda f, e: references.beta_binomial(e, 40.0 * special.ndtr(f), 40.0 * special.ndtr(-f)),
        [0.0, 2.0, 5.0],
        [5.0],
        "trials",
    ),
    "ordinal": Case(
        Ordinal([-1.0, 0.2, 0.5, 2.0]),
        lambda f, e: references.ordinal([-1.0, 0.2, 0.5, 2.0], f),
        [0.0, 1.0, 2.0, 4.0],
        starts_at_mean=False,
    ),
    "tweedie": Case(
        Tweedie(1.5, 0.8),
        lambda f, e: references.Tweedie(e * np.exp(f), 0.8),
        [0.0, 0.03, 1.0, 20.0],
        [1.0, 2.5],
        "exposure",
        growing=True,
        steep=True,
        starts_at_mean=False,
    ),
}
LATENT = [(m, v) for m in (-2.0, 0.4, 3.0) for v in (1e-8, 1e-2, 1.0, 50.0, 300.0)]


#: of grids in f: enough for the narrowest density here under the widest prior
NODES = 10_001


def integrals(log_integrand, m, v, near, kink=None):
    """log ∫ exp(log_integrand(f)) N(f; m, v) df for arrays m, v by brute force: fine grids, refined where the mass is.

    `near` is another place where there may be some; `log_integrand` takes and returns arrays of shape (latents, nodes).
    """
    m, v, each = m[:, None], v[:, None], np.arange(len(m))
    low, high = np.minimum(m, near) - 12.0 * np.sqrt(v), np.maximum(m, near) + 12.0 * np.sqrt(v)
    for nodes in (NODES // 5, NODES // 5, NODES):
        f = low + (high - low) * np.linspace(0.0, 1.0, nodes)
        h = log_integrand(f) - 0.5 * (f - m) ** 2 / v
        inside = h > h.max(axis=1, keepdims=True) - 45.0
        first, last = inside.argmax(axis=1), nodes - 1 - inside[:, ::-1].argmax(axis=1)
        low = f[each, np.maximum(first - 1, 0)][:, None]
        high = f[each, np.minimum(last + 1, nodes - 1)][:, None]
    if kink is None:
        weights = np.full(f.shape, f[:, 1:2] - f[:, :1])
        weights[:, [0, -1]] *= 0.5
    else:
        f, weights = map(np.stack, zip(*(panels(*ends, kink) for ends in np.hstack([low, high]))))
        h = log_integrand(f) - 0.5 * (f - m) ** 2 / v
    peak = h.max(axis=1)
    total = np.sum(np.exp(h - peak[:, None]) * weights, axis=1)
    return peak + np.log(total) - 0.5 * np.log(2.0 * np.pi * v[:, 0])


def normal_nodes(m, v, kink=None):
    """Nodes f, shape (latents, nodes), and the weights of sums over them that are expectations for f ~ N(m, v)."""
    if kink is None:
        z, weights = np.linspace(-11.0, 11.0, NODES), np.full(NODES, 22.0 / (NODES - 1))
    else:
        z, weights = map(np.stack, zip(*(panels(-11.0, 11.0, (kink - a) / np.sqrt(b)) for a, b in zip(m, v))))
    return m[:, None] + np.sqrt(v)[:, None] * z, weights * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)


def panels(low, high, kink):
    """Nodes and weights on [low, high], as panels of Gauss–Legendre that end at the kink."""
    middle = np.clip(kink, low, high)
    ends = np.concatenate([np.linspace(low, middle, 401), np.linspace(middle, high, 401)])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * 0.5 * (nodes + 1.0)).ravel(), (width * 0.5 * weights).ravel()
