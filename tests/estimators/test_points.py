"""Point patterns as counts in cells."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npvi

FOLDER = Path(os.environ.get("NPVI_DATA", ""), "models")


def events(n=300, seed=0):
    x, y = np.random.default_rng(seed).uniform(0.0, 10.0, size=(2, 4 * n))
    kept = np.random.default_rng(seed + 1).uniform(size=4 * n) < 0.1 + 0.3 * (x > 5.0)
    return np.column_stack([x, y])[kept]


@pytest.mark.skipif(not (FOLDER / "bei.csv").exists(), reason="NPVI_DATA names no folder with the data")
@pytest.mark.slow
def test_trees_of_a_tropical_forest():
    """sdmTMB's article: range 57.49 m and standard deviation 1.73, on a mesh."""
    trees = pd.read_csv(FOLDER / "bei.csv")
    model = npvi.fit_points(trees, (0.0, 0.0, 1000.0, 500.0), cell=10.0)
    values = model.summary()["value"]
    assert values["gp(x, y)__range"] == pytest.approx(57.49, rel=0.25)
    assert values["gp(x, y)__sd"] == pytest.approx(1.73, rel=0.25)
    total = model.predict_dist(model.cells_, exposure=model.cells_["area"]).total(seed=0)
    assert total.mean == pytest.approx(len(trees), rel=0.01)


def test_intensity_with_a_covariate():
    points = events()
    model = npvi.fit_points(
        points, (0.0, 0.0, 10.0, 10.0), lambda x, y: {"east": (x > 5.0).astype(float)}, 1.0, hyper="plug-in"
    )
    found = model.summary().loc["east"]
    assert abs(found["value"] - np.log(4.0)) < 3.0 * found["standard_error"]
    cells = model.cells_
    assert cells["count"].sum() == len(points)
    intensity = model.predict_dist(cells, exposure=1.0).mean
    assert intensity.sum() == pytest.approx(len(points), rel=0.05)
    table = pd.DataFrame({"x": [2.5, 7.5], "y": [5.0, 5.0], "east": [0.0, 1.0]})
    same = npvi.fit_points(points, (0.0, 0.0, 10.0, 10.0), table, 1.0, hyper="plug-in")
    np.testing.assert_allclose(same.predict_dist(cells, exposure=1.0).mean, intensity, rtol=1e-6)


def test_cells_are_cut_by_the_window():
    shapely = pytest.importorskip("shapely")
    window = shapely.Polygon([(0.0, 0.0), (10.0, 0.0), (10.0, 10.0)])
    points = events()
    points = points[points[:, 1] < points[:, 0]]
    model = npvi.fit_points(points, window, cell=0.7, hyper="plug-in")
    assert model.cells_["area"].sum() == pytest.approx(50.0)
    assert model.cells_["area"].max() == pytest.approx(0.49)
    rectangle = npvi.fit_points(points, (0.0, 0.0, 10.0, 10.0), cell=0.7, hyper="plug-in")
    assert rectangle.cells_["area"].sum() == pytest.approx(100.0)  # the last cells are narrower


def test_bad_input():
    points = events()
    with pytest.raises(ValueError, match=r"points are outside of the window, such as"):
        npvi.fit_points(points, (0.0, 0.0, 5.0, 5.0))
    with pytest.raises(ValueError, match="take a larger one"):
        npvi.fit_points(points, cell=1e-6)
    with pytest.raises(ValueError, match="columns x and y"):
        npvi.fit_points(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    with pytest.raises(ValueError, match="left, bottom, right, top"):
        npvi.fit_points(points, (0.0, 1.0))
    with pytest.raises(ValueError, match="columns x, y and others"):
        npvi.fit_points(points, covariates=pd.DataFrame({"x": [0.0], "y": [0.0]}))
    with pytest.raises(ValueError, match="coordinates of shape"):
        npvi.fit_points(np.zeros((3, 3)))


def test_presences_alone_are_said_to_be_that():
    points = events()
    with pytest.warns(UserWarning, match="npvi.fit_points"):
        npvi.GPRegressor("poisson", learn=False).fit(points, np.ones(len(points)))
    table = pd.DataFrame(points, columns=["x", "y"])
    with pytest.warns(UserWarning, match="npvi.fit_points"):
        npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y")], learn=False).fit(table, np.ones(len(points)))


def test_points_that_span_no_window():
    with pytest.raises(ValueError, match="points that have all the same x, or y, leave the window without an area"):
        npvi.fit_points(np.ones((40, 2)), cell=0.2)


def test_covariates_that_are_no_columns():
    with pytest.raises(ValueError, match=r"covariates must return a column by each name.* got 5"):
        npvi.fit_points(events(), covariates=lambda x, y: 5)
    with pytest.raises(ValueError, match="covariates must be a table"):
        npvi.fit_points(events(), covariates=dict)
