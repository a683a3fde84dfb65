"""A posterior held by draws of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import ZeroFillFactor
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["DrawsPosterior"]

#: rows whose covariances with all points are held at a time
_AT_ONCE = 64


@dataclass(frozen=True)
class DrawsPosterior:
    """q(f) = N(mean, V) over the training points, in the graph's order, with V = draws drawsᵀ / S.

    Attributes
    ----------
    mean : μ, shape (N,)
    draws : (N, S), of mean zero. In single precision they are draws of N(0, V) and V is what their mean square
        estimates; in double precision they are √N times a root of V, and nothing is estimated.
    variance : marginal variances, shape (N,); more exact than the draws' own.
    site_precision : w, shape (N,): how much each observation says about its own f.
    factor : of V⁻¹, if there is one on the graph's pattern: more data can start from it. Copies do without.
    """

    mean: NDArray[np.float64]
    draws: NDArray
    variance: NDArray[np.float64]
    site_precision: NDArray[np.float64]
    factor: ZeroFillFactor | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "factor": None}  # what can be found again is not worth its place in a file

    @property
    def exact(self) -> bool:
        """Whether V is what the draws make, not only about that."""
        return self.draws.dtype == np.float64

    def projected_variance(self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f[neighbors_ij] for each row i: the mean square of the draws."""
        out = np.empty(len(neighbors))
        over_chunks(_projected_variance, len(out), neighbors, weights, self.draws, out)
        return out

    def variance_beside(
        self,
        neighbors: NDArray[np.int32],
        weights: NDArray[np.float64],
        variance: NDArray[np.float64],
        site_precision: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """About what the marginal variances become when new points are observed: of the new points' neighbours.

        New point i is Σ_j weights_ij f[neighbors_ij] and noise of its own, `variance` in all, and is observed with
        `site_precision` w: a neighbour's v loses C² w / (1 + w variance), C the covariance of the two.
        """
        found = self.variance.copy()
        _lessen(neighbors, weights, variance, site_precision, self.draws, found)
        return found

    def third_cumulants(
        self, neighbors: NDArray[np.int32], weights: NDArray[np.float64], third: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Σ_i third_i Cov(f_i, Σ_j weights_ij f[neighbors_ij])³ for each row; of draws that are estimates, 0."""
        out = np.zeros(len(neighbors))
        if self.exact:
            V = self.draws @ self.draws.T / self.draws.shape[1]
            for start in range(0, len(out), _AT_ONCE):
                rows = slice(start, start + _AT_ONCE)
                out[rows] = np.einsum("ij,ijk->ik", weights[rows], V[neighbors[rows]]) ** 3 @ third
        return out

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draws of f, shape (N, n): combinations of those there are, fresh ones where V is exact.

        Any combination x ε/√S of the draws with ε ~ N(0, I) has covariance V, whatever n.
        """
        mix = rng.standard_normal((self.draws.shape[1], n)) / np.sqrt(self.draws.shape[1])
        return self.mean[:, None] + self.draws @ mix


@compiled
def _projected_variance(start, stop, neighbors, weights, draws, out):
    n_draws = draws.shape[1]
    total = np.empty(n_draws)
    for i in range(start, stop):
        total[:] = 0.0
        for s in range(neighbors.shape[1]):
            j, weight = neighbors[i, s], weights[i, s]
            for r in range(n_draws):
                total[r] += weight * draws[j, r]
        value = 0.0
        for r in range(n_draws):
            value += total[r] ** 2
        out[i] = value / n_draws


@compiled
def _lessen(neighbors, weights, variance, site_precision, draws, after):
    n_draws = draws.shape[1]
    own = np.empty(n_draws)
    for i in range(len(neighbors)):
        own[:] = 0.0
        for j, weight in zip(neighbors[i], weights[i]):
            if j >= 0:
                for r in range(n_draws):
                    own[r] += weight * draws[j, r]
        size = np.dot(own, own)
        gain = site_precision[i] / (1.0 + site_precision[i] * variance[i]) * size / n_draws
        for j in neighbors[i]:
            if j >= 0:
                product = other = 0.0
                for r in range(n_draws):
                    product += own[r] * draws[j, r]
                    other += np.float64(draws[j, r]) ** 2
                square = product**2 / (size * other)
                # an estimated correlation is larger than the one it estimates, in the mean of squares
                square = max(0.0, square - (1.0 - square) ** 2 / n_draws)
                after[j] *= max(0.5, 1.0 - square * gain)
