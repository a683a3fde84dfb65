"""Pictures of the parts of a predictor."""

from __future__ import annotations

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
