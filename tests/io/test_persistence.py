"""Save and load: the model comes back as it was, and a file that isn't right is refused in plain words."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy
from sklearn.base import clone

import npvi
from npvi.io import archive as model_file
from npvi.io import packing as model_packing
from npvi.io.persistence import ModelFileError, describe, load, save
from npvi.kernels import RBF, Custom, Matern32, Subset
from npvi.likelihoods import Bernoulli, Likelihood, Poisson, StudentT
from npvi.posteriors import PrecisionPosterior
from npvi.runtime.archive import header

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, size=(60, 2))
Y = RNG.poisson(np.exp(np.sin(X[:, 0])))
NEW = RNG.uniform(0, 5, size=(20, 2))


@pytest.fixture(scope="module")
def model():
    return npvi.GPRegressor("poisson", Matern32(2.0), n_neighbors=6, random_state=3, learn=False).fit(X, Y)


@pytest.fixture(scope="module")
def factor_model():
    return npvi.GPRegressor("poisson", Matern32(2.0), n_neighbors=6, method="npvi", learn=False).fit(X, Y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npvi"


def same_predictions(a, b, inputs=NEW, **row):
    first, second = a.predict_dist(inputs, **row), b.predict_dist(inputs, **row)
    np.testing.assert_array_equal(first.latent_mean, second.latent_mean)
    np.testing.assert_array_equal(first.latent_var, second.latent_var)
    np.testing.assert_array_equal(first.mean, second.mean)


# -- there and back ---------------------------------------------------------------------------------------------------


def test_regressor_comes_back_as_it_was(model, path):
    model.save(path)
    again = npvi.load(path)
    assert type(again) is npvi.GPRegressor
    same_predictions(model, again)
    assert again.elbo_ == model.elbo_
    assert again.n_iter_ == model.n_iter_
    assert again.fit_info_ == model.fit_info_
    assert repr(again) == repr(model)
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.posterior_.site_precision, model.posterior_.site_precision)
    np.testing.assert_array_equal(again.mean_coefficients_, model.mean_coefficients_)


def test_loaded_model_can_be_cloned_refitted_and_saved_again(model, path):
    model.save(path)
    again = npvi.load(path)
    refitted = clone(again).fit(X, Y)
    same_predictions(refitted, model)
    again.save(path)
    same_predictions(npvi.load(path), model)


def test_saving_twice_gives_the_same_bytes(model, path, tmp_path):
    model.save(path)
    npvi.load(path).save(tmp_path / "second.npvi")
    assert path.read_bytes() == (tmp_path / "second.npvi").read_bytes()


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (np.array([3, 7]), "int64"),
        (np.array([False, True]), "bool"),
        (np.array(["no", "ñandú"]), "<U5"),
        (np.array(["no", "yes"], dtype=object), "object"),
        (np.array(["only"]), "<U4"),
    ],
    ids=["int", "bool", "text", "object", "one"],
)
def test_classifier_keeps_its_labels(labels, dtype, path):
    y = labels[np.minimum((X[:, 0] > 2.5).astype(int), len(labels) - 1)]
    # with one label only, the best constant would be infinite
    mean = "zero" if len(labels) == 1 else "constant"
    model = npvi.GPClassifier(Bernoulli("probit"), n_neighbors=6, mean=mean, learn=False).fit(X, y)
    model.save(path)
    again = npvi.load(path)
    assert again.classes_.dtype == dtype
    assert again.predict(NEW).tolist() == model.predict(NEW).tolist()
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert again.log_score(X, y) == model.log_score(X, y)


def test_mixed_labels_are_refused(path):
    model = npvi.GPClassifier(n_neighbors=6, learn=False).fit(X, (X[:, 0] > 2).astype(int))
    model.classes_ = np.array(["no", 1], dtype=object)
    with pytest.raises(ModelFileError, match="they must be all text, all numbers or all True/False"):
        model.save(path)


def test_column_names_come_back(path):
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    model = npvi.GPRegressor("poisson", n_neighbors=6, learn=False).fit(frame, Y)
    model.save(path)
    again = npvi.load(path)
    assert again.feature_names_in_.tolist() == ["lon", "lat"]
    same_predictions(again, model, frame)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"lat": "latitude"}))


def test_parameters_of_every_kind_come_back(path):
    order = np.random.default_rng(1).permutation(len(X))
    model = npvi.GPRegressor(
        Poisson("softplus"),
        kernel=Subset(RBF(np.array([1.0, 2.0])), (0, 1)) + 0.5,
        nugget=np.float64(0.01),
        n_neighbors=np.int64(5),
        order=order,
        random_state=np.random.RandomState(4),
        learn=False,
    ).fit(X, Y)
    model.save(path)
    again = npvi.load(path)
    np.testing.assert_array_equal(again.order, order)
    assert again.random_state is None
    assert again.nugget == 0.01
    assert repr(again.likelihood) == "Poisson(link='softplus')"
    same_predictions(again, model)
    same_predictions(clone(again).fit(X, Y), model)


@pytest.mark.parametrize("rows", [1, 2])
def test_tiny_models(rows, path):
    model = npvi.GPRegressor("poisson", mean="zero", n_neighbors=1, learn=False).fit(X[:rows], Y[:rows])
    model.save(path)
    same_predictions(npvi.load(path), model)


@pytest.mark.parametrize("which", ["model", "factor_model"])
def test_either_posterior(which, path, request):
    fitted = request.getfixturevalue(which)
    fitted.save(path)
    again = npvi.load(path)
    assert type(again.posterior_) is type(fitted.posterior_)
    same_predictions(again, fitted)
    draws = [m.predict_dist(NEW).joint_sample(5, seed=1) for m in (again, fitted)]
    np.testing.assert_array_equal(*draws)
    np.testing.assert_array_equal(again.posterior_.variance, fitted.posterior_.variance)


def test_a_factor_is_made_again(path, monkeypatch):
    monkeypatch.setattr("npvi.inference.families.full.DENSE", 10)
    fitted = npvi.GPRegressor("poisson", Matern32(2.0), n_neighbors=6, learn=False).fit(X, Y)
    fitted.save(path)
    assert type(npvi.load(path).posterior_) is PrecisionPosterior
    same_predictions(npvi.load(path), fitted)


def test_draws_of_older_files(model, path):
    """They were kept where a posterior is dense, and by some draws where it wasn't."""
    rewrite(model, path, lambda m, a: old(model, m, a))
    same_predictions(npvi.load(path), model)


def test_covariates_and_data_come_back(path):
    frame = pd.DataFrame({"height": RNG.normal(100.0, 20.0, size=len(X)), "lon": X[:, 0], "lat": X[:, 1]})
    weight = RNG.uniform(0.5, 2.0, size=len(X))
    trials = np.full(len(X), 9.0)
    fitted = npvi.GPRegressor(
        "binomial", "rbf", mean="linear", coords=("lon", "lat"), coefficient_scale=2.0, n_neighbors=6, learn=False
    )
    fitted.fit(frame, np.minimum(Y, 9), sample_weight=weight, trials=trials)
    fitted.save(path)
    again = npvi.load(path)
    assert again.coords == ["lon", "lat"]
    assert again.n_features_in_ == 3
    same_predictions(again, fitted, frame, trials=trials)
    np.testing.assert_array_equal(again.mean_coefficients_, fitted.mean_coefficients_)
    np.testing.assert_array_equal(again.trend_.sensitivity, fitted.trend_.sensitivity)
    np.testing.assert_array_equal(again.trend_.covariance, fitted.trend_.covariance)
    np.testing.assert_array_equal(again.basis_, fitted.basis_)
    assert again.linear_part_.names == ("constant", "height")
    order = again.graph_.order
    np.testing.assert_array_equal(again.data_.y, np.minimum(Y, 9)[order])
    np.testing.assert_array_equal(again.data_.row["trials"], trials)
    np.testing.assert_array_equal(again.data_.weight, weight[order])
    about = describe(path)["coefficients"]
    value, error = about["height"]
    assert value == fitted.mean_coefficients_[1]
    assert 0.0 < error < 0.1


def test_what_was_said_about_parameters_and_what_was_learned(path):
    kernel = RBF(npvi.parameters.bounded(1.0, 0.5, 3.0), npvi.parameters.fixed(1.0))
    likelihood = StudentT(npvi.parameters.positive(0.5, prior=(-1.0, 0.5)), npvi.parameters.fixed(4.0))
    y = np.sin(X[:, 0]) + 0.1 * RNG.standard_t(4.0, size=len(X))
    fitted = npvi.GPRegressor(likelihood, kernel, npvi.parameters.fixed(0.01), n_neighbors=4).fit(X, y)
    fitted.save(path)
    again = npvi.load(path)
    assert again.kernel.length_scale == kernel.length_scale
    assert again.likelihood.scale == likelihood.scale
    assert again.nugget == fitted.nugget
    assert again.nugget_ == fitted.nugget_ == 0.01
    assert again.fitted_.spec.said == fitted.fitted_.spec.said
    assert again.kernel_.length_scale == fitted.kernel_.length_scale != 1.0
    assert again.fit_info_ == fitted.fit_info_
    assert again.fit_info_["learning"]["evaluations"] > 1
    same_predictions(again, fitted)


@pytest.mark.parametrize("which", ["model", "factor_model"])
def test_loaded_model_takes_new_rows_and_sums_up(which, path, tmp_path, request):
    request.getfixturevalue(which).save(path)
    again, other = npvi.load(path), npvi.load(path)
    pd.testing.assert_frame_equal(again.summary(), request.getfixturevalue(which).summary())
    again.update(NEW, np.ones(len(NEW)))
    other.update(NEW, np.ones(len(NEW)))
    assert again.graph_.n_points == len(X) + len(NEW)
    again.save(tmp_path / "longer.npvi")
    same_predictions(npvi.load(tmp_path / "longer.npvi"), other, X)


def test_text_parameters_and_paths_as_text(path):
    model = npvi.GPRegressor("poisson", "rbf", n_neighbors=6, learn=False).fit(X, Y)
    model.save(str(path))
    assert npvi.load(str(path)).kernel == "rbf"


def test_notes_and_description(model, path):
    save(model, path, notes={"target": "count", "rows": np.int64(3)})
    description = describe(path)
    assert description["notes"] == {"target": "count", "rows": 3}
    assert description["n_rows"] == 60
    assert description["kernel"] == {"type": "Matern32", "length_scale": 2.0, "variance": 1.0}
    json.dumps(description)


# -- functions and classes of the user's ------------------------------------------------------------------------------


def cauchy(x, z):
    return 1.0 / (1.0 + jnp.sum((x - z) ** 2))


class Shifted(Likelihood):
    """y ~ N(f + shift, 1), a user's own likelihood."""

    log_concave = True

    def __init__(self, shift=1.0):
        self.shift = shift

    def log_prob(self, y, f):
        return -0.5 * jnp.log(2.0 * jnp.pi) - 0.5 * (y - f - self.shift) ** 2


@pytest.mark.parametrize("kernel", [cauchy, Custom(cauchy), Custom(lambda x, z: cauchy(x, z), name="cauchy")])
def test_custom_function_is_asked_for_by_name(kernel, path):
    model = npvi.GPRegressor("poisson", kernel, n_neighbors=6, learn=False).fit(X, Y)
    model.save(path)
    with pytest.raises(ModelFileError, match=r'a function of your own called \'cauchy\'.*custom=\{"cauchy"'):
        npvi.load(path)
    same_predictions(npvi.load(path, custom={"cauchy": cauchy}), model)


def scaled_cauchy(x, z, scale):
    return 1.0 / (1.0 + jnp.sum((x - z) ** 2) / scale**2)


def test_parameters_of_a_custom_kernel_are_saved(path):
    kernel = Custom(scaled_cauchy, {"scale": npvi.bounded(0.5, 0.1, 2.0)}) + RBF(0.3)
    model = npvi.GPRegressor("poisson", kernel, n_neighbors=6, learn=False).fit(X, Y)
    model.save(path)
    again = npvi.load(path, custom={"scaled_cauchy": scaled_cauchy})
    same_predictions(again, model)
    assert again.kernel_.k1.scale == 0.5
    assert again.kernel.k1.params["scale"].upper == 2.0


def test_columns_of_a_kernel_by_name_are_saved(path):
    table = pd.DataFrame(X, columns=["east", "north"])
    model = npvi.GPRegressor("poisson", Subset(RBF(0.3), "north"), n_neighbors=6, learn=False).fit(table, Y)
    model.save(path)
    again = npvi.load(path)
    assert again.kernel.columns == ("north",)
    assert again.kernel_.columns == (1,)
    again.fit(table, Y)
    assert again.elbo_ == model.elbo_


def test_custom_function_without_a_name_is_refused(path):
    model = npvi.GPRegressor("poisson", lambda x, z: cauchy(x, z), n_neighbors=6, learn=False).fit(X, Y)
    with pytest.raises(ModelFileError, match="its function has no name"):
        model.save(path)
    assert not path.exists()


def test_likelihood_of_the_users_own(path):
    model = npvi.GPRegressor(Shifted(2.0), n_neighbors=6, learn=False).fit(X, Y)
    model.save(path)
    again = npvi.load(path)
    assert type(again.likelihood_) is Shifted
    np.testing.assert_array_equal(again.predict_dist(NEW).latent_mean, model.predict_dist(NEW).latent_mean)


def cauchy_noise(y, f, scale):
    return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)


def test_noise_from_a_function_of_the_users_own(path):
    noise = npvi.likelihoods.Custom(cauchy_noise, {"scale": npvi.parameters.bounded(0.3, 0.1, 2.0)})
    model = npvi.GPRegressor(noise, "rbf", n_neighbors=6, learn=False).fit(X, np.sin(X[:, 0]))
    model.save(path)
    with pytest.raises(ModelFileError, match="a function of your own called 'cauchy_noise'"):
        npvi.load(path)
    again = npvi.load(path, custom={"cauchy_noise": cauchy_noise})
    assert again.likelihood_.params == noise.params
    assert again.likelihood_.support == noise.support
    first, second = model.predict_dist(NEW), again.predict_dist(NEW)  # without a mean, which this noise doesn't have
    np.testing.assert_array_equal(first.latent_mean, second.latent_mean)
    np.testing.assert_array_equal(first.latent_var, second.latent_var)


# -- files that cannot be written -------------------------------------------------------------------------------------


def test_model_that_is_not_fitted(path):
    with pytest.raises(ModelFileError, match="this GPRegressor is not fitted yet: call fit before save"):
        npvi.GPRegressor().save(path)


def test_other_objects(path):
    with pytest.raises(
        ModelFileError, match="only GPRegressor, GPClassifier and VaryingNoiseRegressor can be saved, not dict"
    ):
        save({}, path)


def test_missing_folder(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot write .*model.npvi: the folder '.*nowhere' does not exist"):
        model.save(tmp_path / "nowhere" / "model.npvi")


def test_folder_that_is_a_file(model, path):
    path.write_text("")
    with pytest.raises(ModelFileError, match="is not a folder"):
        model.save(path / "model.npvi")


def test_path_that_is_a_folder(model, tmp_path):
    with pytest.raises(ModelFileError, match="it is a folder; name a file in it"):
        model.save(tmp_path)
    assert os.listdir(tmp_path) == []


def test_no_permission(model, path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("npvi.runtime.files.os.open", refuse)  # root may write anywhere, so a mode would not do
    with pytest.raises(ModelFileError, match="no permission to write in the folder"):
        model.save(path)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_interrupted_write_leaves_the_old_file(model, path, monkeypatch, failure):
    path.write_bytes(b"the old file")
    real = npy.write_array

    def fail(file, array, allow_pickle):
        real(file, array, allow_pickle=allow_pickle)
        raise failure

    monkeypatch.setattr(npy, "write_array", fail)
    with pytest.raises((ModelFileError, KeyboardInterrupt)):
        model.save(path)
    assert path.read_bytes() == b"the old file"
    assert os.listdir(path.parent) == ["model.npvi"]


def test_link_stays_a_link(model, path, tmp_path):
    link = tmp_path / "link.npvi"
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    same_predictions(npvi.load(path), model)


# -- files that cannot be read ----------------------------------------------------------------------------------------


def refused(path, message):
    for reader in (load, describe):
        with pytest.raises(ModelFileError, match=re.escape(str(path)) + ".*" + message):
            reader(path)


def test_missing_file(path):
    with pytest.raises(ModelFileError, match="there is no file"):
        npvi.load(path)
    with pytest.raises(ModelFileError, match=r"cannot read .*Is a directory"):
        npvi.load(path.parent)


@pytest.mark.parametrize("content", [b"", b"lon,lat,count\n1,2,3\n", pickle.dumps({"a": 1}), b"\x00" * 1000, b"npvi"])
def test_foreign_file(path, content):
    path.write_bytes(content)
    refused(path, "is not a model saved by npvi")


@pytest.mark.parametrize("keep", [0.5, 0.999])
def test_truncated_file(model, path, keep):
    model.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    refused(path, "is cut off: .* bytes are there")


def test_file_cut_in_its_first_lines(model, path):
    model.save(path)
    path.write_bytes(path.read_bytes()[:40])
    refused(path, "is damaged")


@pytest.mark.parametrize("where", [200, 5000, -1])
def test_altered_file(model, path, where):
    model.save(path)
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    refused(path, "was altered since it was saved")


def test_something_appended(model, path):
    model.save(path)
    path.write_bytes(path.read_bytes() + b"x")
    refused(path, "was altered")


def test_newer_format(model, path):
    model.save(path)
    path.write_bytes(path.read_bytes().replace(b"format 2\n", b"format 3\n", 1))
    refused(path, r"was written by a newer npvi \(format 3\); this version reads format 2: upgrade npvi")


def test_older_format(model, path):
    model.save(path)
    path.write_bytes(path.read_bytes().replace(b"format 2\n", b"format 1\n", 1))
    refused(path, r"was written by an older npvi \(format 1\); this version reads format 2: fit the model again")


# -- files made to do harm, whose checksum is right -------------------------------------------------------------------


def forge(path, payload):
    path.write_bytes(header(model_file.MODEL, hashlib.sha256(payload).hexdigest(), len(payload)) + payload)


class Exploit:
    def __reduce__(self):
        return (os.abort, ())


def test_pickle_inside_is_refused(path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Exploit()], dtype=object), allow_pickle=True)
    forge(path, json.dumps({"arrays": ["X"]}).encode() + b"\n" + buffer.getvalue())
    with pytest.raises(ModelFileError, match="allow_pickle=False"):
        npvi.load(path)


def test_array_larger_than_the_file_is_refused(path):
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": (10**15,), "fortran_order": False, "descr": "<f8"})
    forge(path, json.dumps({"arrays": ["X"]}).encode() + b"\n" + header.getvalue())
    with pytest.raises(ModelFileError, match="larger than the file"):
        npvi.load(path)


def rewrite(model, path, change):
    metadata, arrays = model_packing.pack(model, {})
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(metadata, arrays)
    model_file.write(path, metadata, arrays)


def old(model, metadata, arrays):
    """As files had a dense posterior before."""
    metadata["posterior"] = "draws"
    arrays |= {"draws": model.posterior_.draws.copy(), "variance": model.posterior_.variance.copy()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update(draws=a["draws"][:-1]), "its draws is not a finite float32 or float64 array"),
        (lambda a: a.update(draws=a["draws"][:, :0]), "its draws is not a finite float32 or float64 array"),
        (lambda a: a.update(draws=a["draws"][:, 0]), "its draws is not a finite float32 or float64 array"),
        (lambda a: a.update(draws=a["draws"].astype(np.int64)), "its draws is not a finite float32"),
        (lambda a: a["draws"].__setitem__((3, 3), np.inf), "its draws is not a finite float32"),
        (lambda a: a["variance"].__setitem__(3, 0.0), "its variance is not positive"),
    ],
)
def test_draws_that_make_no_sense(model, path, change, message):
    rewrite(model, path, lambda m, a: (old(model, m, a), change(a)))
    with pytest.raises(ModelFileError, match=f"cannot be loaded: .*{message}"):
        npvi.load(path)


def test_a_dense_posterior_of_too_many_rows(model, path, monkeypatch):
    monkeypatch.setattr("npvi.io.checks.DENSE", 50)
    rewrite(model, path, lambda m, a: None)
    with pytest.raises(ModelFileError, match="a dense posterior of 60 rows, more than 50"):
        npvi.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, a: a["parents"].__setitem__((-1, -1), 10**9), "its parents are not earlier points"),
        (lambda m, a: a["parents"].__setitem__((-1, 0), -5), "its parents are not earlier points"),
        (lambda m, a: a["parents"].__setitem__((0, 0), 0), "its parents are not earlier points"),
        (lambda m, a: a["order"].__setitem__(0, a["order"][1]), "its order does not name every point once"),
        (lambda m, a: a["spatial"].__setitem__(0, -1), "its spatial does not name every point once"),
        (lambda m, a: a["site_precision"].__setitem__(3, -1e9), "its site_precision makes no posterior"),
        (lambda m, a: m.update(posterior="guess"), "its posterior must be one of factor, .*, got 'guess'"),
        (lambda m, a: m.update(posterior="factor"), "it has no 'factor_diagonal'"),
        (lambda m, a: a["coords"].__setitem__(0, 7), "its coords are not columns from 0 to 1"),
        (lambda m, a: a.update(covariates=np.array([-1])), "its linear part does not fit its columns"),
        (lambda m, a: a.update(basis=a["basis"][:-1]), "its basis is not a finite float64"),
        (lambda m, a: a.update(sensitivity=np.zeros((60, 2))), "its sensitivity is not a finite float64"),
        (lambda m, a: a["y"].__setitem__(0, 0.5), "cannot be Poisson"),
        (lambda m, a: m["row"].append("exposure"), "it has no 'row_exposure'"),
        (lambda m, a: a.update(weight=np.full(60, -1.0)), "its weight is negative"),
        (lambda m, a: a["X"].__setitem__(0, np.nan), "its X is not a finite"),
        (lambda m, a: a.update(mean=a["mean"].astype(np.float32)), "its mean is not a finite float64"),
        (lambda m, a: a.pop("mean"), "it has no 'mean'"),
        (lambda m, a: m.pop("kernel"), "it has no 'kernel'"),
        (
            lambda m, a: m.update(estimator="BaseEstimator"),
            "its estimator must be one of GPRegressor, .*, got 'BaseEstimator'",
        ),
        (lambda m, a: m["kernel"].update(type="os:system"), "no kernel or likelihood is called 'os:system'"),
        (lambda m, a: m["kernel"].update(length_scale=-1.0), "length_scale"),
        (lambda m, a: m["parameters"].update(surprise=1), "surprise"),
    ],
)
def test_content_that_makes_no_sense(model, path, change, message):
    rewrite(model, path, change)
    with pytest.raises(ModelFileError, match=f"cannot be loaded: .*{message}"):
        npvi.load(path)


def test_factor_of_another_shape(factor_model, path):
    rewrite(factor_model, path, lambda m, a: a.update(factor_edges=a["factor_edges"][:, :2]))
    with pytest.raises(ModelFileError, match="its factor_edges is not a finite float64"):
        npvi.load(path)
