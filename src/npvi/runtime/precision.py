"""Double precision for JAX, explicit and local: the user's global setting is never touched."""

from __future__ import annotations

from contextlib import AbstractContextManager

from npvi.runtime.lazy import jax

__all__ = ["float64"]


def float64() -> AbstractContextManager:
    """Context in which JAX computes in float64.

    >>> import jax.numpy as jnp
    >>> with float64():
    ...     print(jnp.zeros(1).dtype)
    float64
    >>> jnp.zeros(1).dtype.name
    'float32'
    """
    return jax.enable_x64(True)
