"""Joint draws of f at many new points under a fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.inference.mean_function import Trend
from npvi.parallel import threads
from npvi.posteriors import Posterior
from npvi.priors import Joint, Prior
from npvi.priors.joint import JointPrediction

__all__ = ["JointPrediction", "JointSampler"]

#: numbers of one array held at a time
_NUMBERS = 2**24


@dataclass(frozen=True)
class JointSampler:
    """Draws of f at new points under a fitted model: f at the training points first, then all new ones given those.

    The means are the caller's: each from its nearest training points, of which joint neighbours keep only some.
    Draws add to them what deviates from the mean. Neighbours and weights are found when draws are first asked for.

    Parameters
    ----------
    prior, posterior : at the training points, in the graph's order.
    Z : (M, d) new inputs.
    mean : (M,) means of f there.
    n_neighbors : as in `JointPrediction`.
    n_jobs : threads.
    trend, basis : the posterior of the mean function's coefficients, and its columns at the new points.
    nugget : whether each new point has one of its own.
    """

    prior: Prior
    posterior: Posterior
    Z: NDArray[np.float64]
    mean: NDArray[np.float64]
    n_neighbors: int | None = None
    n_jobs: int | None = None
    trend: Trend | None = None
    basis: NDArray[np.float64] | None = None
    nugget: bool = False

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws, shape (M, n)."""
        step = max(1, _NUMBERS // self.prior.graph.n_points)
        with threads(self.n_jobs):
            if n <= step:
                return self._draw(n, rng)
            draws = np.empty((len(self.Z), n))
            for start in range(0, n, step):
                stop = min(n, start + step)
                draws[:, start:stop] = self._draw(stop - start, rng)
        return draws

    def _draw(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        deviations = np.ascontiguousarray(self.posterior.sample(n, rng) - self.posterior.mean[:, None])
        mean = self.mean
        if self.trend is not None and self.basis is not None and self.basis.shape[1]:
            moved = self.trend.sample(n, rng)
            deviations += self.trend.sensitivity @ moved
            mean = mean[:, None] + self.basis @ moved
        return self._prediction.draw(deviations, rng, mean, self.nugget)

    @cached_property
    def _prediction(self) -> Joint:
        return self.prior.joint(self.Z, self.n_neighbors)
