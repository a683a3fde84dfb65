"""The squared exponential kernel."""

from __future__ import annotations

from npvi.kernels.stationary import Stationary
from npvi.runtime.lazy import jax, jnp

__all__ = ["RBF"]


class RBF(Stationary, name="rbf", about="very smooth"):
    """Squared exponential kernel, k(x, z) = variance · exp(−½ d²/ℓ²): infinitely smooth functions.

    ℓ is a *length* and is squared. (Some software writes exp(−½ d²/ℓ) or exp(−d²/ℓ²); convert before
    comparing.)

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(RBF(length_scale=2.0)(jnp.zeros(1), jnp.array([2.0]))), 4)  # exp(-1/2)
    0.6065
    """

    def correlation(self, r2: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * r2)
