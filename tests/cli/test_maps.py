"""npvi predict without a table: grids, rasters and polygons."""

from __future__ import annotations

import geopandas
import numpy as np
import pandas as pd
import pytest
import rioxarray
from shapely.geometry import box

import npvi as library


@pytest.fixture
def counties(tmp_path):
    shapes = geopandas.GeoDataFrame(
        {"name": ["a", "b"]}, geometry=[box(10, 10, 30, 30), box(40, 10, 60, 30)], crs=32633
    )
    shapes.to_file(tmp_path / "counties.gpkg")
    return shapes


def test_grid_as_geotiff_and_back_as_template(npvi, folder, tmp_path):
    how = "--exposure 2 --crs EPSG:32633"
    done = npvi(f"predict birds.npvi --grid 10 --bbox 0,0,60,40 --exceed 2 {how} --output {{tmp}}/map.tif")
    assert done.exit_code == 0, done.output
    assert "6 × 4 cells" in done.stderr
    model = library.load(folder / "birds.npvi")
    with rioxarray.open_rasterio(tmp_path / "map.tif") as image:
        names = image.attrs["long_name"]
        assert names == ("mean", "std", "q5", "q95", "exceed_2", "reach_distance", "prior_share")
        places = pd.DataFrame({"lon": np.tile(image["x"], 4), "lat": np.repeat(image["y"], 6)})
        dist = model.predict_dist(places, exposure=2.0)
        np.testing.assert_allclose(image[0].to_numpy().ravel(), dist.mean, rtol=1e-9)
        np.testing.assert_allclose(image[4].to_numpy().ravel(), dist.exceed(2), rtol=1e-9)
        transform = image.rio.transform()
    done = npvi(f"predict birds.npvi --like {{tmp}}/map.tif {how} --output {{tmp}}/again.tif")
    assert done.exit_code == 0, done.output
    with rioxarray.open_rasterio(tmp_path / "again.tif") as image:
        assert image.rio.transform() == transform
        assert image.rio.crs.to_epsg() == 32633
        np.testing.assert_allclose(image[0].to_numpy().ravel(), dist.mean, rtol=1e-9)


def test_polygons_as_mask_and_as_totals(npvi, folder, counties, tmp_path):
    done = npvi("predict birds.npvi --grid 5 --crs EPSG:32633 --polygons {tmp}/counties.gpkg --output {tmp}/map.csv")
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv(tmp_path / "map.csv")) == 32
    where = "--grid 5 --crs EPSG:32633 --polygons {tmp}/counties.gpkg"
    done = npvi(f"predict birds.npvi {where} --total --output {{tmp}}/totals.csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "totals.csv")
    assert found["name"].tolist() == ["a", "b"]
    expected = library.load(folder / "birds.npvi").predict_polygons(counties, 5.0, crs=32633)
    np.testing.assert_allclose(found["total"], expected["total"], rtol=1e-6)


def test_covariates_are_bands_and_numbers(npvi, folder, survey, tmp_path):
    table = survey[["lon", "lat", "temperature"]].assign(year=np.arange(300) % 5)
    model = library.GPRegressor(coords=["lon", "lat"], kernel=library.kernels.RBF(12.0), learn=False)
    model.fit(table, survey["count"]).save(tmp_path / "both.npvi")
    maps = library.load(folder / "warmth.npvi").predict_grid(10.0, bbox=(0, 0, 60, 40))[["mean"]]
    library.maps.write_map(maps.rename(mean="temperature"), tmp_path / "temperature.tif")
    done = npvi(
        "predict {tmp}/both.npvi --like {tmp}/temperature.tif --covariates {tmp}/temperature.tif --at year=3 "
        "--output {tmp}/map.parquet"
    )
    assert done.exit_code == 0, done.output
    found = pd.read_parquet(tmp_path / "map.parquet")
    warmth = maps["mean"].sel(lon=5.0, lat=35.0)
    row = pd.DataFrame({"lon": [5.0], "lat": [35.0], "temperature": [float(warmth)], "year": [3.0]})
    at = found[(found["x"] == 5.0) & (found["y"] == 35.0)]
    np.testing.assert_allclose(at["mean"], model.predict(row), rtol=1e-9)


def test_exceed_is_a_column_of_tables_too(npvi, folder, survey, tmp_path):
    done = npvi("predict birds.npvi test.csv --exposure hours --exceed 1,4.5 --output {tmp}/out.csv")
    assert done.exit_code == 0, done.output
    out, new = pd.read_csv(tmp_path / "out.csv"), survey[240:]
    dist = library.load(folder / "birds.npvi").predict_dist(new[["lon", "lat"]], exposure=new["hours"])
    np.testing.assert_allclose(out["exceed_4.5"], dist.exceed(4.5), rtol=1e-6, atol=1e-12)
    assert (out["exceed_1"] >= out["exceed_4.5"]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--output {tmp}/map.tif", "give a TABLE"),
        ("test.csv --grid 1 --output {tmp}/map.tif", "either a table"),
        ("--grid 1 --output {tmp}/map.doc", "maps are written to .tif"),
        ("--grid 1e-9 --output {tmp}/map.tif", "GB for each number"),
        ("--grid 1 --bbox 1,2,3 --output {tmp}/map.tif", "--bbox must be 4 numbers, got 3"),
        ("--grid 1 --exceed many --output {tmp}/map.tif", "--exceed must be numbers"),
        ("--like no.tif --output {tmp}/map.tif", "there is no file no.tif"),
        ("--like test.csv --output {tmp}/map.tif", "cannot read test.csv as a raster"),
        ("--like no.tif --grid 1 --output {tmp}/map.tif", "leave out --grid"),
        ("--grid 1 --total --output {tmp}/map.csv", "--total is for polygons"),
        ("--polygons test.parquet --output {tmp}/map.csv", "cannot read test.parquet as polygons"),
        ("--grid 10 --at year --output {tmp}/map.csv", "--at must be NAME=VALUE"),
        ("--grid 10 --at year=3 --output {tmp}/map.csv", "has no input 'year'"),
        ("--grid 10 --crs EPSG:nothing --output {tmp}/map.csv", "crs must be a coordinate reference system"),
    ],
)
def test_what_cannot_be_is_said(npvi, tmp_path, options, words):
    done = npvi(f"predict birds.npvi {options}")
    assert done.exit_code != 0
    assert words in " ".join(done.stderr.split()), done.output
    assert not list(tmp_path.iterdir())


def test_fit_draws_a_map_or_how_well_rows_are_predicted(npvi, tmp_path):
    settings = "--target count --likelihood poisson --neighbors 8 --no-learn"
    done = npvi(f"fit survey.csv --inputs lon,lat {settings} --plot {{tmp}}/map.png")
    assert done.exit_code == 0, done.output
    done = npvi(f"fit survey.csv --inputs temperature {settings} --plot {{tmp}}/rows.svg")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "rows.svg").read_bytes()
    done = npvi(f"fit survey.csv --inputs lon,lat {settings} --plot {{tmp}}/map.doc")
    assert done.exit_code == 2
    assert "--plot must end in .png" in done.stderr
