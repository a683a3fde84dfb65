"""What a prior answers: the same questions, whatever its structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.kernels import Kernel
from npvi.linalg import LowerHalf
from npvi.runtime.arrays import Columns, Vector

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
        rows: tuple[int, ...] = self.args[1]
        return rows

    @rows.setter
    def rows(self, rows: tuple[int, ...]) -> None:
        self.args = (self.args[0], rows)

    def __str__(self) -> str:
        return str(self.args[0]).format(*self.rows)


class Conditional(Protocol):
    """f at new points given f at the old ones: a Gaussian for each, linear in f."""

    @property
    def variance(self) -> Vector:
        """Of each new point, given f."""
        ...

    def mean(self, f: Columns) -> Columns:
        """Of each new point, given f (N,) or several (N, p)."""
        ...

    def projected_variance(self, posterior: Posterior) -> Columns:
        """Var mean(f) for f of the posterior; with a column per function where it has several."""
        ...


class NeighborConditional(NamedTuple):
    """f at M new points given f at the old ones: N(Σ_j weights_ij f[neighbors_ij], variance_i)."""

    neighbors: NDArray[np.int32]
    weights: Columns
    variance: Columns

    def mean(self, f: Columns) -> Columns:
        """Σ_j weights_ij f[neighbors_ij]."""
        mean: Columns = np.einsum("ij,ij...->i...", self.weights, f[self.neighbors])
        return mean

    def projected_variance(self, posterior: Posterior) -> Columns:
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
        f: Columns,
        rng: np.random.Generator,
        offset: Columns | float = 0.0,
        nugget: bool = True,
    ) -> Columns:
        """One draw (M, S) for each draw f (N, S) at the old points; `offset` is a number, (M,) or (M, S); `nugget` says
        whether each new point has its own."""
        ...

    def propagate(self, f: Columns, noise: Columns) -> Columns:
        """f at the new points (M, S) without nuggets, from f at the old points (N, S) and standard normal noise
        (`n_noise`, S); it may overwrite the noise."""
        ...

    def adjoint(self, weights: Columns) -> tuple[Columns, Columns]:
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

    def solve(self, x: Columns) -> Columns:
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
    X: Columns

    def matvec(self, x: Columns) -> Columns:
        """P x, for one vector (N,) or many (N, R)."""
        ...

    def quadratic(self, x: Vector) -> float:
        """xᵀ P x."""
        ...

    def block(self, S: NDArray[np.int64]) -> Columns:
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

    @property
    def fresh_variance(self) -> Vector:
        """Of a new row at the place of each old one, given f there: its nugget, and what inducing points leave open."""
        ...

    def draw(self, rng: np.random.Generator, n: int = 1) -> Columns:
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

    def factor(self, site_precision: Vector, route: str) -> PrecisionFactor:
        """A factor of P + W."""
        ...

    def conditional(self, Z: Columns, times: int = 1) -> Conditional:
        """f at new points given f at the old ones, of each by itself; priors that look at neighbours look at `times` as
        many."""
        ...

    def conditional_of_last(self, Z: Columns, graph: Graph) -> Conditional:
        """The same for Z that are the last points of an extended graph, about as well."""
        ...

    def nearest(self, Z: Columns) -> NDArray[np.int32]:
        """Position of the nearest old point to each new one, as the kernel measures distance."""
        ...

    def joint(self, Z: Columns, n_neighbors: int | None = None) -> Joint:
        """The same of all new points together; `n_neighbors` is for priors that look at neighbours."""
        ...

    def extended(self, X: Columns, graph: Graph) -> Self:
        """The prior with the last points of `graph` added."""
        ...

    def forget_precision(self) -> None:
        """Drop what is only needed while fitting."""
        ...
