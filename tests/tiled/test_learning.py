"""What tiles learn: some of the rows begin, all of them go on."""

import json

import numpy as np
import pytest

import npvi
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.learning import BoundObjective, Model
from npvi.tiled import learning
from npvi.tiled.running import Loop
from tests.tiled.conftest import FIT, survey, tiled, write

INPUTS = ["lon", "lat", "forest"]
LEARNED = {"kernel": npvi.kernels.Matern(smoothness=1.5), "nugget": None, "learn": True, "learn_rows": 1200}


@pytest.fixture
def small(monkeypatch):
    """Samples and blocks for a few thousand rows."""
    monkeypatch.setattr("npvi.tiled.building._SAMPLE", 1000)
    monkeypatch.setattr("npvi.tiled.building._BLOCK", 150)


def settled(model):
    return json.loads((model._job.store.folder / "model.json").read_text())["model"]


def test_parts_of_the_rows_have_parts_of_the_gradient():
    table = survey(600)
    X, y = table[["lon", "lat"]].to_numpy(), table["count"].to_numpy(np.float64)
    likelihood = npvi.likelihoods.NegativeBinomial(2.0)
    data = Data(likelihood, y, likelihood.check_row({}, len(y), y))
    model = Model(npvi.kernels.Matern(0.2, 1.0, smoothness=1.5), 0.01, likelihood)
    graph = build_graph(X, 10, order="given").packed()
    own = np.random.default_rng(0).permutation(600)
    parts = [
        BoundObjective(X, data, np.ones((600, 1)), graph, rows=rows)(model)[1] for rows in (None, own[:250], own[250:])
    ]
    for name, whole in parts[0].items():
        assert np.allclose(parts[1][name] + parts[2][name], whole, rtol=1e-9, atol=1e-9), name


def test_all_rows_say_what_some_begin(small, tmp_path):
    table = survey(6000, seed=1)
    model = tiled(tmp_path / "store", **LEARNED).fit(write(table, tmp_path / "files"), **FIT)
    info = settled(model)["info"]
    assert info["learned"]
    assert 800 < info["sample"] < 2000
    assert info["rows"] == len(table)
    memory = npvi.GPRegressor(
        "poisson",
        LEARNED["kernel"],
        coords=["lon", "lat"],
        order="nested",
        n_neighbors=10,
        hyper="plug-in",
    ).fit(table[INPUTS], table["count"], exposure=table["hours"])
    known = memory.summary(standard_errors=True)
    found = {"nugget": model.nugget_, **{f"kernel__{k}": v for k, v in model.kernel_.get_params().items()}}
    for name, error in info["standard_errors"].items():
        value, of_memory = known["value"][name], known["standard_error"][name]
        off = np.log(found[name] / value) * value / of_memory
        assert abs(off) < 1.0, (name, off)
        if name != "nugget":  # whose top is flat: there is none in these counts
            assert error / found[name] == pytest.approx(of_memory / value, rel=0.5), name
    assert model.elbo_ > memory.fitted_.elbo - 1.0
    value, error = model.mean_coefficients_["forest"]
    assert abs(value - 0.4) < 4.0 * error + 0.02
    assert npvi.load(model.store).kernel_.get_params() == model.kernel_.get_params()


def test_a_climb_that_was_stopped_goes_on_where_it_was(small, tmp_path, monkeypatch):
    files = write(survey(4000, seed=2), tmp_path / "files")
    whole = tiled(tmp_path / "whole", **LEARNED).fit(files, **FIT)
    made, run = [], Loop.run

    def stopping(self, name, task, calls, done):
        for call in calls:
            if name == "slopes":
                if len(made) in (2, 6):
                    made.append(None)
                    raise KeyboardInterrupt
                made.append(call[1:])
            run(self, name, task, [call], done)

    monkeypatch.setattr(Loop, "run", stopping)
    again = tiled(tmp_path / "stopped", **LEARNED)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            again.fit(files, **FIT)
    again.fit(files, **FIT)
    done = [call for call in made if call is not None]
    assert len(done) == len(set(done)) >= 2 * whole.about_["tiles"]
    assert settled(again) == settled(whole)
    assert again.elbo_ == whole.elbo_
    assert not list((tmp_path / "stopped").glob("climb*"))


def test_where_a_tile_has_no_answer_what_some_rows_said_stays(small, tmp_path, monkeypatch):
    def lost(self, model):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(learning.BoundObjective, "__call__", lost)
    table = survey(4000, seed=2)
    likelihood = npvi.likelihoods.Gaussian(0.5)
    table["count"] = np.log1p(table["count"])
    model = tiled(tmp_path / "store", likelihood=likelihood, **LEARNED)
    with pytest.warns(UserWarning, match="stay as they are"):
        model.fit(write(table, tmp_path / "files"), target="count", inputs=INPUTS)
    info = settled(model)["info"]
    assert info["climbed"]
    assert "sample" not in info
    assert model.certificate_["certified"]


def test_gaussian_noise_is_partly_nugget(small, tmp_path):
    table = survey(3000, seed=4)
    rng = np.random.default_rng(4)
    table["count"] = np.sin(9.0 * table["lon"]) + np.cos(8.0 * table["lat"]) + 0.3 * rng.standard_normal(len(table))
    model = tiled(tmp_path / "store", likelihood="gaussian", **LEARNED)
    model.fit(write(table, tmp_path / "files"), target="count", inputs=["lon", "lat"])
    noise = model.likelihood_.variance + model.nugget_
    assert noise == pytest.approx(0.09, rel=0.1)
    assert 0.0 < model.nugget_ < 0.01 * noise
    # tiles that are held together by next to no nugget don't agree
    assert model.certificate_["certified"]
    memory = npvi.GPRegressor(
        model.likelihood_, model.kernel_, model.nugget_, learn=False, order="nested", n_neighbors=10
    ).fit(table[["lon", "lat"]], table["count"])
    places = table[["lon", "lat"]].iloc[::10]
    a, b = (m.predict_dist(places) for m in (model, memory))
    off = (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var)
    assert np.sqrt(np.mean(off**2)) < 0.02
    assert np.abs(off).max() < 0.1


def test_a_step_that_finds_no_way_is_no_agreement(tmp_path):
    table = survey(3000, seed=5)
    likelihood = npvi.likelihoods.Gaussian(0.25)
    table["count"] = np.log1p(table["count"])
    model = tiled(tmp_path / "store", likelihood=likelihood, nugget=1e-8, tile_rows=200, rounds=6)
    with pytest.warns(UserWarning, match="larger tiles"):
        model.fit(write(table, tmp_path / "files"), target="count", inputs=INPUTS)
    assert not model.certificate_["certified"]


def test_a_learned_store_is_mended(small, tmp_path):
    files = write(survey(3000, seed=2), tmp_path / "files")
    model = tiled(tmp_path / "store", **LEARNED).fit(files, **FIT)
    before = model.elbo_
    next((tmp_path / "store" / "tiles").glob("*/posterior.npvi")).unlink()
    (tmp_path / "store" / "manifest.json").unlink()
    again = tiled(tmp_path / "store", **LEARNED).fit(files, **FIT)
    assert again.elbo_ == pytest.approx(before, abs=1e-2)


def test_a_tile_without_an_answer_says_nothing_of_several_length_scales(small, tmp_path, monkeypatch):
    def lost(self, model):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(learning.BoundObjective, "__call__", lost)
    likelihood = npvi.likelihoods.Gaussian(0.5)
    table = survey(3000, seed=2)
    table["count"] = np.log1p(table["count"])
    settings = {**LEARNED, "kernel": npvi.kernels.Matern([0.2, 0.3], smoothness=1.5)}
    model = tiled(tmp_path / "store", likelihood=likelihood, **settings)
    with pytest.warns(UserWarning, match="stay as they are"):
        model.fit(write(table, tmp_path / "files"), target="count", inputs=INPUTS)
    assert settled(model)["info"]["climbed"]
