"""A user's own function as a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from npvi.kernels.base import Kernel
from npvi.parameters import OwnParameters, check_mapping, check_name
from npvi.runtime.lazy import jax, jnp

__all__ = ["Custom"]


class Custom(OwnParameters, Kernel):
    """A user's own covariance function of two points, with parameters that can be learned.

    It must be a valid (positive semi-definite) covariance, and its correlation should fall with the Euclidean
    distance of the inputs, by which neighbours are chosen.

    Parameters
    ----------
    function : callable
        ``function(x, z, **params)`` in JAX, x and z of shape (d,), returning one number.
    params : mapping from names to numbers or `npvi.parameters.Parameter`, optional
        Its parameters, as those of `npvi.likelihoods.Custom`: ``{"scale": positive(1.0), "power": bounded(1.0, 0.1,
        2.0), "order": fixed(3.0)}``. Numbers are positive. Learning starts from them, with gradients by JAX.
    name : str, optional
        The name under which the function is saved and asked for again. Its own name by default.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def cauchy(x, z, scale):
    ...     return 1.0 / (1.0 + jnp.sum((x - z) ** 2) / scale**2)
    >>> kernel = Custom(cauchy, {"scale": 2.0})
    >>> float(kernel(jnp.zeros(2), jnp.array([0.0, 2.0])))
    0.5
    >>> kernel.replace(scale=3.0).scale
    3.0
    """

    static = ("function", "params", "name")
    stored: ClassVar[dict[str, str]] = {"function": "function", "name": "name"}

    def __init__(
        self,
        function: Callable[..., jax.Array],
        params: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if isinstance(params, str) and name is None:  # the name came second before there were parameters
            params, name = None, params
        self.function = function
        self.params = check_mapping(params)
        self.name = check_name(name)

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.function(x, z, **self.plain_params())

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        params = f", params={dict(self.params)!r}" if self.params else ""
        return f"Custom({self._function_name}{params})"

    def validate(self, n_inputs: int) -> None:
        self._check_params("x", "z")
        point = jax.ShapeDtypeStruct((n_inputs,), np.float32)
        try:
            result = jax.eval_shape(lambda x, z: jnp.asarray(self(x, z)), point, point)
        except Exception as error:
            arguments = "" if not self.params else f" and of params ({', '.join(self.params)})"
            raise ValueError(
                f"Custom: {self.function!r} failed on two points of shape ({n_inputs},); it must be a "
                f"function of two points{arguments} written with jax.numpy. It said: {type(error).__name__}: {error}"
            ) from error
        if result.shape != ():
            raise ValueError(
                f"Custom: {self.function!r} must return one number for two points of shape ({n_inputs},), "
                f"but returned an array of shape {result.shape}"
            )
