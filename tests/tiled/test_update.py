"""More rows for a finished store: what a fit of all rows says, with other tiles left as they are."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi.tiled import StoreError, building
from npvi.tiled.source import SourceError
from npvi.tiled.store import Store
from tests.tiled.conftest import FIT, survey, tiled, write
from tests.tiled.test_faults import content

INPUTS = ["lon", "lat", "forest"]
SHORT = npvi.kernels.Matern(0.05, 1.0, smoothness=1.5)
BEFORE = 3000


def at(where, n, seed):
    """More rows, in one corner or anywhere; inside the box of those there are, which the order of all rows follows."""
    table = survey(n, seed)
    for name in ("lon", "lat"):
        table[name] = 0.005 + (0.15 if where == "corner" else 0.99) * table[name]
    if where == "corner":
        f = 0.5 + np.sin(7.0 * table["lon"]) + np.cos(5.0 * table["lat"]) + 0.4 * table["forest"]
        table["count"] = np.random.default_rng(seed).poisson(table["hours"] * np.exp(f))
    return table


@pytest.fixture(scope="module")
def before():
    return survey(BEFORE, seed=7)


@pytest.fixture(scope="module")
def base(before, tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    return tiled(folder / "store", kernel=SHORT, tile_rows=250).fit(write(before, folder / "files"), **FIT)


@pytest.fixture
def store(base, tmp_path):
    return shutil.copytree(base.store, tmp_path / "store")


def in_memory(table):
    model = npvi.GPRegressor(
        "poisson", SHORT, nugget=0.01, coords=["lon", "lat"], learn=False, order="nested", n_neighbors=10
    )
    return model.fit(table[INPUTS], table["count"], exposure=table["hours"])


def off(model, memory, places):
    """Of means, root mean square and largest; of standard deviations."""
    a, b = (m.predict_dist(places[INPUTS], exposure=1.0) for m in (model, memory))
    means = (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var)
    wider = np.sqrt(a.latent_var / b.latent_var) - 1.0
    return np.sqrt(np.mean(means**2)), np.abs(means).max(), np.sqrt(np.mean(wider**2))


def files_of(folder, name):
    """Of each tile, by its number, in the finished model."""
    files = Store(folder).read_json("manifest.json")["files"]
    return {int(file.split("/")[-2]): file for file in files if file.endswith(f"/{name}")}


@pytest.mark.parametrize(("where", "n"), [("corner", 150), ("everywhere", 600), ("corner", 1)])
def test_an_update_says_what_a_fit_of_all_rows_says(where, n, before, base, store, tmp_path):
    new = at(where, n, seed=11)
    model = npvi.load(store).update(write(new, tmp_path / "new", files=1))
    assert model.about_["rows"] == BEFORE + n
    assert model.certificate_["certified"]
    memory = in_memory(pd.concat([before, new], ignore_index=True))
    places = survey(2000, seed=12)
    mean, largest, sd = off(model, memory, places)
    assert mean < 0.02
    assert largest < 0.1
    assert sd < 0.02
    for name, (value, error) in memory.fitted_.coefficients()[0].items():
        assert abs(model.mean_coefficients_[name][0] - value) < 0.1 * error


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """A table in one corner, and its file."""
    table = at("corner", 150, seed=11)
    return table, write(table, tmp_path_factory.mktemp("new"), files=1)


@pytest.fixture(scope="module")
def updated(base, new, tmp_path_factory):
    store = shutil.copytree(base.store, tmp_path_factory.mktemp("updated") / "store")
    return npvi.load(store).update(new[1])


def test_other_tiles_keep_their_files_byte_for_byte(base, updated):
    assert 1 <= updated.about_["updates"][0]["touched"] <= updated.about_["updates"][0]["fitted"] < base.about_["tiles"]
    before, after = content(base.store), content(updated.store)
    touched = {tile for tile, file in files_of(updated.store, "posterior").items() if file.startswith("update-001/")}
    assert len(touched) == updated.about_["updates"][0]["touched"]
    for file in before:
        if file.startswith("tiles/") and int(file.split("/")[1]) not in touched:
            assert after[file] == before[file], file
    assert {file.split("/")[0] for file in after} <= {"tiles", "update-001", *before}
    # of the update nothing is left but what the model consists of, and with what was said of it before
    kept = Store(updated.store).read_json("manifest.json")["files"]
    made = {file for file in after if file.startswith("update-001/")}
    assert made == {
        name if name.endswith(".f64") else f"{name}.npvi" for name in kept if name.startswith("update-001/")
    }


def test_what_is_said_of_an_updated_model(base, updated, new):
    about = updated.describe()
    assert about["n_rows"] == BEFORE + 150 == sum(about["rows_of_tiles"])
    assert [one["rows"] for one in about["updates"]] == [150]
    assert updated.kernel_.get_params() == SHORT.get_params()
    memory = in_memory(pd.concat([survey(BEFORE, seed=7), new[0]], ignore_index=True))
    assert abs(updated.elbo_ - memory.fitted_.elbo) / about["n_rows"] < 1e-3
    stale = npvi.load(base.store)
    stale.store = updated.store
    with pytest.raises(StoreError, match="was updated or fitted again since this model was opened"):
        stale.predict([[0.5, 0.5, 0.0]], exposure=1.0)


def test_an_update_of_an_update(updated, new, before, tmp_path):
    model = npvi.load(shutil.copytree(updated.store, tmp_path / "store"))
    more = at("everywhere", 40, seed=21)
    model.update(write(more, tmp_path / "more", files=2))
    third = at("corner", 30, seed=22)
    model.update(write(third, tmp_path / "third", files=1))
    assert [one["rows"] for one in model.about_["updates"]] == [150, 40, 30]
    memory = in_memory(pd.concat([before, new[0], more, third], ignore_index=True))
    mean, largest, sd = off(npvi.load(model.store), memory, survey(2000, seed=12))
    assert mean < 0.02
    assert largest < 0.1
    assert sd < 0.02


def test_rounds_of_an_update_are_its_own(store, new):
    model = npvi.load(store)
    assert model.rounds == 30
    with pytest.warns(UserWarning, match="after 1 rounds tiles don't quite agree"):
        model.set_params(rounds=1).update(new[1])
    assert model.certificate_["rounds"] == 1


def test_files_that_the_model_knows_are_left_out(updated, new, monkeypatch):
    state = content(updated.store)
    monkeypatch.setattr("npvi.tiled.building._Stages.run", None)  # nothing is made
    model = npvi.load(updated.store).update(new[1])
    assert content(updated.store) == state
    assert model.about_["rows"] == BEFORE + 150


def test_rows_outside_belong_to_the_nearest_tile(store, tmp_path):
    far = survey(20, seed=31)
    far["lon"] += 1.5
    model = npvi.load(store).update(write(far, tmp_path / "far", files=1))
    assert sum(model.about_["rows_of_tiles"]) == BEFORE + 20
    there = model.predict_dist(far[INPUTS], exposure=1.0)
    assert np.isfinite(there.latent_mean).all()
    nowhere = model.predict_dist(far[INPUTS].assign(lon=9.0), exposure=1.0)
    assert there.latent_var.max() < 0.9 * nowhere.latent_var.min()


def test_rows_at_places_that_are_there(store, before, tmp_path):
    """Two more counts at each of some places; and rows twice."""
    again = before.iloc[:30].assign(count=lambda table: table["count"] + 1)
    twice = pd.concat([again, again, before.iloc[30:40]], ignore_index=True)
    model = npvi.load(store).update(write(twice, tmp_path / "again", files=1))
    assert model.about_["rows"] == BEFORE + 70
    mean, _, sd = off(model, in_memory(pd.concat([before, twice], ignore_index=True)), survey(1000, seed=12))
    assert mean < 0.06  # rows at one place have no order but that of their values, which are other parents then
    assert sd < 0.02


# -- bad input and faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop(columns="hours"), r"0\.parquet has no column 'hours'"),
        (lambda table: table.assign(lon=np.nan), r"0\.parquet: column 'lon' must hold finite numbers; row 1 has nan"),
        (lambda table: table.assign(count=-1), r"0\.parquet, rows 1 to 20"),
        (lambda table: table.assign(lat="north"), "'lat' must hold numbers"),
        (lambda table: table.assign(lon=1e200), r"0\.parquet: column 'lon' has numbers beyond ±1e\+150"),
        (lambda table: table.iloc[:0], "have no rows"),
    ],
)
def test_tables_that_no_model_takes(change, words, store, tmp_path):
    state = content(store)
    files = write(change(survey(20, seed=41)), tmp_path / "new", files=1)
    with pytest.raises(SourceError, match=words):
        npvi.load(store).update(files)
    now = content(store)
    assert {name: now[name] for name in state} == state
    assert npvi.load(store).about_["rows"] == BEFORE


def test_mended_tables_are_taken_and_others_wait_for_what_was_begun(store, tmp_path, monkeypatch):
    write(survey(20, seed=41).assign(lon=np.nan), tmp_path / "new", files=1)
    with pytest.raises(SourceError, match="'lon'"):
        npvi.load(store).update(str(tmp_path / "new"))
    files = write(survey(20, seed=41), tmp_path / "new", files=1)

    def stopped(stages):
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_widen", stopped)
    with pytest.raises(KeyboardInterrupt):
        npvi.load(store).update(files)
    with pytest.raises(StoreError, match=r"begun with other tables(.|\n)* or remove .*update-001 to give it up"):
        npvi.load(store).update(write(survey(20, seed=42), tmp_path / "other", files=1))
    begun = Store(store).read_json("update-001/plan.json")
    Store(store).write_json("update-001/plan.json", {})  # by a stranger
    with pytest.raises(StoreError, match="begun with other tables"):
        npvi.load(store).update(files)
    Store(store).write_json("update-001/plan.json", begun)
    monkeypatch.undo()
    assert npvi.load(store).update(files).about_["rows"] == BEFORE + 20


def test_a_file_that_changed_since_is_named(store, new, tmp_path):
    files = write(survey(20, seed=41), tmp_path / "new", files=1)
    model = npvi.load(store).update(files)
    write(survey(21, seed=41), tmp_path / "new", files=1)
    with pytest.raises(SourceError, match=r"0\.parquet has changed since the model took its rows"):
        model.update(files)


def test_two_updates_at_once(store, new):
    with Store(store).locked(), pytest.raises(StoreError, match="another run is at work"):
        npvi.load(store).update(new[1])


def test_only_finished_models_are_updated(store, new):
    (store / "manifest.json").unlink()
    with pytest.raises(StoreError, match="not a finished one"):
        npvi.load(store).update(new[1])
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        tiled(store).update(new[1])


def test_numbers_that_were_altered_are_named(store, new):
    path = store / files_of(store, "mean.f64")[0]
    numbers = np.fromfile(path)
    numbers[3] += 1.0
    numbers.tofile(path)
    with pytest.raises(StoreError, match=r"mean\.f64 was altered since it was written"):
        npvi.load(store).update(new[1])


def rewritten(store, name, change):
    """Alter an archive, or numbers alone with the checksum that is kept of them; sizes in the manifest are right."""
    store = Store(store)
    if name.endswith(".f64"):
        numbers = np.fromfile(store.folder / name)
        change(numbers)
        numbers.tofile(store.folder / name)
        folder, _, file = name.rpartition("/")
        about, arrays = store.read_all(f"{folder}/posterior")
        store.write(f"{folder}/posterior", {**about, "sums": {**about["sums"], file: store.checksum(name)}}, **arrays)
    else:
        about, arrays = store.read_all(name)
        change(about, arrays)
        store.write(name, about, **arrays)
    manifest = store.read_json("manifest.json")
    manifest["files"] = {file: store.path(file).stat().st_size for file in manifest["files"]}
    store.write_json("manifest.json", manifest)


def _first(value):
    return lambda numbers: numbers.__setitem__(0, value)


def _array(name, value):
    """The first of its numbers."""
    return lambda about, arrays: arrays[name].reshape(-1).__setitem__(0, value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("variance.f64", _first(-1.0), "not from 1e-300"),
        ("weight.f64", _first(np.inf), "not from 0"),
        ("mean.f64", _first(np.nan), "not from -1e"),
        ("basis.f64", _first(3.0), "isn't that of the tile's rows"),
        ("along.f64", _first(1e9), "times what the mean's columns can be"),
        # row 10⁶ of a tile: where compiled products would look for it
        ("lent.f64", lambda numbers: numbers.__setitem__(slice(None), 1e6), "rows that are not there"),
        ("coarse", lambda about, arrays: arrays.pop("number"), "has no 'number'"),
        ("coarse", _array("places", 7000), "its coarse places are not those of the tile"),
        ("border", _array("number", 10**6), "not some of the tile's"),
        ("rows", lambda about, arrays: arrays.update(rows=arrays["rows"][1:]), "its rows is not an array of numbers"),
        ("rows", lambda about, arrays: arrays["rows"].__setitem__((0, 3), -2.0), r"tiles.00003 can't be used: "),
        ("ties", _array("index", 10**6), "does not name thin rows"),
        ("ties", _array("lent", 10**6), "does not say which tile has what"),
        ("posterior", lambda about, arrays: about.update(HPH=[[1.0]]), "its HPH is not that of 2 coefficients"),
        ("posterior", lambda about, arrays: about.update(sums={"../../mean.f64": ""}), "not those of its files"),
    ],
)
def test_an_update_looks_at_all_that_a_stranger_has_kept(store, new, name, change, message):
    rewritten(store, f"tiles/00003/{name}", change)
    with pytest.raises(StoreError, match=message) as refused:
        npvi.load(store).update(new[1])
    assert "00003" in str(refused.value)
    assert not list(store.glob("update-*"))


def test_means_that_leave_no_posterior(store, new):
    """Numbers that may be, of which nobody sees beforehand that a rate of exp(10⁹) follows."""
    rewritten(store, "tiles/00003/mean.f64", lambda numbers: numbers.__setitem__(2, 1e9))
    with pytest.raises(
        StoreError, match=r"tile \d+ and those around it have of means and variances leaves no posterior"
    ):
        npvi.load(store).update(new[1])


def test_a_number_that_a_tile_says_is_not_altered_without_a_word(store, new):
    """It is in the line that is read alone, elsewhere."""
    path = store / "tiles" / "00003" / "posterior.npvi"
    content = path.read_bytes()
    at = content.index(b'"HPf": [') + 12
    path.write_bytes(content[:at] + (b"7" if content[at : at + 1] != b"7" else b"3") + content[at + 1 :])
    with pytest.raises(StoreError, match=r"00003.posterior\.npvi was altered"):
        npvi.load(store).update(new[1])


def test_a_fit_that_mends_looks_at_the_rows_that_it_goes_on_with(base, store):
    rewritten(store, "tiles/00003/rows", _array("places", 20_000))
    (store / "manifest.json").unlink()
    with pytest.raises(StoreError, match=r"00003 can't be used: its coarse places"):
        tiled(store, kernel=SHORT, tile_rows=250).fit(
            base._job.source.parts[0].path.replace("0.parquet", "*.parquet"), **FIT
        )


def test_a_full_disk_leaves_the_old_model(store, new, updated, monkeypatch):
    from npvi.runtime import files as writing
    from npvi.runtime.files import UnwritableError

    fsync, written = os.fsync, []

    def full(descriptor):
        written.append(descriptor)
        if len(written) > 40:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(UnwritableError, match="the disk is full"):
        npvi.load(store).update(new[1])
    monkeypatch.undo()
    assert npvi.load(store).about_["rows"] == BEFORE
    npvi.load(store).update(new[1])
    assert content(store) == content(updated.store)


def entries(folder):
    """How many there are in a folder that another process works in."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


UPDATE = """
import sys
sys.path.insert(0, {root!r})
import npvi
npvi.load({store!r}).set_params(n_jobs=1, client=None).update({files!r})
"""


def test_killed_at_random_moments_an_update_goes_on(store, new, base, updated, monkeypatch):
    rng, before = random.Random(os.environ.get("NPVI_TEST_SEED", "2")), content(base.store)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = UPDATE.format(root=root, store=str(store), files=new[1])
    for _ in range(int(os.environ.get("NPVI_TEST_KILLS", "3"))):
        run = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
        goal = entries(store) + rng.randint(1, 60)
        deadline = time.monotonic() + 120.0
        while run.poll() is None and time.monotonic() < deadline and entries(store) < goal:
            time.sleep(0.002)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        manifest = json.loads((store / "manifest.json").read_text())
        if "update-001/layout" not in manifest["files"]:  # the old model is whole
            now = content(store)
            assert {name: now[name] for name in before} == before
        npvi.load(store).predict([[0.1, 0.1, 0.0]], exposure=1.0)
    npvi.load(store).set_params(n_jobs=1, client=None).update(new[1])
    assert content(store) == content(updated.store)


def test_tiles_that_move_bring_in_those_around_them(new, store, monkeypatch):
    """Where nothing may move, all tiles are fitted in the end."""
    monkeypatch.setattr(building, "_STAYS", (1e-9, 1e-9, 1e-9))
    model = npvi.load(store).update(new[1])
    assert model.about_["updates"][0]["fitted"] == model.about_["updates"][0]["touched"] == model.about_["tiles"]


def test_a_file_without_rows_is_no_update(store, tmp_path):
    model = npvi.load(store)
    before = model.elbo_
    at("corner", 5, seed=1).iloc[:0].to_parquet(tmp_path / "none.parquet")
    at("corner", 5, seed=1).to_parquet(tmp_path / "some.parquet")
    files = [str(tmp_path / "none.parquet"), str(tmp_path / "some.parquet")]
    model.update(files)
    assert model.about_["rows"] == BEFORE + 5
    assert model.elbo_ != before


def test_a_model_made_anew_is_without_the_rows_of_updates(base, before, tmp_path):
    folder = tmp_path / "store"
    files = write(before, tmp_path / "files")
    settings = {"kernel": SHORT, "tile_rows": 250}
    model = tiled(folder, **settings).fit(files, **FIT)
    at("corner", 20, seed=1).to_parquet(tmp_path / "new.parquet")
    model.update(str(tmp_path / "new.parquet"))
    next(folder.glob("update-001/tiles/*/posterior.npvi")).unlink()
    with pytest.raises(StoreError, match="update it again"):
        Store(folder).manifest()
    (folder / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="without the rows that 1 update had added"):
        model = tiled(folder, **settings).fit(files, **FIT)
    assert model.elbo_ == pytest.approx(base.elbo_, abs=1e-6)
    assert model.update(str(tmp_path / "new.parquet")).about_["rows"] == BEFORE + 20
