"""The distribution of new responses where several models have a say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from npvi.checks import generator
from npvi.likelihoods import Component
from npvi.predictive.base import NormalTotal, Predictive, Total, check_draws
from npvi.predictive.reach import Reach
from npvi.predictive.skewed import normal_score

__all__ = ["MixturePredictive"]

#: halvings of an interval that a quantile of f is in
_HALVINGS = 50
#: draws of a part from which moments of a total are taken
_FEWEST = 32


class MixturePredictive(Predictive):
    """With probability ``weights[k]`` what part k says.

    Everything that a `Predictive` has; ``latent_mean`` and ``latent_var`` are the moments of the mixture of all f,
    without nuggets; ``nugget`` is the mean of theirs. ``reach`` has the first part's distances, and the mean share of
    the prior variance left.

    Parameters
    ----------
    parts : sequence of Predictive
        Of the same rows.
    weights : sequence of float
        Of each part; they sum to 1.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> narrow, wide = (Predictive(Gaussian(1.0), [0.0], [v]) for v in (0.0, 24.0))
    >>> mixed = MixturePredictive([narrow, wide], [0.5, 0.5])
    >>> mixed.var, mixed.interval(0.5)[1].round(2)
    (array([13.]), array([1.28]))
    """

    def __init__(self, parts: Sequence[Predictive], weights: ArrayLike) -> None:
        self.parts, self.weights = tuple(parts), np.asarray(weights, dtype=np.float64)
        lengths = {len(part) for part in self.parts}
        if len(lengths) != 1:
            raise ValueError(f"all predictions must have the same rows, got {sorted(lengths)}")
        sums_to_one = np.isclose(self.weights.sum(), 1.0, rtol=0.0, atol=1e-9)
        if self.weights.shape != (len(self.parts),) or not np.all(self.weights >= 0.0) or not sums_to_one:
            raise ValueError(f"weights must be {len(self.parts)} numbers that sum to 1, none negative; got {weights!r}")
        first = self.parts[0]
        latent = [(part.latent_mean, part.latent_var) for part in self.parts]
        nugget = sum(w * part.nugget for w, part in zip(self.weights, self.parts))
        super().__init__(first.likelihood, *_moments(latent, self.weights), row=first.row, nugget=nugget)

    def __repr__(self) -> str:
        return f"MixturePredictive({list(self.parts)!r}, {self.weights.round(3).tolist()})"

    @cached_property
    def reach(self) -> Reach:
        shares = sum(w * part.reach.prior_share for w, part in zip(self.weights, self.parts))
        return Reach(self.parts[0].reach.distance, np.asarray(shares))

    @cached_property
    def latent_skewness(self) -> np.ndarray:
        third = np.zeros(len(self))
        for w, part in zip(self.weights, self.parts):
            v, apart = part.latent_var, part.latent_mean - self.latent_mean
            own = part.latent_skewness
            third += w * (v**1.5 * own + 3.0 * v * (1.0 + 0.5 * own**2) * apart + apart**3)
        return np.divide(third, self.latent_var**1.5, out=np.zeros(len(self)), where=self.latent_var > 0.0)

    def log_prob(self, y: Any) -> np.ndarray:
        return logsumexp([part.log_prob(y) for part in self.parts], axis=0, b=self.weights[:, None])

    def _latent_quantile(self, q: float) -> np.ndarray:
        ends = np.array([part._latent_quantile(q) for part in self.parts])
        low, high = ends.min(axis=0), ends.max(axis=0)  # that of a mixture is between those of its parts
        mean = np.array([part.latent_mean for part in self.parts])
        sd = np.sqrt([np.maximum(part.latent_var, 1e-300) for part in self.parts])
        skewness = np.array([part.latent_skewness for part in self.parts])
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            below = self.weights @ ndtr(normal_score((middle - mean) / sd, skewness)) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def cdf(self, y: Any) -> np.ndarray:
        return sum(w * part.cdf(y) for w, part in zip(self.weights, self.parts))  # type: ignore[return-value]

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        rng = generator(seed)
        out = self.parts[0].sample(n, rng)
        chosen = rng.choice(len(self.parts), size=out.shape, p=self.weights)
        for number, part in enumerate(self.parts[1:], 1):
            np.copyto(out, part.sample(n, rng), where=chosen == number)
        return out

    def joint_latent_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        shares = self._shares(check_draws(n, len(self)), seed)
        return np.concatenate([part.joint_latent_sample(count, rng) for part, count, rng in shares])

    def _responses(
        self, n: int, seed: Any, rough: bool = False
    ) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
        start = 0
        for part, count, rng in self._shares(n, seed):
            for draws, rows, f, y in part._responses(count, rng, rough):
                yield slice(start + draws.start, start + draws.stop), rows, f, y
            start += count

    def _covariance(self, weights: np.ndarray | None) -> np.ndarray:
        sums = [part.latent_mean if weights is None else weights.T @ part.latent_mean for part in self.parts]
        mean = sum(w * part for w, part in zip(self.weights, sums))
        covariances = [part._covariance(weights) for part in self.parts]
        return sum(  # type: ignore[return-value]
            w * (C + np.outer(own - mean, own - mean)) for w, C, own in zip(self.weights, covariances, sums)
        )

    def _latent_totals(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = [part._latent_totals(weights) for part in self.parts]
        means, deviations = (np.concatenate([one[k] for one in found]) for k in (0, 1))
        return means, deviations, np.concatenate([w * one[2] for w, one in zip(self.weights, found)])

    def _totals(self, weights: np.ndarray, level: float, n: int, seed: Any, of: str) -> list[Total]:
        rng = generator(seed)
        counts = rng.multinomial(n, self.weights)
        found = [
            part._totals(weights, level, max(int(count), _FEWEST), np.random.default_rng(rng.integers(2**63)), of)
            for part, count in zip(self.parts, counts)
        ]
        return [self._mixed(list(each), counts, level, n, rng) for each in zip(*found)]

    def _mixed(self, found: list[Total], counts: np.ndarray, level: float, n: int, rng: np.random.Generator) -> Total:
        """The total that those of the parts make."""
        if all(isinstance(one, NormalTotal) for one in found):
            means, deviations, shares = self._normals(found)
            return NormalTotal(means, deviations, shares, level, n, rng)
        draws = np.concatenate([one.draws[:count] for one, count in zip(found, counts)])
        mean, var = _moments([(np.array(one.mean), np.array(one.std**2)) for one in found], self.weights)
        return Total(draws, level, float(mean), float(np.sqrt(var)))

    def _normals(self, found: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        means, deviations = (np.concatenate([getattr(one, name) for one in found]) for name in ("means", "deviations"))
        return means, deviations, np.concatenate([w * one.shares for w, one in zip(self.weights, found)])

    def _default_draws(self) -> int:
        return min(part._default_draws() for part in self.parts)

    def _shares(
        self, n: int, seed: int | np.random.Generator | None
    ) -> Iterator[tuple[Predictive, int, np.random.Generator]]:
        """How many of n surfaces come from which part; a surface comes from one of them as a whole."""
        rng = generator(seed)
        for part, count in zip(self.parts, rng.multinomial(n, self.weights)):
            if count:
                yield part, int(count), np.random.default_rng(rng.integers(2**63))

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        return _moments([(part.mean, part.var) for part in self.parts], self.weights)

    def _components(self) -> list[Component]:
        parts = ((w, part) for w, owner in zip(self.weights, self.parts) for part in owner._components())
        return [part._replace(weight=w * part.weight) for w, part in parts]


def _moments(parts: Sequence[tuple[np.ndarray, np.ndarray]], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a mixture."""
    mean = sum(w * m for w, (m, _) in zip(weights, parts))
    with np.errstate(invalid="ignore"):  # a part without a variance leaves the mixture without one
        var = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, parts))
    return mean, var  # type: ignore[return-value]
