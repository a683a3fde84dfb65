"""E log p(y | f) under f ~ N(m, v) from draws, of a likelihood that is only evaluated."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.linalg import cho_solve
from jax.scipy.special import ndtri

__all__ = ["expected_by_draws", "stratified_normals"]


def stratified_normals(key: jax.Array, samples: int, rows: int) -> jax.Array:
    """Standard normal draws, shape (samples, rows): for each row one from every stratum of equal probability.

    >>> z = stratified_normals(jax.random.key(0), 4, 1000)
    >>> bool((z[:2] < 0.0).all() and (z[2:] > 0.0).all())
    True
    """
    # the end itself would be −∞
    u = jax.random.uniform(key, (samples, rows), minval=1e-9)
    return ndtri((jnp.arange(samples)[:, None] + u) / samples)


def expected_by_draws(
    log_prob: Callable[[jax.Array], jax.Array], mean: jax.Array, variance: jax.Array, z: jax.Array
) -> jax.Array:
    """E log p of each row from draws f = m + √v z, with derivatives in m and v that don't need those of log p.

    The derivatives are the scores' ∂/∂m = E[log p · z]/√v and ∂/∂v = E[log p · (z² − 1)]/2v (Dezfouli and Bonilla
    2015). Control variates are 1, z and z² − 1 times what fits log p best: what is left of it is all that chance acts
    on, and for Gaussian noise it is nothing. The fit is to the other one of two sets of draws: no bias comes of it.

    Parameters
    ----------
    log_prob : from f, shape (2, samples, rows), to log p(y | f), of the same shape.
    mean, variance : shape (rows,).
    z : two sets of standard normal draws, shape (2, samples, rows).

    Examples
    --------
    >>> z = jax.vmap(lambda key: stratified_normals(key, 5, 1))(jax.random.split(jax.random.key(0)))
    >>> slope = jax.jit(jax.grad(lambda m: expected_by_draws(lambda f: -0.5 * f**2, m, jnp.ones(1), z)[0]))
    >>> round(float(slope(jnp.full(1, 3.0))[0]), 3)
    -3.0
    """
    m, v = stop_gradient(mean), stop_gradient(variance)
    values = log_prob(m + jnp.sqrt(v) * z)
    variates = jnp.stack([jnp.ones_like(z), z, z**2 - 1.0], axis=-1)
    gram = jnp.einsum("esrp,esrq->erpq", variates, variates)
    moments = jnp.einsum("esrp,esr->erp", variates, values)
    fitted = cho_solve((jnp.linalg.cholesky(gram), True), moments[..., None])[::-1, ..., 0]
    left = values - jnp.einsum("esrp,erp->esr", variates, fitted)
    squares = jnp.array([1.0, 1.0, 2.0])  # E of the variates' squares
    estimates = squares * fitted + jnp.mean(variates * left[..., None], axis=1)
    value, along_z, along_square = stop_gradient(jnp.mean(estimates, axis=0).T)
    return value + along_z / jnp.sqrt(v) * (mean - m) + along_square / (2.0 * v) * (variance - v)
