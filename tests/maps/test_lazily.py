"""Templates that aren't in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray

import npvi

pytest.importorskip("dask.array", reason="dask isn't installed")


@pytest.fixture(scope="module")
def both():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(0, 9, 200), "y": rng.uniform(0, 6, 200), "height": rng.normal(size=200)})
    y = rng.poisson(np.exp(0.4 * np.sin(X["x"]) + 0.2 * X["height"]))
    model = npvi.GPRegressor("poisson", npvi.kernels.RBF(2.0), coords=["x", "y"], learn=False).fit(X, y)
    height = rng.normal(size=(30, 40))
    height[:6, :8] = np.nan  # a chunk without a cell
    height[20, 20] = np.nan
    axes = {
        "y": np.linspace(5.9, 0.1, 30),
        "x": np.linspace(0.1, 15.0, 40),
    }  # the last chunks are far from all data
    return model, xarray.DataArray(height, axes, ("y", "x"), name="height")


def test_map_is_lazy_and_the_same(both):
    model, template = both
    calls = []
    chunked = template.chunk({"y": 6, "x": 8})
    lazy = chunked.copy(data=chunked.data.map_blocks(lambda block: (calls.append(1), block)[1], dtype=float))
    calls.clear()  # Dask has tried it on nothing
    settings = {"quantiles": [0.1, 0.9], "exceed": 2.0, "within_reach": True}
    found = model.predict_grid(lazy, **settings)
    assert not calls
    assert found["mean"].chunks == ((6,) * 5, (8,) * 5)
    expected = model.predict_grid(template, **settings)
    assert list(found.data_vars) == list(expected.data_vars)
    assert found.attrs == expected.attrs
    for name in expected.data_vars:
        np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-10, atol=1e-14)
        assert found[name].attrs == expected[name].attrs
    one = found["mean"].isel(y=slice(12, 18), x=slice(0, 8)).to_numpy()
    np.testing.assert_allclose(one, expected["mean"].to_numpy()[12:18, :8], rtol=1e-10)


def test_covariates_and_exposure_go_along(both):
    model, template = both
    rng = np.random.default_rng(1)
    other = template.fillna(0.0).rename("z")
    exposure = rng.uniform(0.5, 2.0, size=template.shape)
    lazy = other.chunk({"y": 11, "x": 17})
    for covariates in ({"height": template}, {"height": template.chunk({"y": 5})}, {"height": template.to_numpy()}):
        found = model.predict_grid(lazy, covariates=covariates, exposure=exposure)
        with pytest.warns(UserWarning, match="covariates are missing"):
            expected = model.predict_grid(other, covariates={"height": template}, exposure=exposure)
        np.testing.assert_allclose(found["mean"].to_numpy(), expected["mean"].to_numpy(), rtol=1e-10)


def test_labels_have_all_surfaces():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, size=(80, 2))
    template = xarray.DataArray(np.zeros((4, 6)), {"y": np.arange(4.0), "x": np.arange(6.0)}, ("y", "x"))
    for labels in (X[:, 0] > 2.0, np.array(["a", "b", "c"])[(X[:, 0] // 2).astype(int)]):
        model = npvi.GPClassifier(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, labels)
        found, expected = model.predict_grid(template.chunk({"x": 3})), model.predict_grid(template)
        assert list(found.data_vars) == list(expected.data_vars)
        np.testing.assert_array_equal(found["label"].to_numpy(), expected["label"].to_numpy())


def test_what_cannot_be_is_said_at_once(both):
    model, template = both
    lazy = template.chunk({"x": 8})
    with pytest.raises(ValueError, match="have no place in common"):
        model.predict_grid(lazy.assign_coords(x=lazy["x"] + 1e6))
    with pytest.raises(ValueError, match="bbox goes with a size of cells"):
        model.predict_grid(lazy, bbox=(0, 0, 1, 1))
