"""What goes wrong: tables, stores and processes."""

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
from npvi.tiled import StoreError
from npvi.tiled.job import Job
from npvi.tiled.running import Loop
from npvi.tiled.source import SourceError
from npvi.tiled.store import Store
from tests.tiled.conftest import FIT, tiled, write


def test_a_part_without_a_column_is_named(table, tmp_path):
    files = write(table, tmp_path / "files")
    table.drop(columns="hours").to_parquet(tmp_path / "files" / "7.parquet")
    with pytest.raises(SourceError, match=r"7\.parquet has no column 'hours'"):
        tiled(tmp_path / "store").fit(files, **FIT)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("lon", np.nan, r"1\.parquet: column 'lon' must hold finite numbers; row 701 has nan"),
        ("hours", -1.0, r"1\.parquet, rows 1 to 1,000: .*exposure"),
        ("count", 2.5, r"1\.parquet, rows 1 to 1,000: .*whole"),
    ],
)
def test_rows_that_no_model_takes_are_named(column, value, words, table, tmp_path):
    files = write(table, tmp_path / "files")
    part = pd.read_parquet(tmp_path / "files" / "1.parquet")
    part[column] = part[column].astype(float)
    part.iloc[700, part.columns.get_loc(column)] = value
    part.to_parquet(tmp_path / "files" / "1.parquet", row_group_size=500)
    with pytest.raises(SourceError, match=words):
        tiled(tmp_path / "store").fit(files, **FIT)


def test_columns_of_text_are_refused(table, tmp_path):
    files = write(table.assign(forest="oak"), tmp_path / "files")
    with pytest.raises(SourceError, match="'forest' must hold numbers"):
        tiled(tmp_path / "store").fit(files, **FIT)


def test_a_file_that_changes_between_passes_is_named(table, tmp_path, monkeypatch):
    files = write(table, tmp_path / "files")
    from npvi.tiled import building

    settle = building._settle

    def then_change(stages, learn):
        settle(stages, learn)
        table.iloc[1::3].assign(count=7).to_parquet(tmp_path / "files" / "1.parquet")

    monkeypatch.setattr(building, "_settle", then_change)
    with pytest.raises(SourceError, match=r"1\.parquet has changed since the fit began"):
        tiled(tmp_path / "store").fit(files, **FIT)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="begun with other tables"):
        tiled(tmp_path / "store").fit(files, **FIT)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"memory": "0.5GB", "tile_rows": "auto"}, r"memory='0.5GB' isn't enough .* at least .*GB are needed"),
        ({"learn": True, "learn_rows": 10**7}, "isn't enough to learn from 10,000,000 rows"),
        ({"memory": "much", "tile_rows": "auto"}, "memory must be such as '4GB'"),
        ({"halo": 1.0}, "halo must be at least 4"),
        ({"likelihood": "softmax"}, "no likelihood is named 'softmax'"),
        ({"likelihood": "censored_gaussian"}, "isn't served in tiles"),
        ({"likelihood": "gaussian"}, "exposure doesn't go with the Gaussian likelihood"),
        ({"client": "yes"}, "client must be 'current', None or a client"),
        ({"client": 3}, "client must be 'current', None or a client"),
        ({"rounds": -1}, "rounds"),
        ({"coords": ["east"]}, "no column 'east'"),
    ],
)
def test_settings_are_checked_before_anything_is_read(settings, words, files, tmp_path):
    with pytest.raises((ValueError, TypeError), match=words):
        tiled(tmp_path / "store", **settings).fit(files, **FIT)
    assert not (tmp_path / "store").exists()


def test_sources_that_are_none(tmp_path):
    model = tiled(tmp_path / "store")
    with pytest.raises(SourceError, match="no file matches"):
        model.fit(str(tmp_path / "*.parquet"), **FIT)
    with pytest.raises(SourceError, match="there is no file"):
        model.fit(str(tmp_path / "a.parquet"), **FIT)
    with pytest.raises(TypeError, match="GPRegressor"):
        model.fit(pd.DataFrame({"a": [1.0]}), **FIT)
    (tmp_path / "b.parquet").write_text("no table")
    with pytest.raises(SourceError, match="can't be read as a Parquet file"):
        model.fit(str(tmp_path / "b.parquet"), **FIT)
    with pytest.raises(ValueError, match="store must be the path of a folder"):
        tiled(None).fit(str(tmp_path / "b.parquet"), **FIT)


def test_a_second_run_is_told_of_the_first(files, tmp_path):
    with Store(tmp_path / "store").locked(), pytest.raises(StoreError, match="another run is at work"):
        tiled(tmp_path / "store").fit(files, **FIT)


def test_other_settings_need_another_store(model, files):
    with pytest.raises(StoreError, match=r"was begun with nugget=0\.01, and not 0\.5"):
        tiled(model.store, nugget=0.5).fit(files, **FIT)


def test_a_machine_with_less_memory_goes_on_with_the_tiles_there_are(model, files):
    assert tiled(model.store, tile_rows=300).fit(files, **FIT).about_["tiles"] == 4
    with pytest.raises(StoreError, match="was begun with halo=16, and not 8"):
        tiled(model.store, halo=8.0).fit(files, **FIT)


@pytest.fixture
def copied(model, tmp_path):
    import shutil

    shutil.copytree(model.store, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_missing_tile_is_named_and_made_again(copied, files, places, model):
    (copied / "tiles" / "00002" / "posterior.npvi").unlink()
    with pytest.raises(StoreError, match=r"00002/posterior\.npvi is missing"):
        npvi.load(copied)


def test_a_tile_that_was_cut_off_or_altered_is_named(copied, places):
    path = copied / "tiles" / "00001" / "posterior.npvi"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(StoreError, match=r"00001/posterior\.npvi has .* cut off"):
        npvi.load(copied)
    path.write_bytes(whole[:-5] + b"12345")
    loaded = npvi.load(copied)
    with pytest.raises(StoreError, match=r"00001/posterior\.npvi was altered"):
        loaded.predict(places, exposure=1.0)


def test_another_version_and_another_folder(copied, tmp_path):
    content = Store(copied).read_json("manifest.json")
    Store(copied).write_json("manifest.json", {**content, "format": 99})
    with pytest.raises(StoreError, match="format 99"):
        npvi.load(copied)
    text = (copied / "manifest.json").read_text()
    (copied / "manifest.json").write_text(text.replace('"rows": 3000', '"rows": 3001'))
    with pytest.raises(StoreError, match="altered"):
        npvi.load(copied)
    (copied / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        npvi.load(copied)
    (copied / "manifest.json").unlink()
    with pytest.raises(StoreError, match="not a finished one"):
        npvi.load(copied)


# -- interruptions -----------------------------------------------------------------------------------------------------

RUN = """
import sys
sys.path.insert(0, {root!r})
from tests.tiled.conftest import FIT, tiled
tiled({store!r}).fit({files!r}, **FIT)
"""


def start(store, files):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = RUN.format(root=root, store=str(store), files=files)
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


def content(store):
    """The finished files, byte by byte."""
    paths = sorted(path for path in store.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(store)): path.read_bytes() for path in paths}


def test_killed_at_random_moments_a_fit_goes_on(model, files, places, tmp_path):
    store, rng, kills = tmp_path / "store", random.Random(os.environ.get("NPVI_TEST_SEED", "1")), 0
    made = {}
    moments = int(os.environ.get("NPVI_TEST_KILLS", "3"))
    while True:
        run = start(store, files)
        if kills < moments:
            until = rng.uniform(0.0, 1.0)
            deadline = time.monotonic() + 120.0
            before = len(content(store)) if store.exists() else 0
            # until some more files are there: how fast the machine is doesn't matter
            goal = before + 1 + int(12 * until)
            while run.poll() is None and time.monotonic() < deadline:
                now = list(store.rglob("*.npvi")) if store.exists() else []
                if len(now) >= goal:
                    break
                time.sleep(0.002)
            run.send_signal(signal.SIGKILL)
            run.communicate()
            kills += 1
            for path in store.rglob("fit.npvi"):  # a finished tile isn't made twice
                state = (path.stat().st_ino, path.stat().st_mtime_ns)
                assert made.setdefault(path, state) == state
            continue
        _, errors = run.communicate(timeout=300)
        assert run.returncode == 0, errors.decode()
        break
    undisturbed = content(model.store)
    found = content(store)
    assert found.keys() == undisturbed.keys()
    assert [name for name in found if found[name] != undisturbed[name]] == []


def test_ctrl_c_between_tiles_leaves_what_is_done(model, files, tmp_path, monkeypatch):
    from npvi.tiled import fitting

    fit_tile, calls = fitting.fit_tile, []

    def interrupted(folder, tile):
        calls.append(tile)
        if len(calls) == 3:
            raise KeyboardInterrupt
        fit_tile(folder, tile)

    monkeypatch.setattr(fitting, "fit_tile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tiled(tmp_path / "store").fit(files, **FIT)
    tiled(tmp_path / "store").fit(files, **FIT)
    assert calls == [0, 1, 2, 2, 3]
    manifests = (json.loads((store / "manifest.json").read_text()) for store in (tmp_path / "store", model.store))
    assert next(manifests) == next(manifests)


def test_a_full_disk_is_said(files, tmp_path, monkeypatch):
    from npvi.runtime import files as writing
    from npvi.runtime.files import UnwritableError

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(UnwritableError, match="the disk is full"):
        tiled(tmp_path / "store").fit(files, **FIT)
    monkeypatch.undo()
    assert tiled(tmp_path / "store").fit(files, **FIT).certificate_["certified"]


@pytest.mark.parametrize("stage", ["gather", "order", "fit", "link", "multiply", "check", "solve", "move", "complete"])
def test_stopped_in_any_stage_a_fit_goes_on(stage, model, files, tmp_path, monkeypatch):
    run, left = Loop.run, [1]

    def stopping(self, name, task, calls, done):
        for number, call in enumerate(calls):
            if name == stage and number == 2 and left and left.pop():
                raise KeyboardInterrupt
            run(self, name, task, [call], done)

    monkeypatch.setattr(Loop, "run", stopping)
    again = tiled(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt):
        again.fit(files, **FIT)
    again.fit(files, **FIT)
    assert again.elbo_ == model.elbo_
    assert content(tmp_path / "store") == content(model.store)


def test_a_run_that_was_stopped_while_it_tidied_up_is_tidied_up_after(copied, model, files):
    undisturbed = content(model.store)
    (copied / "rounds").mkdir()
    for name in ("rounds/at", "levels", "tiles/00001/fit"):
        Store(copied).write(name, {"left": "over"})
    tiled(copied).fit(files, **FIT)
    assert content(copied) == undisturbed


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "model.json",
            lambda about: about["model"].update(nugget=-1.0),
            r"model\.json can't be used: its model\.nugget",
        ),
        ("model.json", lambda about: about["model"]["kernel"].update(type="zzz"), r"model\.json can't be used"),
        (
            "model.json",
            lambda about: about["model"]["kernel"].update(variance={"type": "RBF"}),
            "variance must be one number, got RBF",
        ),
        (
            "model.json",
            lambda about: about["tiling"].update(children=[[0, -1]] * len(about["tiling"]["cuts"])),
            "its tiling is no tree",
        ),
        ("model.json", lambda about: about["model"]["mean"]["coords"].append(7), "are not all of its"),
        ("plan.json", lambda about: about.pop("source"), r"plan\.json can't be used: it has no 'source'"),
        ("plan.json", lambda about: about.update(rounds="x"), r"plan\.json can't be used: its rounds must be a whole"),
        ("plan.json", lambda about: about.pop("max_iter"), "it has no 'max_iter'"),
        ("plan.json", lambda about: about["source"]["parts"][0].pop("size"), "it has no 'source.parts"),
        ("manifest.json", lambda about: about.update(updates=[{"source": 3}]), r"its updates\[0\]\.source must be"),
        ("manifest.json", lambda about: about["files"].update(layout={}), "its files must have sizes"),
        ("manifest.json", lambda about: about.update(rows_of_tiles=[3]), "its rows_of_tiles are not those"),
        (
            "manifest.json",
            lambda about: about["rows_of_tiles"].append(about["rows_of_tiles"].pop(0)),
            "its rows_of_tiles are not those of its tiles",
        ),
        (
            "manifest.json",
            lambda about: about.update(rows=7),
            "its rows must be those of its rows_of_tiles, 3000; got 7",
        ),
        (
            "manifest.json",
            lambda about: about.update(tiles=3),
            "its tiles must be those of its rows_of_tiles, 4; got 3",
        ),
        ("manifest.json", lambda about: about["seen"].pop(), "its seen has 3 numbers for 4 tiles with rows"),
        ("manifest.json", lambda about: about["certificate"].update(history=[]), "certificate.history must be a list"),
        (
            "manifest.json",
            lambda about: about["certificate"]["history"][-1].update(step="x"),
            r"certificate\.history\[\d+\]\.step must be a number",
        ),
        (
            "manifest.json",
            lambda about: about["certificate"]["history"][-1].pop("farthest"),
            "its certificate.history must say of a step how long it was, and how long at most",
        ),
        (
            "model.json",
            lambda about: about["model"]["info"].update(standard_errors="zzz"),
            "standard_errors must be a ma",
        ),
        ("model.json", lambda about: about["model"]["info"].update(begin="../../q"), "must be the number of an evalua"),
        ("model.json", lambda about: about["box"].reverse(), "the lowest of each, and the highest"),
        ("plan.json", lambda about: about.update(coords=[0, 9]), "its coords are not some of its 3 inputs"),
        ("plan.json", lambda about: about.update(tiles=10**9), "its tiles are more than its 3000 rows"),
        ("plan.json", lambda about: about["settings"].pop("mean"), "it has no 'settings.mean'"),
        ("manifest.json", lambda about: about["trend"].update(coefficients=[]), "its trend isn't that"),
    ],
)
def test_a_strangers_json_is_looked_at(model, tmp_path, name, change, message):
    """Its checksum is right: whoever writes a folder can write that, too."""
    store = Store(shutil.copytree(model.store, tmp_path / "store"))
    about = store.read_json(name)
    change(about)
    store.write_json(name, about)
    with pytest.raises(StoreError, match=message):
        npvi.load(store.folder).extent_  # noqa: B018 - which nothing else asks for


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "rows",
            {"places": lambda places: np.where(places == 1, -9999, places)},
            "levels are not from 0 to 65, or its pl",
        ),
        ("rows", {"places": lambda places: np.where(places == places.max(), 0, places)}, "first level is 0, and not"),
        ("border", {"levels": lambda levels: levels + 1}, "its border levels are not those of the tile"),
    ],
)
def test_levels_that_a_stranger_gives_rows_are_looked_at(copied, name, change, message):
    """The side of a cell has no bounds where its level has none."""
    store = Store(copied)
    for tile in range(4):
        arrays = {one: store.read(f"tiles/{tile:05d}/{one}") for one in ("rows", "coarse")}
        arrays["border"] = store.read(f"tiles/{tile:05d}/border")
        for array, how in change.items():
            kind = arrays[name][array].dtype
            arrays[name][array] = how(arrays[name][array]).astype(kind)
            if name == "rows":
                arrays["coarse"][array] = arrays["rows"][array][arrays["coarse"]["number"]]
        for one, content_ in arrays.items():
            store.write(f"tiles/{tile:05d}/{one}", **content_)
    with pytest.raises(StoreError, match=message):
        npvi.load(copied).to_local()


def test_what_a_model_in_memory_asks_of_a_store_is_looked_at(copied):
    """Rows, and settings; no prediction asks for them."""
    store, loaded = Store(copied), npvi.load(copied)
    rows = store.read("tiles/00001/rows")
    size = (copied / "tiles/00001/rows.npvi").stat().st_size
    store.write("tiles/00001/rows", **{**rows, "rows": np.full_like(rows["rows"], np.nan)})
    assert (copied / "tiles/00001/rows.npvi").stat().st_size == size
    with pytest.raises(StoreError, match=r"tiles/00001 can't be used: its rows has numbers that are not finite"):
        loaded.to_local()
    store.write("tiles/00001/rows", **rows)
    plan = store.read_json("plan.json")
    store.write_json("plan.json", {**plan, "settings": {**plan["settings"], "mean": 3}})
    with pytest.raises(StoreError, match=r"plan\.json can't be used: mean must be"):
        npvi.load(copied).to_local()


def test_a_likelihood_that_is_none(copied):
    """No prediction asks for it, but updates do."""
    store = Store(copied)
    store.write_json("plan.json", {**store.read_json("plan.json"), "likelihood": {"type": "RBF"}})
    with pytest.raises(StoreError, match=r"plan\.json can't be used: its likelihood is a RBF"):
        _ = Job(store).likelihood


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("parents", lambda parents: parents + 10**6, "parents are not earlier points"),
        ("parents", lambda parents: parents.astype(float), "parents is not an array of numbers"),
        ("spatial", np.zeros_like, "does not name every point once"),
        ("site_precision", lambda w: -w - 1.0, "site_precision is negative somewhere"),
        ("residual", lambda f: f * np.nan, "residual has numbers that are not finite"),
        ("places", lambda places: places[:, :1], "places is not an array of numbers of shape"),
        ("keys", lambda keys: keys[:-1], "keys is not an array"),
        ("sensitivity", lambda z: z + 1e9, "sensitivity is more than 30 times what the mean's columns can be"),
        ("sensitivity", lambda z: 1e3 * z, "sensitivity is more than 30 times what the mean's columns can be"),
    ],
)
def test_a_strangers_arrays_are_looked_at(model, table, tmp_path, name, change, message):
    """Compiled loops would read foreign memory."""
    store = Store(shutil.copytree(model.store, tmp_path / "store"))
    manifest = store.read_json("manifest.json")
    for tile in store.folder.glob("tiles/*/posterior.npvi"):
        archive = str(tile.relative_to(store.folder).with_suffix(""))
        about, arrays = store.read_all(archive)
        if name in arrays:
            store.write(archive, about, **{**arrays, name: change(arrays[name])})
        manifest["files"][archive] = tile.stat().st_size
    store.write_json("manifest.json", manifest)
    with pytest.raises(StoreError, match=message):
        npvi.load(store.folder).predict(table[["lon", "lat", "forest"]][:50], exposure=1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learn": np.zeros(0)}, "learn must be"),
        ({"learn": "grid"}, "learn must be"),
        ({"tile_rows": pd.DataFrame({"a": [1]})}, "tile_rows must be a whole number"),
        ({"mean": range(3)}, "mean must be"),
        ({"nugget": "a"}, "nugget must be"),
        ({"coefficient_scale": -1.0}, "coefficient_scale must be"),
        ({"coords": np.array(0.5)}, "coords must be"),
        ({"verbose": np.ones(2)}, "verbose must be"),
    ],
)
def test_settings_that_are_none(files, tmp_path, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tiled(tmp_path / "store", **settings).fit(files, **FIT)


@pytest.mark.parametrize("number", [np.int8(7), np.float32(0.25), np.array(0.25)], ids=repr)
def test_numbers_of_any_kind_are_settings(files, tmp_path, number):
    name = "n_neighbors" if number.dtype.kind == "i" else "nugget"
    store = tmp_path / "store"
    plan = tiled(store, **{name: number})._settings()
    assert json.loads(json.dumps(plan))[name] == number


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, files: model.fit(files, {"a": 1}), "target must be named by text"),
        (lambda model, files: model.fit(files, "count", inputs=3), "inputs must be names of columns"),
        (lambda model, files: model.fit(files, "count", inputs=[3]), "inputs must be named by text"),
        (lambda model, files: model.fit([], "count"), "source must be the path"),
        (lambda model, files: npvi.TiledRegressor.load(dict), "folder"),
    ],
)
def test_names_that_are_none(files, tmp_path, call, message):
    with pytest.raises(TypeError, match=message):
        call(tiled(tmp_path / "store"), files)


def test_rows_beyond_all_distances(model):
    with pytest.raises(ValueError, match=r"X has values beyond ±1e\+150 in 1 of 1 rows"):
        model.predict([[1e300, 0.0, 0.0]], exposure=1.0)


@pytest.mark.parametrize(("change", "message"), [({"basis": [1e300]}, "basis"), ({"coefficients": []}, "coefficients")])
def test_what_a_stranger_says_of_a_tile_is_looked_at(model, table, tmp_path, change, message):
    store = Store(shutil.copytree(model.store, tmp_path / "store"))
    manifest = store.read_json("manifest.json")
    for tile in store.folder.glob("tiles/*/posterior.npvi"):
        archive = str(tile.relative_to(store.folder).with_suffix(""))
        about, arrays = store.read_all(archive)
        store.write(archive, {**about, **change}, **arrays)
        manifest["files"][archive] = tile.stat().st_size
    store.write_json("manifest.json", manifest)
    with pytest.raises(StoreError, match=message):
        npvi.load(store.folder).predict(table[["lon", "lat", "forest"]][:50], exposure=1.0)
