"""scikit-learn's nearest neighbours, with a predictive distribution made of their responses.

Counts: an even mixture of negative binomials about the neighbours' counts. Positive responses: either one log-normal
with the mean and variance of the neighbours' logarithms, the variance drawn towards that of all rows, or an even
mixture of log-normals about each neighbour. Which, how many neighbours and how wide: what predicts training rows best
from the other ones (leaving one out).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.beside.peers.forecasts import Mixture
from benchmarks.beside.peers.sides.base import Side

__all__ = ["Neighbours"]

_SIZES = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100, 200)
#: sizes without a better one among them after which larger ones are not tried
_PATIENCE = 3
#: training rows that choose
_JUDGES = 5000
#: mixtures: what is added to a neighbour's count, and dispersions; standard deviations of log y
_EXTRA, _DISPERSION = (0.02, 0.05, 0.1, 0.2), (1.0, 2.0, 4.0, 8.0)
_WIDTH = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
#: one log-normal: neighbours that the variance of all rows counts for; that variance as a part of the residuals'
_WEIGHT, _SHARE = (1.0, 4.0, 16.0, 64.0), (0.1, 0.3, 1.0)


class Choice(NamedTuple):
    """How neighbours' responses make a distribution: their number, the way, and its two numbers."""

    size: int
    way: str
    first: float
    second: float

    def mixture(self, z: np.ndarray) -> Mixture:
        """The distribution at rows whose neighbours, nearest first, have the responses (or logarithms) z."""
        z = z[:, : self.size]
        if self.way == "counts":
            return Mixture(True, z + self.first, self.second)
        if self.way == "about each":
            return Mixture(False, z, self.first)
        centre = z.mean(axis=1, keepdims=True)
        squares = ((z - centre) ** 2).sum(axis=1, keepdims=True)
        variance = (self.first * self.second + squares) / (self.first + self.size)
        return Mixture(False, centre, variance * (1.0 + 1.0 / self.size))


class Neighbours(Side):
    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        z = y if self.counts else np.log(y)
        most = max(size for size in _SIZES if size < len(X))
        tree = NearestNeighbors(n_neighbors=most, n_jobs=self.threads).fit(X)
        judges = np.random.default_rng(0).permutation(len(X))[:_JUDGES]
        # a row finds itself, or others at the same place: one more is asked for, and the row itself left out
        found = tree.kneighbors(X[judges], n_neighbors=most + 1, return_distance=False)
        nearest = np.array([row[row != judge][:most] for row, judge in zip(found, judges)])
        return tree, z, self._best(z[nearest], z[judges], y[judges])

    def predict(self, model: Any, X: np.ndarray) -> Mixture:
        tree, z, choice = model
        return choice.mixture(z[tree.kneighbors(X, n_neighbors=choice.size, return_distance=False)])

    def forecast(self, predicted: Mixture) -> Mixture:
        return predicted

    def _best(self, near: np.ndarray, z: np.ndarray, y: np.ndarray) -> Choice:
        best, loss, since = None, np.inf, 0
        for size in _SIZES:
            if size > near.shape[1] or since == _PATIENCE:
                break
            since += 1
            for choice in self._choices(size, near, z):
                found = -float(choice.mixture(near).log_prob(y).mean())
                if found < loss:
                    best, loss, since = choice, found, 0
        assert best is not None
        return best

    def _choices(self, size: int, near: np.ndarray, z: np.ndarray) -> Iterator[Choice]:
        if self.counts:
            yield from (Choice(size, "counts", *numbers) for numbers in product(_EXTRA, _DISPERSION))
            return
        yield from (Choice(size, "about each", width**2, 0.0) for width in _WIDTH)
        residual = float(np.mean((z - near[:, :size].mean(axis=1)) ** 2))
        yield from (Choice(size, "one", weight, share * residual) for weight, share in product(_WEIGHT, _SHARE))
