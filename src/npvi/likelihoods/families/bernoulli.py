"""Yes or no."""

from __future__ import annotations

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.logistic_normal import expected_softplus
from npvi.likelihoods.links import PROBABILITY
from npvi.likelihoods.support import BINARY
from npvi.runtime.lazy import jax

__all__ = ["Bernoulli"]


class Bernoulli(Likelihood, name="bernoulli", about="yes or no, 0 or 1"):
    """Binary responses, P(y = 1) = link(f), y in {0, 1}.

    Parameters
    ----------
    link : {"logit", "probit"}
        The logistic function, or the normal distribution function.

    Examples
    --------
    >>> round(float(Bernoulli().log_prob(1.0, 0.0)), 4)  # log(1/2)
    -0.6931
    """

    support = BINARY
    log_concave = True
    static = ("link",)
    links = PROBABILITY

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        # both links are symmetric: 1 − link(f) = link(−f), without loss of digits
        return self.links[self.link].log_mean((2.0 * y - 1.0) * f)

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array | None:
        return -expected_softplus((1.0 - 2.0 * y) * m, v) if self.link == "logit" else None

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return self.links[self.link].mean(f)

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return self.conditional_mean(f) * self.conditional_mean(-f)

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        y, f = np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)
        return np.where(y < 0.0, 0.0, np.where(y < 1.0, self.links[self.link].mean_numpy(-f), 1.0))

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        probability = self.links[self.link].mean_numpy(np.asarray(f, dtype=np.float64))
        return (rng.random(probability.shape) < probability).astype(np.float64)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return 2.0 * np.asarray(y, dtype=np.float64) - 1.0

    def marginal_log_prob(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray | None:
        if self.link != "probit":
            return None
        return special.log_ndtr((2.0 * y - 1.0) * m / np.sqrt(1.0 + v))

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        if self.link != "probit":
            return None
        z = m / np.sqrt(1.0 + v)
        return special.ndtr(z), special.ndtr(z) * special.ndtr(-z)

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray | None:
        if self.link != "probit":
            return None
        return np.where(y < 0.0, 0.0, np.where(y < 1.0, special.ndtr(-m / np.sqrt(1.0 + v)), 1.0))
