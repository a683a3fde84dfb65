"""The conditional of one point given its neighbours, for many points at once (the paper's eq. bandsigma)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from npvi.kernels import Kernel, Stationary, evaluate, evaluate_distances
from npvi.parallel import over_chunks
from npvi.sparse.lanes import LANES, solve_last

__all__ = ["PAIRS", "condition", "conditionals", "list_distances", "list_pairs", "prepare"]

#: kernel values held at a time
PAIRS = 2**20


def conditionals(
    kernel: Kernel,
    nugget: float,
    X: NDArray[np.float64],
    neighbors: NDArray[np.int32],
    Z: NDArray[np.float64],
    visit: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p(f(z) | f(X[α])) = N(bᵀ f(X[α]), d) for every row z of Z and its row α of `neighbors`.

    b = Σ_αα⁻¹ Σ_αz and d = Σ_zz − bᵀ Σ_αz, where Σ is the kernel plus `nugget` on the diagonal.

    Parameters
    ----------
    neighbors : (M, K) rows of X, padded with −1 at the end.
    visit : which rows of Z, and in which order: neighbouring rows in sequence find their data in the cache. The others
        get b = 0 and d = 0.

    Returns
    -------
    weights : b, shape (M, K), zero where there is no neighbour.
    variance : d, shape (M,); NaN in a row whose Σ_αα isn't positive definite, at most 0 where d is lost in rounding.
    """
    m, K = neighbors.shape
    n = K + 1
    pairs = n * (n + 1) // 2
    visit = np.arange(m, dtype=np.int32) if visit is None else visit
    same = X is Z
    X, padding = prepare(kernel, X, neighbors)
    Z = X if same else prepare(kernel, Z, neighbors)[0]
    weights, variance = np.zeros((m, K)), np.zeros(m)
    step = max(1, PAIRS // (pairs * LANES)) * LANES
    for start in range(0, len(visit), step):
        rows = visit[start : start + step]
        groups = -(-len(rows) // LANES)
        size = groups * pairs * LANES
        if isinstance(kernel, Stationary):
            distances = np.empty(size)
            over_chunks(list_distances, groups, rows, neighbors, padding, X, Z, distances, grain=16)
            values = evaluate_distances(kernel, distances)
        else:
            left, right = np.empty((size, X.shape[1])), np.empty((size, X.shape[1]))
            over_chunks(list_pairs, groups, rows, neighbors, padding, X, Z, left, right, grain=16)
            values = evaluate(kernel, left, right)
        blocks = values.reshape(groups, pairs, LANES)
        over_chunks(condition, groups, rows, neighbors, padding, nugget, blocks, weights, variance, grain=16)
    return weights, variance


def prepare(
    kernel: Kernel, X: NDArray[np.float64], neighbors: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points as the loops below want them, scaled if distances are all that counts, and how many places of each row
    have no neighbour: those come first in a block, as an identity."""
    padding = np.count_nonzero(neighbors < 0, axis=1)
    return (X / np.asarray(kernel.length_scale) if isinstance(kernel, Stationary) else X), padding


@njit(cache=True, nogil=True)
def list_distances(start, stop, rows, neighbors, padding, X, Z, distances):
    """Squared distances for every entry of the lower triangle of Σ over (padding, α, z), eight blocks interleaved."""
    K = neighbors.shape[1]
    d = X.shape[1]
    pairs = (K + 1) * (K + 2) // 2
    points = np.empty((K + 1, LANES, d))
    for group in range(start, stop):
        for lane in range(LANES):
            z = rows[min(group * LANES + lane, len(rows) - 1)]
            missing = padding[z]
            for i in range(K + 1):
                for c in range(d):
                    points[i, lane, c] = X[neighbors[z, i - missing], c] if missing <= i < K else Z[z, c]
        at = group * pairs * LANES
        for i in range(K + 1):
            for j in range(i + 1):
                for lane in range(LANES):
                    total = 0.0
                    for c in range(d):
                        total += (points[i, lane, c] - points[j, lane, c]) ** 2
                    distances[at] = total
                    at += 1


@njit(cache=True, nogil=True)
def list_pairs(start, stop, rows, neighbors, padding, X, Z, left, right):
    """The two points of every entry of the lower triangle of Σ over (padding, α, z), eight blocks interleaved."""
    K = neighbors.shape[1]
    d = X.shape[1]
    pairs = (K + 1) * (K + 2) // 2
    points = np.empty((K + 1, d))
    for group in range(start, stop):
        for lane in range(LANES):
            z = rows[min(group * LANES + lane, len(rows) - 1)]
            missing = padding[z]
            for i in range(K + 1):
                for c in range(d):
                    points[i, c] = X[neighbors[z, i - missing], c] if missing <= i < K else Z[z, c]
            at = group * pairs * LANES + lane
            for i in range(K + 1):
                for j in range(i + 1):
                    for c in range(d):
                        left[at, c] = points[i, c]
                        right[at, c] = points[j, c]
                    at += LANES


@njit(cache=True, nogil=True)
def condition(start, stop, rows, neighbors, padding, nugget, blocks, weights, variance):
    K = neighbors.shape[1]
    last = K * (K + 1) // 2
    own = np.empty((K + 1, LANES))
    for group in range(start, stop):
        A = blocks[group]
        for lane in range(LANES):
            missing = padding[rows[min(group * LANES + lane, len(rows) - 1)]]
            for i in range(K + 1):
                row = i * (i + 1) // 2
                for j in range(min(i, missing)):
                    A[row + j, lane] = 0.0
                A[row + i, lane] = 1.0 if i < missing else A[row + i, lane] + nugget
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
