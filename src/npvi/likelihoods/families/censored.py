"""Responses of which some are only known to be larger or smaller than a number."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from npvi.likelihoods.families.gaussian import Gaussian
from npvi.likelihoods.families.lognormal import LogNormal
from npvi.likelihoods.integrals.normal import log_normal_cdf
from npvi.likelihoods.integrals.probit_normal import expected_log_normal_cdf, expected_slopes
from npvi.likelihoods.support import CENSORING, Support
from npvi.runtime.lazy import jax, jnp

__all__ = ["CensoredGaussian", "CensoredLogNormal"]

_SINGULAR = 2.8 / 3.0
"""The zeros of Φ nearest to the real axis are 2.8 away: a third of it is the scale that counts."""


class CensoredGaussian(Gaussian, name="censored_gaussian", about="numbers, some of them only limits"):
    """Gaussian noise where some responses are limits: y ~ N(f, variance), or on one side of y.

    Parameters
    ----------
    variance : float
        Of the noise.

    Notes
    -----
    Takes `censored` per row: 0 where y was observed (the default), 1 where the true value is larger than y
    (right-censored: the end of the study, the top of the scale), -1 where it is smaller (a detection limit). `log_prob`
    then is the log-probability of that side. Mean, variance, quantiles and samples are those of the true value.

    Examples
    --------
    >>> round(float(CensoredGaussian(variance=1.0).log_prob(0.0, 0.0, censored=1.0)), 4)  # log(1/2)
    -0.6931
    """

    extras = ("censored",)
    extra_supports: ClassVar[dict[str, Support]] = {"censored": CENSORING}
    floors: ClassVar[dict[str, float]] = {"variance": 1e-6}  # beyond a limit log p bends as sharply as noise is small

    @property
    def resolution(self) -> float:
        return _SINGULAR * float(np.sqrt(self.variance))

    def log_prob(self, y: jax.Array, f: jax.Array, censored: Any = 0.0, **row: jax.Array) -> jax.Array:
        z = (f - y) / jnp.sqrt(self.variance)
        return jnp.where(censored == 0.0, super().log_prob(y, f), log_normal_cdf(censored * z))

    def initial_latent(self, y: np.ndarray, censored: Any = 0.0, **row: np.ndarray) -> np.ndarray:
        return y + censored * np.sqrt(self.variance)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, censored: Any = 0.0, **row: jax.Array
    ) -> jax.Array | None:
        observed = super().expected_log_prob(y, m, v)
        assert observed is not None  # which is in closed form
        return jnp.where(censored == 0.0, observed, _expected_limit(m - y, v, self.variance, censored))

    def expected_slopes(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, censored: Any = 0.0, **row: np.ndarray
    ) -> tuple[Any, ...] | None:
        above, sign = m - y, np.broadcast_to(censored, m.shape)
        return _with_limits(super().expected_slopes(y, m, v), above, v, self.variance, sign)

    def marginal_log_prob(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, censored: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        z = (m - y) / np.sqrt(v + self.variance)
        observed = super().marginal_log_prob(y, m, v)
        return np.where(np.equal(censored, 0.0), observed, special.log_ndtr(censored * z))


class CensoredLogNormal(LogNormal, name="censored_lognormal", about="positive numbers, some of them only limits"):
    """Log-normal noise where some responses are limits: log y ~ N(f, variance), or on one side of log y.

    Parameters
    ----------
    variance : float
        Of log y given f.

    Notes
    -----
    Takes `censored` per row: 0 where y was observed (the default), 1 where the true value is larger than y (a survival
    time that goes on), -1 where it is smaller (a concentration below the detection limit). `log_prob` then is the
    log-probability of that side. Mean, variance, quantiles and samples are those of the true value.

    Examples
    --------
    >>> round(float(CensoredLogNormal(variance=1.0).log_prob(1.0, 0.0, censored=-1.0)), 4)  # log(1/2)
    -0.6931
    """

    extras = ("censored",)
    extra_supports: ClassVar[dict[str, Support]] = {"censored": CENSORING}
    floors: ClassVar[dict[str, float]] = CensoredGaussian.floors

    @property
    def resolution(self) -> float:
        return _SINGULAR * float(np.sqrt(self.variance))

    def log_prob(self, y: jax.Array, f: jax.Array, censored: Any = 0.0, **row: jax.Array) -> jax.Array:
        z = (f - jnp.log(y)) / jnp.sqrt(self.variance)
        return jnp.where(censored == 0.0, super().log_prob(y, f), log_normal_cdf(censored * z))

    def initial_latent(self, y: np.ndarray, censored: Any = 0.0, **row: np.ndarray) -> np.ndarray:
        return np.log(y) + censored * np.sqrt(self.variance)

    def expected_log_prob(
        self, y: jax.Array, m: jax.Array, v: jax.Array, censored: Any = 0.0, **row: jax.Array
    ) -> jax.Array | None:
        observed = super().expected_log_prob(y, m, v)
        assert observed is not None  # which is in closed form
        return jnp.where(censored == 0.0, observed, _expected_limit(m - jnp.log(y), v, self.variance, censored))

    def expected_slopes(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, censored: Any = 0.0, **row: np.ndarray
    ) -> tuple[Any, ...] | None:
        above, sign = m - np.log(y), np.broadcast_to(censored, m.shape)
        return _with_limits(super().expected_slopes(y, m, v), above, v, self.variance, sign)

    def marginal_log_prob(
        self, y: np.ndarray, m: np.ndarray, v: np.ndarray, censored: Any = 0.0, **row: np.ndarray
    ) -> np.ndarray:
        z = (m - np.log(y)) / np.sqrt(v + self.variance)
        observed = super().marginal_log_prob(y, m, v)
        return np.where(np.equal(censored, 0.0), observed, special.log_ndtr(censored * z))


def _expected_limit(above: jax.Array, v: jax.Array, variance: Any, censored: jax.Array) -> jax.Array:
    """E log Φ(censored · (f − limit)/√variance), where f is `above` the limit on average."""
    limit = censored != 0.0
    z = jnp.where(limit, censored * above / jnp.sqrt(variance), 0.0)
    return expected_log_normal_cdf(z, jnp.where(limit, v / variance, 1.0))


def _with_limits(
    observed: tuple[Any, ...] | None, above: np.ndarray, v: np.ndarray, variance: float, censored: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Those of rows whose response was observed, and of limits, that f is `above` on average."""
    assert observed is not None  # which is in closed form
    slopes = [np.array(np.broadcast_to(slope, censored.shape), dtype=np.float64) for slope in observed]
    limits = np.flatnonzero(censored)
    if len(limits):
        sign, sd = censored[limits], np.sqrt(variance)
        scale = 1.0
        for all_rows, slope in zip(slopes, expected_slopes(sign * above[limits] / sd, v[limits] / variance)):
            all_rows[limits] = scale * slope
            scale = scale * sign / sd
    return tuple(slopes)
