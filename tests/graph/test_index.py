"""Nearest points to new ones, against brute force."""

import pickle

import numpy as np
import pytest

from npvi.graph import NeighborIndex
from npvi.runtime.parallel import threads
from tests.support import graph_brute_force as brute
from tests.support import graph_cases as cases


@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 2, 1), (9, 1, 9), (1000, 1, 5), (1500, 2, 20), (800, 8, 10), (400, 20, 7)]
)
def test_query(n, d, k):
    X, Z = cases.scattered(n, d), 1.5 * cases.scattered(333, d)
    got = NeighborIndex(X).query(Z, k)
    assert got.dtype == np.int32
    assert np.array_equal(got, np.argsort(brute.squared_distances(Z, X), axis=1, kind="stable")[:, :k])


@pytest.mark.parametrize("X", [cases.lattice(30, 2), cases.repeated(700, 2), np.zeros((200, 2))])
def test_query_with_ties(X):
    Z = np.concatenate([X[:100], cases.scattered(100, 2)])
    gaps = brute.squared_distances(Z, X)
    got = NeighborIndex(X).query(Z, 12)
    assert (np.diff(np.sort(got, axis=1), axis=1) > 0).all()
    assert np.array_equal(np.take_along_axis(gaps, got, axis=1), np.sort(gaps, axis=1)[:, :12])


def test_threads_pickle_and_no_queries():
    index = NeighborIndex(cases.scattered(3000, 2))
    Z = cases.scattered(5000, 2)
    with threads(1):
        one = index.query(Z, 6)
    with threads(2):
        two = pickle.loads(pickle.dumps(index)).query(Z, 6)
    assert np.array_equal(one, two)
    assert index.n_points == 3000
    assert index.query(Z[:0], 3).shape == (0, 3)


def test_errors():
    index = NeighborIndex(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"Z has 3 columns but the index was built on 2"):
        index.query(np.zeros((1, 3)), 1)
    with pytest.raises(ValueError, match=r"k is 5 but there are 4 points: choose k between 1 and 4"):
        index.query(np.zeros((1, 2)), 5)
    with pytest.raises(ValueError, match=r"k must be a whole number of at least 1, got 1\.0"):
        index.query(np.zeros((1, 2)), 1.0)
    with pytest.raises(ValueError, match=r"Input Z contains NaN or infinity in 1 of 2 rows \(rows 1\)"):
        index.query([[0, 0], [0, np.nan]], 1)
