"""New points under a low-rank prior: what f at the training points says about them goes through M numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

if TYPE_CHECKING:
    from npvi.posteriors import Posterior
    from npvi.priors.low_rank.prior import LowRank

__all__ = ["LowRankConditional", "LowRankJoint"]


@dataclass(frozen=True)
class LowRankConditional:
    """f at new points given f at the old ones: N(weights Aᵀf, variance).

    Attributes
    ----------
    prior : whose A it is.
    weights : F_* C⁻ᵀ, shape (rows, M)
    variance : k(x, x) − ‖F_*‖² + ‖weights‖² + nugget, shape (rows,)
    """

    prior: LowRank
    weights: NDArray[np.float64]
    variance: NDArray[np.float64]

    def mean(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """weights Aᵀf, for one f (N,) or several (N, p)."""
        return self.weights @ self.prior.summary(f)

    def projected_variance(self, posterior: Posterior) -> NDArray[np.float64]:
        """Var weights Aᵀf; with a column per function where the posterior has several."""
        covariance = self.prior.summary_covariance(posterior)
        return np.einsum("im,...im->i...", self.weights, self.weights @ covariance)


@dataclass(frozen=True)
class LowRankJoint:
    """f at new points, all together, given f at the old ones: draws of u, and given u each point by itself.

    Attributes
    ----------
    prior : of the old points.
    features : F_*, shape (rows, M)
    variance : given u, the nugget included, shape (rows,)
    """

    prior: LowRank
    features: NDArray[np.float64]
    variance: NDArray[np.float64]

    @property
    def n_noise(self) -> int:
        """One for each of the inducing points, then one for each new point."""
        return self.features.shape[1] + len(self.features)

    def propagate(self, f: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """f at the new points without their nuggets: linear in f (N, S) and in `noise` (M + rows, S)."""
        said = self.prior.summary(f)
        u = solve_triangular(self.prior.inner, said + noise[: len(said)], lower=True, trans="T")
        return self.features @ u + self._deviation[:, None] * noise[len(said) :]

    def adjoint(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What sums over the new points, weights (rows, R), see of f, (N, R), and of the noise, (M + rows, R)."""
        said = solve_triangular(self.prior.inner, self.features.T @ weights, lower=True)
        return self.prior.loadings @ said, np.concatenate([said, self._deviation[:, None] * weights])

    @property
    def _deviation(self) -> NDArray[np.float64]:
        """Of a new point given u, without the nugget."""
        return np.sqrt(np.maximum(self.variance - self.prior.nugget, 0.0))

    def draw(
        self,
        f: NDArray[np.float64],
        rng: np.random.Generator,
        offset: NDArray[np.float64] | float = 0.0,
        nugget: bool = True,
    ) -> NDArray[np.float64]:
        """One draw (rows, S) for each draw f (N, S) at the old points; `offset` is a number, (rows,) or (rows, S)."""
        said = self.prior.summary(f)
        u = solve_triangular(self.prior.inner, said + rng.standard_normal(said.shape), lower=True, trans="T")
        variance = self.variance if nugget else np.maximum(self.variance - self.prior.nugget, 0.0)
        draws = np.sqrt(variance)[:, None] * rng.standard_normal((len(self.features), f.shape[1]))
        draws += self.features @ u
        offset = np.asarray(offset, dtype=np.float64)
        return draws + (offset[:, None] if offset.ndim == 1 else offset)
