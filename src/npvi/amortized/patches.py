"""Points in compact patches, each with a halo: small systems that stand for the large one.

They aren't tiles of `npvi.graph.tiles`: batches on a device ask for patches of one size, all halos included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from npvi.graph import Graph, build_tree
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["Patches", "Pieces", "make_patches"]

#: neighbours of a core point that may be in the halo
_NEAR = 64


class Patches(NamedTuple):
    """Each patch: its own points, the core, and others around them, in the graph's order.

    Attributes
    ----------
    members : (B, n) positions, ascending, −1 where a patch has fewer.
    core : (B, n), whose posterior the patch is for; every point is in the core of one patch.
    parents : (B, n, K) places of the parents in the patch, in the graph's slots; −1 where there is none in it.
    children : (B, n, S) places of the children in the patch, at most S of them; −1 at the end.
    rank : (B, n, K), which child of that parent the point is; −1 where it isn't in the list.
    """

    members: NDArray[np.int32]
    core: NDArray[np.bool_]
    parents: NDArray[np.int32]
    children: NDArray[np.int32]
    rank: NDArray[np.int32]


class Pieces:
    """The posterior as the patches have it, point by point in the graph's order; every point is in the core of one."""

    def __init__(self, graph: Graph, n_features: int) -> None:
        n = graph.n_points
        self.mean, self.diagonal, self.site_precision = np.empty(n), np.empty(n), np.empty(n)
        self.edges, self.features = np.zeros(graph.parents.shape), np.empty((n, n_features))

    def put(self, at: NDArray, *, mean: Any, diagonal: Any, edges: Any, site_precision: Any, features: Any) -> None:
        """What one patch, or many, say about points in their cores."""
        self.mean[at], self.diagonal[at], self.edges[at] = mean, diagonal, edges
        self.site_precision[at], self.features[at] = site_precision, features


def make_patches(coordinates: NDArray[np.float64], graph: Graph, core: int = 64, halo: int = 192) -> Patches:
    """Patches of `core` points with up to `halo` others: parents first, then what is nearest to any of the core.

    Nearest is counted in neighbours, not in distance: where points are sparse, halos reach further.

    Parameters
    ----------
    coordinates : (N, d), in the graph's order.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> graph = build_graph(X, 5)
    >>> patches = make_patches(X[graph.order], graph, core=20, halo=30)
    >>> patches.members.shape, int(patches.core.sum())
    ((5, 50), 100)
    """
    n, k = graph.parents.shape
    rows = build_tree(coordinates).rows.astype(np.int32)
    size = min(core + halo, n)
    number = -(-n // core)
    near = cKDTree(coordinates).query(coordinates, min(_NEAR, n), workers=-1)[1].reshape(n, -1).astype(np.int32)
    most = max(3 * k + 2, 8)
    patches = Patches(
        np.full((number, size), -1, np.int32),
        np.zeros((number, size), np.bool_),
        np.full((number, size, k), -1, np.int32),
        np.full((number, size, most), -1, np.int32),
        np.full((number, size, k), -1, np.int32),
    )
    over_chunks(lambda a, b: _fill(a, b, core, rows, near, graph.parents, *patches), number, grain=4)
    return patches


@compiled
def _fill(start, stop, size_of_core, rows, near, graph_parents, members, core, parents, children, rank):
    n, k = graph_parents.shape
    size = members.shape[1]
    place = np.full(n, -1, np.int32)
    chosen = np.empty(size, np.int32)
    counts = np.empty(size, np.int32)
    for patch in range(start, stop):
        first, last = patch * size_of_core, min(n, (patch + 1) * size_of_core)
        own = last - first
        count = 0
        for t in range(first, last):
            chosen[count] = rows[t]
            place[rows[t]] = 0
            count += 1
        for t in range(own):
            for s in range(k):
                j = graph_parents[chosen[t], s]
                if j >= 0 and place[j] < 0 and count < size:
                    chosen[count] = j
                    place[j] = 0
                    count += 1
        for r in range(near.shape[1]):
            for t in range(own):
                j = near[chosen[t], r]
                if place[j] < 0 and count < size:
                    chosen[count] = j
                    place[j] = 0
                    count += 1
        ordered = np.sort(chosen[:count])
        for q in range(count):
            place[ordered[q]] = q
            members[patch, q] = ordered[q]
            counts[q] = 0
        for t in range(first, last):
            core[patch, place[rows[t]]] = True
        for q in range(count):
            for s in range(k):
                j = graph_parents[ordered[q], s]
                if j < 0 or place[j] < 0:
                    continue
                p = place[j]
                parents[patch, q, s] = p
                if counts[p] < children.shape[2]:
                    children[patch, p, counts[p]] = q
                    rank[patch, q, s] = counts[p]
                    counts[p] += 1
        for q in range(count):
            place[ordered[q]] = -1
