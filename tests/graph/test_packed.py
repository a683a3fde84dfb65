"""Renumbering a graph for locality in memory."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.graph import build_graph


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (5, 9), (300, 7), (3000, 10)])
def test_packed_keeps_every_edge_and_brings_parents_nearer(n, k):
    graph = build_graph(np.random.default_rng(n).random((n, 2)), k)
    packed = graph.packed()
    np.testing.assert_array_equal(np.sort(packed.order), np.arange(n))
    np.testing.assert_array_equal(np.sort(packed.spatial), np.arange(n))
    np.testing.assert_array_equal(packed.order[packed.spatial], graph.order[graph.spatial])
    np.testing.assert_array_equal(_edges(packed), _edges(graph))
    for i, row in enumerate(packed.parents):
        present = row[row >= 0]
        assert len(present) == min(graph.n_neighbors, i)
        assert (np.diff(present) > 0).all()
        assert (present < i).all()
        assert (row[len(present) :] == -1).all()
    if n == 3000:
        near = [np.median(np.arange(100, n)[:, None] - g.parents[100:]) for g in (packed, graph)]
        assert near[0] < 0.5 * near[1]


def _edges(graph):
    """All pairs (row, row of its parent) of the caller's rows."""
    i, slot = np.nonzero(graph.parents >= 0)
    pairs = np.column_stack([graph.order[i], graph.order[graph.parents[i, slot]]])
    return pairs[np.lexsort(pairs.T)]
