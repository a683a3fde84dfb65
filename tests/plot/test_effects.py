"""Pictures of the parts of a predictor."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import npvi


@pytest.fixture(scope="module")
def model():
    plt.switch_backend("Agg")
    rng = np.random.default_rng(0)
    t = pd.DataFrame({"x": rng.uniform(size=150), "y": rng.uniform(size=150), "z": rng.standard_normal(150)})
    t["g"] = rng.integers(40, size=150)
    t["count"] = rng.poisson(np.exp(1.0 + np.sin(6.0 * t["x"]) + 0.3 * t["z"]))
    return npvi.GPRegressor("poisson", formula="count ~ z + s(z) + (1|g) + gp(x, y)", hyper="plug-in").fit(t)


def test_every_part_is_drawn(model):
    axes = npvi.plot.terms(model)
    assert [axis.get_title(loc="left") for axis in axes] == ["s(z)", "1|g", "gp(x, y)", "linear"]
    curve = axes[0].lines[0].get_xydata()
    exact = model.predict_dist(pd.DataFrame({"z": curve[:, 0]}), terms=["s(z)"]).latent_mean
    np.testing.assert_allclose(curve[:, 1], exact)
    assert len(axes[1].get_yticks()) == 30  # of 40 levels
    assert "of 40" in axes[1].get_xlabel()
    plt.close("all")


def test_numbers_at_ticks_leave_each_other_room():
    """Small effects, of many digits, in narrow pictures."""
    rng = np.random.default_rng(0)
    t = pd.DataFrame({"g": rng.choice(list("abc"), 90), "w": rng.uniform(size=90)})
    t["y"] = 0.14 * rng.standard_normal(90)
    model = npvi.GPRegressor(formula="y ~ w + (1|g)", learn=False).fit(t)
    figure, axes = plt.subplots(1, 2, figsize=(6.0, 3.0), layout="constrained")
    npvi.plot.terms(model, ax=axes)
    figure.draw_without_rendering()
    for axis in axes:
        boxes = [label.get_window_extent() for label in axis.get_xticklabels()]
        seen = [box for box in boxes if axis.bbox.x0 <= (box.x0 + box.x1) / 2 <= axis.bbox.x1]
        assert len(seen) > 1
        assert all(left.x1 < right.x0 for left, right in pairwise(seen))
    assert axes[0].get_ylabel() == "g"
    plt.close("all")


def test_some_parts_and_bad_input(model):
    _, ax = plt.subplots()
    (found,) = npvi.plot.terms(model, "gp(x, y)", ax=ax)
    assert found is ax
    with pytest.raises(ValueError, match="there is no part"):
        npvi.plot.terms(model, ["s(q)"])
    with pytest.raises(ValueError, match="fitted with terms"):
        npvi.plot.terms(npvi.GPRegressor())
    with pytest.raises(ValueError, match="4 axes"):
        npvi.plot.terms(model, ax=ax)
    plt.close("all")


def test_a_surface_on_a_mesh_is_drawn_as_any_other():
    rng = np.random.default_rng(0)
    t = pd.DataFrame({"x": rng.uniform(size=60), "y": rng.uniform(size=60)})
    t["count"] = rng.poisson(np.exp(1.0 + np.sin(6.0 * t["x"])))
    model = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", mesh=0.3)], learn=False).fit(t, "count")
    assert [axis.get_title(loc="left") for axis in npvi.plot.terms(model)] == ["gp(x, y)"]
    plt.close("all")
