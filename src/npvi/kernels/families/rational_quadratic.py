"""The rational quadratic kernel."""

from __future__ import annotations

from collections.abc import Sequence

from npvi.kernels.stationary import Stationary
from npvi.runtime.lazy import jax, jnp

__all__ = ["RationalQuadratic"]


class RationalQuadratic(Stationary, name="rational_quadratic", about="many length scales at once"):
    """Rational quadratic kernel, k(x, z) = variance · (1 + d² / (2 α ℓ²))^(−α): a mixture of RBFs of many
    lengths.

    Parameters
    ----------
    length_scale : float or sequence of float
        ℓ, one for all inputs or one per input.
    alpha : float
        Small values mix widely different lengths; α → ∞ is `RBF`.
    variance : float
        k(x, x).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> kernel = RationalQuadratic(length_scale=1.0, alpha=0.5)
    >>> round(float(kernel(jnp.zeros(1), jnp.array([1.0]))), 4)  # 2^(-1/2)
    0.7071
    """

    def __init__(self, length_scale: float | Sequence[float] = 1.0, alpha: float = 1.0, variance: float = 1.0) -> None:
        super().__init__(length_scale, variance)
        self.alpha = alpha

    def correlation(self, r2: jax.Array) -> jax.Array:
        # log1p keeps the limit of large alpha accurate
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * r2 / self.alpha))
