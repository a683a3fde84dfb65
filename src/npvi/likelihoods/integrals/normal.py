"""The normal distribution function, in JAX, with tails that keep their digits and their derivatives."""

from __future__ import annotations

from npvi.runtime.lazy import jax, jnp, ndtr

__all__ = ["log_normal_cdf"]

_TERMS = 10


def log_normal_cdf(x: jax.Array) -> jax.Array:
    """log Φ(x).

    Far left it is −x²/2 − log(−x √2π) + log(1 − 1/x² + 3/x⁴ − …), which autodiff turns into derivatives without
    cancellation; those of JAX's own `log_ndtr` lose half their digits there.

    >>> round(float(log_normal_cdf(jnp.asarray(-40.0))), 3)
    -804.608
    """
    x = jnp.asarray(x, dtype=jnp.result_type(float))
    far, right = x < (-20.0 if x.dtype == jnp.float64 else -7.0), x > 0.0
    # the branches not taken are differentiated too: each gets an argument that it can bear
    middle = jnp.log(ndtr(jnp.where(far | right, -1.0, x)))
    upper = jnp.log1p(-ndtr(-jnp.where(right, x, 1.0)))
    left = jnp.where(far, x, -30.0)
    series = jnp.ones_like(left)
    for n in range(_TERMS, 0, -1):
        series = 1.0 - (2 * n - 1) / left**2 * series
    tail = -0.5 * left**2 - jnp.log(-left) - 0.5 * jnp.log(2.0 * jnp.pi) + jnp.log(series)
    return jnp.where(far, tail, jnp.where(right, upper, middle))
