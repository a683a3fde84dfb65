"""Do residuals of rows that lie close to each other still agree?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from npvi.graph import NeighborIndex, build_tree

__all__ = ["Correlogram", "correlogram", "normal_scores"]

#: most rows whose neighbours are looked up at each scale, and how many neighbours of each
_ROWS, _NEIGHBORS = 25_000, 16
#: rows at the coarsest scale, where all pairs are taken
_COARSEST = 512
#: groups of neighbouring rows, between which products of residuals count as independent
_BLOCKS = 32
#: fewer pairs say nothing
_FEWEST = 20


@dataclass(frozen=True)
class Correlogram:
    """Correlation of residuals against the distance between their rows; one entry per bin, near to far.

    Attributes
    ----------
    distance : mean distance of the pairs.
    correlation : of their residuals.
    error : its standard error.
    pairs : how many there were.
    """

    distance: NDArray[np.float64]
    correlation: NDArray[np.float64]
    error: NDArray[np.float64]
    pairs: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.distance)


def normal_scores(pit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Residuals that are standard normal if the predictions are right: Φ⁻¹(PIT), at most 4.75 in size.

    >>> normal_scores(np.array([0.0, 0.5, 0.975])).round(2)
    array([-4.75,  0.  ,  1.96])
    """
    return special.ndtri(np.clip(pit, 1e-6, 1.0 - 1e-6))


def correlogram(
    points: NDArray[np.float64],
    residuals: NDArray[np.float64],
    n_bins: int = 8,
    max_pairs: int = 100_000,
    seed: int = 0,
) -> Correlogram:
    """Empirical correlation of residuals in bins of distance.

    Pairs come from nearest-neighbour searches: among all points for short distances, and among ever smaller random
    subsets for longer ones. Bins grow geometrically from the spacing of the points to the size of their region; rows at
    the same place have a bin of their own, at distance 0.

    Products of independent residuals are uncorrelated even where pairs share a row, so the standard error is at least
    that of as many independent pairs. Where residuals correlate it grows; how much is read off groups of neighbouring
    rows, and is too little (by a factor of about 2) where they correlate over much of the region.

    Parameters
    ----------
    points : (N, p) coordinates.
    residuals : (N,)
    n_bins : most bins, besides that at 0; those with fewer than 20 pairs are left out.
    max_pairs : most pairs in a bin, chosen at random.
    seed : of the random subsets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0.0, 1.0, 600)[:, None]
    >>> noise = correlogram(x, rng.standard_normal(600))
    >>> bool(np.all(np.abs(noise.correlation) < 4.0 * noise.error))
    True
    >>> wave = correlogram(x, np.sin(9.0 * x[:, 0]))
    >>> wave.correlation[:3].round(1)
    array([1., 1., 1.])
    """
    rng = np.random.default_rng(seed)
    if len(points) < 3 or np.ptp(residuals) == 0.0:
        return _nothing()
    first, second, spacing, size = _find_pairs(points, rng)
    distance = np.linalg.norm(points[first] - points[second], axis=1)
    if size <= 0.0:
        return _nothing()
    edges = np.append(0.0, np.geomspace(min(1.5 * spacing, 0.5 * size), size, n_bins))
    bins = np.searchsorted(edges, distance)
    z = residuals - residuals.mean()
    block = np.empty(len(points), np.int64)
    block[build_tree(points).rows] = np.arange(len(points)) * _BLOCKS // len(points)
    rows = []
    for number in range(n_bins + 1):
        pairs = np.flatnonzero(bins == number)
        if len(pairs) > max_pairs:
            pairs = rng.choice(pairs, max_pairs, replace=False)
        if len(pairs) >= _FEWEST:
            i, j = first[pairs], second[pairs]
            correlation, error = _correlation(z[i], z[j], (block[i], block[j]))
            rows.append((distance[pairs].mean(), correlation, error, len(pairs)))
    if not rows:
        return _nothing()
    means, correlations, errors, counts = (np.array(column) for column in zip(*rows))
    return Correlogram(means, correlations, errors, counts)


def _nothing() -> Correlogram:
    return Correlogram(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64))


def _find_pairs(
    points: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], float, float]:
    """Different pairs of rows at all scales; the median distance to the nearest other place, and between any rows."""
    n = len(points)
    found = []
    spacing = 0.0
    subset = np.arange(n)
    while True:
        coarsest = len(subset) <= _COARSEST
        centres = subset if len(subset) <= _ROWS else rng.choice(subset, _ROWS, replace=False)
        k = len(subset) if coarsest else _NEIGHBORS + 1
        neighbors = subset[NeighborIndex(points[subset]).query(points[centres], k)]
        a, b = np.repeat(centres, k).astype(np.int64), neighbors.ravel()
        distance = np.linalg.norm(points[a] - points[b], axis=1).reshape(-1, k)
        if spacing == 0.0 and distance.any():
            nearest = np.where(distance > 0.0, distance, np.inf).min(axis=1)
            spacing = float(np.median(nearest[np.isfinite(nearest)]))
        found.append((np.minimum(a, b) * n + np.maximum(a, b))[a != b])
        if coarsest:
            break
        subset = rng.choice(subset, max(_COARSEST, len(subset) // 4), replace=False)
    keys = np.unique(np.concatenate(found))
    return keys // n, keys % n, spacing, float(np.median(distance))


def _correlation(
    one: NDArray[np.float64], other: NDArray[np.float64], blocks: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[float, float]:
    """Σ one·other / ½Σ(one² + other²), which is at most 1, and its standard error.

    Two pairs may depend on each other where they have a block in common (dyadic clustering: the squared sums over all
    pairs that touch a block, less what that counts twice).
    """
    product, power = one * other, 0.5 * (one**2 + other**2)
    correlation = product.sum() / power.sum()
    lower, upper = np.minimum(*blocks), np.maximum(*blocks)
    sums = np.bincount(lower * _BLOCKS + upper, product - correlation * power, minlength=_BLOCKS**2)
    between = sums.reshape(_BLOCKS, _BLOCKS)  # upper triangular
    touching = between.sum(axis=0) + between.sum(axis=1) - np.diag(between)
    variance = (touching**2).sum() - (np.triu(between, 1) ** 2).sum()
    return float(correlation), max(len(one) ** -0.5, float(np.sqrt(max(variance, 0.0)) / power.sum()))
