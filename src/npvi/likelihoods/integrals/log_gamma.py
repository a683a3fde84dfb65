"""Differences of log Γ that keep their digits where log Γ itself is large."""

from __future__ import annotations

from typing import Any

from npvi.runtime.lazy import jnp

__all__ = ["log_binomial", "log_rising", "log_rising_ratio", "stirling_remainder"]

_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8


def stirling_remainder(x: Any, xp: Any = jnp) -> Any:
    """s(x) = log Γ(x) − [(x − ½) log x − x + ½ log 2π] for x > 0; `xp` is jax.numpy or numpy.

    Elementary functions only, so that derivatives of any order cost no more than the value.

    >>> round(float(stirling_remainder(1.0)), 4)  # 1 − ½ log 2π
    0.0811
    """
    large = x > _SHIFT
    x_small, x_large = xp.where(large, 1.0, x), xp.where(large, x, 1.0 + _SHIFT)
    # Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7)), and the series is good to all digits at x + 8
    shifted = x_small + _SHIFT
    product = x_small
    for k in range(1, _SHIFT):
        product = product * (x_small + k)
    small = (shifted - 0.5) * xp.log(shifted) - xp.log(product) - (x_small - 0.5) * xp.log(x_small) - _SHIFT
    series = _series(xp.where(large, x_large, shifted))
    return xp.where(large, series, small + series)


def log_rising(x: Any, n: Any, xp: Any = jnp) -> Any:
    """log Γ(x + n) − log Γ(x) for x > 0 and n ≥ 0, also where n is tiny beside x.

    >>> round(float(log_rising(2.0, 3.0)), 3)  # log(2 · 3 · 4)
    3.178
    """
    total = x + n
    difference = stirling_remainder(total, xp) - stirling_remainder(x, xp)
    return (x - 0.5) * xp.log1p(n / x) + n * (xp.log(total) - 1.0) + difference


def log_rising_ratio(x: Any, n: Any, xp: Any = jnp) -> Any:
    """log of x (x + 1) … (x + n − 1) / n!, also where n is so large that neither alone keeps a digit.

    >>> import numpy as np
    >>> round(float(log_rising_ratio(3.0, 2e15, np) - 2.0 * np.log(2e15)), 6)  # (n + 1)(n + 2)/2
    -0.693147
    """
    difference = stirling_remainder(x + n, xp) - stirling_remainder(x, xp)
    difference = difference - stirling_remainder(1.0 + n, xp) + stirling_remainder(1.0, xp)
    return (x - 0.5) * xp.log1p(n / x) - 0.5 * xp.log1p(n) + n * xp.log1p((x - 1.0) / (n + 1.0)) + difference


def log_binomial(n: Any, k: Any, xp: Any = jnp) -> Any:
    """log of n choose k.

    >>> round(float(log_binomial(5.0, 2.0)), 3)  # log 10
    2.303
    """
    return log_rising(n - k + 1.0, k, xp) - log_rising(1.0, k, xp)


def _series(x: Any) -> Any:
    square, total = 1.0 / (x * x), 0.0
    for coefficient in reversed(_SERIES):
        total = total * square + coefficient
    return total / x
