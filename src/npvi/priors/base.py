"""What a prior answers: the same questions, whatever its structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.kernels import Kernel
from npvi.linalg import LowerHalf

if TYPE_CHECKING:
    from npvi.posteriors import Posterior

__all__ = [
    "Conditional",
    "Joint",
    "NeighborConditional",
    "NotPositiveDefiniteError",
    "PrecisionFactor",
    "Prior",
]

Vector = NDArray[np.float64]


class NotPositiveDefiniteError(ValueError):
    """A kernel matrix that isn't positive definite, in the caller's terms.

    Parameters
    ----------
    message : what is wrong, with {} in place of each row's number.
    rows : of the data, as many as the message has places.

    Examples
    --------
    >>> error = NotPositiveDefiniteError("row {} is as row {}", (3, 4))
    >>> error.rows = (1, 0)
    >>> str(error)
    'row 1 is as row 0'
    """

    def __init__(self, message: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(message, rows)

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows that it names."""
        return self.args[1]

    @rows.setter
    def rows(self, rows: tuple[int, ...]) -> None:
        self.args = (self.args[0], rows)

    def __str__(self) -> str:
        return self.args[0].format(*self.rows)


class Conditional(Protocol):
    """f at new points given f at the old ones: a Gaussian for each, linear in f."""

    @property
    def variance(self) -> Vector:
        """Of each new point, given f."""
        ...

    def mean(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each new point, given f (N,) or several (N, p)."""
        ...

    def projected_variance(self, posterior: Posterior) -> NDArray[np.float64]:
        """Var mean(f) for f of the posterior; with a column per function where it has several."""
        ...


class NeighborConditional(NamedTuple):
    """f at M new points given f at the old ones: N(Σ_j weights_ij f[neighbors_ij], variance_i)."""

    neighbors: NDArray[np.int32]
    weights: NDArray[np.float64]
    variance: NDArray[np.float64]

    def mean(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_j weights_ij f[neighbors_ij]."""
        return np.einsum("ij,ij...->i...", self.weights, f[self.neighbors])

    def projected_variance(self, posterior: Posterior) -> NDArray[np.float64]:
        """Var Σ_j weights_ij f[neighbors_ij]."""
        return posterior.projected_variance(self.neighbors, self.weights)


class Joint(Protocol):
    """f at new points, all together, given f at the old ones."""

    @property
    def n_noise(self) -> int:
        """How many rows of noise there are in them."""
        ...

    def draw(
        self,
        f: NDArray[np.float64],
        rng: np.random.Generator,
        offset: NDArray[np.float64] | float = 0.0,
        nugget: bool = True,
    ) -> NDArray[np.float64]:
        """One draw (M, S) for each draw f (N, S) at the old points; `offset` is a number, (M,) or (M, S); `nugget` says
        whether each new point has its own."""
        ...

    def propagate(self, f: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """f at the new points (M, S) without nuggets, from f at the old points (N, S) and standard normal noise
        (`n_noise`, S); it may overwrite the noise."""
        ...

    def adjoint(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The transpose of `propagate`: what sums over new points, weights (M, R), see of f and of the noise."""
        ...


class PrecisionFactor(Protocol):
    """A factor of P + W, exact or nearly so."""

    @property
    def breakdowns(self) -> NDArray[np.int64]:
        """Positions at which it had to be repaired."""
        ...

    @property
    def finite(self) -> bool:
        """Whether it can be used."""
        ...

    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P + W)⁻¹ x, or nearly so."""
        ...

    def log_determinant(self) -> float:
        """log |P + W|, or nearly so."""
        ...


class Prior(Protocol):
    """A Gaussian over N points in the graph's order, with precision P."""

    graph: Graph
    kernel: Kernel
    nugget: float
    X: NDArray[np.float64]

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P x, for one vector (N,) or many (N, R)."""
        ...

    def quadratic(self, x: Vector) -> float:
        """xᵀ P x."""
        ...

    def block(self, S: NDArray[np.int64]) -> NDArray[np.float64]:
        """P[S, S]."""
        ...

    @property
    def logdet(self) -> float:
        """log |P⁻¹|."""
        ...

    @property
    def precision_diagonal(self) -> Vector:
        """The diagonal of P."""
        ...

    @property
    def marginal_variance(self) -> Vector:
        """The diagonal of P⁻¹."""
        ...

    def draw(self, rng: np.random.Generator, n: int = 1) -> NDArray[np.float64]:
        """Draws with covariance P, shape (N, n)."""
        ...

    @property
    def lower_half(self) -> LowerHalf:
        """The entries of P that the column sweep looks at."""
        ...

    @property
    def routes(self) -> tuple[str, ...]:
        """Names of the factors of P + W that there are, in the order in which to try them."""
        ...

    @property
    def exact_factor(self) -> bool:
        """Whether the factor is (P + W)⁻¹ in closed form, with its diagonal: a `sparse.WoodburyFactor`."""
        ...

    def factor(self, site_precision: Vector, route: str) -> Any:
        """A `PrecisionFactor` of P + W."""
        ...

    def conditional(self, Z: NDArray[np.float64], times: int = 1) -> Conditional:
        """f at new points given f at the old ones, of each by itself; priors that look at neighbours look at `times` as
        many."""
        ...

    def conditional_of_last(self, Z: NDArray[np.float64], graph: Graph) -> Conditional:
        """The same for Z that are the last points of an extended graph, about as well."""
        ...

    def nearest(self, Z: NDArray[np.float64]) -> NDArray[np.int32]:
        """Position of the nearest old point to each new one, as the kernel measures distance."""
        ...

    def joint(self, Z: NDArray[np.float64], n_neighbors: int | None = None) -> Joint:
        """The same of all new points together; `n_neighbors` is for priors that look at neighbours."""
        ...

    def extended(self, X: NDArray[np.float64], graph: Graph) -> Any:
        """The prior with the last points of `graph` added."""
        ...

    def forget_precision(self) -> None:
        """Drop what is only needed while fitting."""
        ...
