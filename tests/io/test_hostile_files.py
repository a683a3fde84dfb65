"""Files whose checksum is right, made by somebody who means harm or knows no better."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy
from sklearn.preprocessing import StandardScaler

import npvi
from npvi.io.persistence import ModelFileError, describe, load
from npvi.kernels import RBF, Matern32
from npvi.model.inferring import UnusablePosteriorError
from npvi.runtime.archive import read_archive, write_archive
from npvi.runtime.checkpoints import CHECKPOINT, CheckpointError, read_checkpoint, write_checkpoint
from npvi.runtime.training import TrainingState, resumed
from tests.support import model_files

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, size=(40, 2))
Y = np.sin(X[:, 0])


@pytest.fixture(scope="module")
def model():
    return npvi.GPRegressor(kernel=Matern32(2.0), nugget=0.1, n_neighbors=5, learn=False).fit(X, Y)


@pytest.fixture(scope="module")
def three_labels():
    return npvi.GPClassifier(kernel="rbf", n_neighbors=5, learn=False).fit(X, (X[:, 0] // 2).astype(int))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npvi"


def refused(path, message, readers=(load, describe), seconds=5.0):
    for reader in readers:
        started = time.perf_counter()
        with pytest.raises(ModelFileError, match=message):
            reader(path)
        assert time.perf_counter() - started < seconds


# -- files that ask for much ------------------------------------------------------------------------------------------


def test_more_classes_than_the_file_has_room_for(three_labels, path):
    model_files.altered(three_labels, path, lambda m, a: m["likelihood"].update(n_classes=10**9))
    refused(path, "its labels are not 1000000000", [load])


def test_json_nested_without_end(model, path):
    metadata, arrays = model_files.contents(model)
    start = json.dumps({"arrays": list(arrays), **metadata}).encode()[:-1]
    for depth in (101, 900, 100_000):
        model_files.write(path, start + b', "notes": {"a": ' + b"[" * depth + b"]" * depth + b"}}", arrays)
        refused(path, "its JSON is nested more than 100 deep")


@pytest.mark.parametrize("depth", [90, 300])
def test_kernel_of_many_sums(model, path, depth):
    def nest(metadata, arrays):
        for _ in range(depth):
            metadata["kernel"] = {"type": "Sum", "k1": metadata["kernel"], "k2": {"type": "RBF"}}

    model_files.altered(model, path, nest)
    refused(path, "nested more than 100 deep|made of 181 parts, more than 100")


def test_kernel_that_is_broad(model, path):
    def grow(metadata, arrays):
        for _ in range(10):
            metadata["kernel"] = {"type": "Sum", "k1": metadata["kernel"], "k2": metadata["kernel"]}
            metadata["parameters"]["kernel"] = metadata["kernel"]

    model_files.altered(model, path, grow)
    refused(path, "kernel is made of 2047 parts, more than 100")


def test_many_sums_are_printed_and_saved_at_once(path):
    kernel = Matern32(2.0)
    for _ in range(30):
        kernel = kernel + RBF(3.0)
    started = time.perf_counter()
    assert repr(kernel).count("RBF") == 30
    assert time.perf_counter() - started < 1.0
    fitted = npvi.GPRegressor(kernel=kernel, nugget=0.1, n_neighbors=5, learn=False).fit(X, Y)
    fitted.save(path)
    np.testing.assert_array_equal(load(path).predict(X[:3]), fitted.predict(X[:3]))


def test_what_could_not_be_loaded_is_not_saved(path):
    kernel = Matern32(2.0)
    for _ in range(60):
        kernel = kernel + RBF(3.0)
    fitted = npvi.GPRegressor(kernel=kernel, nugget=0.1, n_neighbors=5, learn=False).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"cannot be saved.*kernel is made of 121 parts, more than 100"):
        fitted.save(path)
    assert not path.exists()


def test_numbers_beyond_those_of_floats(model, path):
    metadata, arrays = model_files.contents(model)
    text = json.dumps({"arrays": list(arrays), **metadata})
    for number in ("1e400", "-1e400", "NaN", "9" * 400):
        line = text.replace('"n_features_in": 2', f'"n_features_in": {number}').encode()
        model_files.write(path, line, arrays)
        refused(path, "its n_features_in must be a whole number from 1, got")


def zipped(compression, **arrays):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as member:
                npy.write_array(member, array)
    return buffer.getvalue()


def test_compressed_arrays(model, path, tmp_path):
    bomb = zipped(zipfile.ZIP_DEFLATED, about=np.array("{}"), centre=np.zeros(10**6))
    (tmp_path / "bomb.npz").write_bytes(bomb)
    with pytest.raises(npvi.amortized.RecognizerError, match="it is compressed, which files of npvi are not"):
        npvi.Recognizer.load(tmp_path / "bomb.npz")
    with pytest.raises(CheckpointError, match="it is compressed, which files of npvi are not"):
        read_checkpoint(tmp_path / "bomb.npz", {})
    network = {"recognizer": base64.b64encode(bomb).decode()}
    model_files.altered(model, path, lambda m, a: m["parameters"].update(network=network))
    refused(path, "it is compressed, which files of npvi are not", [load])


def test_members_that_overlap(tmp_path):
    content = bytearray(zipped(zipfile.ZIP_STORED, about=np.array("{}"), centre=np.zeros(10**4)))
    directory = content.index(b"PK\x01\x02")
    entries = content[directory : content.index(b"PK\x05\x06")]
    end = content[content.index(b"PK\x05\x06") :]
    many = 1000
    end[8:12] = (2 * many).to_bytes(2, "little") * 2
    end[12:16] = (many * len(entries)).to_bytes(4, "little")
    (tmp_path / "bomb.npz").write_bytes(content[:directory] + entries * many + end)
    with pytest.raises(npvi.amortized.RecognizerError, match="its arrays claim to be larger than the file"):
        npvi.Recognizer.load(tmp_path / "bomb.npz")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"shape": (10**15,), "descr": "<f8"}, "larger than the file"),
        ({"shape": (10**15, 0), "descr": "<f8"}, "larger than the file"),
        ({"shape": (-5,), "descr": "<f8"}, "kind float64 and shape"),
        ({"shape": (10**15,), "descr": "<U0"}, "larger than the file"),
        ({"shape": (3,), "descr": "<c16"}, "kind complex128"),
        ({"shape": (3,), "descr": [("a", "<f8")]}, "kind"),
        ({"shape": (1000, 1000), "descr": "<f8"}, "larger than the file"),
    ],
)
def test_headers_of_arrays(path, header, message):
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"fortran_order": False, **header})
    model_files.forge(path, json.dumps({"arrays": ["X"]}).encode() + b"\n" + file.getvalue() + bytes(24))
    refused(path, message, [load])


# -- checkpoints and recognizers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "description", [{"epochs": "x"}, {"epochs": -1}, {"history": 3}, {"stopped_at": [1]}, {"identity": None}]
)
def test_checkpoint_that_makes_no_sense(path, description):
    state = TrainingState(np.zeros(2), ())
    state.save(path, {})
    assert resumed(path, TrainingState(np.zeros(2), ()), {}).epochs == 0
    names = ("epochs", "outcome", "stopped_at", "best_epoch", "waited", "history")
    told = {name: getattr(state, name) for name in names}
    write_checkpoint(path, {"parameters": np.zeros(2), "optimizer_state": ()}, {"identity": {}, **told, **description})
    with pytest.raises(CheckpointError, match=f"its {next(iter(description))}.* must be"):
        resumed(path, TrainingState(np.zeros(2), ()), {})


def test_checkpoint_with_parts_that_are_missing_or_no_numbers(path):
    state = TrainingState(np.zeros(2), ())
    del state.history["seconds"]
    state.save(path, {})
    with pytest.raises(CheckpointError, match=r"it has no 'history\.seconds'"):
        resumed(path, TrainingState(np.zeros(2), ()), {})
    judged = {"loss": [1.0], "seconds": [0.1], "evaluation": [1.0], "evaluation_epoch": [0]}
    best = {"best": np.array([np.inf, 0.0]), "best_epoch": 0, "epochs": 1, "history": judged}
    for lost in ({"parameters": np.array([0.0, np.nan])}, {"parameters": np.zeros(2), **best}):
        TrainingState(optimizer_state=(), **lost).save(path, {})
        with pytest.raises(CheckpointError, match="parameters aren't finite"):
            resumed(path, TrainingState(np.zeros(2), ()), {})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_checkpoint_that_leads_astray_is_named(path):
    settings = npvi.SGD(epochs=2, checkpoint=path)
    model = npvi.GPRegressor(
        "poisson", kernel=Matern32(2.0), nugget=0.1, method="npvi", optimizer=settings, learn=False
    )
    counts = np.arange(len(X)) % 3
    model.fit(X, counts)
    with open(path, "rb") as file:
        about, arrays = read_archive(file, CHECKPOINT)
    with open(path, "wb") as file:
        write_archive(file, CHECKPOINT, about, arrays | {"parameters/1": np.full_like(arrays["parameters/1"], -1e300)})
    with pytest.raises(UnusablePosteriorError, match=f"delete the checkpoint {path}"):
        model.set_params(optimizer=npvi.SGD(epochs=3, checkpoint=path)).fit(X, counts)


def test_recognizer_with_odd_weights(path):
    network = npvi.amortized.pretrained("poisson")
    with pytest.raises(npvi.amortized.RecognizerError, match="weights beyond"):
        npvi.Recognizer.from_text(dataclasses.replace(network, centre=network.centre + 1e9).to_text())


@pytest.mark.filterwarnings("ignore:the recognised posterior")
def test_a_network_that_leads_astray_is_named(monkeypatch):
    monkeypatch.setattr("npvi.model.inferring._wrong", lambda *_: "its bound is nan")
    settings = {"nugget": 0.1, "method": "npvi-nn", "network": "pretrained", "learn": False}
    model = npvi.GPRegressor("poisson", kernel=Matern32(2.0), **settings)
    with pytest.raises(UnusablePosteriorError, match="the network led to no usable posterior: its bound is nan"):
        model.fit(X, np.arange(len(X)) % 3)


def test_checkpoint_of_other_trees(path):
    write_checkpoint(path, {"surprise": np.zeros(2)}, {})
    with pytest.raises(CheckpointError, match="surprise"):
        read_checkpoint(path, {"parameters": np.zeros(2)})


@pytest.mark.parametrize("text", [3, "", "AAAA", "é"])
def test_recognizer_that_is_none(text):
    with pytest.raises(npvi.amortized.RecognizerError):
        npvi.Recognizer.from_text(text)


# -- what a file may name ---------------------------------------------------------------------------------------------


def test_no_path_comes_from_a_file(path, tmp_path):
    settings = npvi.SGD(epochs=2, checkpoint=tmp_path / "mine")
    fitted = npvi.GPRegressor(
        kernel=Matern32(2.0), nugget=0.1, n_neighbors=5, method="npvi", optimizer=settings, learn=False
    )
    with pytest.warns(UserWarning, match="stochastic gradients ended"):
        fitted.fit(X, Y)
    fitted.save(path)
    assert b"mine" not in path.read_bytes()

    def lead_away(metadata, arrays):
        metadata["parameters"]["optimizer"]["checkpoint"] = str(tmp_path / "elsewhere")

    model_files.altered(fitted, path, lead_away)
    again = load(path)
    assert again.optimizer.checkpoint is None
    assert again.optimizer.epochs == 2
    with pytest.warns(UserWarning, match="stochastic gradients ended"):
        again.fit(X, Y)
    assert not (tmp_path / "elsewhere").exists()


# -- content that `save` would not have written -----------------------------------------------------------------------


def no_rows(metadata, arrays):
    for name, array in arrays.items():
        if array.ndim and len(array) == 40:
            arrays[name] = array[:0]
    metadata["n_rows"] = 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_rows, "its n_rows must be a whole number from 1, got 0"),
        (lambda m, a: m.update(prior="zzz"), "its prior must be one of nngp, fitc, nystrom, got 'zzz'"),
        (lambda m, a: m.update(feature_names_in=["a"]), "names 1 inputs and says that there are 2"),
        (lambda m, a: m.update(feature_names_in=[1, 2]), r"its feature_names_in\[0\] must be text, got 1"),
        (lambda m, a: m.update(nugget=-1.0), "its nugget must be a number from 0"),
        (lambda m, a: m.update(nugget=float("nan")), "its nugget must be a number from 0"),
        (lambda m, a: m.update(elbo="high"), "its elbo must be a number"),
        (lambda m, a: m["fit_info"].update(converged=3), "its fit_info.converged must be true or false"),
        (lambda m, a: m["linear_part"].update(names="constant"), "its linear_part.names must be a list"),
        (lambda m, a: m["row"].append("o"), r"its row\[0\] must be one of exposure"),
        (lambda m, a: m.update(companion={"weight": float("nan"), "model": dict(m)}), "companion.weight must be"),
        (lambda m, a: m.update(kernel="rbf"), "its kernel must be a mapping"),
        (lambda m, a: m.update(npvi="\ud800"), "its npvi must be text"),
    ],
)
def test_metadata_that_makes_no_sense(model, path, change, message):
    model_files.altered(model, path, change)
    refused(path, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, a: m["parameters"].update(n_neighbors="x"), "n_neighbors"),
        (lambda m, a: m["parameters"].update(max_iter=0), "max_iter"),
        (lambda m, a: m["parameters"].update(rule="x"), "rule"),
        (lambda m, a: m["parameters"].update(order="x"), "order"),
        (lambda m, a: m["parameters"].update(inducing="x"), "inducing"),
        (lambda m, a: m["parameters"].update(random_state="x"), "random_state"),
        (lambda m, a: m["parameters"].update(tol=float("nan")), "tol"),
        (lambda m, a: m["parameters"].update(coords=[7]), "coords"),
        (lambda m, a: m["parameters"].update(kernel={"type": "RBF", "variance": -1.0}), "variance"),
        (lambda m, a: m["parameters"].update(nugget={"parameter": 1.0, "lower": "x"}), "its parameter.lower must be"),
        (lambda m, a: m["kernel"].update(type="Poisson"), "Poisson"),
        (lambda m, a: m.update(likelihood={"type": "RBF"}), "its likelihood is a RBF, which is none"),
        (lambda m, a: m.update(n_rows=41), "it has 40 rows and says that there are 41"),
        (lambda m, a: a.update(coefficient_covariance=-a["coefficient_covariance"]), "is no covariance"),
        (lambda m, a: a["mean"].__setitem__(0, 1e200), "its mean has numbers beyond"),
        (lambda m, a: a["X"].__setitem__(0, -1e200), "its X has numbers beyond"),
    ],
)
def test_content_that_makes_no_sense(model, path, change, message):
    model_files.altered(model, path, change)
    refused(path, message, [load])


def test_labels_that_make_no_sense(three_labels, path):
    for labels in ([0.0, 1.0, np.nan], [2, 1, 0], [1, 1, 2], [[0, 1, 2]]):
        model_files.altered(three_labels, path, lambda m, a, labels=labels: a.update(classes=np.array(labels)))
        refused(path, "its labels are not", [load])


def test_steps_that_make_no_sense(path):
    gp = npvi.GPRegressor(kernel="rbf", nugget=0.1, n_neighbors=5, learn=False)
    pipeline = npvi.Pipeline([("scale", StandardScaler()), ("gp", gp)]).fit(X, Y)
    for change in (
        lambda m, a: a.update(step_0_scale_=np.ones(3)),
        lambda m, a: a.update(step_0_scale_=np.zeros(2)),
        lambda m, a: a["step_0_mean_"].__setitem__(0, np.nan),
        lambda m, a: m["pipeline"]["steps"][0]["fitted"].update(n_features_in_=10**9),
        lambda m, a: m["pipeline"]["steps"][0]["parameters"].update(with_mean="x"),
        lambda m, a: m["pipeline"]["steps"][0].update(feature_names_in=[]),
    ):
        model_files.altered(pipeline, path, change)
        refused(path, "cannot be loaded: ", [load])


@pytest.mark.parametrize("name", ["sensitivity", "coefficients", "coefficient_covariance", "basis", "mean"])
def test_numbers_that_are_allowed_and_predict_nothing(path, name):
    counts = RNG.poisson(np.exp(np.sin(X[:, 0])))
    fitted = npvi.GPRegressor("negative_binomial", "rbf", nugget=0.1, n_neighbors=5, learn=False).fit(X, counts)
    model_files.altered(fitted, path, lambda m, a: a[name].__setitem__(..., 1e9))
    refused(path, "its predictions are not finite|overflow", [load])


@pytest.mark.parametrize("kind", ["model", "three_labels"])
def test_random_alterations(kind, path, request):
    """Each is refused in one kind of error, or is a model that predicts finite numbers without a warning."""
    metadata, arrays = model_files.contents(request.getfixturevalue(kind))
    rng = np.random.default_rng(0)
    counts = {"refused": 0, "loaded": 0}
    for _ in range(150):
        changed, changed_arrays, what = model_files.mutated(metadata, arrays, rng)
        model_files.write(path, changed, changed_arrays)
        try:
            again = load(path)
        except ModelFileError:
            counts["refused"] += 1
            continue
        counts["loaded"] += 1
        columns = getattr(again, "feature_names_in_", None)
        new = X[:5] if columns is None else pd.DataFrame(X[:5], columns=columns)
        found = again.predict_proba(new) if kind == "three_labels" else again.predict(new)
        assert np.isfinite(found).all(), what
    assert min(counts.values()) > 30, counts


def test_a_number_of_the_wrong_kind(model, path):
    for part, name in (("likelihood", "variance"), ("kernel", "variance")):
        model_files.altered(model, path, lambda m, a, part=part, name=name: m[part].update({name: [1.0]}))
        refused(path, f"{name} must be one number", [load])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda node: node["values"].update(likelihood__variance="zzz"), "likelihood__variance must be a number"),
        (lambda node: node["values"].update(likelihood__variance=-1.0), "variance must be"),
        (lambda node: node["values"].update({"s(x0)__sd": 1e-300}), "divide by zero"),
    ],
)
def test_models_beside_a_sum_of_terms_that_make_no_sense(path, change, message):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    model = npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5)], hyper="integrate").fit(X, np.sin(6.0 * X[:, 0]))
    model_files.altered(model, path, lambda metadata, arrays: change(metadata["summed"]["hyper"]["models"][-1]))
    with pytest.raises(ModelFileError, match=message):
        npvi.load(path)


def test_inputs_of_a_sum_of_terms_that_are_others_than_its_columns(path):
    X = np.random.default_rng(0).uniform(size=(40, 1))
    model = npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5)], hyper="plug-in").fit(X, np.sin(6.0 * X[:, 0]))
    model_files.altered(model, path, lambda metadata, arrays: metadata.update(feature_names_in=["depth"]))
    with pytest.raises(ModelFileError, match="column 'x0' is none of its inputs"):
        npvi.load(path)
