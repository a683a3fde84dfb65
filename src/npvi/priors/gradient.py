"""The gradient of the prior's log density in the hyper-parameters, without differentiating a Cholesky factor."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numba import njit
from numpy.typing import NDArray

from npvi.kernels import Stationary, distance_slopes, evaluate
from npvi.parallel import over_chunks
from npvi.precision import float64
from npvi.priors.conditionals import PAIRS, list_distances, list_pairs, prepare
from npvi.priors.nngp import NNGP
from npvi.sparse.lanes import LANES, solve_last

__all__ = ["PriorGradient", "expected_log_density_gradient"]


class PriorGradient(NamedTuple):
    """Derivatives of E log p(f)."""

    kernel: Any
    """In each parameter of the kernel: an object like the kernel, with derivatives in the place of numbers."""
    nugget: float


def expected_log_density_gradient(
    prior: NNGP,
    functions: NDArray[np.float64],
    weights: NDArray[np.float64],
    rows: NDArray[np.int32] | None = None,
) -> PriorGradient:
    """∂/∂θ of Σ_i −½ [log d_i + Σ_s weights_s (f_i − b_iᵀ f_parents)²/d_i], f the columns of `functions`.

    With u = (−b_i, 1) on (parents, i), C = Σ_s weights_s f fᵀ on the same block, r² = uᵀCu and t = (Σ_αα⁻¹ (C u)_α, 0)
    the gradient of ½[log d + r²/d] in the kernel block is G = (1 − r²/d)/(2d) u uᵀ − (u tᵀ + t uᵀ)/(2d), and only
    the kernel function itself is differentiated, by a vector–Jacobian product with G.

    Parameters
    ----------
    prior : NNGP, at the θ in question.
    functions : (N, S), in the graph's order; such as the mean of a posterior and draws of it.
    weights : (S,); one for a mean, 1/n for each of n draws.
    rows : positions to sum over, in any order; all by default. The sum is scaled up to all points.
    """
    graph, kernel, X = prior.graph, prior.kernel, prior.X
    K = graph.n_neighbors
    pairs = (K + 1) * (K + 2) // 2
    visit = graph.spatial if rows is None else rows
    stationary = isinstance(kernel, Stationary)
    scaled, padding = prepare(kernel, X, graph.parents)
    leaves, structure = jax.tree.flatten(kernel)
    totals = [np.zeros(np.shape(leaf)) for leaf in leaves]
    in_scales = np.zeros(X.shape[1])
    in_nugget = 0.0
    step = max(1, PAIRS // (pairs * LANES)) * LANES
    step = min(step, -(-len(visit) // LANES) * LANES)
    functions = np.ascontiguousarray(functions)
    for start in range(0, len(visit), step):
        some = visit[start : start + step]
        groups = -(-len(some) // LANES)
        size = groups * pairs * LANES
        if stationary:
            distances = np.empty(size)
            over_chunks(list_distances, groups, some, graph.parents, padding, scaled, scaled, distances, grain=16)
            values, slopes, in_leaves = distance_slopes(kernel, distances)
        else:
            # every chunk has the same size, so that one compilation serves; what is beyond `size` has weight 0
            full = -(-step // LANES) * pairs * LANES
            points = [np.zeros((full, X.shape[1])) for _ in range(2)]
            over_chunks(list_pairs, groups, some, graph.parents, padding, X, X, *points, grain=16)
            values = evaluate(kernel, points[0][:size], points[1][:size])
        G = np.zeros(size if stationary else full)
        arguments = (
            some,
            graph.parents,
            padding,
            prior.nugget,
            prior.conditional_mean_weights,
            prior.conditional_variance,
            functions,
            weights,
            values.reshape(groups, pairs, LANES),
            G[:size].reshape(groups, pairs, LANES),
        )
        in_nugget += sum(over_chunks(_block_gradient, groups, *arguments, grain=16))
        if stationary:
            found = [np.zeros(1) if part is None else G @ part for part in in_leaves]
            tail = (G.reshape(groups, pairs, LANES), slopes.reshape(groups, pairs, LANES), scaled)
            in_scales += sum(over_chunks(_along_inputs, groups, some, graph.parents, padding, *tail, grain=16))
        else:
            with float64():
                found = _pull_back_pairs(structure, leaves, *points, G)
        totals = [total + np.asarray(part) for total, part in zip(totals, found)]
    scale = graph.n_points / len(visit)
    gradient = jax.tree.unflatten(structure, [-scale * total for total in totals])
    if isinstance(kernel, Stationary):
        # r² falls with the length scale: ∂r²/∂ℓ_c = −2 (Δ_c/ℓ_c)²/ℓ_c
        lengths = np.asarray(kernel.length_scale, dtype=np.float64)
        by_input = 2.0 * scale * in_scales / lengths
        gradient.length_scale = by_input if lengths.ndim else np.asarray(by_input.sum())
    return PriorGradient(gradient, -scale * in_nugget)


@partial(jax.jit, static_argnums=0)
def _pull_back_pairs(structure: Any, leaves: list, left: jax.Array, right: jax.Array, G: jax.Array) -> list:
    def covariance(leaves: list) -> jax.Array:
        return jnp.asarray(jax.vmap(jax.tree.unflatten(structure, leaves))(left, right))

    return jax.vjp(covariance, leaves)[1](G)[0]


@njit(cache=True, nogil=True)
def _block_gradient(start, stop, rows, parents, padding, nugget, b, d, functions, weights, blocks, G):
    """Fill G, the gradient of Σ ½[log d + r²/d] in every entry of the lower triangles; return that in the nugget.

    An entry off the diagonal stands for two of the matrix.
    """
    K = parents.shape[1]
    S = functions.shape[1]
    last = K * (K + 1) // 2
    u = np.empty((K + 1, LANES))
    t = np.empty((K + 1, LANES))
    e = np.empty(S)
    half = np.empty(LANES)
    in_nugget = 0.0
    for group in range(start, stop):
        A = blocks[group]
        for lane in range(LANES):
            z = rows[min(group * LANES + lane, len(rows) - 1)]
            missing = padding[z]
            for i in range(K + 1):
                row = i * (i + 1) // 2
                for j in range(min(i, missing)):
                    A[row + j, lane] = 0.0
                A[row + i, lane] = 1.0 if i < missing else A[row + i, lane] + nugget
                u[i, lane] = 0.0
                A[last + i, lane] = 0.0
            for s in range(S):
                e[s] = functions[z, s]
            for i in range(missing, K):
                j, weight = parents[z, i - missing], b[z, i - missing]
                u[i, lane] = -weight
                for s in range(S):
                    e[s] -= weight * functions[j, s]
            u[K, lane] = 1.0
            squares = 0.0
            for s in range(S):
                squares += weights[s] * e[s] * e[s]
                e[s] *= weights[s]
            # the right-hand side (C u)_α takes the place of the last row, under a pivot that is surely positive
            bound = 1.0
            for i in range(missing, K):
                j = parents[z, i - missing]
                value = 0.0
                for s in range(S):
                    value += functions[j, s] * e[s]
                A[last + i, lane] = value
                bound += value * value
            A[last + K, lane] = bound * 1e30
            half[lane] = (1.0 - squares / d[z]) / (2.0 * d[z])
        solve_last(A, K + 1)
        for lane in range(LANES):
            here = group * LANES + lane
            z = rows[min(here, len(rows) - 1)]
            missing = padding[z]
            live = 1.0 if here < len(rows) else 0.0  # the last group is filled up with repeats
            for i in range(K + 1):
                t[i, lane] = A[last + i, lane] / (2.0 * d[z]) if missing <= i < K else 0.0
            for i in range(K + 1):
                row = i * (i + 1) // 2
                for j in range(i + 1):
                    value = half[lane] * u[i, lane] * u[j, lane]
                    value -= u[i, lane] * t[j, lane] + t[i, lane] * u[j, lane]
                    if i == j:
                        in_nugget += live * value
                    else:
                        value *= 2.0
                    G[group, row + j, lane] = live * value
    return in_nugget


@njit(cache=True, nogil=True)
def _along_inputs(start, stop, rows, parents, padding, G, slopes, scaled):
    """Σ G · slopes · (Δ_c)² for each input c, over all pairs of all blocks."""
    K = parents.shape[1]
    d = scaled.shape[1]
    total = np.zeros(d)
    at = np.empty(K + 1, np.int64)
    for group in range(start, stop):
        for lane in range(min(LANES, len(rows) - group * LANES)):
            z = rows[group * LANES + lane]
            missing = padding[z]
            for i in range(missing, K):
                at[i] = parents[z, i - missing]
            at[K] = z
            for i in range(missing, K + 1):
                row = i * (i + 1) // 2
                for j in range(missing, i):
                    slope = G[group, row + j, lane] * slopes[group, row + j, lane]
                    for c in range(d):
                        gap = scaled[at[i], c] - scaled[at[j], c]
                        total[c] += slope * gap * gap
    return total
