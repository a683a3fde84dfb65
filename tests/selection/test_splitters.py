"""Folds that keep neighbours together."""

from __future__ import annotations

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import npvi
from npvi import GPRegressor, LeaveLocationOut, SpatialBlockSplit
from npvi.graph.places import number_places
from npvi.kernels import Matern32


def places(n=400, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, 2)) * [10.0, 5.0]


def check_folds(folds, n, n_splits):
    assert len(folds) == n_splits
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(n))
    for train, test in folds:
        assert len(test) > 0
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


@pytest.mark.parametrize("random_state", [None, 0, 1])
@pytest.mark.parametrize("block_size", [None, 0.7, [2.0, 0.5]])
def test_blocks_stay_together_and_folds_are_balanced(block_size, random_state):
    X = places()
    splitter = SpatialBlockSplit(4, block_size, random_state=random_state)
    folds = list(splitter.split(X))
    check_folds(folds, 400, 4)
    assert splitter.get_n_splits() == splitter.get_n_splits(X) == 4
    block = splitter.blocks(X)
    for train, test in folds:
        assert not set(block[train]) & set(block[test])
        assert 85 <= len(test) <= 115


def test_blocks_are_squares_of_the_given_side():
    X = places()
    splitter = SpatialBlockSplit(5, block_size=1.0, random_state=3)
    block = splitter.blocks(X)
    assert len(np.unique(block)) <= 11 * 6
    for number in np.unique(block):
        assert np.all(np.ptp(X[block == number], axis=0) <= 1.0)
    np.testing.assert_array_equal(
        SpatialBlockSplit(5, block_size=1.0).blocks(X), number_places(np.floor(X - X.min(axis=0)))
    )


def test_default_blocks_are_several_per_fold():
    for X in (places(), places(30), np.exp(3.0 * places(1000)), places()[:, :1]):
        assert len(np.unique(SpatialBlockSplit(5).blocks(X))) >= 15
    line = np.column_stack([np.linspace(0.0, 1.0, 40), np.zeros(40)])
    check_folds(list(SpatialBlockSplit(3).split(line)), 40, 3)


def test_random_state_repeats_and_matters():
    X = places()

    def tests(random_state):
        return [test.tolist() for _, test in SpatialBlockSplit(3, random_state=random_state).split(X)]

    assert tests(1) == tests(1)
    assert tests(None) == tests(None)
    assert tests(1) != tests(2)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("columns", [["east", "north"], [0, 1]])
def test_columns_of_tables(frame, columns):
    X = places()
    table = frame({"east": X[:, 0], "north": X[:, 1], "habitat": [f"h{i}" for i in range(400)]})
    expected = [test.tolist() for _, test in SpatialBlockSplit(3, 1.0).split(X)]
    assert [test.tolist() for _, test in SpatialBlockSplit(3, 1.0, columns).split(table)] == expected
    assert LeaveLocationOut(columns="east").get_n_splits(table) == 400


def test_locations_stay_together():
    rng = np.random.default_rng(0)
    site = rng.integers(12, size=100)
    X = np.column_stack([places(12)[site], rng.uniform(size=100)])
    splitter = LeaveLocationOut(columns=[0, 1])
    folds = list(splitter.split(X))
    check_folds(folds, 100, 12)
    assert splitter.get_n_splits(X) == 12
    assert all(len(set(site[test])) == 1 for _, test in folds)
    folds = list(LeaveLocationOut(3, columns=[0, 1]).split(X))
    check_folds(folds, 100, 3)
    for train, test in folds:
        assert not set(site[train]) & set(site[test])
        assert 28 <= len(test) <= 39


def test_covariates_are_no_part_of_a_location():
    """Two sites, visited in three years each: what counts as a location must be said."""
    X = np.array([[0.0, 0.0, 2001.0], [1.0, 1.0, 2001.0]] * 3) + [0.0, 0.0, 1.0] * np.arange(3).repeat(2)[:, None]
    for table, words in (
        (X, r"X has 3 columns, and LeaveLocationOut can't know .*columns=\[0, 1\]"),
        (pd.DataFrame(X, columns=["east", "north", "year"]), r"3 columns \(east, north, year\)"),
    ):
        for ask in (lambda table: LeaveLocationOut(2).split(table), LeaveLocationOut().get_n_splits):
            with pytest.raises(ValueError, match=words):
                list(ask(table))
    assert LeaveLocationOut(columns=[0, 1]).get_n_splits(X) == 2
    assert LeaveLocationOut(columns=range(3)).get_n_splits(X) == 6
    assert LeaveLocationOut().get_n_splits(X[:, :2]) == 2


def test_zero_has_no_sign():
    assert number_places(np.array([[0.0], [-0.0], [1.0]])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("splitter", [SpatialBlockSplit(3), LeaveLocationOut(3)], ids=repr)
def test_in_scikit_learn(splitter):
    rng = np.random.default_rng(0)
    X = places(90)
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(90)
    model = GPRegressor(kernel=Matern32(1.0), n_neighbors=8, learn=False)
    assert cross_val_score(model, X, y, cv=splitter).shape == (3,)
    search = GridSearchCV(model, {"nugget": [1e-4, 0.1]}, cv=splitter, scoring=npvi.log_score_scorer).fit(X, y)
    assert search.n_splits_ == 3
    assert [test.tolist() for _, test in clone(splitter, safe=False).split(X)] == [
        test.tolist() for _, test in splitter.split(X)
    ]
    assert "n_splits=3" in repr(splitter)


@pytest.mark.parametrize(
    ("splitter", "X", "message"),
    [
        (
            SpatialBlockSplit(5, 20.0),
            places(),
            "block_size=20.0 gives 1 blocks .*n_splits=5.* 9.9. × 4.9.: choose smaller",
        ),
        (SpatialBlockSplit(5), np.zeros((9, 2)), "1 different locations, fewer than n_splits=5"),
        (SpatialBlockSplit(5, -1.0), places(), "block_size must be a positive number, .*got -1.0"),
        (SpatialBlockSplit(5, [1.0, 1.0, 1.0]), places(), "block_size must be .* 2 coordinates"),
        (SpatialBlockSplit(1), places(), "n_splits must be a whole number of at least 2, got 1"),
        (SpatialBlockSplit(2.5), places(), "n_splits must be a whole number"),
        (SpatialBlockSplit(5, columns=[0, 7]), places(), r"columns=\[0, 7\] aren't all in X.* 0 to 1"),
        (SpatialBlockSplit(5, columns=["x"]), pd.DataFrame(places(), columns=["a", "b"]), "columns are .*'a', 'b'"),
        (SpatialBlockSplit(5, columns=[]), places(), "columns is empty"),
        (SpatialBlockSplit(5), places()[:, 0], "must be two-dimensional"),
        (SpatialBlockSplit(5), np.full((9, 2), np.nan), "NaN"),
        (LeaveLocationOut(5), np.repeat(places(3), 4, axis=0), "3 different locations, fewer than n_splits=5"),
        (LeaveLocationOut(), np.zeros((9, 2)), "1 different locations, fewer than the two that folds need"),
        (LeaveLocationOut(0), places(), "n_splits must be"),
    ],
)
def test_mistakes_are_explained(splitter, X, message):
    with pytest.raises(ValueError, match=message):
        list(splitter.split(X))


def test_the_number_of_locations_needs_the_rows():
    with pytest.raises(ValueError, match="X is needed to count its locations"):
        LeaveLocationOut().get_n_splits()


@pytest.mark.parametrize("splitter", [SpatialBlockSplit(2), LeaveLocationOut(2)], ids=lambda s: type(s).__name__)
def test_places_alone_decide(splitter):
    X = np.random.default_rng(0).uniform(size=(20, 2))
    expected = list(splitter.split(X))
    for y in (object(), 3, np.ones(5)):
        for given, wanted in zip(splitter.split(X, y, y), expected, strict=True):
            np.testing.assert_array_equal(given[0], wanted[0])
            np.testing.assert_array_equal(given[1], wanted[1])
    for wrong in (None, dict, [[1.0, 2.0], [3.0]]):
        with pytest.raises((TypeError, ValueError), match="X"):
            list(splitter.split(wrong))


def test_geo_frames_are_split_by_their_points():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(5.0, 15.0, 200), rng.uniform(55.0, 65.0, 200)
    lon[100:120], lat[100:120] = lon[0], lat[0]
    frame = geopandas.GeoDataFrame(
        {"height": rng.normal(size=200)}, geometry=geopandas.points_from_xy(lon, lat), crs=4326
    )
    metres = frame.to_crs(32632)
    flat = np.column_stack([metres.geometry.x, metres.geometry.y])
    split = SpatialBlockSplit(3, block_size=50_000.0)
    for found, expected in zip(split.split(metres), split.split(flat)):
        assert np.array_equal(found[1], expected[1])
    # in degrees blocks are in kilometres: as far across to the east as to the north
    block = SpatialBlockSplit(3, block_size=100.0).blocks(frame)
    for number in range(block.max() + 1):
        rows = block == number
        assert np.ptp(flat[rows], axis=0).max() < 115_000.0
    folds = list(LeaveLocationOut().split(frame))
    assert len(folds) == 180
    assert [0, *range(100, 120)] in [test.tolist() for _, test in folds]
    shapes = frame.set_geometry(metres.buffer(10.0))
    with pytest.raises(ValueError, match="X must have a point in each row"):
        list(split.split(shapes))
    model = npvi.GPRegressor(kernel=npvi.kernels.RBF(200.0), learn=False)
    scores = cross_val_score(model, frame, np.sin(lon), cv=SpatialBlockSplit(3))
    assert scores.shape == (3,)
