"""Parents against brute force, for both rules and all orders."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npvi.graph import Graph, build_graph
from npvi.runtime.parallel import threads
from tests.support import graph_brute_force as brute
from tests.support import graph_cases as cases

ORDERS = ["maximin", "grid", "nested", "random", "given"]
RULES = ["nearest", "paper"]


def check_invariants(graph: Graph, n: int, n_neighbors: int) -> None:
    k = min(n_neighbors, n - 1)
    assert graph.n_points == n
    assert graph.n_neighbors == k
    assert graph.order.dtype == np.int64
    assert graph.parents.dtype == np.int32
    assert graph.parents.shape == (n, k)
    assert np.array_equal(np.sort(graph.order), np.arange(n))
    assert np.array_equal(np.sort(graph.spatial), np.arange(n))
    for i in range(n):
        count = min(k, i)
        row = graph.parents[i].astype(int)
        assert (row[count:] == -1).all()
        assert (np.diff(row[:count]) > 0).all()
        assert ((row[:count] >= 0) & (row[:count] < i)).all()


def check_nearest(graph: Graph, X: np.ndarray, same_ids: bool) -> None:
    """Distances must agree exactly; ids too where no distances tie."""
    Y = X[graph.order]
    for i, expected in enumerate(brute.nearest_earlier(Y, graph.n_neighbors)):
        got = graph.parents[i, : len(expected)]
        if same_ids:
            assert np.array_equal(got, np.sort(expected))
        else:
            wanted = brute.squared_distances(Y[i : i + 1], Y[expected])[0]
            assert np.array_equal(np.sort(brute.squared_distances(Y[i : i + 1], Y[got])[0]), wanted)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_nearest_scattered(d, order):
    X = cases.scattered(600, d)
    graph = build_graph(X, 9, order=order, seed=1)
    check_invariants(graph, 600, 9)
    check_nearest(graph, X, same_ids=True)


@pytest.mark.parametrize(("n", "d", "k"), [(2000, 2, 20), (700, 20, 15), (1500, 4, 1)])
def test_nearest_large(n, d, k):
    X = cases.scattered(n, d)
    check_nearest(build_graph(X, k), X, same_ids=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "X",
    [
        cases.repeated(500, 2),
        cases.lattice(23, 2),
        cases.lattice(8, 3),
        cases.clustered(500, 3),
        np.zeros((150, 2)),
    ],
    ids=["repeated", "lattice-2d", "lattice-3d", "clustered", "identical"],
)
def test_nearest_with_ties(X, order):
    graph = build_graph(X, 7, order=order)
    check_invariants(graph, len(X), 7)
    check_nearest(graph, X, same_ids=False)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "d", "k"), [(500, 1, 4), (600, 2, 10), (400, 8, 6), (60, 2, 59), (300, 20, 5)])
def test_paper_scattered(n, d, k, order):
    X = cases.scattered(n, d)
    graph = build_graph(X, k, rule="paper", order=order)
    check_invariants(graph, n, k)
    for i, expected in enumerate(brute.paper_rule(X[graph.order], k)):
        assert graph.parents[i, : len(expected)].tolist() == expected


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("X", [cases.repeated(400, 2), cases.lattice(20, 2), np.zeros((90, 1))])
def test_paper_with_ties(X, order):
    """Where neighbours tie the rule leaves a choice; what it does not leave is checked.

    Points nearer than the k-th nearest give certain edges, points no farther than it possible ones.
    """
    k = 6
    graph = build_graph(X, k, rule="paper", order=order)
    check_invariants(graph, len(X), k)
    Y = X[graph.order]
    gaps = brute.squared_distances(Y, Y)
    np.fill_diagonal(gaps, np.inf)
    radius = np.sort(gaps, axis=1)[:, k - 1]
    certain = (gaps < radius[:, None]) | (gaps < radius[None, :])
    possible = (gaps <= radius[:, None]) | (gaps <= radius[None, :])
    for i in range(len(X)):
        row = graph.parents[i, : min(k, i)]
        chosen = set(row.tolist())
        sure, maybe = np.flatnonzero(certain[i, :i]), np.flatnonzero(possible[i, :i])
        left_out = [j for j in sure if j not in chosen]
        if left_out:
            # A certain edge is dropped only when k earlier ones are kept, all of them possible edges.
            assert row.max() < min(left_out)
            assert chosen <= set(maybe.tolist())
        extra = [j for j in chosen if not possible[i, j]]
        if extra:
            # Topped up: all certain edges are in, and no other point is nearer than what was added.
            others = np.setdiff1d(np.arange(i), row)
            assert not left_out
            assert len(others) == 0 or gaps[i, extra].max() <= gaps[i, others].min()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "k"), [(1, 3), (2, 1), (2, 5), (5, 4), (5, 100), (13, 12), (40, 39)])
def test_few_points(n, k, order, rule):
    X = cases.scattered(n, 2)
    graph = build_graph(X, k, rule=rule, order=order)
    check_invariants(graph, n, k)
    assert graph.parents.shape == (n, min(k, n - 1))
    assert graph.children.child_ptr[-1] == (graph.parents >= 0).sum()
    assert graph.parts(1).part_ptr[-1] == n


@pytest.mark.parametrize("rule", RULES)
def test_identical_points_cost_nothing_extra(rule):
    graph = build_graph(np.ones((100_000, 2)), 10, rule=rule)
    assert np.array_equal((graph.parents >= 0).sum(axis=1), np.minimum(np.arange(100_000), 10))
    assert (graph.parents < np.arange(100_000)[:, None]).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sites", [1, 7, 100])
def test_identical_points_share_the_burden(sites, rule):
    """Ties are spread, so that no point has very many children."""
    rng = np.random.default_rng(sites)
    X = rng.random((sites, 2))[np.sort(rng.integers(sites, size=20_000))]
    graph = build_graph(X, 10, rule=rule)
    assert np.diff(graph.children.child_ptr).max() < 200


@given(
    points=st.lists(st.tuples(st.integers(-3, 3), st.floats(-2, 2)), min_size=1, max_size=60),
    k=st.integers(1, 8),
    rule=st.sampled_from(RULES),
    order=st.sampled_from(ORDERS),
)
@settings(max_examples=150, deadline=None)
def test_invariants(points, k, rule, order):
    X = np.array(points, dtype=float)
    graph = build_graph(X, k, rule=rule, order=order)
    check_invariants(graph, len(X), k)
    if rule == "nearest":
        check_nearest(graph, X, same_ids=False)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ORDERS)
def test_threads_make_no_difference(order, rule):
    X = np.concatenate([cases.scattered(15_000, 2), cases.repeated(5_000, 2)])
    with threads(1):
        one = build_graph(X, 8, rule=rule, order=order, seed=4)
    with threads(2):
        two = build_graph(X, 8, rule=rule, order=order, seed=4)
    for name in ("order", "parents", "spatial"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("order", ["grid", "random"])
def test_seed_decides(order):
    X = cases.scattered(300, 2)
    same = [build_graph(X, 3, order=order, seed=s).order for s in (None, 0, 1)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[1], same[2])


def test_order_as_array_and_other_inputs():
    X = cases.scattered(50, 2)
    order = np.random.default_rng(0).permutation(50)
    graph = build_graph(X, 5, order=order)
    assert np.array_equal(graph.order, order)
    order[:] = 0
    assert len(np.unique(graph.order)) == 50
    frozen = np.asfortranarray(X)
    frozen.setflags(write=False)
    for other in (X.tolist(), frozen, X.astype(object)):
        assert np.array_equal(build_graph(other, 5, order=graph.order.tolist()).parents, graph.parents)
    assert build_graph(np.arange(6).reshape(-1, 1), 2).n_points == 6


@pytest.mark.parametrize("rule", RULES)
def test_children(rule):
    graph = build_graph(cases.scattered(400, 2), 7, rule=rule)
    pointer, row, slot = graph.children
    assert (pointer.dtype, row.dtype, slot.dtype) == (np.int64, np.int32, np.int16)
    for p in range(400):
        mine = slice(pointer[p], pointer[p + 1])
        expected = np.argwhere(graph.parents == p)
        assert np.array_equal(row[mine], expected[:, 0])
        assert np.array_equal(slot[mine], expected[:, 1])


def test_spatial_keeps_neighbours_together():
    X = cases.scattered(5000, 2)
    graph = build_graph(X, 3)
    Y = X[graph.order]
    steps = np.linalg.norm(np.diff(Y[graph.spatial], axis=0), axis=1)
    assert np.median(steps) < 0.1 * np.median(np.linalg.norm(np.diff(Y, axis=0), axis=1))


def test_pickle_and_cache():
    graph = build_graph(cases.scattered(30, 2), 4)
    assert graph.children is graph.children
    again = pickle.loads(pickle.dumps(graph))
    for name in ("order", "parents", "spatial"):
        assert np.array_equal(getattr(again, name), getattr(graph, name))
    assert np.array_equal(again.children.child_row, graph.children.child_row)
    with pytest.raises(AttributeError):
        again.order = None
