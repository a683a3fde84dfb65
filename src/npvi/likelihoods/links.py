"""Links: how the latent function becomes the mean of the response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from npvi.runtime.lazy import custom_jvp, jax, jnp, log_ndtr, ndtr

__all__ = ["PROBABILITY", "RATE", "Link", "rate_bend", "softplus"]


@dataclass(frozen=True)
class Link:
    """A monotone map from the latent f to a mean, and its companions.

    >>> float(RATE["softplus"].inverse(np.log(2.0)).round(6))
    0.0
    """

    name: str
    mean: Callable[[jax.Array], jax.Array]
    """The mean at f, in JAX."""
    log_mean: Callable[[jax.Array], jax.Array]
    """Its logarithm, in JAX, accurate where the mean itself underflows."""
    mean_numpy: Callable[[np.ndarray], np.ndarray]
    """The mean at f, in NumPy."""
    inverse: Callable[[np.ndarray], np.ndarray]
    """The f of a mean, in NumPy."""


# The formulas below share exp(−|f|), which makes them several times faster than those of jax.nn where both
# are needed. Their derivatives are given because autodiff stumbles over the kinks of |f| and max(f, 0) at f =
# 0.
@custom_jvp()
def _sigmoid(f: jax.Array) -> jax.Array:
    small = jnp.exp(-jnp.abs(f))
    return jnp.where(f < 0.0, small, 1.0) / (1.0 + small)


@custom_jvp()
def softplus(f: jax.Array) -> jax.Array:
    """log(1 + exp(f))."""
    return jnp.maximum(f, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(f)))


_sigmoid.defjvps(lambda tangent, value, _: tangent * value * (1.0 - value))
softplus.defjvps(lambda tangent, _, f: tangent * _sigmoid(f))


def _log_softplus(f: jax.Array) -> jax.Array:
    # Far left log(log(1 + e^f)) is f to all digits, and e^f underflows in the end. The branch not taken is
    # differentiated too: its argument is kept off 0, where the derivative is not a number.
    return jnp.where(f < -36.0, f, jnp.log(softplus(jnp.maximum(f, -36.0))))


def _inverse_softplus(mean: np.ndarray) -> np.ndarray:
    return mean + np.log(-np.expm1(-mean))


RATE = {
    "exp": Link("exp", lambda f: jnp.exp(f), lambda f: f, np.exp, np.log),
    "softplus": Link("softplus", softplus, _log_softplus, lambda f: np.logaddexp(0.0, f), _inverse_softplus),
}
"""Links to a positive mean."""

PROBABILITY = {
    "logit": Link("logit", _sigmoid, lambda f: -softplus(-f), special.expit, special.logit),
    "probit": Link("probit", ndtr, log_ndtr, special.ndtr, special.ndtri),
}
"""Links to a probability, symmetric: mean(−f) = 1 − mean(f)."""


def rate_bend(link: str, rate: float, exposure: np.ndarray | float) -> tuple[float, float] | None:
    """Where a log-density in λ = exposure · softplus(f) bends that is singular at |λ| ≥ `rate`; None for exp.

    With log(1 + exp f) at f = 0, and, where exposures are large, also where λ is about `rate`.

    >>> rate_bend("softplus", 0.01, 1.0)  # log 0.01 and 0
    (-4.61..., 0.0)
    """
    if link != "softplus":
        return None
    return float(np.log(-np.expm1(-rate / np.max(exposure, initial=1.0)))), 0.0
