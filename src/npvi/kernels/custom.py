"""A user's own function as a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npvi.kernels.base import Kernel
from npvi.lazy import jax, jnp

__all__ = ["Custom"]


class Custom(Kernel):
    """A user's own covariance function of two points.

    It must be a valid (positive semi-definite) covariance, and its correlation should fall with the Euclidean
    distance of the inputs, by which neighbours are chosen. It has no parameters that can be learned; for
    those write a subclass of `Kernel`.

    Parameters
    ----------
    function : callable
        ``function(x, z)`` in JAX, x and z of shape (d,), returning one number.
    name : str, optional
        The name under which the function is saved and asked for again. Its own name by default.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def cauchy(x, z):
    ...     return 1.0 / (1.0 + jnp.sum((x - z) ** 2))
    >>> float(Custom(cauchy)(jnp.zeros(2), jnp.array([0.0, 1.0])))
    0.5
    """

    static = ("function", "name")

    def __init__(self, function: Callable[[jax.Array, jax.Array], jax.Array], name: str | None = None) -> None:
        self.function = function
        self.name = name

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.function(x, z)

    def validate(self, n_inputs: int) -> None:
        point = jax.ShapeDtypeStruct((n_inputs,), np.float32)
        try:
            result = jax.eval_shape(lambda x, z: jnp.asarray(self.function(x, z)), point, point)
        except Exception as error:
            raise ValueError(
                f"Custom: {self.function!r} failed on two points of shape ({n_inputs},); it must be a "
                f"function of two points written with jax.numpy. It said: {type(error).__name__}: {error}"
            ) from error
        if result.shape != ():
            raise ValueError(
                f"Custom: {self.function!r} must return one number for two points of shape ({n_inputs},), "
                f"but returned an array of shape {result.shape}"
            )
