"""The best Gaussian under a low-rank prior, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import WoodburyFactor

__all__ = ["LowRankPosterior"]


@dataclass(frozen=True)
class LowRankPosterior:
    """q(f) = N(mean, V) over the training points, in the graph's order, with V = (P + W)⁻¹ = T + J Jᵀ, T diagonal.

    Attributes
    ----------
    mean : μ, shape (N,)
    factor : V; its `diagonal` is T, its `columns` are J.

    Examples
    --------
    >>> from npvi.linalg.woodbury import woodbury
    >>> q = LowRankPosterior(np.zeros(2), woodbury(np.ones((2, 1)), np.full(2, 0.5), np.log(5.0), np.ones(2)))
    >>> q.variance.round(4)  # of two points with prior covariance [[1.5, 1], [1, 1.5]], observed with precision 1
    array([0.5238, 0.5238])
    """

    mean: NDArray[np.float64]
    factor: WoodburyFactor

    @property
    def site_precision(self) -> NDArray[np.float64]:
        """w, shape (N,): how much each observation says about its own f."""
        return self.factor.site_precision

    @cached_property
    def variance(self) -> NDArray[np.float64]:
        """Marginal variances, shape (N,)."""
        return self.factor.variance

    def projected_variance(self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f[neighbors_ij] for each row i; neighbours of a row must differ."""
        along = np.einsum("ij,ijm->im", weights, self.factor.columns[neighbors])
        own = np.einsum("ij,ij->i", weights**2, self.factor.diagonal[neighbors])
        return own + np.einsum("im,im->i", along, along)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws of f at the training points, μ + √T ε + J ε', shape (N, n)."""
        own = np.sqrt(self.factor.diagonal)[:, None] * rng.standard_normal((len(self.mean), n))
        shared = self.factor.columns @ rng.standard_normal((self.factor.columns.shape[1], n))
        return self.mean[:, None] + own + shared
