"""Counts with more zeros than their distribution explains."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.families.negative_binomial import initial_dispersion
from npvi.likelihoods.families.rates import Rates, few_counts
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.moments import predictive_moments
from npvi.parameters import Interval
from npvi.runtime.arrays import Number
from npvi.runtime.lazy import jax, jnp

__all__ = ["initial_inflation"]

#: log-odds of a tenth: what is taken for structural where nothing says
_FEW_ZEROS = -2.2


def initial_inflation(y: np.ndarray, dispersion: float) -> float:
    """Inflation of Poisson counts with the variance that this dispersion would give them, if there are zeros enough.

    Both add to the variance in proportion to mean²: inflation / (1 − inflation), or 1 / dispersion.

    >>> initial_inflation(np.array([0.0, 0.0, 2.0, 9.0]), 3.0)
    0.25
    """
    return float(np.clip(1.0 / (1.0 + dispersion), 0.01, np.clip(np.mean(y == 0.0), 0.01, 0.9)))


class _ZeroInflated(Rates):
    """With probability `inflation` y is 0 whatever f is, else it follows `counts`.

    log p(0 | f) levels off at log(inflation) as f grows: it is not concave.
    """

    domains: ClassVar = {"inflation": Interval(0.0, 1.0)}
    inflation: Any

    @property
    def counts(self) -> Likelihood:
        """The likelihood of the counts that are not structural zeros."""
        raise NotImplementedError

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        log_counts = jnp.log1p(-self.inflation) + self.counts.log_prob(y, f, **row)
        return jnp.where(y > 0.0, log_counts, jnp.logaddexp(jnp.log(self.inflation), log_counts))

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return (1.0 - self.inflation) * self.counts.conditional_mean(f, **row)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        mean, variance = self.counts.conditional_mean(f, **row), self.counts.conditional_variance(f, **row)
        return (1.0 - self.inflation) * (variance + self.inflation * mean**2)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        structural = np.where(np.asarray(y) < 0.0, 0.0, self.inflation)
        return structural + (1.0 - np.asarray(self.inflation)) * self.counts.cdf(y, f, **row)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        draws = self.counts.sample(rng, f, **row)
        return np.where(rng.random(np.shape(draws)) < self.inflation, 0.0, draws)

    def initial_latent(self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> np.ndarray:
        return self.counts.initial_latent(y, exposure=(1.0 - np.asarray(self.inflation)) * exposure)

    def initial_parameters(
        self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> dict[str, Number]:
        return {"inflation": initial_inflation(y, initial_dispersion(y, exposure))}

    def unseen(self, y: np.ndarray) -> dict[str, list[tuple[float, float] | None]]:
        return {**self.counts.unseen(y), "inflation": few_counts(y, _FEW_ZEROS)}

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        # the mixture of two integrals, because the integrand of the whole may have two modes
        log_counts = np.log1p(-np.asarray(self.inflation)) + predictive_log_prob(self.counts, y, m, v, row)
        return np.where(y > 0.0, log_counts, np.logaddexp(np.log(self.inflation), log_counts))

    def beside_zeros(self) -> tuple[float, Likelihood]:
        return float(self.inflation), self.counts

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = predictive_moments(self.counts, m, v, row)
        share = 1.0 - np.asarray(self.inflation)
        with np.errstate(over="ignore"):
            return share * mean, share * (variance + self.inflation * mean**2)
