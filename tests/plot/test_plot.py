"""Pictures, by what is drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from matplotlib.colors import LogNorm

import npvi


def _grid(values, **more):
    shape = np.shape(values)
    axes = {"lat": np.linspace(50.0, 40.0, shape[0]), "lon": np.arange(float(shape[1]))}
    return xarray.Dataset({name: (("lat", "lon"), np.asarray(v)) for name, v in {"mean": values, **more}.items()}, axes)


def test_cells_beyond_reach_are_left_out():
    far = np.array([[0.1, 5.0], [0.1, 0.1]])
    found = _grid([[1.0, 2.0], [3.0, 4.0]], reach_distance=far, prior_share=np.where(far > 1.0, 1.0, 0.2))
    drawn = npvi.plot.map(found).collections[0].get_array()
    assert np.ma.masked_invalid(drawn).mask.tolist() == [[False, True], [False, False]]
    every = npvi.plot.map(found, within_reach=False).collections[0].get_array()
    assert np.isfinite(every).all()
    plt.close("all")


def test_scales_fit_what_is_shown():
    rng = np.random.default_rng(0)
    wide = np.exp(3.0 * rng.standard_normal((40, 40)))
    found = _grid(wide, std=wide, exceed_5=np.clip(wide, 0.0, 0.5))
    assert isinstance(npvi.plot.map(found).collections[0].norm, LogNorm)
    share = npvi.plot.map(found, "exceed_5").collections[0].norm
    assert (share.vmin, share.vmax) == (0.0, 1.0)
    assert npvi.plot.map(found, "std").collections[0].norm.vmin == 0.0
    plt.close("all")


def test_observations_are_counted_and_axes_returned():
    _, ax = plt.subplots()
    points = np.random.default_rng(0).uniform([0.0, 40.0], [1.0, 50.0], (50_000, 2))
    assert npvi.plot.map(_grid(np.ones((3, 3))), points=points, ax=ax) is ax
    words = ax.get_legend().get_texts()[0].get_text()
    assert words == "50,000 observations, 16,667 of them drawn"
    plt.close("all")


def test_bad_input_is_named():
    found = _grid(np.ones((2, 2)))
    with pytest.raises(ValueError, match="show must name one of mean; got 'median'"):
        npvi.plot.map(found, "median")
    with pytest.raises(ValueError, match="found must be what predict_grid"):
        npvi.plot.map(np.ones((2, 2)))
    with pytest.raises(ValueError, match="points must have two columns"):
        npvi.plot.map(found, points=[1.0, 2.0])
    assert not plt.get_fignums()  # what is refused leaves no picture open


def test_no_observations_are_none():
    assert npvi.plot.map(_grid(np.ones((2, 2))), points=np.empty((0, 2))).get_legend() is None
    plt.close("all")
