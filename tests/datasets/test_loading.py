"""The sets of the benchmarks, and how they are split."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npvi.datasets import Dataset, load


def published(name):
    """The arrays that published comparisons used."""
    root = os.environ.get("NPVI_DATA")
    if not root:
        pytest.skip("NPVI_DATA does not name a folder with the benchmark data")
    path = Path(root) / "benchmarks" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("bird_counts", "bird_counts", None),
        ("nightlight", "nightlight", None),
        ("precipitation", "precipitation", None),
        ("flights", "flights50k", 50_000),
    ],
)
def test_seed_0_gives_the_published_arrays(name, file, rows):
    expected = published(file)
    found = load(name).split(seed=0, rows=rows)._asdict()
    assert found.keys() == expected.keys()
    for part, array in found.items():
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, expected[part], err_msg=part)


def test_modis_is_tested_behind_clouds():
    published("precipitation")  # the folder is there
    split = load("modis").split(seed=3)
    assert len(split.y_test) == 42_740
    assert len(split.y_train) + len(split.y_val) == 105_569


# -- without the real data --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that NPVI_DATA names, and a function that puts a table into it."""
    monkeypatch.setenv("NPVI_DATA", str(tmp_path))

    def put(name, columns):
        (tmp_path / name).mkdir()
        pd.DataFrame(columns).to_parquet(tmp_path / name / f"{name}.parquet")

    return put


def miles(lon, lat):
    return np.column_stack([lon * np.cos(np.pi * 39 / 180), lat]) * 69.17 / 200


def test_bird_counts(folder):
    rng = np.random.default_rng(0)
    lon, lat, counts = rng.uniform(-120, -70, 40), rng.uniform(25, 49, 40), rng.poisson(1.0, 40)
    folder("bbs_savannah_sparrow", {"lon": lon, "lat": lat, "savannah_sparrow": counts})
    data = load("bird_counts")
    np.testing.assert_allclose(data.X, miles(lon, lat), rtol=1e-6)
    np.testing.assert_array_equal(data.y, counts)
    assert data.zeros == 5350
    assert data.name == "bird_counts"


def test_nightlight_and_precipitation(folder):
    lon, lat = np.array([-100.0, -90.0]), np.array([40.0, 41.0])
    folder("nightlight", {"lon": lon, "lat": lat, "grey": [0.0, 51.0]})
    folder("noaa_precip_may", {"lon": lon, "lat": lat, "prcp_may": [2.0, 8.0]})
    light, rain = load("nightlight"), load("precipitation")
    np.testing.assert_allclose(light.X, miles(lon, lat), rtol=1e-6)
    np.testing.assert_array_equal(rain.X, light.X)
    np.testing.assert_allclose(light.y, [1 / 255, 0.2], rtol=1e-6)
    np.testing.assert_allclose(rain.y, [0.25, 1.0], rtol=1e-6)
    # twenty miles are a tenth, as in the paper: a degree of latitude has about 69.17 of them
    assert light.X[1, 1] - light.X[0, 1] == pytest.approx(0.1 / 20 * 69.17, rel=1e-5)


def test_flights(folder):
    rng = np.random.default_rng(0)
    inputs = ["plane_age", "distance", "air_time", "dep_time", "arr_time", "day_of_week", "day_of_month", "month"]
    table = pd.DataFrame({name: rng.integers(0, 50, 1001) for name in inputs}).assign(arr_delay=np.arange(1001) - 100)
    folder("flight_delay", table)
    data = load("flights")
    kept = table[2:990]  # the quantiles are those of rows 1 and 990, which are left out too
    assert len(data.y) == len(kept) == 988
    assert data.inputs == tuple(inputs)
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1.0)
    np.testing.assert_allclose(np.corrcoef(data.X[:, 2], kept["air_time"])[0, 1], 1.0)
    np.testing.assert_allclose(data.y, np.arange(1, 989) / 988)


def test_where_the_folder_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("NPVI_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"NPVI_DATA is not set.*noaa_precip_may\.parquet.*`npvi data prec"):
        load("precipitation")
    monkeypatch.setenv("NPVI_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no file .*modis_lst\.parquet.*`npvi data modis` says where"):
        load("modis")
    with pytest.raises(ValueError, match=r"one of 'bird_counts', .*, 'modis'; got 'birds'"):
        load("birds")


# -- splits -----------------------------------------------------------------------------------------------------------


def numbered(n, y=None, **more):
    """Rows whose only input is their number."""
    rows = np.arange(float(n))
    return Dataset("numbers", rows[:, None], rows if y is None else y, ("row",), "y", "gaussian", "", **more)


def rows_of(split):
    return [part.ravel().astype(int) for part in (split.X_train, split.X_val, split.X_test)]


def test_a_split_has_every_row_once():
    split = numbered(1234).split(seed=5)
    parts = rows_of(split)
    assert [len(part) for part in parts] == [863, 124, 247]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1234))
    np.testing.assert_array_equal(split.X_val[:, 0], split.y_val)
    assert not np.array_equal(split.X_train, numbered(1234).split(seed=6).X_train)
    np.testing.assert_array_equal(split.X_train, numbered(1234).split(seed=5).X_train)


def test_fewer_rows():
    parts = rows_of(numbered(1000).split(seed=1, rows=100))
    assert [len(part) for part in parts] == [70, 10, 20]
    assert len(set(np.concatenate(parts).tolist())) == 100
    for rows in (9, 1001):
        with pytest.raises(ValueError, match=r"rows must be from 10 to 1,000, which numbers has, got"):
            numbered(1000).split(rows=rows)


def test_zeros_are_thinned_out():
    y = np.repeat([0.0, 3.0], [8000, 2000])
    split = numbered(10_000, y, zeros=2000).split(seed=2)
    kept = np.concatenate(rows_of(split))
    assert len(np.unique(kept)) == len(kept)
    assert np.count_nonzero(kept >= 8000) == 2000
    # binomial with mean 2000 and standard deviation 39
    assert abs(np.count_nonzero(kept < 8000) - 2000) < 5 * 39
    other = np.concatenate(rows_of(numbered(10_000, y, zeros=2000).split(seed=3)))
    assert set(other.tolist()) != set(kept.tolist())


def test_rows_that_everybody_tests_on():
    is_test = np.arange(1000) % 5 == 0
    train, validation, test = rows_of(numbered(1000, is_test=is_test).split(seed=4))
    np.testing.assert_array_equal(np.sort(test), np.flatnonzero(is_test))
    assert (len(train), len(validation)) == (700, 100)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation])), np.flatnonzero(~is_test))
