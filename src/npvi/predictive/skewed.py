"""Distributions that are nearly normal but for their skewness: log-normal ones, shifted and scaled."""

from __future__ import annotations

import numpy as np

from npvi.runtime.arrays import Array

__all__ = ["normal_score", "skewed_score"]

#: skewness beyond which a first-order correction says no more than that there is much
_MOST = 1.0
#: skewness that is none
_LEAST = 1e-6


def skewed_score(z: Array | float, skewness: Array) -> Array:
    """What stands for z ~ N(0, 1) where third derivatives say that it is skewed: mean 0, third moment γ, variance
    1 + γ²/2; it grows with z.

    Of φ(z) exp(γ H₃(z)/6) to second order in γ: a Gaussian that leaves γ out is too narrow, too. It is s(exp(a z −
    a²/2) − 1)/t with t² = exp(a²) − 1, whose skewness is t³ + 3t; that of x < 0 is of −x.

    >>> z = np.random.default_rng(0).standard_normal(1_000_000)
    >>> x = skewed_score(z, np.full(len(z), -0.5))
    >>> [round(float(np.mean(x**k)), 2) + 0.0 for k in (1, 2, 3)]
    [0.0, 1.13, -0.5]
    """
    sign, a, scale = _shape(skewness)
    with np.errstate(invalid="ignore"):  # of an infinite z without skewness
        return np.where(a > 0.0, sign * np.expm1(a * (sign * z) - 0.5 * a**2) * scale, z)


def normal_score(x: Array, skewness: Array) -> Array:
    """The z with this x: −∞ or ∞ where there is none.

    >>> normal_score(skewed_score(np.array([-2.0, 0.5]), np.full(2, 0.3)), np.full(2, 0.3)).round(12)
    array([-2. ,  0.5])
    """
    sign, a, scale = _shape(skewness)
    with np.errstate(divide="ignore", invalid="ignore"):  # of an infinite x without skewness
        z = sign * (np.log1p(np.maximum(sign * x / scale, -1.0)) / np.where(a > 0.0, a, 1.0) + 0.5 * a)
    return np.where(a > 0.0, z, x)


def _shape(skewness: Array) -> tuple[Array, Array, Array]:
    """The sign, a and s/t."""
    size = np.minimum(np.abs(skewness), _MOST)
    spread = np.sqrt(1.0 + 0.5 * size**2)
    t = 2.0 * np.sinh(np.arcsinh(0.5 * size / spread**3) / 3.0)
    known = size > _LEAST
    return (
        np.sign(skewness),
        np.where(known, np.sqrt(np.log1p(t**2)), 0.0),
        np.where(known, spread / np.maximum(t, 1e-300), 1.0),
    )
