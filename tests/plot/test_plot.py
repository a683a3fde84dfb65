"""Pictures, by what is drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray
from matplotlib.collections import LineCollection
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
    assert ax.collections[-1].get_sizes().tolist() == [0.3]
    plt.close("all")


@pytest.mark.parametrize("shape", [(20, 20), (10, 40), (40, 12)])
def test_all_of_a_map_is_in_its_picture(shape):
    values = np.linspace(0.2, 3.8, shape[0] * shape[1]).reshape(shape)
    axes = {"lat": 40.25 + np.arange(shape[0]) / 2, "lon": -4.75 + np.arange(shape[1]) / 2}
    axis = npvi.plot.map(xarray.Dataset({"mean": (("lat", "lon"), values)}, axes))
    axis.figure.draw_without_rendering()
    picture = axis.figure.bbox
    for words in (axis.xaxis.label, axis.yaxis.label, axis.title, axis.figure.axes[1].yaxis.label):
        assert all(picture.contains(*corner) for corner in words.get_window_extent().corners())
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


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, size=(200, 2))
    y = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    return npvi.GPRegressor("poisson", npvi.kernels.RBF(1.0), learn=False, n_neighbors=8).fit(X, y)


def test_diagnoses_are_drawn_on_axes_that_were_given(fitted):
    found = npvi.diagnose(fitted)
    figure, axes = plt.subplots(1, 2)
    assert list(npvi.plot.calibration(found, axes)) == list(axes)
    line = axes[0].lines[1]
    assert np.interp(90.0, line.get_xdata(), line.get_ydata()) == pytest.approx(100 * found.coverage[0.9], abs=1e-9)
    assert sum(bar.get_height() * bar.get_width() for bar in axes[1].patches[:-1]) == pytest.approx(1.0)
    figure.draw_without_rendering()
    dots = npvi.plot.residuals(found, "place").collections[0]
    drawn = np.column_stack([dots.get_offsets(), dots.get_array()])
    expected = np.column_stack([found.places, found.residuals])
    np.testing.assert_allclose(drawn[np.argsort(drawn[:, 0])], expected[np.argsort(expected[:, 0])])
    assert "units of the inputs" in npvi.plot.residuals(found, "distance").get_xlabel()
    assert npvi.plot.residuals(found, "mean").get_ylabel() == "observed"
    plt.close("all")


def test_neighbourhood_has_the_parents(fitted):
    graph = fitted.graph_
    row = int(graph.order[150])
    axis = npvi.plot.neighbourhood(fitted, row)
    drawn = {tuple(line.get_xydata()[1].round(9)) for line in axis.lines if len(line.get_xydata()) == 2}
    expected = {tuple(fitted.prior_.X[parent].round(9)) for parent in graph.parents[150] if parent >= 0}
    assert drawn == expected
    plt.close("all")


def test_dots_are_smaller_where_there_are_more():
    X = np.random.default_rng(0).uniform(size=(1000, 2))
    axis = npvi.plot.neighbourhood(npvi.GPRegressor(learn=False).fit(X, X[:, 0]))
    assert axis.collections[0].get_sizes().tolist() == [4.0]
    plt.close("all")


def test_trace_is_that_of_the_fit(fitted):
    bound, residual = npvi.plot.trace(fitted)
    assert bound.lines[0].get_ydata() == pytest.approx(fitted.fit_info_["elbo"])
    assert residual.lines[0].get_ydata() == pytest.approx(fitted.fit_info_["mean_residual"])
    plt.close("all")


def test_what_cannot_be_drawn_is_said(fitted):
    single = npvi.GPRegressor(learn=False).fit(np.arange(30.0)[:, None], np.arange(30.0) % 3)
    for call, words in (
        (lambda: npvi.plot.calibration(fitted), "found must be what npvi.diagnose"),
        (lambda: npvi.plot.residuals(npvi.diagnose(fitted), "time"), "by must be"),
        (lambda: npvi.plot.residuals(npvi.diagnose(single), "place"), "by='place' is for models of places"),
        (lambda: npvi.plot.neighbourhood(fitted, 200), "row must be the number of a row of the fit, from 0 to 199"),
        (lambda: npvi.plot.trace(npvi.diagnose(fitted)), "model must be a fitted model"),
        (lambda: npvi.plot.trace(fitted, "axes"), "ax must be 2 axes of matplotlib"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert not plt.get_fignums()


def test_borders_are_drawn_where_the_system_is_known():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(5.0, 11.0, 60), rng.uniform(45.0, 48.0, 60)])
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    model = npvi.GPRegressor(kernel=npvi.kernels.RBF(1.0), learn=False).fit(frame, X[:, 0])
    found = model.predict_grid(0.5)
    axis = npvi.plot.map(found)
    lines = [one for one in axis.collections if isinstance(one, LineCollection)]
    assert len(lines) == 2
    assert axis.get_xlim() == pytest.approx((5.0, 11.0), abs=0.5)
    assert not [one for one in npvi.plot.map(found, lines=False).collections if isinstance(one, LineCollection)]
    plt.close("all")


def test_names_are_no_formulas(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(60, 2)), columns=[r"$\bad{$", r"US$ and $x^2$"])
    model = npvi.GPRegressor(kernel=npvi.kernels.RBF(0.3), learn=False).fit(X, X.sum(axis=1))
    drawn = npvi.plot.residuals(npvi.diagnose(model), "place")
    assert drawn.get_ylabel() == r"US\$ and \$x^2\$"
    npvi.plot.map(model.predict_grid(0.2), title="$x^2$").figure.savefig(tmp_path / "map.png")
    for axis in (drawn, npvi.plot.neighbourhood(model)):
        axis.figure.savefig(tmp_path / "picture.png")
    plt.close("all")
