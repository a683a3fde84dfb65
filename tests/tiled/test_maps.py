"""Maps of models in tiles, and the same model in memory."""

import numpy as np
import pytest

import npvi
from npvi.tiled import regressor

xarray = pytest.importorskip("xarray")
AT = {"forest": 0.3}


def test_a_map_is_what_predictions_say(model):
    found = model.predict_grid(0.05, quantiles=[0.05, 0.95], exceed=5, covariates=AT)
    assert found.sizes == {"lat": 20, "lon": 20}  # as far as the data go
    assert found.attrs["per"] == "exposure of 1"
    lon, lat = np.meshgrid(found.lon, found.lat)
    dist = model.predict_dist(np.column_stack([lon.ravel(), lat.ravel(), np.full(400, 0.3)]), exposure=1.0)
    for name, values in (("mean", dist.mean), ("std", dist.std), ("exceed_5", dist.exceed(5))):
        np.testing.assert_array_equal(found[name].values.ravel(), values)
    assert float(found.reach_distance.max()) < 1.0
    assert np.all(found.q5 <= found.q95)


def test_a_map_in_pieces_is_the_same(model, monkeypatch):
    whole = model.predict_grid(0.1, covariates=AT)
    monkeypatch.setattr(regressor.TiledRegressor, "cells_at_a_time", 25)
    xarray.testing.assert_equal(model.predict_grid(0.1, covariates=AT), whole)


def test_a_template_of_dask_is_computed_later_and_in_chunks(model, monkeypatch):
    array = pytest.importorskip("dask.array")
    axes = {"lat": np.linspace(0.95, 0.05, 10), "lon": np.linspace(0.05, 0.95, 10)}
    template = xarray.DataArray(array.zeros((10, 10), chunks=(4, 5)), coords=axes, dims=("lat", "lon"))
    found = model.predict_grid(template, covariates=AT)
    assert found["mean"].chunks == ((4, 4, 2), (5, 5))
    xarray.testing.assert_allclose(found.compute(), model.predict_grid(template.compute(), covariates=AT))


@pytest.mark.parametrize("chunks", [None, {"lat": 3}])
def test_a_dataset_gives_a_dataset(model, chunks):
    if chunks:
        pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    axes = {"lat": np.linspace(0.1, 0.9, 8), "lon": np.linspace(0.1, 0.9, 6)}
    forest, hours = rng.standard_normal((8, 6)), rng.uniform(0.5, 2.0, (8, 6))
    forest[2, 3] = np.nan
    table = xarray.Dataset({"forest": (("lat", "lon"), forest), "hours": (("lat", "lon"), hours)}, coords=axes)
    found = model.predict(table.chunk(chunks) if chunks else table, exposure="hours")
    assert bool(found.chunks) == bool(chunks)
    assert found["mean"].dims == ("lat", "lon")
    lon, lat = np.meshgrid(axes["lon"], axes["lat"])
    seen = np.isfinite(forest)
    X = np.column_stack([lon[seen], lat[seen], forest[seen]])
    mean, std = model.predict(X, return_std=True, exposure=hours[seen])
    np.testing.assert_allclose(found["mean"].values[seen], mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"].values[seen], std, rtol=1e-12)
    assert np.isnan(found["mean"].values[2, 3])
    with pytest.raises(ValueError, match="no variable or coordinate 'forest'"):
        model.predict(table.drop_vars("forest"), exposure=1.0)


def test_the_same_model_in_memory(model, places):
    local = model.to_local()
    assert type(local) is npvi.GPRegressor
    assert repr(local.kernel_) == repr(model.kernel_)
    apart, whole = (one.predict_dist(places, exposure=1.0) for one in (model, local))
    sd = np.sqrt(whole.latent_var)
    assert np.abs(apart.latent_mean - whole.latent_mean).max() < 0.1 * np.median(sd)
    np.testing.assert_allclose(np.sqrt(apart.latent_var), sd, rtol=0.05)
    assert local.elbo_ == pytest.approx(model.elbo_, abs=1e-4 * len(local.fitted_.graph.order) + 0.5)
    assert np.isfinite(local.predict_dist(places, exposure=1.0).total().mean).all()  # what tiles don't serve


def test_more_rows_than_memory_stay_in_tiles(model, monkeypatch):
    monkeypatch.setattr(regressor, "_BYTES", 1e12)
    with pytest.raises(ValueError, match=r"3,000 rows in memory take about 3000000\.9GB, .* stay with tiles"):
        model.to_local()


def test_totals_of_tiles_are_refused(model):
    assert not hasattr(model, "predict_polygons")
    with pytest.raises(ValueError, match="to_local"):
        npvi.maps.predict_polygons(model, None)
