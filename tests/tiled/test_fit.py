"""Tiles give what one fit in memory gives, whatever the files, the tiles and the threads."""

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone

import npvi
import npvi.tiled.building
from npvi.graph.tiles import Cube, nested_levels, point_keys
from tests.tiled.conftest import FIT, KERNEL, survey, tiled, write


@pytest.fixture(scope="module")
def whole(table):
    model = npvi.GPRegressor(
        "poisson", KERNEL, nugget=0.01, coords=["lon", "lat"], learn=False, order="nested", n_neighbors=10
    )
    return model.fit(table[["lon", "lat", "forest"]], table["count"], exposure=table["hours"])


def same_bits(one, other, places):
    a, b = (m.predict_dist(places, exposure=1.0) for m in (one, other))
    return (
        one.elbo_ == other.elbo_
        and np.array_equal(a.latent_mean, b.latent_mean)
        and np.array_equal(a.latent_var, b.latent_var)
        and one.certificate_ == other.certificate_
    )


def test_tiles_say_what_one_fit_in_memory_says(model, whole, places):
    assert model.about_["tiles"] == 4
    assert model.certificate_["certified"]
    tiles, memory = (m.predict_dist(places, exposure=1.0) for m in (model, whole))
    sd = np.sqrt(memory.latent_var)
    off = (tiles.latent_mean - memory.latent_mean) / sd
    assert np.sqrt(np.mean(off**2)) < 0.02
    assert np.abs(off).max() < 0.1
    assert np.sqrt(np.mean((np.sqrt(tiles.latent_var) / sd - 1.0) ** 2)) < 0.02
    n = model.about_["rows"]
    assert abs(model.elbo_ - whole.elbo_) / n < 1e-4
    for name, (value, error) in whole.fitted_.coefficients()[0].items():
        assert abs(model.mean_coefficients_[name][0] - value) < 0.1 * error
        assert model.mean_coefficients_[name][1] == pytest.approx(error, rel=0.1)
    assert np.allclose(tiles.reach.distance, memory.reach.distance)


def test_rounds_bring_tiles_nearer_to_the_fit_in_memory(files, whole, places, tmp_path):
    memory = whole.predict_dist(places, exposure=1.0)
    off = []
    for rounds in (0, 6):
        model = tiled(tmp_path / str(rounds), halo=6.0, rounds=rounds)
        with pytest.warns(UserWarning, match="don't quite agree") if rounds == 0 else nullcontext():
            model.fit(files, **FIT)
        found = model.predict_dist(places, exposure=1.0)
        off.append(np.sqrt(np.mean((found.latent_mean - memory.latent_mean) ** 2 / memory.latent_var)))
    assert off[1] < 0.3 * off[0]


@pytest.mark.parametrize(("length", "rounds"), [(1.0, 6), (0.3, 12)])
def test_tiles_agree_where_little_is_said_of_what_is_smooth_over_many_of_them(length, rounds, tmp_path):
    """And where, with a small nugget, rows next to each other on two sides of a border hold each other stiffly."""
    rng = np.random.default_rng(3)
    table = survey(4000, seed=3)[["lon", "lat"]]
    table["count"] = rng.poisson(0.05 * np.exp(np.sin(3.0 * table["lon"])))
    kernel = npvi.kernels.Matern(length, 1.0, smoothness=1.5)
    model = tiled(tmp_path / "store", kernel=kernel, nugget=0.001, coords=None, tile_rows=160, n_neighbors=15)
    model.fit(write(table, tmp_path / "files"), target="count")
    whole = npvi.GPRegressor("poisson", kernel, 0.001, learn=False, order="nested", n_neighbors=15)
    whole.fit(table[["lon", "lat"]], table["count"])
    assert model.about_["tiles"] >= 24
    assert model.certificate_["certified"]
    assert model.certificate_["rounds"] <= rounds
    some = table[["lon", "lat"]].iloc[::10]
    a, b = (m.predict_dist(some) for m in (model, whole))
    assert np.sqrt(np.mean((a.latent_mean - b.latent_mean) ** 2 / b.latent_var)) < 0.01
    assert np.sqrt(np.mean((np.sqrt(a.latent_var / b.latent_var) - 1.0) ** 2)) < 0.02


def test_neither_files_nor_threads_change_a_bit(model, table, files, places, tmp_path):
    assert same_bits(model, tiled(tmp_path / "threads", n_jobs=2).fit(files, **FIT), places)
    shuffled = table.sample(frac=1.0, random_state=3)
    other = tiled(tmp_path / "files").fit(write(shuffled, tmp_path / "other", files=2), **FIT)
    assert same_bits(model, other, places)


INPUTS = ["lon", "lat", "forest"]
COLUMNS = [*INPUTS, "count", "hours"]


def test_random_numbers_belong_to_rows(table):
    rows = table.to_numpy(np.float64)
    assert len(np.unique(point_keys(rows))) == len(rows)


def test_a_fit_that_is_finished_is_not_made_again(model, files, places, monkeypatch):
    monkeypatch.setattr("npvi.tiled.building._Stages.run", None)
    again = tiled(model.store).fit(files, **FIT)
    assert same_bits(model, again, places)


def test_a_store_is_loaded_and_predicts(model, places):
    loaded = npvi.load(model.store)
    assert isinstance(loaded, npvi.TiledRegressor)
    assert same_bits(model, loaded, places)
    assert loaded.kernel_.get_params() == KERNEL.get_params()
    assert list(loaded.feature_names_in_) == INPUTS
    mean, sd = loaded.predict(places.to_numpy(), return_std=True, exposure=2.0)
    dist = loaded.predict_dist(places, exposure=1.0)
    assert np.allclose(mean, 2.0 * dist.mean)
    assert (sd > 0.0).all()
    with pytest.warns(UserWarning, match="exposure"):
        loaded.predict(places)


def test_an_estimator_travels_without_its_client(model, places):
    class Client:
        def submit(self): ...
        def nthreads(self): ...
        def __reduce__(self):
            raise TypeError("a connection")

    travelled = pickle.loads(pickle.dumps(model.set_params(client=Client())))
    model.set_params(client=None)
    assert travelled.client == "current"
    assert same_bits(model, travelled, places)
    assert clone(model).get_params()["tile_rows"] == 800


@pytest.mark.parametrize("where", ["coast", "one place", "clusters", "line"])
def test_rows_may_lie_anywhere(where, tmp_path):
    table = survey(1500, seed=2)
    rng = np.random.default_rng(4)
    if where == "coast":
        angle = rng.uniform(0.0, 3.0, len(table))
        table["lon"], table["lat"] = np.cos(angle), np.sin(angle) + 1e-3 * rng.standard_normal(len(table))
    elif where == "one place":
        table["lon"], table["lat"] = 0.25, 0.75
        table.loc[:9, "lon"] = np.linspace(0.0, 1.0, 10)
    elif where == "clusters":
        middle = rng.random((5, 2))[rng.integers(5, size=len(table))]
        table[["lon", "lat"]] = middle + 1e-5 * rng.standard_normal((len(table), 2))
    else:
        table["lat"] = 0.5
    model = tiled(tmp_path / "store", tile_rows=300)
    # rows at one place stand by what else they hold, and which of them are neighbours matters
    rows, points = table[COLUMNS].to_numpy(np.float64), KERNEL.coordinates(table[["lon", "lat"]].to_numpy())
    cube = Cube.around(points)
    levels = nested_levels(cube.numbers(points), point_keys(points), cube.bits)
    table = table.iloc[np.lexsort((point_keys(rows), point_keys(points), levels))]
    whole = npvi.GPRegressor(
        "poisson", KERNEL, nugget=0.01, coords=["lon", "lat"], learn=False, order="given", n_neighbors=10
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inputs that never change
        model.fit(write(table, tmp_path / "files"), **FIT)
        whole.fit(table[INPUTS], table["count"], exposure=table["hours"])
    some = table[INPUTS].iloc[::10]
    a, b = (m.predict_dist(some, exposure=1.0) for m in (model, whole))
    off = (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var)
    assert np.sqrt(np.mean(off**2)) < 0.06


def test_other_likelihoods_and_means(tmp_path):
    rng = np.random.default_rng(5)
    table = survey(1200, seed=6)[["lon", "lat"]]
    table["height"] = np.sin(6.0 * table["lon"]) + 0.3 * rng.standard_normal(len(table))
    files = write(table, tmp_path / "files")
    model = tiled(tmp_path / "store", likelihood=npvi.likelihoods.Gaussian(0.09), coords=None, mean="zero")
    model.fit(files, target="height")
    whole = npvi.GPRegressor(
        npvi.likelihoods.Gaussian(0.09), KERNEL, 0.01, mean="zero", learn=False, order="nested", n_neighbors=10
    ).fit(table[["lon", "lat"]], table["height"])
    some = table[["lon", "lat"]].iloc[::7]
    assert np.abs(model.predict(some) - whole.predict(some)).max() < 0.02
    assert abs(model.elbo_ - whole.elbo_) < 1.0  # nats of all rows
    assert model.mean_coefficients_ == {}


def test_progress_counts_rows_from_the_first_stage_on(tmp_path, monkeypatch):
    counted = {}
    watch = npvi.tiled.building.Watch
    monkeypatch.setattr(
        npvi.tiled.building, "Watch", lambda stage, rows, *more: watch(stage, counted.setdefault(stage, rows), *more)
    )
    tiled(tmp_path / "store").fit(write(survey(1700), tmp_path / "files"), **FIT)
    assert {"partition", "gather", "order"} < set(counted)
    for stage in ("partition", "gather", "order"):
        assert 1690 < sum(counted[stage]) <= 1700
