"""What predictions ask of a posterior."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.runtime.arrays import Columns

__all__ = ["Posterior"]


class Posterior(Protocol):
    """A Gaussian q(f) over the training points, in the graph's order."""

    @property
    def mean(self) -> Columns:
        """Means."""
        ...

    @property
    def site_precision(self) -> Columns:
        """How much each observation says about its own f."""
        ...

    @property
    def variance(self) -> Columns:
        """Marginal variances."""
        ...

    def projected_variance(self, neighbors: NDArray[np.int32], weights: Columns) -> Columns:
        """Var Σ_j weights_ij f[neighbors_ij] for each row i."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Columns:
        """Draws of f, shape (N, n)."""
        ...
