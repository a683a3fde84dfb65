"""Gaussian fields to simulate from, drawn exactly and without anything of npvi's."""

from __future__ import annotations

import numpy as np
from scipy import fft
from scipy.spatial.distance import cdist

__all__ = ["dense_draw", "matern", "on_grid"]


def matern(distance: np.ndarray, smoothness: float) -> np.ndarray:
    """Correlation at distances in length scales, for smoothness 1/2, 3/2 or 5/2.

    >>> matern(np.array([0.0, 1.0]), 0.5).round(4)
    array([1.    , 0.3679])
    """
    r = np.sqrt(2.0 * smoothness) * distance
    polynomial = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r**2 / 3.0}[smoothness]
    return polynomial * np.exp(-r)


def dense_draw(
    X: np.ndarray, length_scale: float | np.ndarray, smoothness: float, rng: np.random.Generator
) -> np.ndarray:
    """A field of variance 1 at a few thousand points, by a Cholesky factor of their covariance."""
    Z = X / length_scale
    K = matern(cdist(Z, Z), smoothness)
    K[np.diag_indices_from(K)] += 1e-10
    return np.linalg.cholesky(K) @ rng.standard_normal(len(X))


def on_grid(width: float, cells: int, length_scale: float, smoothness: float, rng: np.random.Generator) -> np.ndarray:
    """A field of variance 1 on a square of `cells` by `cells` points, by the Fourier transform of a larger torus.

    Its covariance is the kernel's, but for what goes around the torus, which is a quarter larger than the square.
    (A sum of random waves would need very many of them for the small scales of a field of smoothness 1/2.)
    """
    around = fft.next_fast_len(cells + cells // 4, real=True)
    steps = np.arange(around)
    steps = np.minimum(steps, around - steps) * (width / cells / length_scale)
    spectrum = fft.rfft2(matern(np.hypot(steps[:, None], steps[None, :]), smoothness)).real
    waves = fft.rfft2(rng.standard_normal((around, around))) * np.sqrt(np.maximum(spectrum, 0.0))
    return fft.irfft2(waves, (around, around))[:cells, :cells]
