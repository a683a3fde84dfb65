"""Distributions of y with the methods that scores ask for, for programs that have none of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special, stats

__all__ = ["Mixture", "RoundedLogNormal", "latent_normal"]

#: a latent variance beyond this says no more than that nothing is known
_LARGEST = 1e4


def latent_normal(noise: str, mean: np.ndarray, var: np.ndarray, number: float | None = None) -> Any:
    """A `Predictive` for f ~ N(mean, var); `number` is the noise's: log-normal variance, gamma shape, dispersion."""
    # imported here: choosing among mixtures is part of a fit whose memory is counted
    from npvi.likelihoods import Gamma, LogNormal, NegativeBinomial, Poisson
    from npvi.predictive.base import Predictive

    likelihoods: dict[str, Any] = {"lognormal": LogNormal, "gamma": Gamma, "negative_binomial": NegativeBinomial}
    likelihood = Poisson() if noise == "poisson" else likelihoods[noise](number)
    return Predictive(likelihood, np.asarray(mean, float), np.clip(np.asarray(var, float), 0.0, _LARGEST))


class _Forecast:
    """What `npvi.predictive.calibration` and `npvi.diagnostics.scores` use of a `Predictive`, besides its methods."""

    def __init__(self, discrete: bool) -> None:
        self.likelihood = SimpleNamespace(support=SimpleNamespace(discrete=discrete))
        self.row: dict[str, Any] = {}


class Mixture(_Forecast):
    """An even mixture, at each row, of negative binomial or log-normal distributions.

    Parameters
    ----------
    counts : bool
        Negative binomial; else log-normal.
    centre : (rows, parts) means of the counts, or of log y.
    spread : broadcasts to (rows, parts); dispersions of the counts, or variances of log y.
    """

    def __init__(self, counts: bool, centre: np.ndarray, spread: Any) -> None:
        super().__init__(counts)
        self.counts = counts
        self.centre, self.spread = np.broadcast_arrays(centre, np.asarray(spread, dtype=np.float64))

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        y = y[:, None]
        if self.counts:
            parts = self._negative_binomial(self.centre, self.spread).logpmf(y)
        else:
            z = (np.log(y) - self.centre) ** 2 / self.spread
            parts = -0.5 * (z + np.log(2.0 * np.pi * self.spread)) - np.log(y)
        return special.logsumexp(parts, axis=1) - np.log(self.centre.shape[1])

    def cdf(self, y: np.ndarray) -> np.ndarray:
        y = y[:, None]
        if self.counts:
            parts = self._negative_binomial(self.centre, self.spread).cdf(y)
        else:
            parts = special.ndtr((np.log(y) - self.centre) / np.sqrt(self.spread))
        return parts.mean(axis=1)

    def sample(self, n: int, seed: Any = None) -> np.ndarray:
        rng = np.random.default_rng(seed)
        rows = np.arange(len(self.centre))
        part = rows, rng.integers(self.centre.shape[1], size=(n, len(rows)))
        centre, spread = self.centre[part], self.spread[part]
        if self.counts:
            return self._negative_binomial(centre, spread).rvs(random_state=rng).astype(np.float64)
        return np.exp(rng.normal(centre, np.sqrt(spread)))

    @staticmethod
    def _negative_binomial(mean: np.ndarray, dispersion: np.ndarray) -> Any:
        return stats.nbinom(dispersion, dispersion / (dispersion + mean))


class RoundedLogNormal(_Forecast):
    """Counts y for which log(1 + y) is normal before rounding: P(Y ≤ y) = Φ((log(y + 3/2) − mean)/sd)."""

    def __init__(self, mean: np.ndarray, sd: np.ndarray) -> None:
        super().__init__(discrete=True)
        self.mean, self.sd = mean, sd

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        upper, lower = self._standard(y), self._standard(y - 1.0)
        # on the left of 0, where the tail keeps its digits; Φ is symmetric
        flip = lower > 0.0
        upper, lower = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
        above = special.log_ndtr(upper)
        return above + np.log1p(-np.exp(special.log_ndtr(lower) - above))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return special.ndtr(self._standard(y))

    def sample(self, n: int, seed: Any = None) -> np.ndarray:
        z = np.random.default_rng(seed).normal(self.mean, self.sd, size=(n, len(self.mean)))
        return np.maximum(np.round(np.expm1(z)), 0.0)

    def _standard(self, y: np.ndarray) -> np.ndarray:
        below = y < 0.0  # where there are no counts
        return np.where(below, -np.inf, (np.log(np.where(below, 0.0, y) + 1.5) - self.mean) / self.sd)
