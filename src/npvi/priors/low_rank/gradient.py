"""The gradient of a low-rank prior's log density in the hyper-parameters, inducing points held, in O(N M²)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from npvi.linalg.woodbury import divided, gram
from npvi.priors.gradient import PriorGradient
from npvi.priors.low_rank.prior import LowRank
from npvi.runtime.lazy import jax, jit, jnp
from npvi.runtime.precision import float64

__all__ = ["low_rank_gradient"]

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
