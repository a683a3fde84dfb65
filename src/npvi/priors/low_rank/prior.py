"""Low-rank priors: all that points have in common goes through inducing points (FITC, Nyström)."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist

from npvi.graph import Graph, NeighborIndex
from npvi.kernels import Kernel, Stationary, diagonal, evaluate_distances, matrix
from npvi.linalg import LowerHalf
from npvi.linalg.woodbury import WoodburyFactor, divided, gram, low_rank_lower_half, raised_root, woodbury
from npvi.posteriors import Posterior
from npvi.posteriors.projection import projected_covariance
from npvi.priors.base import NotPositiveDefiniteError
from npvi.priors.low_rank.conditionals import LowRankConditional, LowRankJoint

__all__ = ["FITC", "LowRank", "Nystrom"]

Vector = NDArray[np.float64]

#: what may be added to the diagonal of K_uu, in units of its mean: the first that rounding doesn't swallow
_JITTERS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
#: smallest share of a point's variance that may be its own: below, it would be rounding
_LEAST = 1e-9


class LowRank:
    """f = F u + e with u ~ N(0, I) and e ~ N(0, Λ), Λ diagonal: a Gaussian with covariance Q + Λ, Q = F Fᵀ.

    With M inducing points and their kernel matrix K_uu = R Rᵀ, F = K_fu R⁻ᵀ, so that Q = K_fu K_uu⁻¹ K_uf; for the sake
    of rounding the diagonal of K_uu is raised by `jitter`, mostly 1e-12, times its mean. The precision is
    P = Λ⁻¹ − A Aᵀ with A = Λ⁻¹ F C⁻ᵀ and C Cᵀ = I + Fᵀ Λ⁻¹ F. Nothing costs more than O(N M²).

    What Λ is makes the difference between `FITC` and `Nystrom`. A new point is the same under both: given u it is
    N(F_* u, k(x, x) − ‖F_*‖² + nugget), independent of all others, so that far from all inducing points predictions
    have the variance of the Gaussian process itself. Points are in the graph's order throughout.

    Parameters
    ----------
    kernel : covariance of f, without the nugget.
    nugget : variance added to the diagonal; part of f.
    X : (N, d) inputs in the graph's order.
    graph : Graph; only the column sweep asks for it.
    inducing : (M, d) inducing points, no two the same.

    Attributes
    ----------
    inducing_root : R, shape (M, M)
    features : F, shape (N, M)
    own_variance : the diagonal of Λ, shape (N,)
    conditional_variance : of each point given u, as if it were new: k(x, x) − ‖F_i‖² + nugget, shape (N,)
    marginal_variance : the diagonal of Q + Λ, shape (N,)
    """

    routes = ("woodbury",)
    exact_factor = True
    #: whether variances are the kernel's own
    exact_diagonal: bool

    def __init__(
        self, kernel: Kernel, nugget: float, X: NDArray[np.float64], graph: Graph, inducing: NDArray[np.float64]
    ) -> None:
        self.kernel, self.nugget, self.X, self.graph, self.inducing = kernel, float(nugget), X, graph, inducing
        self.inducing_root, self.jitter = _inducing_root(kernel, inducing)
        self.features, self.conditional_variance, explained = self._given_inducing(X)
        self.own_variance = self.conditional_variance if self.exact_diagonal else np.full(len(X), self.nugget)
        self.marginal_variance = explained + self.own_variance
        lost = ~(self.own_variance > _LEAST * self.marginal_variance)
        if lost.any():
            raise self._not_positive_definite(int(lost.sum()))

    def _given_inducing(self, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], Vector, Vector]:
        """F at points, what is left of their variance given u, and what u explains of it."""
        features = divided(_cross_covariance(self.kernel, X, self.inducing), self.inducing_root)
        explained = np.einsum("ij,ij->i", features, features)
        return features, np.maximum(diagonal(self.kernel, X) - explained, 0.0) + self.nugget, explained

    def extended(self, X: NDArray[np.float64], graph: Graph) -> Self:
        """The prior with the last points of `graph` added; the inducing points stay."""
        return type(self)(self.kernel, self.nugget, np.vstack([self.X, X]), graph, self.inducing)

    def whiten(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """T x with TᵀT = P, shape (N + M,) or (N + M, R): what u doesn't explain of x, and u itself.

        With û = (C Cᵀ)⁻¹ Fᵀ Λ⁻¹ x it is (Λ^{−½}(x − F û), û): a sum of squares in which nothing cancels.
        """
        u = self._explaining(x)
        return np.concatenate([((x - self.features @ u).T / np.sqrt(self.own_variance)).T, u])

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P x = Λ⁻¹ (x − F û), for one vector (N,) or many (N, R)."""
        return ((x - self.features @ self._explaining(x)).T / self.own_variance).T

    def quadratic(self, x: Vector) -> float:
        """xᵀ P x."""
        return float(np.sum(self.whiten(x) ** 2))

    def block(self, S: NDArray[np.int64]) -> NDArray[np.float64]:
        """P[S, S], dense."""
        A = self.loadings[S]
        return np.diag(1.0 / self.own_variance[S]) - A @ A.T

    @property
    def logdet(self) -> float:
        """log |P⁻¹| = Σ log λ_i + log |C Cᵀ|."""
        return float(np.log(self.own_variance).sum()) + self._log_inner

    @property
    def fresh_variance(self) -> Vector:
        """Of a new row at the place of each, given u."""
        return self.conditional_variance

    def draw(self, rng: np.random.Generator, n: int = 1) -> NDArray[np.float64]:
        """Draws with covariance P, shape (N, n): Tᵀ ε."""
        own = rng.standard_normal((len(self.X), n)) / np.sqrt(self.own_variance)[:, None]
        u = cho_solve((self.inner, True), rng.standard_normal((self.inner.shape[0], n)) - self.features.T @ own)
        return own + (self.features @ u) / self.own_variance[:, None]

    def conditional(self, Z: NDArray[np.float64], times: int = 1) -> LowRankConditional:
        """f at new points given f at X, by way of what f says about u: the nugget is fresh for every new row."""
        features, variance, _ = self._given_inducing(Z)
        weights = divided(features, self.inner)
        return LowRankConditional(self, weights, variance + np.einsum("ij,ij->i", weights, weights))

    def conditional_of_last(self, Z: NDArray[np.float64], graph: Graph) -> LowRankConditional:
        """The same, for the last points of an extended graph."""
        return self.conditional(Z)

    def nearest(self, Z: NDArray[np.float64]) -> NDArray[np.int32]:
        """Position of the nearest point of X to each new one."""
        return self._index.query(self.kernel.coordinates(Z), 1)[:, 0]

    def joint(self, Z: NDArray[np.float64], n_neighbors: int | None = None) -> LowRankJoint:
        """f at all new points together given f at X: given u they are independent."""
        features, variance, _ = self._given_inducing(Z)
        return LowRankJoint(self, features, variance)

    def factor(self, site_precision: Vector, route: str = "woodbury") -> WoodburyFactor:
        """(P + W)⁻¹ in closed form."""
        return woodbury(self.features, self.own_variance, self._log_inner, site_precision)

    @cached_property
    def inner(self) -> NDArray[np.float64]:
        """C, shape (M, M): the factor of the precision of u given f."""
        return raised_root(gram(self.features, 1.0 / self.own_variance))

    @cached_property
    def _index(self) -> NeighborIndex:
        return NeighborIndex(self.kernel.coordinates(self.X))

    @cached_property
    def loadings(self) -> NDArray[np.float64]:
        """A, shape (N, M)."""
        return divided(self.features / self.own_variance[:, None], self.inner)

    @cached_property
    def precision_diagonal(self) -> Vector:
        """The diagonal of P."""
        return 1.0 / self.own_variance - np.einsum("ij,ij->i", self.loadings, self.loadings)

    @cached_property
    def lower_half(self) -> LowerHalf:
        """The entries of P that the column sweep looks at."""
        return low_rank_lower_half(self.graph, 1.0 / self.own_variance, self.loadings)

    def forget_precision(self) -> None:
        """Drop what `lower_half` keeps; it is only needed while fitting."""
        self.__dict__.pop("lower_half", None)

    def summary(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ f, shape (M,) or (M, p): all that f says about u, whose mean given f is C⁻ᵀ Aᵀ f."""
        return solve_triangular(self.inner, self.features.T @ (f.T / self.own_variance).T, lower=True)

    def summary_covariance(self, posterior: Posterior) -> NDArray[np.float64]:
        """Cov Aᵀ f for f of a posterior, shape (M, M) or (C, M, M); that of the last posterior is kept."""
        known = self.__dict__.get("_known")
        if known is None or known[0] is not posterior:
            known = self.__dict__["_known"] = (posterior, projected_covariance(posterior, self.loadings))
        return known[1]

    def _explaining(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """û, the u that explains x best."""
        return cho_solve((self.inner, True), self.features.T @ (x.T / self.own_variance).T)

    @property
    def _log_inner(self) -> float:
        return 2.0 * float(np.log(np.diag(self.inner)).sum())

    def _not_positive_definite(self, n: int) -> NotPositiveDefiniteError:
        return NotPositiveDefiniteError(
            f"a low-rank prior needs a nugget: {n} of {len(self.X)} points have no variance of their own beside what "
            f"the inducing points say (the nugget is {self.nugget:.3g}). Give a larger one, for example "
            f"nugget={1e-4 * (float(self.marginal_variance.max()) or 1.0):.3g}"
        )


class FITC(LowRank):
    """f ~ N(0, Q + diag(K − Q) + nugget I), Q = K_fu K_uu⁻¹ K_uf: variances are the kernel's own (`LowRank` has more).

    Snelson & Ghahramani (2006), Naish-Guzman & Holden (2008). With every point an inducing point it is the Gaussian
    process itself.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = FITC(RBF(), 0.1, X, build_graph(X, 2, order="given"), inducing=X[[1]])
    >>> np.linalg.inv(prior.block(np.arange(3))).round(3)
    array([[1.1  , 0.607, 0.368],
           [0.607, 1.1  , 0.607],
           [0.368, 0.607, 1.1  ]])
    """

    exact_diagonal = True


class Nystrom(LowRank):
    """f ~ N(0, Q + nugget I), Q = K_fu K_uu⁻¹ K_uf, with a nugget that must be positive (`LowRank` has more).

    With every point an inducing point it is the Gaussian process itself.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = Nystrom(RBF(), 0.1, X, build_graph(X, 2, order="given"), inducing=X[[1]])
    >>> np.linalg.inv(prior.block(np.arange(3))).round(3)
    array([[0.468, 0.607, 0.368],
           [0.607, 1.1  , 0.607],
           [0.368, 0.607, 0.468]])
    """

    exact_diagonal = False


def _inducing_root(kernel: Kernel, inducing: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """R with R Rᵀ = K_uu, and the jitter that it took."""
    K = matrix(kernel, inducing)
    scale = float(np.mean(np.diag(K)))
    for jitter in _JITTERS:
        try:
            root = np.linalg.cholesky(K + jitter * scale * np.eye(len(K)))
        except np.linalg.LinAlgError:
            continue
        # but for rounding no pivot is smaller than the jitter
        if np.diag(root).min() ** 2 > 0.5 * jitter * scale:
            return np.asarray(root, dtype=np.float64), jitter
    raise NotPositiveDefiniteError(
        f"the kernel matrix of the {len(K)} inducing points isn't positive definite: choose a rougher kernel, or fewer "
        "inducing points"
    )


def _cross_covariance(kernel: Kernel, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """k(X[i], Z[j]), shape (N, M)."""
    if not isinstance(kernel, Stationary):
        return matrix(kernel, X, Z)
    scale = np.asarray(kernel.length_scale)
    squared = cdist(X / scale, Z / scale, "sqeuclidean")
    return evaluate_distances(kernel, squared.ravel()).reshape(squared.shape)
