"""Gradients of what depends on the prior's conditionals in the hyper-parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.kernels import Stationary, evaluate
from npvi.kernels.fast import NO_FORMULA, formula_of
from npvi.linalg import LANES, ZeroFillFactor, add_slopes, combined, narrowed, products, solve_last
from npvi.parameters import map_numbers
from npvi.priors.conditionals import chunks, fill, finish, gather, grain, list_pairs, n_pairs, prepare
from npvi.priors.nngp import NNGP
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.lazy import jax, jit, jnp
from npvi.runtime.parallel import over_chunks
from npvi.runtime.precision import float64

__all__ = ["PriorGradient", "expected_log_density_gradient", "marginal_gradient"]


class PriorGradient(NamedTuple):
    """Derivatives in the hyper-parameters."""

    kernel: Any
    """In each parameter of the kernel: an object like the kernel, with derivatives in the place of numbers."""
    nugget: float


class _Sensitivity(NamedTuple):
    """Derivatives of something in the conditionals of a nearest-neighbour prior."""

    in_weights: NDArray[np.float64]
    """In b, shape (N, K)."""
    in_variance: NDArray[np.float64]
    """In d, shape (N,)."""


def expected_log_density_gradient(
    prior: NNGP,
    functions: NDArray[np.float64],
    weights: NDArray[np.float64],
    rows: NDArray[np.int32] | None = None,
) -> PriorGradient:
    """∂/∂θ of Σ_i −½ [log d_i + Σ_s weights_s (f_i − b_iᵀ f_parents)²/d_i], f the columns of `functions`.

    Parameters
    ----------
    prior : NNGP, at the θ in question.
    functions : (N, S), in the graph's order; such as the mean of a posterior and draws of it.
    weights : (S,); one for a mean, 1/n for each of n draws.
    rows : positions to sum over, each once, in any order; all by default. The sum is scaled up to all points.
    """
    return _pull_back(prior, _of_log_density(prior, functions, weights, rows), rows)


def marginal_gradient(
    prior: NNGP,
    functions: NDArray[np.float64],
    factor: ZeroFillFactor,
    draws: NDArray | None = None,
    noise: NDArray[np.float64] | None = None,
    rows: NDArray[np.int32] | None = None,
) -> PriorGradient:
    """∂/∂θ of −½ Σ fᵀPf + ½ log |P| − ½ log |P + W| over the columns f of `functions`, for the factor U Uᵀ of P + W.

    At the best q, with its mean (and what moves with the coefficients of the prior's mean) as functions, that is the
    gradient of the bound, as `expected_log_density_gradient` of these and draws is, without the noise of draws; but the
    factor must be exact. Of many rows next to nothing is enough: at 100,000 a residual of a hundredth was seen to hide
    30 nats in the slope of a nugget. So `draws` of N(0, (P+W)⁻¹) tell the rest, and the random numbers they were made
    from (`noise`) what the factor alone would have told: most of their noise is in both. With `rows` the sum over rows
    that it is runs over these alone, and is scaled up to all.
    """
    weights = np.ones(functions.shape[1])
    if draws is not None:
        functions = np.hstack([functions, draws])
        weights = np.append(weights, np.full(draws.shape[1], 1.0 / draws.shape[1]))
    density = _of_log_density(prior, functions, weights, rows)
    in_diagonal, in_edges = factor.log_determinant_gradient(noise)
    d, root = prior.conditional_variance, prior.root
    if factor.root is not None and factor.root is not root:  # what a wider pattern has besides stays 0
        in_edges = narrowed(in_edges, factor.root.graph, root.graph)
    # T = D^{−½}(I − B)
    in_root = in_diagonal * root.diagonal + np.einsum("ij,ij->i", in_edges, root.edges)
    in_weights = density.in_weights + 0.5 * in_edges * root.diagonal[:, None]
    return _pull_back(prior, _Sensitivity(in_weights, density.in_variance + 0.25 * in_root / d), rows)


def _of_log_density(
    prior: NNGP, functions: NDArray[np.float64], weights: NDArray[np.float64], rows: NDArray[np.int32] | None = None
) -> _Sensitivity:
    """Of Σ_i −½ [log d_i + Σ_s weights_s (f_i − b_iᵀ f_parents)²/d_i] over `rows`."""
    b, d = prior.conditional_mean_weights, prior.conditional_variance
    found = _Sensitivity(np.zeros_like(b), np.zeros_like(d))
    functions = np.ascontiguousarray(functions, dtype=np.float64)
    some: Any = slice(None) if rows is None else rows
    parents, here = prior.graph.parents[some], d[some]
    e = combined(functions[some], parents, -b[some], functions)
    squares = e**2 @ weights
    found.in_variance[some] = 0.5 * (squares / here - 1.0) / here
    e *= weights / here[:, None]
    found.in_weights[some] = products(parents, e, functions)
    return found


def _pull_back(prior: NNGP, sensitivity: _Sensitivity, rows: NDArray[np.int32] | None = None) -> PriorGradient:
    """From derivatives in the conditionals to those in the hyper-parameters.

    With u = (−b_i, 1) on (parents, i), c and a the derivatives in d_i and b_i, the derivative in the kernel's block is
    G = u pᵀ + p uᵀ with p = ½ (c u + (Σ_αα⁻¹ a, 0)), and only the kernel function itself is differentiated: what is
    wanted is the sum over the entries of G times that.
    """
    visit = prior.graph.spatial if rows is None else rows
    by_kind = _by_formula if formula_of(prior.kernel) != NO_FORMULA else _by_pairs
    kernel, nugget = by_kind(prior, sensitivity, visit)
    scale = prior.graph.n_points / len(visit)
    return PriorGradient(map_numbers(lambda slope: scale * slope, kernel), scale * nugget)


def _by_formula(prior: NNGP, sensitivity: _Sensitivity, visit: NDArray[np.int32]) -> tuple[Any, float]:
    """Σ G ∂Σ/∂θ by distances: r² falls with a length scale, ∂r²/∂ℓ_c = −2 (Δ_c/ℓ_c)²/ℓ_c, and Σ ∂Σ/∂variance is the
    block itself without its nugget, of which (block) u = d e_last is known."""
    kernel, parents = prior.kernel, prior.graph.parents
    assert isinstance(kernel, Stationary)
    unit, padding = prepare(kernel, prior.X, parents)
    given = (prior.nugget, prior.conditional_mean_weights, prior.conditional_variance, *sensitivity)
    arguments = (visit, parents, padding, prior.X, unit, formula_of(kernel), float(kernel.variance), *given)
    groups = -(-len(visit) // LANES)

    def loop(start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found = np.zeros(2), np.zeros((len(unit), LANES))
        _along(start, stop, *arguments, *found)
        return found

    parts = over_chunks(loop, groups, grain=grain(groups, prior.graph.n_neighbors))
    traces, by_input = (sum(found) for found in zip(*parts))
    lengths = np.asarray(kernel.length_scale, dtype=np.float64)
    in_lengths = -4.0 * by_input.sum(axis=1) / lengths
    gradient = map_numbers(np.zeros_like, kernel)
    gradient.length_scale = in_lengths if lengths.ndim else np.asarray(in_lengths.sum())
    gradient.variance = np.asarray(traces[1] / kernel.variance)
    return gradient, float(traces[0])


def _by_pairs(prior: NNGP, sensitivity: _Sensitivity, visit: NDArray[np.int32]) -> tuple[Any, float]:
    """Σ G ∂Σ/∂θ by differentiating the kernel at pairs of points."""
    kernel, X, parents, K = prior.kernel, prior.X, prior.graph.parents, prior.graph.n_neighbors
    padding = prepare(kernel, X, parents)[1]
    plain = np.ones(X.shape[1])
    pairs = n_pairs(K)
    leaves, structure = jax.tree.flatten(kernel)
    totals = [np.zeros(np.shape(leaf)) for leaf in leaves]
    in_nugget, full = 0.0, 0
    given = (prior.nugget, prior.conditional_mean_weights, *sensitivity)
    for some in chunks(kernel, visit, K):
        groups = -(-len(some) // LANES)
        size = groups * pairs * LANES
        # every chunk has the size of the first, so that one compilation serves; what is beyond `size` has weight 0
        full = full or size
        points = [np.zeros((full, X.shape[1])) for _ in range(2)]
        over_chunks(list_pairs, groups, some, parents, padding, X, X, plain, *points, grain=16)
        values = evaluate(kernel, points[0][:size], points[1][:size]).reshape(groups, pairs, LANES)
        if isinstance(kernel, Stationary):  # the root of a distance has no derivative at 0, and shouldn't need one
            same = np.all(points[0] == points[1], axis=1)
            points[1][same, 0] += 1e-9 * np.ravel(kernel.length_scale)[0]
        G = np.zeros(full)
        blocks = G[:size].reshape(groups, pairs, LANES)
        in_nugget += sum(over_chunks(_entries, groups, some, parents, padding, *given, values, blocks, grain=16))
        with float64():
            found = _pull_back_pairs(structure, leaves, *points, G)
        totals = [total + np.asarray(part) for total, part in zip(totals, found)]
    return jax.tree.unflatten(structure, totals), float(in_nugget)


@jit(static_argnums=0)
def _pull_back_pairs(structure: Any, leaves: list, left: jax.Array, right: jax.Array, G: jax.Array) -> list:
    def covariance(leaves: list) -> jax.Array:
        return jnp.asarray(jax.vmap(jax.tree.unflatten(structure, leaves))(left, right))

    return jax.vjp(covariance, leaves)[1](G)[0]


@inlined
def _vectors(group, rows, parents, padding, nugget, b, in_weights, in_variance, A, u, p):
    """u and p of a group. Overwrites the blocks A."""
    K = parents.shape[1]
    last = K * (K + 1) // 2
    for lane in range(LANES):
        z = rows[min(group * LANES + lane, len(rows) - 1)]
        missing = padding[z]
        finish(A, K + 1, lane, missing, nugget)
        for i in range(K + 1):
            u[i, lane] = 0.0
            A[last + i, lane] = 0.0
        # the right-hand side takes the place of the last row, under a pivot that is surely positive
        bound = 1.0
        for i in range(missing, K):
            u[i, lane] = -b[z, i - missing]
            value = in_weights[z, i - missing]
            A[last + i, lane] = value
            bound += value * value
        u[K, lane] = 1.0
        A[last + K, lane] = bound * 1e30
    solve_last(A, K + 1)
    for lane in range(LANES):
        here = group * LANES + lane
        z = rows[min(here, len(rows) - 1)]
        half = 0.5 if here < len(rows) else 0.0  # the last group is filled up with repeats
        for i in range(K):
            solved = A[last + i, lane] if i >= padding[z] else 0.0
            p[i, lane] = half * (in_variance[z] * u[i, lane] + solved)
        p[K, lane] = half * in_variance[z]


@compiled
def _along(
    start,
    stop,
    rows,
    parents,
    padding,
    X,
    unit,
    formula,
    scale,
    nugget,
    b,
    d,
    in_weights,
    in_variance,
    traces,
    by_input,
):
    """Add up tr G and tr G(block − nugget); half of Σ G · slopes · (Δ_c)² for each input c, lane by lane."""
    K = parents.shape[1]
    n_inputs = X.shape[1]
    pairs = (K + 1) * (K + 2) // 2
    u, p = np.empty((K + 1, LANES)), np.empty((K + 1, LANES))
    points, squares = np.empty(((K + 1) * n_inputs, LANES)), np.empty((pairs, LANES))
    A, slopes = np.empty((pairs, LANES)), np.empty((pairs, LANES))
    for group in range(start, stop):
        gather(group, rows, parents, padding, X, X, unit, points)
        fill(points, n_inputs, formula, scale, squares, A, slopes)
        _vectors(group, rows, parents, padding, nugget, b, in_weights, in_variance, A, u, p)
        for i in range(K + 1):
            add_slopes(points, u, p, i, n_inputs, slopes, i * (i + 1) // 2, by_input)  # type: ignore[call-arg]
        for lane in range(LANES):
            trace = 0.0
            for i in range(K + 1):
                trace += 2.0 * u[i, lane] * p[i, lane]
            z = rows[min(group * LANES + lane, len(rows) - 1)]
            traces[0] += trace
            traces[1] += 2.0 * d[z] * p[K, lane] - nugget * trace


@compiled
def _entries(start, stop, rows, parents, padding, nugget, b, in_weights, in_variance, blocks, G):
    """Fill G, the derivatives in every entry of the lower triangles; return that in the nugget.

    An entry off the diagonal stands for two of the matrix.
    """
    K = parents.shape[1]
    u, p = np.empty((K + 1, LANES)), np.empty((K + 1, LANES))
    in_nugget = 0.0
    for group in range(start, stop):
        _vectors(group, rows, parents, padding, nugget, b, in_weights, in_variance, blocks[group], u, p)
        for i in range(K + 1):
            row = i * (i + 1) // 2
            for j in range(i + 1):
                for lane in range(LANES):
                    entry = u[i, lane] * p[j, lane] + p[i, lane] * u[j, lane]
                    if i == j:
                        in_nugget += entry
                    G[group, row + j, lane] = entry if i == j else 2.0 * entry
    return in_nugget
