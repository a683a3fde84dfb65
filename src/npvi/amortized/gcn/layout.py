"""Which points a batch has, and which neighbourhoods must be looked at for them.

The bound's share of a point takes its own row of L and those of its parents. Each of these rows is what a network says
about one neighbourhood. Points that lie together share most of their parents: in a *group* of them every neighbourhood
is looked at once. The paper's batches of random points are the case of groups with one point each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks
from npvi.runtime.training import Batches

__all__ = ["LAYOUTS", "Layout", "each_once", "patch_layout", "random_layout"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layout:
    """Groups of points; what isn't there is −1 throughout.

    Attributes
    ----------
    nodes : shape (G, M), positions: the points of each group, then those of their parents that aren't among them.
    parents : shape (G, P, K): where among the nodes the parents of each point are. P is the size of a group.
    columns : shape (G, M, K + 1): the number of the column of L in which each entry of a node's row stands, its own
        entry last. Columns are numbered from 0, for each group by itself.
    width : more than any of these numbers.
    """

    nodes: jax.Array
    parents: jax.Array
    columns: jax.Array
    width: int = field(metadata={"static": True})

    def take(self, groups: jax.Array) -> Layout:
        """Some of the groups; those that are −1 have no points."""
        there, size = groups >= 0, self.parents.shape[1]
        nodes = self.nodes[groups]
        # the nodes that are no points stay: nothing is asked of them
        nodes = nodes.at[:, :size].set(jnp.where(there[:, None], nodes[:, :size], -1))
        return Layout(nodes, self.parents[groups], self.columns[groups], self.width)


def random_layout(graph: Graph) -> Layout:
    """The paper's: every point is a group of its own, with K + 1 neighbourhoods.

    Its table takes 2(K + 1)² bytes a point, that of patches a few times K.

    >>> from npvi.graph import build_graph
    >>> layout = random_layout(build_graph([[0.0], [1.0], [2.0]], 1, order="given"))
    >>> layout.nodes.tolist()
    [[0, -1], [1, 0], [2, 1]]
    """
    return _layout(graph, np.arange(graph.n_points, dtype=np.int32)[:, None])


def patch_layout(graph: Graph, places: NDArray[np.float64], size: int) -> Layout:
    """Compact patches of at most `size` points, and as nearly as many as that: the leaves of a k-d tree.

    Parameters
    ----------
    graph : Graph
    places : where the points are, in the graph's order; shape (N, d).
    size : int

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> patch_layout(build_graph(X, 1, order="given"), X, 2).nodes.tolist()
    [[0, 1, -1], [2, 3, 1]]
    """
    patches = _leaves(places, np.arange(len(places)), -(-len(places) // size))
    points = np.full((len(patches), max(map(len, patches))), -1, dtype=np.int32)
    for row, patch in zip(points, patches):
        row[: len(patch)] = patch
    return _layout(graph, points)


def _leaves(places: NDArray[np.float64], some: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """`some` of the points in `count` patches that differ by at most one point.

    Runs of a tree with another number of leaves, such as that of `npvi.graph`, would lie astride its boundaries: they
    took an eighth more neighbourhoods.
    """
    if count == 1:
        return [some]
    here = places[some]
    middle = len(some) * (count // 2) // count
    order = np.argpartition(here[:, np.argmax(np.ptp(here, axis=0))], middle)
    parts = ((order[:middle], count // 2), (order[middle:], count - count // 2))
    return [leaf for part, number in parts for leaf in _leaves(places, some[part], number)]


#: the layouts by name, and how many points a batch has where nothing is said
LAYOUTS = {"patches": 64, "random": 50}


def each_once(groups: int, size: int) -> Batches:
    """Batches of `size` groups in random order, in each epoch every group once; −1 fills up the last batch.

    >>> sorted(each_once(5, 2)(jax.random.key(0), None).ravel().tolist())
    [-1, 0, 1, 2, 3, 4]
    """
    steps = -(-groups // size)

    def batches(key: jax.Array, data: Any) -> jax.Array:
        order = jax.random.permutation(key, groups)
        return jnp.concatenate([order, jnp.full(steps * size - groups, -1)]).reshape(steps, size)

    return batches


def _layout(graph: Graph, points: NDArray[np.int32]) -> Layout:
    parents = graph.parents
    (count, size), k = points.shape, parents.shape[1]
    measured = over_chunks(_measure, count, points, parents, grain=64)
    further, width = (max(values) for values in zip(*measured))
    numbers = np.int16 if width <= np.iinfo(np.int16).max else np.int32
    nodes = np.full((count, size + further), -1, dtype=np.int32)
    places = np.full((count, size, k), -1, dtype=np.int32)
    columns = np.full((count, size + further, k + 1), -1, dtype=numbers)
    over_chunks(_fill, count, points, parents, nodes, places, columns, grain=64)
    return Layout(jnp.asarray(nodes), jnp.asarray(places), jnp.asarray(columns), width)


@compiled
def _measure(start, stop, points, parents):
    """The most nodes that aren't points, and the most columns, of groups [start, stop)."""
    (n, k), size = parents.shape, points.shape[1]
    place, number = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    nodes = np.empty(size * (k + 1), np.int32)
    columns = np.empty((size * (k + 1), k + 1), np.int32)
    most, widest = 0, 0
    for g in range(start, stop):
        count = _collect(points[g], parents, place, nodes)
        most = max(most, count - size)
        widest = max(widest, _number(nodes[:count], parents, number, columns))
        _forget(nodes[:count], parents, place, number)
    return most, widest


@compiled
def _fill(start, stop, points, parents, nodes, places, columns):
    (n, k), size = parents.shape, points.shape[1]
    place, number = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for g in range(start, stop):
        count = _collect(points[g], parents, place, nodes[g])
        for p in range(size):
            for s in range(k if points[g, p] >= 0 else 0):
                j = parents[points[g, p], s]
                if j >= 0:
                    places[g, p, s] = place[j]
        _number(nodes[g, :count], parents, number, columns[g])
        _forget(nodes[g, :count], parents, place, number)


@compiled
def _collect(points, parents, place, nodes):
    """List the nodes of a group, write down where each is, and return how many there are."""
    count = len(points)
    for p, i in enumerate(points):
        nodes[p] = i
        if i >= 0:
            place[i] = p
    for i in points:
        for s in range(parents.shape[1] if i >= 0 else 0):
            j = parents[i, s]
            if j >= 0 and place[j] < 0:
                place[j] = count
                nodes[count] = j
                count += 1
    return count


@compiled
def _number(nodes, parents, number, columns):
    """Number the columns in the order in which the rows of the nodes meet them, and return how many there are."""
    k = parents.shape[1]
    count = 0
    for m, j in enumerate(nodes):
        for t in range(k + 1 if j >= 0 else 0):
            c = parents[j, t] if t < k else j
            if c < 0:
                continue
            if number[c] < 0:
                number[c] = count
                count += 1
            columns[m, t] = number[c]
    return count


@compiled
def _forget(nodes, parents, place, number):
    """Undo what a group has left in the two lists of all points."""
    for j in nodes:
        if j < 0:
            continue
        place[j] = number[j] = -1
        for c in parents[j]:
            if c >= 0:
                number[c] = -1
