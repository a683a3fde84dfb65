"""Files from strangers: models, folders of models in tiles, recognizers, checkpoints; one thing altered and the
checksum right again, or damaged.

Reading may refuse with the error of that kind of file, or give what predicts finite numbers; in little memory and time.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.support import model_files

import npvi
from campaign import subjects
from campaign.cases import Case, Surprise, check
from campaign.judging import check_finite, watched
from npvi.amortized.recognizer import RECOGNIZER
from npvi.io.archive import MODEL
from npvi.runtime.archive import Kind, read_archive
from npvi.runtime.checkpoints import CHECKPOINT
from npvi.tiled.store import MANIFEST, VECTORS, Store, StoreError

__all__ = ["SECONDS", "SHARES", "case", "count"]

SECONDS = 20.0
SHARES: dict[str, float] = {}

#: models among which to choose, and how often for one of the other files
_MODELS = (
    "gaussian",
    "poisson",
    "binomial",
    "paper",
    "fitc",
    "labels",
    "varying_noise",
    "pipeline",
    "integrated",
    "network",
    "terms",
)
_OTHERS = {3: "recognizer", 5: "store", 7: "tiles", 11: "store", 13: "checkpoint", 17: "tiles"}  # of twenty


def count() -> int:
    return 3000


def case(seed: int, number: int) -> Case:
    rng = np.random.default_rng([seed, number])
    kind = _OTHERS.get(number % 20, _MODELS[rng.integers(len(_MODELS))])
    path = Path(tempfile.mkdtemp(prefix="npvi-campaign-")) / "file"
    said, whole = _write(kind, path, rng)
    if kind == "store":
        how = list(_GOING_ON)[rng.integers(len(_GOING_ON))]
        return Case(f"{kind}, then {how}: {said}", lambda: _go_on(path, how, whole))
    return Case(f"{kind}: {said}", lambda: _run(kind, path, whole))


def _write(kind: str, path: Path, rng: np.random.Generator) -> tuple[str, bool]:
    """Write the file; what was done to it, and whether it is whole."""
    damaged = rng.uniform() < (0.4 if kind == "store" else 0.2)
    if kind in ("tiles", "store"):
        shutil.copytree(_tiles(bool(kind == "store" and rng.uniform() < 0.5)), path)
        return _alter_tiles(path, rng, damaged), not damaged
    archive, about, arrays = _archive(kind)
    if not damaged:
        about, arrays, said = model_files.mutated(about, arrays, rng)
    zipped = archive.zipped is not None and rng.uniform() < 0.3  # as they were before there were archives
    if zipped and rng.uniform() < 0.1:
        path.write_bytes(_deflated(archive, about, arrays))
        return "deflated, with zeros of 512 MiB", True
    if zipped:
        path.write_bytes(_zipped(archive, about, arrays))
    else:
        model_files.write(path, about, arrays, archive)
    if damaged:
        said, content = _damaged(path.read_bytes(), rng)
        path.write_bytes(content)
    return said, zipped or not damaged  # a zip has no checksum over all of it


def _alter_tiles(folder: Path, rng: np.random.Generator, damaged: bool) -> str:
    """Alter a file of a model in tiles; what was done to it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
    path = files[rng.integers(len(files))]
    name = path.relative_to(folder)
    if damaged and rng.uniform() < 0.2:
        path.unlink()
        return f"{name}: removed"
    if damaged:
        said, content = _damaged(path.read_bytes(), rng)
        path.write_bytes(content)
        return f"{name}: {said}"
    store = Store(folder)
    if path.suffix == ".json":
        about, _, said = model_files.mutated(store.read_json(str(name)), {"none": np.zeros(1)}, rng)
        store.write_json(str(name), about)
    elif path.suffix == VECTORS:  # numbers alone, for updates
        values = np.fromfile(path, np.float64)
        place, value = int(rng.integers(len(values))), float(rng.choice([np.nan, np.inf, -1e300, 1e9, -1.0, 0.0]))
        values[place] = value
        values.tofile(path)
        posterior = str(name.with_name("posterior"))
        about, arrays = store.read_all(posterior)
        about["sums"][name.name] = store.checksum(str(name))
        store.write(posterior, about, **arrays)
        said = f"number {place} is {value:g}"
    else:
        archive = str(name.with_suffix(""))
        about, arrays, said = model_files.mutated(*store.read_all(archive), rng)
        store.path(archive).unlink()
        with contextlib.suppress(TypeError, ValueError):  # what no archive takes is missing, then
            store.write(archive, about, **arrays)
    if path.name != MANIFEST:
        manifest = store.read_json(MANIFEST)
        sizes = {file: store.path(file) for file in manifest["files"]}
        manifest["files"] = {file: size.stat().st_size if size.exists() else 0 for file, size in sizes.items()}
        store.write_json(MANIFEST, manifest)
    return f"{name}: {said}"


def _table(number: int) -> Path:
    """Rows of a fit, or of its updates, which are in a corner."""
    import pandas as pd

    path, rng = subjects.folder() / "tables" / f"{number}.parquet", np.random.default_rng(number)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        X = rng.uniform(size=(30, 3)) * [0.2, 0.2, 1.0] if number else rng.uniform(size=(800, 3))
        pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(n=rng.poisson(2.0, len(X))).to_parquet(path)
    return path


def _in_tiles(store: Path) -> npvi.TiledRegressor:
    return npvi.TiledRegressor(
        "poisson",
        kernel=npvi.kernels.Matern32(0.05),
        nugget=0.1,
        coords=["x0", "x1"],
        learn=False,
        tile_rows=100,
        n_neighbors=8,
        store=store,
        client=None,
        n_jobs=1,
    )


@functools.cache
def _tiles(updated: bool) -> Path:
    """A finished model in eight tiles, and what it is after an update."""
    folder = subjects.folder() / ("updated tiles" if updated else "tiled")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if updated:
            shutil.copytree(_tiles(False), folder)
            npvi.load(folder).update(str(_table(1)))
        else:
            _in_tiles(folder).fit(str(_table(0)), target="n")
    return folder


@functools.cache
def _answers(updated: bool, how: str) -> np.ndarray:
    """What a whole store says that goes on in some way."""
    store = Path(tempfile.mkdtemp(prefix="npvi-campaign-")) / "store"
    shutil.copytree(_tiles(updated), store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _latent(_GOING_ON[how](store))


def _updated(store: Path) -> Any:
    return npvi.load(store).update([str(_table(1)), str(_table(2))])


def _fitted_again(store: Path) -> Any:
    return _in_tiles(store).fit(str(_table(0)), target="n")


def _mended(store: Path) -> Any:
    (store / MANIFEST).unlink(missing_ok=True)
    return _fitted_again(store)


_GOING_ON = {"update": _updated, "fit": _fitted_again, "mend": _mended}


def _latent(model: Any) -> np.ndarray:
    dist = model.predict_dist(np.random.default_rng(0).uniform(size=(50, 3)))
    return np.stack([dist.latent_mean, dist.latent_var])


def _go_on(store: Path, how: str, whole: bool) -> str:
    """Whatever was done to a store, an update or another fit does what it does with a whole one, or refuses; and then
    the model is what it was."""
    updated, before = any(store.glob("update-*")), _said_of(store)
    if how == "fit" and not (store / MANIFEST).exists():
        how = "mend"  # which takes the manifest away: a fit makes the model anew, without the rows of updates
    try:
        with watched():
            answers = _latent(_GOING_ON[how](store))
    except StoreError as error:
        check(str(store) in str(error), f"the error doesn't say which file: {error}")
        kept = how == "mend" or np.array_equal(before, _said_of(store))
        check(kept, f"it was refused, and predictions are others: {error}")
        return "refused"
    except Surprise:
        raise
    except Exception as error:
        raise Surprise(f"it ends in {type(error).__name__}: {error!s:.300}") from error
    check(bool(np.isfinite(answers).all()), "predictions are not finite")
    check(whole or np.array_equal(answers, _answers(updated, how)), "with a damaged store it worked, and isn't right")
    return "worked"


def _said_of(store: Path) -> np.ndarray:
    """Predictions; nothing where there are none."""
    try:
        return _latent(npvi.load(store))
    except StoreError:
        return np.zeros(0)


def _damaged(content: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    at = int(rng.integers(len(content)))
    what = rng.integers(4)
    if what == 0:
        return f"cut off after {at} of {len(content)} bytes", content[:at]
    if what == 1:
        return "more at its end", content + bytes(rng.integers(256, size=1 + at % 100, dtype=np.uint8))
    changed = bytearray(content)
    if what == 2:
        changed[at] ^= 1 << rng.integers(8)
        return f"a bit of byte {at} turned", bytes(changed)
    changed[at : at + 4096] = bytes(len(changed[at : at + 4096]))
    changed[-1] ^= 1  # where they were zeros
    return f"zeros from byte {at}", bytes(changed)


def _in_arrays(archive: Kind, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    name, version = archive.zipped or ("", "")
    return {name: np.array(json.dumps({"format": version, **about})), **arrays}


def _zipped(archive: Kind, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **_in_arrays(archive, about, arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


def _deflated(archive: Kind, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """A small file that is large when it is read."""
    buffer, arrays = io.BytesIO(), _in_arrays(archive, about, arrays)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for number, (name, array) in enumerate(arrays.items()):
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                if number == 0:
                    header = {"descr": "<f8", "fortran_order": False, "shape": (2**26,)}
                    np.lib.format.write_array_header_1_0(member, header)
                    for _ in range(2**9):
                        member.write(bytes(2**20))
                else:
                    np.lib.format.write_array(member, array)
    return buffer.getvalue()


def _run(kind: str, path: Path, whole: bool) -> str:
    from npvi.amortized import RecognizerError
    from npvi.io.archive import ModelFileError
    from npvi.model.inferring import UnusablePosteriorError
    from npvi.runtime.checkpoints import CheckpointError

    reading: dict[str, tuple[tuple[type[Exception], ...], Callable[[], Any]]] = {
        "recognizer": ((RecognizerError,), lambda: npvi.Recognizer.load(path)),
        # finite numbers, from which the steps that follow go astray: the error says to delete the file
        "checkpoint": ((CheckpointError, UnusablePosteriorError), lambda: _trained(path)),
        "tiles": ((StoreError,), lambda: _used(npvi.load(path))),
    }
    refuses, read = reading.get(kind, ((ModelFileError,), lambda: npvi.load(path)))
    with watched():
        try:
            model = read()
        except refuses as error:
            check(str(path) in str(error), f"the error doesn't say which file: {error}")
            return "refused"
        except Exception as error:
            raise Surprise(f"reading ends in {type(error).__name__}: {error!s:.300}") from error
    # of a tile's own rows, which only another fit asks for, no prediction needs the content
    check(whole or kind == "tiles", "a damaged file was read")
    try:
        with watched():
            if kind == "recognizer":  # whose weights may be any
                model = subjects.small("poisson", method="npvi-nn", network=model)
                model.fit(subjects.data()["X"], subjects.data()["counts"])
            _use(model)
    except RecognizerError:  # of another noise, or other inputs
        return "refused"
    except UnusablePosteriorError as error:  # no check can tell weights that lead astray
        check(kind == "recognizer" and "the network led to" in str(error), f"the network isn't named: {error}")
        return "refused"
    except Surprise:
        raise
    except Exception as error:
        raise Surprise(f"it is read, and then predicting ends in {type(error).__name__}: {error!s:.300}") from error
    return "worked"


def _used(model: Any) -> Any:
    """A model in tiles, whose files are read when they are needed."""
    _use(model)
    model.describe()
    return model


def _use(model: Any) -> None:
    X: Any = np.random.default_rng(0).uniform(size=(5, model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        import pandas as pd

        X = pd.DataFrame(X, columns=model.feature_names_in_)
    with warnings.catch_warnings():  # of exposure and trials that aren't given
        warnings.filterwarnings("ignore", "the model was fitted with")
        dist = model.predict_dist(X)
        check_finite(dist if hasattr(dist, "mean") else dist.probabilities)
        check_finite(model.predict(X))
        repr(model)


@functools.cache
def _contents(kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    data = subjects.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "integrated":
            model = subjects.small(learn=True, hyper="integrate", kernel="matern").fit(data["X"], data["y"])
        elif kind == "network":
            network = npvi.amortized.pretrained(npvi.likelihoods.Poisson())
            model = subjects.small("poisson", method="npvi-nn", network=network).fit(data["X"], data["counts"])
        else:
            model = subjects.model_named(kind)
    return model_files.contents(model, {"target": "n"})


def _archive(kind: str) -> tuple[Kind, dict[str, Any], dict[str, np.ndarray]]:
    if kind == "recognizer":
        archive, path = RECOGNIZER, Path(subjects.recognizer_file())
    elif kind == "checkpoint":
        archive, path = CHECKPOINT, _checkpoint()
    else:
        return MODEL, *_contents(kind)
    with open(path, "rb") as file:
        return archive, *read_archive(file, archive)


@functools.cache
def _checkpoint() -> Path:
    path = subjects.folder() / "checkpoint"
    _trained(path, 2)
    return path


def _trained(path: Path, epochs: int = 3) -> Any:
    from npvi import SGD

    model = subjects.small("poisson", method="npvi", optimizer=SGD(epochs=epochs, batch_size=16, checkpoint=path))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # so few epochs don't converge
        return model.fit(subjects.data()["X"], subjects.data()["counts"])
