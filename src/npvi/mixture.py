"""The distribution of new responses where two models have a say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npvi.predictive import Predictive

__all__ = ["MixturePredictive"]


class MixturePredictive(Predictive):
    """With probability 1 − weight what the first prediction says, with probability `weight` what the second says.

    Everything that a `Predictive` has; ``latent_mean`` and ``latent_var`` are the moments of the mixture of both f.

    Parameters
    ----------
    first, second : Predictive
        Of the same rows.
    weight : float
        Of the second, between 0 and 1.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> narrow, wide = (Predictive(Gaussian(1.0), [0.0], [v]) for v in (0.0, 24.0))
    >>> mixed = MixturePredictive(narrow, wide, 0.5)
    >>> mixed.var, mixed.interval(0.5)[1].round(2)
    (array([13.]), array([1.28]))
    """

    def __init__(self, first: Predictive, second: Predictive, weight: float) -> None:
        if len(first) != len(second):
            raise ValueError(f"both predictions must have the same rows, got {len(first)} and {len(second)}")
        if not 0.0 <= weight <= 1.0:
            raise ValueError(f"weight must be between 0 and 1, got {weight!r}")
        self.parts, self.weights = (first, second), np.array([1.0 - weight, weight])
        latent = [(part.latent_mean, part.latent_var) for part in self.parts]
        super().__init__(first.likelihood, *_moments(latent, self.weights), row=first.row)

    def __repr__(self) -> str:
        return f"MixturePredictive({self.parts[0]!r}, {self.parts[1]!r}, {self.weights[1]:.3g})"

    def log_prob(self, y: Any) -> np.ndarray:
        first, second = (np.log(w) + part.log_prob(y) for w, part in zip(self.weights, self.parts))
        return np.logaddexp(first, second)

    def cdf(self, y: Any) -> np.ndarray:
        return sum(w * part.cdf(y) for w, part in zip(self.weights, self.parts))  # type: ignore[return-value]

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        rng = np.random.default_rng(seed)
        drawn = [part.sample(n, rng) for part in self.parts]
        return np.where(rng.random((n, len(self))) < self.weights[1], drawn[1], drawn[0])

    def joint_latent_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        return np.concatenate([part.joint_latent_sample(count, rng) for part, count, rng in self._shares(n, seed)])

    def _responses(self, n: int, seed: Any) -> Iterator[tuple[slice, slice, np.ndarray]]:
        start = 0
        for part, count, rng in self._shares(n, seed):
            for draws, rows, y in part._responses(count, rng):
                yield slice(start + draws.start, start + draws.stop), rows, y
            start += count

    def _shares(
        self, n: int, seed: int | np.random.Generator | None
    ) -> Iterator[tuple[Predictive, int, np.random.Generator]]:
        """How many of n surfaces come from which part; a surface comes from one of them as a whole."""
        rng = np.random.default_rng(seed)
        second = int(rng.binomial(n, self.weights[1]))
        for part, count in zip(self.parts, (n - second, second)):
            if count:
                yield part, count, np.random.default_rng(rng.integers(2**63))

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        return _moments([(part.mean, part.var) for part in self.parts], self.weights)

    def _quantile(self, q: float) -> np.ndarray:
        ends = np.array([part._quantile(q) for part in self.parts])
        if not np.isfinite(ends).all():
            return np.where(self.weights[1] < 0.5, ends[0], ends[1])
        low, high = ends.min(axis=0), ends.max(axis=0)  # that of the mixture lies between
        return self._among_whole_numbers(q, low, high) if self.likelihood.support.discrete else self._root(q, low, high)

    def _among_whole_numbers(self, q: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        low = low - 1.0
        while np.any(high - low > 1.0):
            middle = np.floor(0.5 * (low + high))
            enough = self.cdf(middle) >= q
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _root(self, q: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """By the Illinois rule: secants, with the pull of an end halved that stays twice in a row."""
        below, above = self.cdf(low) - q, self.cdf(high) - q
        high = np.where(below >= 0.0, low, high)  # an atom, such as none at all, may hold the level
        pull_low, pull_high, last = below, above, np.zeros(len(self))
        for _ in range(60):
            settled = (high - low <= 1e-9 * np.abs(high)) | (above <= 1e-12) | (below >= -1e-12)
            if settled.all():
                break
            share = np.clip(pull_low / np.where(settled, -1.0, pull_low - pull_high), 0.0, 1.0)
            middle = low + (high - low) * share
            off = self.cdf(middle) - q
            up = off >= 0.0
            pull_high = np.where(up, off, np.where(last < 0.0, 0.5 * pull_high, pull_high))
            pull_low = np.where(up, np.where(last > 0.0, 0.5 * pull_low, pull_low), off)
            above, below = np.where(up, off, above), np.where(up, below, off)
            low, high = np.where(up, low, middle), np.where(up, middle, high)
            last = np.where(up, 1.0, -1.0)
        return np.where((below >= -1e-12) & (above > 1e-12), low, high)


def _moments(parts: Sequence[tuple[np.ndarray, np.ndarray]], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a mixture."""
    mean = sum(w * m for w, (m, _) in zip(weights, parts))
    with np.errstate(invalid="ignore"):  # a part without a variance leaves the mixture without one
        var = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, parts))
    return mean, var  # type: ignore[return-value]
