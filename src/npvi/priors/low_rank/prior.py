"""Low-rank priors: all that points have in common goes through inducing points (FITC, Nyström)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist

from npvi.graph import Graph, NeighborIndex
from npvi.kernels import Kernel, Stationary, diagonal, evaluate_distances, matrix
from npvi.linalg import LowerHalf
from npvi.linalg.woodbury import WoodburyFactor, divided, gram, low_rank_lower_half, raised_root, woodbury
from npvi.posteriors import Posterior, projected_covariance
from npvi.priors.base import NotPositiveDefiniteError
from npvi.priors.gradient import PriorGradient
from npvi.runtime.lazy import jax, jit, jnp
from npvi.runtime.precision import float64

if TYPE_CHECKING:
    from npvi.posteriors import Posterior

__all__ = ["FITC", "LowRank", "LowRankConditional", "LowRankJoint", "Nystrom", "low_rank_gradient"]


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


# -- new points under a low-rank prior: what f at the training points says about them goes through M numbers ----------


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


# -- the gradient of a low-rank prior's log density in the hyper-parameters, inducing points held, in O(N M²) ---------


#: pairs of points whose kernel is differentiated at once
_PAIRS = 2**17


def low_rank_gradient(
    prior: LowRank,
    functions: NDArray[np.float64],
    weights: NDArray[np.float64],
    diagonal: NDArray[np.float64] | None = None,
) -> PriorGradient:
    """∂/∂θ of −½ [log |Σ| + tr(P S)] for S = Σ_s weights_s f fᵀ + diag(diagonal), f the columns of `functions`.

    With G = P − P S P the derivative along a change of Σ is −½ tr(G dΣ). In the kernel matrices, with B = K_uu⁻¹ K_uf,
    that is −G̃ Bᵀ for K_fu, ½ B G̃ Bᵀ for K_uu and −½ diag(G) for the nugget, where G̃ = G for Nyström's Σ; FITC's, which
    keeps variances as they are, has G̃ = G − diag(G) and −½ diag(G) for the kernel's own variances too. Only the kernel
    function itself is differentiated, by vector–Jacobian products with these.

    Parameters
    ----------
    prior : at the θ in question.
    functions : (N, S), in the graph's order; such as the mean of a posterior and columns whose squares are its
        covariance.
    weights : (S,)
    diagonal : (N,), optional.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.priors import FITC
    >>> X = np.array([[0.0], [1.0]])
    >>> prior = FITC(RBF(), 0.5, X, build_graph(X, 1, order="given"), inducing=X)
    >>> round(low_rank_gradient(prior, np.zeros((2, 1)), np.ones(1)).nugget, 3)  # −½ tr P for P⁻¹ = K + ½ I
    -0.797
    """
    own, A, F = prior.own_variance, prior.loadings, prior.features
    # Bᵀ = F R⁻¹: division by the factor R of K_uu waits until the end, here P F = A C⁻¹
    PF = divided(A.copy(), prior.inner, "T")
    P_functions = prior.matvec(functions)
    in_cross = PF - (P_functions * weights) @ (functions.T @ PF)
    G = prior.precision_diagonal - P_functions**2 @ weights
    if diagonal is not None:
        in_cross -= prior.matvec(diagonal[:, None] * PF)
        # Σ_j diagonal_j P_ij² for P = Λ⁻¹ − A Aᵀ
        G -= diagonal / own * (2.0 * prior.precision_diagonal - 1.0 / own)
        G -= np.einsum("im,im->i", A @ gram(A, diagonal), A)
    in_own = np.zeros_like(G)
    if prior.exact_diagonal:
        in_cross -= G[:, None] * F
        in_own = -0.5 * G
    in_cross = divided(in_cross, prior.inducing_root, "T")
    in_inducing = 0.5 * solve_triangular(prior.inducing_root, F.T @ in_cross, lower=True, trans="T")
    in_inducing += prior.jitter * np.trace(in_inducing) / len(in_inducing) * np.eye(len(in_inducing))
    return PriorGradient(_pulled_back(prior, -in_cross, in_inducing, in_own), -0.5 * float(G.sum()))


def _pulled_back(
    prior: LowRank, in_cross: NDArray[np.float64], in_inducing: NDArray[np.float64], in_own: NDArray[np.float64]
) -> Any:
    """From derivatives in kernel values, K_fu, K_uu and the diagonal of K_ff, to those in the kernel's parameters."""
    leaves, structure = jax.tree.flatten(prior.kernel)
    X, Z = prior.X, prior.inducing
    step = max(1, _PAIRS // len(Z))
    step = min(1 << (step.bit_length() - 1), 1 << (len(X) - 1).bit_length())
    totals = [np.zeros(np.shape(leaf)) for leaf in leaves]
    with float64():
        for points, cross, own in ((X, in_cross, in_own), (Z, in_inducing, np.zeros(len(Z)))):
            for start in range(0, len(points), step):
                # every block has the same size, so that one compilation serves; what fills the last one has weight 0
                rows = np.minimum(np.arange(start, start + step), len(points) - 1)
                live = np.arange(start, start + step) < len(points)
                found = _pull_back(structure, leaves, points[rows], Z, cross[rows] * live[:, None], own[rows] * live)
                totals = [total + np.asarray(part) for total, part in zip(totals, found)]
    return jax.tree.unflatten(structure, totals)


@jit(static_argnums=0)
def _pull_back(
    structure: Any, leaves: list, X: jax.Array, Z: jax.Array, in_cross: jax.Array, in_own: jax.Array
) -> list:
    def covariances(leaves: list) -> tuple[jax.Array, jax.Array]:
        kernel = jax.tree.unflatten(structure, leaves)
        cross = jax.vmap(lambda x: jax.vmap(lambda z: kernel(x, z))(Z))(X)
        return jnp.asarray(cross), jnp.asarray(jax.vmap(kernel)(X, X))

    return jax.vjp(covariances, leaves)[1]((in_cross, in_own))[0]
