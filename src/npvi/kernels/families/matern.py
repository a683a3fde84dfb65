"""Matérn kernels of half-integer smoothness ν, with r = d/ℓ."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from npvi.kernels.stationary import Stationary, safe_sqrt
from npvi.runtime.lazy import jax, jnp

__all__ = ["SMOOTHNESS", "Matern", "Matern12", "Matern32", "Matern52"]


class Matern12(Stationary, name="matern12", about="rough"):
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


class Matern32(Stationary, name="matern32", about="once differentiable"):
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


class Matern52(Stationary, name="matern52", about="twice differentiable"):
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


#: the smoothness that `Matern` may have, and the correlation at squared distance r² that goes with it
SMOOTHNESS = {0.5: Matern12.correlation, 1.5: Matern32.correlation, 2.5: Matern52.correlation}


class Matern(Stationary, name="matern", about="smoothness learned"):
    """Matérn kernel whose smoothness ν is one of 1/2, 3/2 and 5/2, or for the data to say.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    variance : float
        k(x, x).
    smoothness : {0.5, 1.5, 2.5} or None
        ν. None: learned, by the bound, where the model learns; 3/2 where it doesn't.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(Matern(length_scale=2.0, smoothness=0.5)(jnp.zeros(1), jnp.array([2.0]))), 4)  # exp(-1)
    0.3679
    """

    static = ("smoothness",)

    def __init__(
        self,
        length_scale: float | Sequence[float] = 1.0,
        variance: float = 1.0,
        smoothness: float | None = None,
    ) -> None:
        super().__init__(length_scale, variance)
        self.smoothness = smoothness

    def correlation(self, r2: jax.Array) -> jax.Array:
        return SMOOTHNESS[1.5 if self.smoothness is None else self.smoothness](self, r2)

    def validate(self, n_inputs: int) -> None:
        super().validate(n_inputs)
        if self.smoothness is not None and not (isinstance(self.smoothness, Real) and self.smoothness in SMOOTHNESS):
            choices = ", ".join(map(str, SMOOTHNESS))
            raise ValueError(f"Matern: smoothness must be one of {choices}, or None; got {self.smoothness!r}")

    def choices(self, X: np.ndarray) -> dict[str, tuple[float, ...]]:
        return {"smoothness": tuple(SMOOTHNESS)} if self.smoothness is None else {}
