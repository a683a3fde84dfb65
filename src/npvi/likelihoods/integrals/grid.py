"""A grid of latent values that integrals against every normal density share."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from npvi.likelihoods.integrals.quadrature import REACH

__all__ = ["Grid", "grid", "grid_tiers", "local_resolution"]


class Grid(NamedTuple):
    """Nodes f_k that stay where they are while N(m, s²) moves over them: E g(f) ≈ Σ_k spacing_k N(f_k; m, s²) g(f_k).

    Derivatives in m and s are those of the weights, so that g needs none, and what g is at a node serves all rows.
    """

    nodes: np.ndarray
    """In increasing order, padded with ∞ to a power of two."""
    spacings: np.ndarray
    reach: float
    """Standard deviations from the mean beyond which nodes don't count."""


class _Accuracy(NamedTuple):
    per_sd: float
    """Nodes to a standard deviation."""
    per_fold: float
    """Nodes to a factor of e in the distance from the bend."""
    reach: float


_BLOCK = 16
_SMALLEST = 2**8
"""Nodes that a grid is padded to: all grids that are asked for share one compiled function."""
_FINE, _COARSE = _Accuracy(1.33, 3.0, REACH), _Accuracy(1.25, 1.2, 7.0)


def grid_tiers(
    mean: np.ndarray, sd: np.ndarray, resolution: float, bend: tuple[float, float], coarse: bool = False
) -> np.ndarray:
    """Which grid each row takes, by its standard deviation, or 0 for those that Gauss–Hermite does with 16 nodes.

    The latter are narrow, or far from the bend.

    >>> grid_tiers(np.array([0.0, 0.0, 0.0, 90.0]), np.array([0.1, 0.9, 9.0, 9.0]), 1.0, (0.0, 0.0))
    array([0, 1, 5, 0])
    """
    centre, width = _extent(resolution, bend)
    beyond = np.abs(mean - centre) >= width + _accuracy(coarse).reach * sd
    alike = beyond & (sd <= 0.5 * local_resolution(mean, resolution, bend))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        tier = np.ceil(np.log2(sd / (0.5 * resolution)))
    return np.where((tier <= 0.0) | alike | ~np.isfinite(tier + mean), 0, tier).astype(int)


def local_resolution(mean: np.ndarray, resolution: float, bend: tuple[float, float]) -> np.ndarray:
    """The scale over which log p is smooth around each mean: `resolution` at the bend, and the larger the further.

    >>> local_resolution(np.array([0.0, 31.4]), 1.0, (0.0, 0.0)).round(1)
    array([ 1. , 10.5])
    """
    centre, width = _extent(resolution, bend)
    away = np.where(np.isfinite(mean), mean - centre, 0.0)  # a diverging iteration is told so by its value
    return resolution * np.hypot(1.0, away / width)


def grid(
    mean: np.ndarray, sd: np.ndarray, tier: int, resolution: float, bend: tuple[float, float], coarse: bool = False
) -> Grid:
    """The grid for rows of one tier, with standard deviations from 2^(tier − 2) to 2^(tier − 1) times `resolution`.

    It is the trapezoidal rule in t = per_sd · f/s + fold · asinh((f − centre)/width): steps are small against s, and
    against the distance to the nearest singularity of log p, which all lie about the bend. Their number grows with the
    logarithm of s only.

    >>> rule = grid(np.zeros(1), np.full(1, 9.0), 5, 1.0, (0.0, 0.0))
    >>> weights = rule.spacings * np.exp(-0.5 * (rule.nodes / 9.0) ** 2) / np.sqrt(2.0 * np.pi * 81.0)
    >>> float(weights.sum().round(12)), int(np.isfinite(rule.nodes).sum())
    (1.0, 65)
    """
    accuracy = _accuracy(coarse)
    centre, width = _extent(resolution, bend)
    # singularities within the width, at a distance of 3 · resolution, are as far away in t as one at width · i
    fold = accuracy.per_fold * (0.5 * np.pi) / np.arcsin(min(3.0 * resolution / width, 1.0))
    slope = accuracy.per_sd / (2.0 ** (tier - 2) * resolution)
    low, high = np.min(mean - accuracy.reach * sd), np.max(mean + accuracy.reach * sd)
    ends = [slope * (end - centre) + fold * np.arcsinh((end - centre) / width) for end in (low, high)]
    # whole blocks of nodes: few different ones are asked for, and all of them are parts of one grid
    first, last = int(np.floor(ends[0] / _BLOCK)) * _BLOCK, int(np.ceil(ends[1] / _BLOCK)) * _BLOCK
    nodes, spacings = _graded(first, max(last, first + _BLOCK), slope, fold, width, centre)
    return Grid(nodes, spacings, accuracy.reach)


@lru_cache(maxsize=256)
def _graded(first: int, last: int, slope: float, fold: float, width: float, centre: float) -> tuple:
    """The f of t = first, …, last, and df/dt there."""
    t = np.arange(first, last + 1, dtype=np.float64)
    size = np.abs(t)
    x = np.minimum(size / slope, width * np.sinh(np.minimum(size / fold, 700.0)))  # neither is too small
    for _ in range(50):
        step = (slope * x + fold * np.arcsinh(x / width) - size) / (slope + fold / np.hypot(width, x))
        x = x - step
        if np.all(np.abs(step) <= 1e-14 * x):
            break
    spacings = 1.0 / (slope + fold / np.hypot(width, x))
    padding = (0, max(_SMALLEST, 1 << (len(t) - 1).bit_length()) - len(t))
    nodes = np.pad(centre + np.copysign(x, t), padding, constant_values=np.inf)
    spacings = np.pad(spacings, padding)
    nodes.setflags(write=False)
    spacings.setflags(write=False)
    return nodes, spacings


def _accuracy(coarse: bool) -> _Accuracy:
    return _COARSE if coarse else _FINE


def _extent(resolution: float, bend: tuple[float, float]) -> tuple[float, float]:
    """Centre and half-width of where singularities are; from beyond, they are as far as that, or a share of it."""
    return 0.5 * (bend[0] + bend[1]), max(3.0 * resolution, 0.5 * np.pi) + 0.5 * (bend[1] - bend[0])
