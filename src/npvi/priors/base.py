"""What a prior answers: five questions, whatever its structure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph

__all__ = ["Conditional", "NotPositiveDefiniteError", "Prior"]


class NotPositiveDefiniteError(ValueError):
    """A kernel matrix that isn't positive definite, in the caller's terms."""


class Conditional(NamedTuple):
    """f at M new points given f at the old ones: N(Σ_j weights_ij f[neighbors_ij], variance_i)."""

    neighbors: NDArray[np.int32]
    weights: NDArray[np.float64]
    variance: NDArray[np.float64]


class Prior(Protocol):
    """A Gaussian over N points in the graph's order, with precision P."""

    graph: Graph

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P x."""
        ...

    def block(self, S: NDArray[np.int64]) -> NDArray[np.float64]:
        """P[S, S]."""
        ...

    @property
    def logdet(self) -> float:
        """log |P⁻¹|."""
        ...

    def draw(self, rng: np.random.Generator, n: int = 1) -> NDArray[np.float64]:
        """Draws with covariance P, shape (N, n)."""
        ...

    def conditional(self, Z: NDArray[np.float64]) -> Conditional:
        """f at new points given f at the old ones."""
        ...
