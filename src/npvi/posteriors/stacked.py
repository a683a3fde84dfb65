"""Posteriors of several functions, independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.posteriors.base import Posterior

__all__ = ["StackedPosterior"]


class StackedPosterior:
    """q(f_1) ⋯ q(f_C): what a posterior of one function answers, with a column for each.

    Attributes
    ----------
    parts : the posterior of each function.
    """

    def __init__(self, parts: Sequence[Posterior]) -> None:
        self.parts = tuple(parts)

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """Means, shape (N, C)."""
        return np.column_stack([part.mean for part in self.parts])

    @cached_property
    def variance(self) -> NDArray[np.float64]:
        """Marginal variances, shape (N, C)."""
        return np.column_stack([part.variance for part in self.parts])

    @cached_property
    def site_precision(self) -> NDArray[np.float64]:
        """How much each observation says about its own f_c, shape (N, C)."""
        return np.column_stack([part.site_precision for part in self.parts])

    def projected_variance(self, neighbors: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f_c[neighbors_ij] for each row i, shape (rows, C)."""
        return np.column_stack([part.projected_variance(neighbors, weights) for part in self.parts])

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws of f at the training points, shape (N, n, C)."""
        return np.stack([part.sample(n, rng) for part in self.parts], axis=2)
