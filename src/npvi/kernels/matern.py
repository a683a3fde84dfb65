"""Matérn kernels of half-integer smoothness ν, with r = d/ℓ."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from npvi.kernels.stationary import Stationary, safe_sqrt

__all__ = ["Matern12", "Matern32", "Matern52"]


class Matern12(Stationary):
    """Exponential kernel, k(x, z) = variance · exp(−r), r = d/ℓ: continuous, rough functions.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(Matern12(length_scale=2.0)(jnp.zeros(1), jnp.array([2.0]))), 4)  # exp(-1)
    0.3679
    """

    def correlation(self, r2: jax.Array) -> jax.Array:
        return jnp.exp(-safe_sqrt(r2))


class Matern32(Stationary):
    """Matérn kernel with ν = 3/2, k(x, z) = variance · (1 + √3 r) exp(−√3 r), r = d/ℓ: once differentiable
    functions.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(Matern32(length_scale=2.0)(jnp.zeros(1), jnp.array([2.0]))), 4)
    0.4834
    """

    def correlation(self, r2: jax.Array) -> jax.Array:
        s = safe_sqrt(3.0 * r2)
        return (1.0 + s) * jnp.exp(-s)


class Matern52(Stationary):
    """Matérn kernel with ν = 5/2, k(x, z) = variance · (1 + √5 r + 5r²/3) exp(−√5 r), r = d/ℓ: twice
    differentiable.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(Matern52(length_scale=2.0)(jnp.zeros(1), jnp.array([2.0]))), 4)
    0.524
    """

    def correlation(self, r2: jax.Array) -> jax.Array:
        s = safe_sqrt(5.0 * r2)
        return (1.0 + s + s * s / 3.0) * jnp.exp(-s)
