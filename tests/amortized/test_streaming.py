"""What `stream_posterior` is given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import npvi
from npvi import kernels


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.uniform(size=40), "z": rng.uniform(size=40), "y": rng.poisson(2.0, 40), "t": "a"})


def stream(source, target="y", inputs=("x", "z"), **settings):
    usual = {"kernel": kernels.Matern32(0.3), "nugget": 0.1, "likelihood": "poisson", "n_neighbors": 3}
    return npvi.stream_posterior(source, target, inputs, **{**usual, **settings})


def test_a_stream_of_one_table_of_any_kind(small):
    import pyarrow as pa

    numbers = small.drop(columns="t")
    found = pd.concat(stream([numbers]))
    for source in (numbers, pl.from_pandas(numbers), [pl.from_pandas(numbers)], pa.Table.from_pandas(numbers)):
        pd.testing.assert_frame_equal(pd.concat(stream(source)), found)
    named = pd.concat(stream(small, inputs="x", kernel="matern32"))
    pd.testing.assert_frame_equal(named, pd.concat(stream(small, inputs=["x"], kernel=kernels.Matern32())))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": 3}, "source must be the path of a Parquet file, a table, or tables; got 3"),
        ({"source": [3]}, "source must give tables, of pandas, polars or pyarrow; got int"),
        pytest.param({"source": pl.LazyFrame({"x": [1.0]})}, "source is a LazyFrame, whose rows", id="lazy"),
        ({"inputs": 3}, "inputs must be named by text.* got 3"),
        ({"inputs": []}, "inputs must be named by text.* got none"),
        ({"inputs": np.ma.array(["x", "z"], mask=[False, True])}, "inputs is masked in 1 of 2 rows"),
        ({"inputs": "xz"}, "the table has no column xz; it has x, z, y, t"),
        ({"inputs": ["x", "t"]}, "column 't' must be numbers, got text such as 'a'"),
        ({"target": None}, "target must be named by text"),
        ({"target": "t"}, "column 't' must be numbers"),
        ({"exposure": 3}, "exposure must be named by text"),
        ({"exposure": "t"}, "column 't' must be numbers"),
        ({"kernel": 3}, "expected a kernel"),
        ({"nugget": "a"}, "nugget must be a finite number that isn't negative, got 'a'"),
        ({"nugget": -1.0}, "nugget must be a finite number that isn't negative, got -1.0"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1, got 0"),
        ({"n_neighbors": 2.5}, "n_neighbors must be a whole number of at least 1, got 2.5"),
        ({"tile": "a"}, "tile must be a whole number of at least 1, got 'a'"),
        ({"seed": "a"}, "seed must be None, a whole number"),
        ({"n_jobs": "a"}, "n_jobs must be None"),
        ({"folder": "/is/not/there"}, "folder must be a folder that is there"),
        ({"network": 3}, "network must be a npvi.Recognizer or 'pretrained', got 3"),
    ],
    ids=str,
)
def test_what_a_stream_does_not_take(small, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        list(stream(**{"source": small, **settings}))
