"""Grids, rasters and polygons against predictions at the same places."""

from __future__ import annotations

import shutil
import warnings
from types import SimpleNamespace

import geopandas
import numpy as np
import pandas as pd
import pytest
import rioxarray
import shapely
import xarray
from shapely.geometry import Polygon, box
from sklearn.preprocessing import StandardScaler

import npvi
from npvi.kernels import RBF, Matern32, Sphere
from npvi.likelihoods import Gaussian, Poisson
from npvi.maps import predict_grid, write_map


def _survey(n=120, seed=0):
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(-10.0, 10.0, n), rng.uniform(40.0, 60.0, n)
    counts = rng.poisson(np.exp(1.0 + np.sin(lon / 3.0)))
    return pd.DataFrame({"lon": lon, "lat": lat, "depth": rng.normal(size=n)}), counts


def _points(table):
    places = geopandas.points_from_xy(table["lon"], table["lat"])
    return geopandas.GeoDataFrame(table[["depth"]], geometry=places, crs="EPSG:4326")


@pytest.fixture(scope="module")
def plain():
    table, counts = _survey()
    return npvi.GPRegressor("poisson", Matern32(4.0), learn=False).fit(table[["lon", "lat"]], counts)


@pytest.fixture(scope="module")
def on_earth():
    table, counts = _survey()
    return npvi.GPRegressor("poisson", Matern32(500.0), learn=False).fit(_points(table), counts)


# -- grids ------------------------------------------------------------------------------------------------------------


def test_each_cell_is_the_prediction_at_its_centre(plain):
    found = plain.predict_grid(2.0, quantiles=[0.05, 0.95], exceed=[3, 5])
    x, y = np.meshgrid(found["lon"], found["lat"])
    dist = plain.predict_dist(pd.DataFrame({"lon": x.ravel(), "lat": y.ravel()}))
    for name, values in {
        "mean": dist.mean,
        "std": dist.std,
        "q5": dist.quantile(0.05),
        "q95": dist.quantile(0.95),
        "exceed_3": 1.0 - dist.cdf(3.0),
        "exceed_5": dist.exceed(5),
        "prior_share": dist.reach.prior_share,
    }.items():
        np.testing.assert_allclose(found[name].to_numpy().ravel(), values, rtol=1e-9, err_msg=name)
    assert found["exceed_5"].attrs["long_name"] == "probability that a new response exceeds 5"
    assert found.rio.crs.to_epsg() == 4326  # columns that are called so
    assert list(found["lat"].to_numpy()) == sorted(found["lat"].to_numpy(), reverse=True)


def test_pieces_are_the_whole(plain, monkeypatch):
    whole = plain.predict_grid(1.0)
    monkeypatch.setattr("npvi.maps.predicting.CELLS", 50)
    pieces = plain.predict_grid(1.0)
    for name in whole.data_vars:
        np.testing.assert_allclose(pieces[name], whole[name], rtol=1e-9)


@pytest.mark.usefixtures("integrating")
def test_mixtures_and_varying_noise_have_the_same_surfaces():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 10, (60, 2)), columns=["x", "y"])
    y = np.sin(X["x"]) + 0.1 * rng.standard_normal(60)
    mixed = npvi.GPRegressor(kernel="rbf").fit(X, y)
    varying = npvi.VaryingNoiseRegressor(npvi.GPRegressor(kernel="rbf", hyper="plug-in"), max_rounds=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one variance may be as good
        varying.fit(X, y)
    for model in (mixed, varying):
        found = model.predict_grid(2.5, [0.5], 1.0)
        assert list(found.data_vars) == ["mean", "std", "q50", "exceed_1", "reach_distance", "prior_share"]
        assert np.isfinite(found.to_array()).all()
    assert mixed.hyper_ is not None


def test_template_gives_cells_and_mask(plain):
    template = xarray.DataArray(
        np.where(np.arange(12).reshape(3, 4) % 5 == 0, np.nan, 1.0),
        {"lat": [45.0, 50.0, 55.0], "lon": [-6.0, -2.0, 2.0, 6.0]},
        ("lat", "lon"),
    )
    found = plain.predict_grid(template)
    np.testing.assert_array_equal(found["mean"].isnull(), template.isnull())
    at = plain.predict(pd.DataFrame({"lon": [-2.0], "lat": [45.0]}))
    np.testing.assert_allclose(found["mean"].sel(lat=45.0, lon=-2.0), at[0], rtol=1e-9)


def test_template_in_another_system_is_predicted_at_its_own_places(on_earth):
    x, y = np.linspace(2e5, 8e5, 5), np.linspace(5.8e6, 5.0e6, 4)
    template = xarray.DataArray(np.ones((4, 5)), {"y": y, "x": x}, ("y", "x")).rio.write_crs("EPSG:32631")
    found = on_earth.predict_grid(template, covariates={"depth": 0.5})
    places = geopandas.GeoSeries(
        geopandas.points_from_xy(*(axis.ravel() for axis in np.meshgrid(x, y))), crs="EPSG:32631"
    ).to_crs(4326)
    table = pd.DataFrame({"longitude": places.x, "latitude": places.y, "depth": 0.5})
    np.testing.assert_allclose(found["mean"].to_numpy().ravel(), on_earth.predict(table), rtol=1e-9)
    assert found.rio.crs.to_epsg() == 32631


def test_covariates_come_from_bands_and_numbers_and_gaps_stay_empty():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 10, (80, 4)), columns=["east", "north", "depth", "year"])
    model = npvi.GPRegressor(kernel=RBF(3.0), coords=["east", "north"], learn=False).fit(X, X["depth"] + X["year"])
    axes = {"north": [8.0, 5.0, 2.0], "east": [1.0, 5.0, 9.0]}
    depth = xarray.DataArray([[1.0, 2.0, 3.0], [np.nan, 4.0, 5.0], [6.0, 7.0, 8.0]], axes, ("north", "east"))
    with pytest.warns(UserWarning, match=r"9 cells, which stay empty: depth in 1$"):
        found = model.predict_grid((axes["east"], axes["north"]), covariates={"depth": depth, "year": 4.0})
    assert np.isnan(found["mean"].sel(north=5.0, east=1.0))
    row = pd.DataFrame({"east": [9.0], "north": [2.0], "depth": [8.0], "year": [4.0]})
    np.testing.assert_allclose(found["mean"].sel(north=2.0, east=9.0), model.predict(row)[0], rtol=1e-9)
    # a template that has them needs no other word, whichever end its rows begin at
    turned = xarray.Dataset({"depth": depth.fillna(0.0), "year": depth * 0.0 + 4.0}).isel(north=[2, 1, 0])
    again = model.predict_grid(turned)
    np.testing.assert_allclose(again["mean"].sel(north=2.0, east=9.0), model.predict(row)[0], rtol=1e-9)


def test_reach_and_mask_leave_cells_out(plain):
    land = geopandas.GeoDataFrame(geometry=[box(-10.0, 40.0, 0.0, 60.0)], crs="EPSG:4326")
    found = plain.predict_grid(1.0, mask=land, bbox=(-10, 40, 10, 60))
    assert np.isnan(found["mean"].where(found["lon"] > 0.0, drop=True)).all()
    assert np.isfinite(found["mean"].where(found["lon"] < 0.0, drop=True)).all()
    far = plain.predict_grid(10.0, bbox=(-60, 0, 60, 80), within_reach=True)
    assert np.isnan(far["mean"].sel(lon=-55.0, lat=5.0, method="nearest"))
    assert np.isfinite(far["mean"].sel(lon=5.0, lat=45.0, method="nearest"))


def test_labels():
    table, counts = _survey()
    places = table[["lon", "lat"]]
    two = npvi.GPClassifier(kernel=Matern32(4.0), learn=False).fit(places, counts > 2)
    found = two.predict_grid(4.0, quantiles=[0.5])
    assert set(np.unique(found["label"])) <= {0.0, 1.0}
    assert found["label"].attrs["flag_meanings"] == "False True"
    assert float(found["std"].max()) < 0.5  # of the probability, not of a yes or no
    with pytest.raises(ValueError, match="exceed is for responses that are numbers"):
        two.predict_grid(4.0, exceed=1)
    three = npvi.GPClassifier(kernel=Matern32(4.0), learn=False).fit(places, np.array(list("abc"))[counts % 3])
    shares = three.predict_grid(5.0)
    np.testing.assert_allclose(shares["p_a"] + shares["p_b"] + shares["p_c"], 1.0, rtol=1e-6)


def test_exposure_is_one_unless_it_is_said():
    table, counts = _survey()
    model = npvi.GPRegressor("poisson", Matern32(4.0), learn=False).fit(table[["lon", "lat"]], counts, exposure=2.0)
    one, three = model.predict_grid(5.0), model.predict_grid(5.0, exposure=3.0)
    np.testing.assert_allclose(3.0 * one["mean"], three["mean"], rtol=1e-9)
    assert one.attrs["per"] == "exposure of 1"


@pytest.mark.parametrize(
    ("grid", "more", "words"),
    [
        (1e-6, {}, r"cells \(.*GB for each number.*Cells of"),
        (-1.0, {}, "grid must be the size of a cell"),
        ("big", {}, "grid must be the size of a cell"),
        (([0, 1, 1], [45.0, 50.0]), {}, "grid: lon must ascend or descend"),
        (([45.0, 50.0], [100.0, 110.0]), {}, "are longitude and latitude swapped"),
        (1.0, {"bbox": (10, 40, -10, 60)}, "bbox must be left, bottom, right, top"),
        (1.0, {"covariates": {"height": 3.0}}, "has no input 'height'"),
        (1.0, {"axes": ("lon", "height")}, "axes must name two of the model's inputs"),
        (1.0, {"crs": "EPSG:999999"}, "crs must be a coordinate reference system"),
        (1.0, {"quantiles": [95]}, "quantiles must be numbers between 0 and 1"),
        (1.0, {"exceed": ["many"]}, "exceed"),
        (1.0, {"exposure": np.ones(3)}, "exposure must be one number, or one per cell"),
    ],
)
def test_bad_grids_are_refused_by_name(plain, grid, more, words):
    with pytest.raises(ValueError, match=words):
        plain.predict_grid(grid, **more)


def test_cells_where_no_data_can_be_are_an_error_unless_both_systems_are_known(on_earth):
    table, counts = _survey()
    nowhere = npvi.GPRegressor(kernel=RBF(3.0), learn=False).fit(table[["lon", "lat"]].to_numpy(), counts)
    with pytest.raises(ValueError, match="may be in different coordinate systems"):
        nowhere.predict_grid(([4e5, 5e5], [5e6, 6e6]))
    with pytest.warns(UserWarning, match="no place in common: what is mapped is the prior"):
        on_earth.predict_grid(([100.0, 101.0], [0.0, 1.0]), covariates={"depth": 0.0})


def test_covariates_on_other_cells_are_not_shifted(plain):
    table, counts = _survey()
    model = npvi.GPRegressor("poisson", Matern32(4.0), coords=["lon", "lat"], learn=False).fit(table, counts)
    depth = xarray.DataArray(np.zeros((2, 2)), {"lat": [45.2, 50.2], "lon": [0.0, 5.0]}, ("lat", "lon"))
    with pytest.raises(ValueError, match=r"other cells .* interpolate them"):
        model.predict_grid(([0.0, 5.0], [45.0, 50.0]), covariates={"depth": depth})
    with pytest.raises(ValueError, match="needs depth in each cell"):
        model.predict_grid(2.0)
    other = npvi.GPRegressor(kernel=RBF(3.0), learn=False).fit(table.to_numpy(), counts)
    with pytest.raises(ValueError, match="which inputs are places isn't clear"):
        predict_grid(other, 1.0)


# -- tables of geopandas ----------------------------------------------------------------------------------------------


def test_degrees_are_on_the_earth(on_earth):
    assert isinstance(on_earth.kernel_, Sphere)
    assert on_earth.crs_ == "EPSG:4326"
    table, counts = _survey()
    by_hand = npvi.GPRegressor("poisson", Sphere(Matern32(500.0)), coords=["lon", "lat"], learn=False)
    by_hand.fit(table, counts)
    np.testing.assert_array_equal(on_earth.predict(_points(table)), by_hand.predict(table))
    metres = _points(table).to_crs("EPSG:3035")  # a table in another system is brought into the model's
    np.testing.assert_allclose(on_earth.predict(metres), by_hand.predict(table), rtol=1e-6)


def test_smoothness_is_learned_on_the_earth():
    table, counts = _survey(200)
    model = npvi.GPRegressor("poisson").fit(_points(table), counts)
    assert model.kernel_.kernel.smoothness in (0.5, 1.5, 2.5)
    assert 50.0 < np.max(model.kernel_.kernel.length_scale) < 5000.0


def test_metres_are_a_plane():
    table, counts = _survey()
    points = _points(table).to_crs("EPSG:3035")
    model = npvi.GPRegressor("poisson", Matern32(5e5), learn=False).fit(points, counts)
    assert model.kernel_ == Matern32(5e5) or repr(model.kernel_) == repr(Matern32(5e5))
    assert model.feature_names_in_.tolist() == ["x", "y", "depth"]
    assert model.linear_part_.names == ("constant", "depth")


def test_system_is_kept_in_the_file(on_earth, tmp_path):
    on_earth.save(tmp_path / "model.npvi")
    again = npvi.load(tmp_path / "model.npvi")
    points = _points(_survey()[0])
    assert again.crs_ == on_earth.crs_
    np.testing.assert_array_equal(again.predict(points), on_earth.predict(points))
    table, counts = _survey(20, seed=1)
    again.update(_points(table), counts)
    assert len(again.data_.y) == 140


def test_tables_without_a_system_or_points_are_refused():
    table, counts = _survey()
    points = _points(table)
    with pytest.raises(ValueError, match="no coordinate reference system"):
        npvi.GPRegressor().fit(points.set_crs(None, allow_override=True), counts)
    with pytest.raises(ValueError, match=r"a point in each row, which lacks in 120 of 120 rows \(rows 0, 1"):
        npvi.GPRegressor().fit(points.set_geometry(shapely.buffer(points.geometry.to_numpy(), 1.0), crs=4326), counts)
    swapped = points.set_geometry(geopandas.points_from_xy(table["lat"], table["lat"] + 60.0, crs=4326))
    with pytest.raises(ValueError, match="are longitude and latitude swapped"):
        npvi.GPRegressor().fit(swapped, counts)
    plain = npvi.GPRegressor(kernel=RBF(3.0), learn=False).fit(table, counts)
    with pytest.raises(ValueError, match="fitted to a table that has no coordinate system"):
        plain.predict(points)
    with pytest.raises(ValueError, match="how distances on the Earth go together"):
        npvi.GPRegressor(coords=["longitude", "latitude", "depth"]).fit(points, counts)


# -- polygons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "of"), [(Poisson(), "mean"), (Poisson(), "response"), (Gaussian(0.1), "mean")])
def test_totals_of_polygons_are_those_of_joint_draws(likelihood, of):
    table, counts = _survey()
    model = npvi.GPRegressor(likelihood, Sphere(Matern32(300.0)), learn=False, nugget=1e-3)
    model.fit(table[["lon", "lat"]], np.minimum(counts, 5))
    triangle = Polygon([(0.0, 50.0), (5.0, 50.0), (5.0, 55.0)])
    shapes = geopandas.GeoDataFrame({"name": ["a", "b"]}, geometry=[box(-5, 45, 0, 50), triangle], crs="EPSG:4326")
    found = model.predict_polygons(shapes, 0.5, of=of, seed=1)
    np.testing.assert_allclose(found["cells"], [100.0, 50.0])  # areas over .25
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(-4.75, 0.0, 0.5), np.arange(45.25, 50.0, 0.5)))
    dist = model.predict_dist(pd.DataFrame({"lon": x, "lat": y}))
    if of == "mean":
        surfaces = dist.joint_latent_sample(6000, seed=2)
        draws = (np.exp(surfaces + 0.5 * dist.nugget) if isinstance(likelihood, Poisson) else surfaces).sum(axis=1)
    else:
        draws = dist.joint_sample(6000, seed=2).sum(axis=1)
    row = found.iloc[0]
    np.testing.assert_allclose(row["total"], draws.mean(), atol=4.0 * draws.std() / np.sqrt(6000))
    np.testing.assert_allclose(row["total_std"], draws.std(), rtol=0.06)
    ends = np.quantile(draws, [0.05, 0.95])
    np.testing.assert_allclose([row["total_lower"], row["total_upper"]], ends, atol=0.15 * draws.std())
    np.testing.assert_allclose(row["mean"] * row["cells"], row["total"])


def test_polygons_that_are_odd_are_named(plain):
    bow = Polygon([(0, 45), (4, 50), (4, 45), (0, 50)])
    shapes = geopandas.GeoDataFrame(geometry=[bow, box(1, 45, 6, 50)], crs="EPSG:4326")
    with pytest.warns(UserWarning, match="polygons") as told:
        plain.predict_polygons(shapes, 0.5)
    words = " ".join(str(one.message) for one in told)
    assert "polygons cross themselves in 1 of 2 rows (rows 0)" in words
    assert "polygons overlap in 1 pairs, such as rows 0 and 1" in words
    with pytest.raises(ValueError, match="polygons has no coordinate reference system"):
        plain.predict_polygons(shapes.set_crs(None, allow_override=True), 0.5)
    with pytest.raises(ValueError, match="polygons lacks a polygon in 1 of 1 rows"):
        plain.predict_polygons(geopandas.GeoDataFrame(geometry=[shapely.Point(0, 50)], crs=4326), 0.5)
    with pytest.raises(ValueError, match="polygons lacks a polygon in 1 of 2 rows"):
        plain.predict_polygons(geopandas.GeoDataFrame(geometry=[Polygon(), box(1, 45, 6, 50)], crs=4326), 0.5)
    with pytest.raises(ValueError, match="must be a GeoDataFrame"):
        plain.predict_polygons([bow], 0.5)


# -- gaps -------------------------------------------------------------------------------------------------------------


def test_gaps_are_filled_and_the_rest_is_as_it_was():
    row, column = np.mgrid[0:30, 0:30]
    truth = np.sin(column / 5.0) + np.cos(row / 6.0)
    axes = {"y": 1000.0 * np.arange(30)[::-1], "x": 1000.0 * np.arange(30)}
    raster = xarray.DataArray(truth, axes, ("y", "x"), name="lst").rio.write_crs("EPSG:32633")
    gaps = raster.where(np.hypot(row - 12, column - 15) > 4)
    found = npvi.fill(gaps, npvi.GPRegressor(kernel="rbf", hyper="plug-in"))
    assert int(found["filled"].sum()) == int(gaps.isnull().sum())
    np.testing.assert_array_equal(found["lst"].where(~found["filled"]), gaps)
    assert float(abs(found["lst"] - truth).max()) < 0.05
    inside = found["filled"].to_numpy()
    assert np.all((found["q5"] <= found["lst"]).to_numpy()[inside])
    assert np.all(found["std"].to_numpy()[~inside] == 0.0)
    assert found.rio.crs.to_epsg() == 32633
    assert npvi.fill(raster)["filled"].sum() == 0  # nothing to do
    with pytest.raises(ValueError, match="has no value"):
        npvi.fill(raster * np.nan)
    with pytest.raises(ValueError, match="raster must be a DataArray"):
        npvi.fill(truth)


def test_other_variables_are_covariates():
    rng = np.random.default_rng(0)
    height = rng.normal(size=(20, 20))
    axes = {"y": np.arange(20.0), "x": np.arange(20.0)}
    both = xarray.Dataset({"t": (("y", "x"), 3.0 - 2.0 * height), "height": (("y", "x"), height)}, axes)
    both["t"][5:9, 5:9] = np.nan
    model = npvi.GPRegressor(coords=["x", "y"], kernel=RBF(3.0), learn=False)
    found = npvi.fill(both, model, target="t")
    np.testing.assert_allclose(found["t"], 3.0 - 2.0 * height, atol=1e-2)
    with pytest.raises(ValueError, match="target must name what is to be filled, one of t, height"):
        npvi.fill(both, model)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_hold_what_was_predicted(plain, tmp_path):
    found = plain.predict_grid(2.0, exceed=5)
    for suffix in (".tif", ".nc", ".zarr", ".parquet", ".csv", ".png"):
        write_map(found, tmp_path / f"map{suffix}")
    with rioxarray.open_rasterio(tmp_path / "map.tif") as image:
        assert image.attrs["long_name"] == tuple(found.data_vars)
        assert image.rio.crs.to_epsg() == 4326
        assert np.isnan(image.rio.nodata)
        assert image.rio.transform() == found.rio.transform()
        np.testing.assert_array_equal(image.to_numpy()[0], found["mean"])
    for name in ("map.nc", "map.zarr"):
        engine = "zarr" if name.endswith("zarr") else "h5netcdf"
        with xarray.open_dataset(tmp_path / name, engine=engine, decode_coords="all") as again:
            np.testing.assert_array_equal(again["exceed_5"], found["exceed_5"])
            assert again.rio.crs.to_epsg() == 4326
    table = pd.read_parquet(tmp_path / "map.parquet")
    np.testing.assert_array_equal(table["mean"], found["mean"].to_numpy().ravel())
    assert pd.read_csv(tmp_path / "map.csv").columns.tolist() == table.columns.tolist()
    with pytest.raises(ValueError, match=r"must end in one of \.tif"):
        write_map(found, tmp_path / "map.doc")
    with pytest.raises(OSError, match="does not exist"):
        write_map(found, tmp_path / "nowhere" / "map.tif")
    with pytest.raises(OSError, match="a folder isn't replaced"):
        write_map(found, tmp_path / "map.zarr")


@pytest.mark.parametrize("name", ["map.tif", "map.nc", "map.zarr"])
def test_no_map_is_begun_where_it_may_not_fit(plain, tmp_path, monkeypatch, name):
    found = plain.predict_grid(2.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=found.nbytes - 1))
    with pytest.raises(OSError, match=r"map\.\w+: the map has up to .* MB, and .* MB are free in the folder"):
        write_map(found, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_swapped_degrees_in_a_table_are_a_warning():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"lon": rng.uniform(30.0, 45.0, 60), "lat": rng.uniform(-120.0, -100.0, 60)})
    model = npvi.GPRegressor(kernel=RBF(5.0), learn=False).fit(X, X["lon"])
    with pytest.warns(UserWarning, match="are longitude and latitude swapped"):
        found = model.predict_grid(5.0)
    assert "spatial_ref" not in found.coords


def test_columns_that_are_only_called_degrees_are_none():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1000, (60, 2)), columns=["lon", "lat"])
    found = npvi.GPRegressor(kernel=RBF(100.0), learn=False).fit(X, X["lon"]).predict_grid(100.0)
    assert "spatial_ref" not in found.coords


# -- pipelines --------------------------------------------------------------------------------------------------------


def test_pipelines_are_mapped_where_their_data_are():
    table, counts = _survey()
    gp = npvi.GPRegressor("poisson", Matern32(1.0), learn=False)
    model = npvi.Pipeline([("scale", StandardScaler()), ("gp", gp)]).fit(table[["lon", "lat"]], counts)
    found = model.predict_grid(2.0)
    lon, lat = np.meshgrid(found["lon"], found["lat"])
    cells = pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel()})
    np.testing.assert_allclose(found["mean"].to_numpy().ravel(), model.predict_dist(cells).mean)
    assert found.rio.crs.to_epsg() == 4326
    assert float(found["lon"].min()) - 1.0 <= table["lon"].min()
    assert float(found["lon"].max()) + 1.0 >= table["lon"].max()


# -- sums of terms ----------------------------------------------------------------------------------------------------


def test_groups_have_a_label_on_maps():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 9, 150), "y": rng.uniform(0, 9, 150), "height": rng.normal(size=150)})
    table["year"] = rng.choice(["2003", "2004"], 150)
    y = np.sin(table["x"]) + 0.2 * table["height"] + (table["year"] == "2004") + 0.1 * rng.normal(size=150)
    terms = [npvi.Field("x", "y"), npvi.Smooth("height"), npvi.Group("year")]
    model = npvi.GPRegressor(terms=terms, hyper="plug-in").fit(table, y)
    found = model.predict_grid(3.0, covariates={"height": 0.5, "year": 2004})
    x, north = np.meshgrid(found["x"], found["y"])
    cells = pd.DataFrame({"x": x.ravel(), "y": north.ravel(), "height": 0.5, "year": "2004"})
    np.testing.assert_allclose(found["mean"].to_numpy().ravel(), model.predict_dist(cells[[*table]]).mean, rtol=1e-9)
    areas = geopandas.GeoDataFrame(geometry=[box(1, 1, 6, 7)], crs="EPSG:3857")
    total = model.predict_polygons(areas, 1.0, crs="EPSG:3857", covariates={"height": 0.5, "year": "2004"})
    assert np.isfinite(total["total"][0])
    with pytest.raises(ValueError, match=r"model needs year in each cell as well: give one label, as in .*--at year=a"):
        model.predict_grid(3.0, covariates={"height": 0.5})
    with pytest.raises(ValueError, match=r"covariates\['height'\] must be numbers, got 'tall'"):
        model.predict_grid(3.0, covariates={"height": "tall", "year": "2004"})
    with pytest.raises(ValueError, match=r"covariates\['year'\] must be one label for all cells"):
        model.predict_grid(3.0, covariates={"height": 0.5, "year": np.zeros((3, 3))})
