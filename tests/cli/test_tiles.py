"""npvi fit --store, and npvi info and npvi predict of what it makes."""

import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from npvi import load
from npvi.cli import app
from tests.tiled.conftest import survey, write

WIDE = {"COLUMNS": "200", "NO_COLOR": "1"}


def npvi(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiles")
    files = write(survey(1500), folder / "files")
    command = ("fit", files, "--target", "count", "--inputs", "lon,lat,forest", "--coords", "lon,lat")
    command += ("--likelihood", "poisson", "--exposure", "hours", "--no-learn", "--length-scale", "0.2")
    command += ("--variance", "1", "--nugget", "0.01", "--store", folder / "birds.npvi", "--threads", "1")
    return folder, command, npvi(*command)


def test_a_model_in_tiles_from_the_shell(fitted):
    folder, command, done = fitted
    assert done.exit_code == 0, done.output
    for words in ("1,500", "count", "Poisson", "hours", "birds.npvi"):
        assert words in done.output
    again = npvi(*command)  # nothing is left to do
    assert again.exit_code == 0
    shown = npvi("info", folder / "birds.npvi")
    assert shown.exit_code == 0
    assert "tiles agree" in shown.output
    assert '"estimator": "TiledRegressor"' in npvi("info", folder / "birds.npvi", "--json").output


def test_it_predicts_tables(fitted):
    folder, *_ = fitted
    places = survey(50, seed=3)[["lon", "lat", "forest", "hours"]]
    places.to_csv(folder / "places.csv", index=False)
    map_ = folder / "map.csv"
    done = npvi("predict", folder / "birds.npvi", folder / "places.csv", "--exposure", "hours", "--output", map_)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(map_)
    assert (found["lower"] <= found["mean"]).all()
    assert np.isfinite(found[["mean", "std", "reach_distance", "prior_share"]]).all(axis=None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--save", "a.npvi"), "--save does not go with --store"),
        (("--method", "npvi"), "--method does not go with --store"),
        (("--nugget", "0.5"), "was begun with nugget=0.01, and not 0.5"),
        (("--memory", "10MB"), "isn't enough"),
        (("--inputs", "lon,lat"), "was begun with inputs lon, lat, forest, and not lon, lat: give another folder"),
        (("--target", "hours"), "was begun with target count, and not hours"),
    ],
)
def test_what_tiles_do_not_serve_is_refused(fitted, more, words):
    _, command, _ = fitted
    done = npvi(*command, *more)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def test_a_map_of_tiles(fitted, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("rioxarray")
    folder, *_ = fitted
    map_of = ("predict", folder / "birds.npvi", "--grid", "0.1", "--at", "forest=0.3", "--output")
    done = npvi(*map_of, tmp_path / "map.nc")
    assert done.exit_code == 0, done.output
    assert "10 × 10 cells" in done.output
    with xarray.open_dataset(tmp_path / "map.nc") as found:
        expected = load(folder / "birds.npvi").predict_grid(0.1, covariates={"forest": 0.3})
        np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-6)


def test_totals_of_polygons_in_tiles_are_refused(fitted, tmp_path):
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    folder, *_ = fitted
    geopandas.GeoDataFrame(geometry=[shapely.box(0.2, 0.2, 0.6, 0.6)], crs="EPSG:4326").to_file(
        tmp_path / "all.geojson"
    )
    more = ("--polygons", tmp_path / "all.geojson", "--total", "--output", tmp_path / "totals.csv")
    done = npvi("predict", folder / "birds.npvi", *more)
    assert done.exit_code == 2
    assert "model.to_local()" in " ".join(done.output.split())


def test_what_is_shown_of_an_updated_model(fitted, tmp_path):
    folder = shutil.copytree(fitted[0] / "birds.npvi", tmp_path / "birds.npvi")
    more = load(folder).update(write(survey(30, seed=8), tmp_path / "more", files=1))
    assert more.about_["rows"] == 1530
    assert "1,530, 30 of them by 1 update" in npvi("info", folder).output
