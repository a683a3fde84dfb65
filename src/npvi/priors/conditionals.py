"""The conditional of one point given its neighbours, for many points at once (the paper's eq. bandsigma).

Every point has a block, Σ over (padding, α, z): places without a neighbour come first, as an identity. Eight blocks are
worked on together (`npvi.linalg.lanes`), their lower triangles interleaved: a group. The usual kernels are evaluated
group by group, in the cache (`npvi.kernels.fast`); others by JAX, for many groups at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from npvi.kernels import Kernel, Stationary, evaluate, evaluate_distances
from npvi.kernels.fast import FORMULAS, NO_FORMULA, correlate, formula_of
from npvi.linalg import LANES, list_squares, solve_last
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = ["chunks", "conditionals", "fill", "finish", "gather", "grain", "list_pairs", "n_pairs", "prepare"]

#: kernel values held at a time: more would be paged in anew for every chunk
_PAIRS = 2**18
#: kernel values held by all threads together
_HELD = 2**25
#: where blocks are evaluated group by group
_NO_BLOCKS = np.empty((0, 0, LANES))


def conditionals(
    kernel: Kernel,
    nugget: float,
    X: NDArray[np.float64],
    neighbors: NDArray[np.int32],
    Z: NDArray[np.float64],
    visit: NDArray[np.int32] | None = None,
    noisier: tuple[int, float] = (0, 0.0),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p(f(z) | f(X[α])) = N(bᵀ f(X[α]), d) for every row z of Z and its row α of `neighbors`.

    b = Σ_αα⁻¹ Σ_αz and d = Σ_zz − bᵀ Σ_αz, where Σ is the kernel plus `nugget` on the diagonal.

    Parameters
    ----------
    neighbors : (M, K) rows of X, padded with −1 at the end.
    visit : which rows of Z, and in which order: neighbouring rows in sequence find their data in the cache. The others
        get b = 0 and d = 0.
    noisier : how many rows of X, from the first one on, have more on the diagonal than `nugget`, and how much more.

    Returns
    -------
    weights : b, shape (M, K), zero where there is no neighbour.
    variance : d, shape (M,); NaN in a row whose Σ_αα isn't positive definite, at most 0 where d is lost in rounding.
    """
    m, K = neighbors.shape
    visit = np.arange(m, dtype=np.int32) if visit is None else visit
    unit, padding = prepare(kernel, X, neighbors)
    formula = formula_of(kernel)
    scale = float(kernel.variance) if formula != NO_FORMULA else 1.0  # type: ignore[attr-defined]
    weights, variance = np.zeros((m, K)), np.zeros(m)
    for rows in chunks(kernel, visit, K):
        blocks = _NO_BLOCKS if formula != NO_FORMULA else _blocks(kernel, rows, neighbors, padding, X, Z, unit)
        arguments = (rows, neighbors, padding, X, Z, unit, formula, scale, blocks, nugget, *noisier, weights, variance)
        over_chunks(_condition, _n_groups(rows), *arguments, grain=grain(_n_groups(rows), K))
    return weights, variance


def chunks(kernel: Kernel, visit: NDArray[np.int32], K: int) -> Iterator[NDArray[np.int32]]:
    """The rows at a time, in whole groups: all, or as many as kernel values may be held of."""
    step = max(1, _PAIRS // (n_pairs(K) * LANES)) * LANES if formula_of(kernel) == NO_FORMULA else max(1, len(visit))
    for start in range(0, len(visit), step):
        yield visit[start : start + step]


def n_pairs(K: int) -> int:
    """The entries of a block's lower triangle."""
    return (K + 1) * (K + 2) // 2


def grain(groups: int, K: int) -> int:
    """Groups that are worth a thread; all of them where there are so many neighbours that a single group is large."""
    return max(16, -(-groups // max(1, _HELD // (n_pairs(K) * LANES))))


def _n_groups(rows: NDArray[np.int32]) -> int:
    return -(-len(rows) // LANES)


def prepare(
    kernel: Kernel, X: NDArray[np.float64], neighbors: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The units that the loops below take each input in, length scales if distances are all that counts, and how many
    places of each row have no neighbour."""
    unit = np.ones(X.shape[1])
    if isinstance(kernel, Stationary):
        unit *= kernel.length_scale
    return unit, np.count_nonzero(neighbors < 0, axis=1)


def _blocks(
    kernel: Kernel,
    rows: NDArray[np.int32],
    neighbors: NDArray[np.int32],
    padding: NDArray[np.int64],
    X: NDArray[np.float64],
    Z: NDArray[np.float64],
    unit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The groups of `rows`, without a nugget: (groups, pairs, LANES)."""
    shape = (_n_groups(rows), n_pairs(neighbors.shape[1]), LANES)
    if isinstance(kernel, Stationary):
        distances = np.empty(shape)
        over_chunks(_list_distances, shape[0], rows, neighbors, padding, X, Z, unit, distances, grain=16)
        return evaluate_distances(kernel, distances.reshape(-1)).reshape(shape)
    left, right = (np.empty((int(np.prod(shape)), X.shape[1])) for _ in range(2))
    over_chunks(list_pairs, shape[0], rows, neighbors, padding, X, Z, unit, left, right, grain=16)
    return evaluate(kernel, left, right).reshape(shape)


@inlined
def gather(group, rows, neighbors, padding, X, Z, unit, points):
    """The points of a group in their units, (K+1)·d coordinates for each lane; padding lies where z does."""
    K = neighbors.shape[1]
    d = X.shape[1]
    for lane in range(LANES):
        z = rows[min(group * LANES + lane, len(rows) - 1)]
        missing = padding[z]
        for i in range(K + 1):
            for c in range(d):
                points[i * d + c, lane] = X[neighbors[z, i - missing], c] if missing <= i < K else Z[z, c]
    for at in range((K + 1) * d):  # only here: to divide all of X is more than a single prediction takes
        for lane in range(LANES):
            points[at, lane] /= unit[at % d]


@inlined
def fill(points, d, formula, variance, squares, block, slopes):
    """The covariances of a group and, where `slopes` is not empty, their derivatives in r²."""
    for i in range(len(points) // d):
        list_squares(points, i, d, squares, i * (i + 1) // 2)  # type: ignore[call-arg]
    correlate(FORMULAS[formula], variance, len(block), squares, block, slopes)  # type: ignore[call-arg]


@inlined
def finish(A, n, lane, missing, nugget):
    """Make one lane's covariances a block: an identity in front, where neighbours are missing, and the nugget."""
    for i in range(n):
        row = i * (i + 1) // 2
        for j in range(min(i, missing)):
            A[row + j, lane] = 0.0
        A[row + i, lane] = 1.0 if i < missing else A[row + i, lane] + nugget


@compiled
def _list_distances(start, stop, rows, neighbors, padding, X, Z, unit, distances):
    """Squared distances for every entry of the groups."""
    d = X.shape[1]
    points = np.empty(((neighbors.shape[1] + 1) * d, LANES))
    for group in range(start, stop):
        gather(group, rows, neighbors, padding, X, Z, unit, points)
        for i in range(neighbors.shape[1] + 1):
            list_squares(points, i, d, distances[group], i * (i + 1) // 2)  # type: ignore[call-arg]


@compiled
def list_pairs(start, stop, rows, neighbors, padding, X, Z, unit, left, right):
    """The two points of every entry of the groups."""
    K = neighbors.shape[1]
    d = X.shape[1]
    points = np.empty(((K + 1) * d, LANES))
    at = start * (K + 1) * (K + 2) // 2 * LANES
    for group in range(start, stop):
        gather(group, rows, neighbors, padding, X, Z, unit, points)
        for i in range(K + 1):
            for j in range(i + 1):
                for lane in range(LANES):
                    for c in range(d):
                        left[at, c] = points[i * d + c, lane]
                        right[at, c] = points[j * d + c, lane]
                    at += 1


@compiled
def _condition(
    start,
    stop,
    rows,
    neighbors,
    padding,
    X,
    Z,
    unit,
    formula,
    scale,
    blocks,
    nugget,
    n_noisier,
    more,
    weights,
    variance,
):
    K = neighbors.shape[1]
    d = X.shape[1]
    pairs = (K + 1) * (K + 2) // 2
    last = K * (K + 1) // 2
    own = np.empty((K + 1, LANES))
    points, squares, block = np.empty(((K + 1) * d, LANES)), np.empty((pairs, LANES)), np.empty((pairs, LANES))
    no_slopes = np.empty((0, LANES))
    for group in range(start, stop):
        A = block
        if len(blocks):
            A = blocks[group]
        else:
            gather(group, rows, neighbors, padding, X, Z, unit, points)
            fill(points, d, formula, scale, squares, A, no_slopes)
        for lane in range(LANES):
            z = rows[min(group * LANES + lane, len(rows) - 1)]
            missing = padding[z]
            finish(A, K + 1, lane, missing, nugget)
            for i in range(missing, K):
                if neighbors[z, i - missing] < n_noisier:
                    A[i * (i + 1) // 2 + i, lane] += more
            for i in range(K + 1):
                own[i, lane] = A[last + i, lane]
        solve_last(A, K + 1)
        for lane in range(min(LANES, len(rows) - group * LANES)):
            z = rows[group * LANES + lane]
            missing = padding[z]
            root = A[last + K, lane]
            for i in range(missing, K):
                weights[z, i - missing] = A[last + i, lane]
            variance[z] = 1.0 / (root * root)
            if root != root:  # not a number: either d itself is negative by rounding, or an earlier pivot was
                variance[z] = own[K, lane]
                for i in range(missing, K):
                    variance[z] -= own[i, lane] * A[last + i, lane]
