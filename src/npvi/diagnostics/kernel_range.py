"""How far the kernel reaches, against how far apart the training points are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npvi.graph import NeighborIndex, number_places
from npvi.kernels import Kernel, diagonal, evaluate

__all__ = ["KernelRange", "range_of"]

#: correlation at which the kernel's range ends
_END = 0.05
#: training points at which it is measured
_PLACES = 500
#: steps from a point, as multiples of the way to its neighbour
_STEPS = np.geomspace(1e-3, 1e5, 161)


@dataclass(frozen=True)
class KernelRange:
    """The range of a kernel.

    Distances are as the kernel measures them: in the units of the inputs (kilometres for `Sphere`) where one length
    scale is all there is, else in length scales.

    Attributes
    ----------
    distance : at which the correlation falls to 0.05; infinite where it never does.
    spacing : median distance from a training point to the nearest other place with one.
    ratio : median of the range over the spacing, point by point.
    """

    distance: float
    spacing: float
    ratio: float


def range_of(kernel: Kernel, X: NDArray[np.float64], seed: int = 0) -> KernelRange:
    """Walk from some of the points towards their nearest neighbour and beyond, until the correlation is 0.05.

    Nothing is assumed about the kernel, so sums and products work too.

    Examples
    --------
    >>> from npvi.kernels import RBF, Constant
    >>> X = np.linspace(0.0, 10.0, 101)[:, None]
    >>> found = range_of(RBF(length_scale=0.5), X)
    >>> round(found.distance, 3), round(found.spacing, 3), round(found.ratio, 2)  # 0.5 · √(2 log 20) = 1.224
    (1.224, 0.1, 12.24)
    >>> range_of(RBF(length_scale=0.5) + Constant(1.0), X).distance  # never below 0.5
    inf
    """
    coordinates = kernel.coordinates(X)
    _, distinct = np.unique(number_places(coordinates), return_index=True)
    if len(distinct) < 2:
        return KernelRange(np.nan, np.nan, np.nan)
    places = distinct
    if len(places) > _PLACES:
        places = np.random.default_rng(seed).choice(places, _PLACES, replace=False)
    nearest = NeighborIndex(coordinates[distinct]).query(coordinates[places], 2)
    neighbor = distinct[np.where(distinct[nearest[:, 0]] == places, nearest[:, 1], nearest[:, 0])]
    spacing = np.linalg.norm(coordinates[neighbor] - coordinates[places], axis=1)
    start, step = X[places], X[neighbor] - X[places]
    steps = _steps_to_end(kernel, start, step)
    return KernelRange(float(np.median(steps * spacing)), float(np.median(spacing)), float(np.median(steps)))


def _steps_to_end(kernel: Kernel, start: NDArray[np.float64], step: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many steps until the correlation with the start is first 0.05; shape (places,)."""
    variance = diagonal(kernel, start)
    many = len(_STEPS)
    tried = _correlation(
        kernel,
        np.tile(start, (many, 1)),
        np.tile(variance, many),
        (_STEPS[:, None, None] * step).reshape(-1, step.shape[1]),
    ).reshape(many, -1)
    below = ~(tried > _END)
    first = np.argmax(below, axis=0)
    high, low = _STEPS[first], np.where(first > 0, _STEPS[np.maximum(first - 1, 0)], 0.0)
    for _ in range(16):  # halving the bracket
        middle = 0.5 * (low + high)
        inside = _correlation(kernel, start, variance, middle[:, None] * step) > _END
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(below.any(axis=0), high, np.inf)


def _correlation(
    kernel: Kernel, start: NDArray[np.float64], variance: NDArray[np.float64], move: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of f at `start`, where its variance is `variance`, with f at ``start + move``."""
    there = start + move
    scale = np.sqrt(variance * diagonal(kernel, there))
    return evaluate(kernel, start, there) / np.maximum(scale, np.finfo(float).tiny)
