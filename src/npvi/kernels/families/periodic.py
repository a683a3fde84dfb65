"""The periodic kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from npvi.kernels.base import Frame, Kernel
from npvi.runtime.lazy import jax, jnp

__all__ = ["Periodic"]


class Periodic(Kernel, name="periodic", about="repeats itself"):
    """Periodic kernel, k(x, z) = variance · exp(−2 Σ_j sin²(π (x_j − z_j) / period_j) / ℓ_j²).

    It is `RBF` on circles of radius 1: a step of a whole period comes back to the same point. ℓ is therefore
    a length on that circle (a half turn is a distance of 2), not in the units of the inputs.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    period : float or sequence of float
        One for all inputs or one per input, in the units of the inputs.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> year = Periodic(length_scale=1.0, period=365.25)
    >>> [round(float(year(jnp.zeros(1), jnp.array([days]))), 4) for days in (365.25, 182.625)]
    [1.0, 0.1353]
    """

    def __init__(
        self,
        length_scale: float | Sequence[float] = 1.0,
        period: float | Sequence[float] = 1.0,
        variance: float = 1.0,
    ) -> None:
        self.length_scale = length_scale
        self.period = period
        self.variance = variance

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        half_chord = jnp.sin(jnp.pi * (x - z) / jnp.asarray(self.period)) / jnp.asarray(self.length_scale)
        return self.variance * jnp.exp(-2.0 * jnp.sum(half_chord**2))

    def validate(self, n_inputs: int) -> None:
        super().validate(n_inputs)
        self._check_one_per_input("length_scale", n_inputs)
        self._check_one_per_input("period", n_inputs)

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        period = np.broadcast_to(np.asarray(self.period, dtype=np.float64), X.shape[1:])
        precision = np.broadcast_to(np.asarray(self.length_scale, dtype=np.float64) ** -2, X.shape[1:])
        angle = 2.0 * np.pi * X / period
        circles = np.hstack([np.cos(angle), np.sin(angle)])
        return {("circles", *period.tolist()): Frame(circles, np.tile(precision, 2))}
