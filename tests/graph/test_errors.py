"""What build_graph says when an argument is wrong."""

import numpy as np
import pytest

from npvi.graph import build_graph

X = np.arange(12.0).reshape(6, 2)
WITH_NAN = X.copy()
WITH_NAN[[1, 4], 0] = np.nan, -np.inf


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"X": np.arange(3.0)},
            ValueError,
            r"X has shape \(3,\) but must be two-dimensional.*X\.reshape\(-1, 1\)",
        ),
        ({"X": 3.0}, ValueError, r"X has shape \(\) but must be two-dimensional"),
        ({"X": np.zeros((2, 2, 2))}, ValueError, r"X has shape \(2, 2, 2\)"),
        ({"X": np.zeros((0, 2))}, ValueError, r"X is empty, with shape \(0, 2\): give at least one point"),
        ({"X": np.zeros((3, 0))}, ValueError, r"X is empty, with shape \(3, 0\)"),
        (
            {"X": WITH_NAN},
            ValueError,
            r"Input X contains NaN or infinity in 2 of 6 rows \(rows 1, 4\): drop or fill",
        ),
        ({"X": np.full((9, 1), np.nan)}, ValueError, r"9 of 9 rows \(rows 0, 1, 2, 3, 4, …\)"),
        (
            {"X": [[1e200], [0.0]]},
            ValueError,
            r"X has values beyond ±1e\+150 in 1 of 2 rows \(rows 0\): rescale X",
        ),
        ({"X": [["a"], ["b"]]}, ValueError, r"X must be numbers, got text such as 'a'"),
        (
            {"X": np.ones((3, 2), complex)},
            ValueError,
            r"Complex data not supported: X has an imaginary part",
        ),
        ({"X": [[1.0, 2.0], [3.0]]}, ValueError, r"X is no array of numbers: its rows differ in length"),
        ({"X": [[object()]]}, TypeError, r"X must be numbers: .* not 'object'"),
        ({"n_neighbors": 2.0}, ValueError, r"n_neighbors must be a whole number of at least 1, got 2\.0"),
        ({"n_neighbors": True}, ValueError, r"n_neighbors must be a whole number of at least 1, got True"),
        ({"n_neighbors": "5"}, ValueError, r"n_neighbors must be a whole number of at least 1, got '5'"),
        ({"n_neighbors": 0}, ValueError, r"n_neighbors must be a whole number of at least 1, got 0"),
        ({"n_neighbors": np.int64(-3)}, ValueError, r"n_neighbors must be a whole number of at least 1, got .*-3"),
        ({"rule": "knn"}, ValueError, r"rule must be one of 'paper', 'nearest'; got 'knn'"),
        (
            {"order": "maxmin"},
            ValueError,
            r"order must be one of 'maximin', 'grid', 'nested', 'random', 'given', or an array",
        ),
        ({"order": None}, ValueError, r"order must be one of .*got None"),
        ({"order": 3}, ValueError, r"order must be one of .*got 3"),
        ({"order": np.arange(6.0)}, TypeError, r"order is an array of float64 but must hold integers"),
        (
            {"order": np.arange(5)},
            ValueError,
            r"order has shape \(5,\) but X has 6 rows: .* permutation of 0, …, 5",
        ),
        ({"order": np.arange(6)[:, None]}, ValueError, r"order has shape \(6, 1\)"),
        ({"order": np.arange(1, 7)}, ValueError, r"order holds 6 at position 5 \(1 such entries\)"),
        ({"order": [0, 1, 2, 3, 4, -1]}, ValueError, r"order holds -1 at position 5"),
        ({"order": [0, 1, 1, 3, 4, 5]}, ValueError, r"order holds row 1 2 times .* name each row once"),
        ({"seed": 1.5}, ValueError, r"seed must be None or a whole number from 0 to .*, got 1\.5"),
        ({"seed": -1}, ValueError, r"seed must be None or a whole number from 0 to .*, got -1"),
    ],
)
def test_message(arguments, error, message):
    with pytest.raises(error, match=message):
        build_graph(**{"X": X, "n_neighbors": 2, **arguments})
