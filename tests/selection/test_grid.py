"""Choosing hyper-parameters by validation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import npvi
import npvi.runtime.progress
from npvi.selection.grid import PAPER_LENGTH_SCALES
from tests.support.models import paper_regressor


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(600, 2))
    y = rng.poisson(np.exp(1 + np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1])))
    return X, y


def model(**parameters):
    settings = {"kernel": "rbf", "n_neighbors": 10, "mean": "constant", **parameters}
    return paper_regressor("poisson", **settings)


def test_the_table_is_what_separate_fits_say(survey):
    X, y = survey
    train, held_out = np.arange(500), np.arange(500, 600)
    grid = {"length_scale": [0.3, 2.0], "nugget": [0.01, 0.5]}
    found = npvi.grid_search(model(), X[train], y[train], grid, validation=(X[held_out], y[held_out]))
    assert list(found.table.columns) == ["length_scale", "nugget", "nlpd", "elbo", "seconds"]
    for row in found.table.itertuples():
        alone = model(nugget=row.nugget).set_params(kernel=npvi.kernels.RBF(row.length_scale))
        alone.fit(X[train], y[train])
        assert alone.elbo_ == pytest.approx(row.elbo, rel=1e-9)
        assert -alone.log_score(X[held_out], y[held_out]) == pytest.approx(row.nlpd, rel=1e-6)
    best = found.table.loc[found.table["nlpd"].idxmin()]
    assert found.best_params == {"length_scale": best["length_scale"], "nugget": best["nugget"]}
    assert found.best_model.kernel_.length_scale == best["length_scale"]


def test_the_graph_is_built_once_for_one_length_scale_and_anew_for_another_metric(survey, monkeypatch):
    import npvi.model.fitting as fitting

    X, y = survey
    built = []
    original = fitting.build_graph
    monkeypatch.setattr(fitting, "build_graph", lambda *a, **k: built.append(1) or original(*a, **k))
    npvi.grid_search(model(), X, y, {"length_scale": [0.5, 1.0, 2.0]})
    assert len(built) == 1
    built.clear()
    npvi.grid_search(model(), X, y, {"length_scale": [[1.0, 1.0], [1.0, 8.0], [2.0, 16.0]]})
    assert len(built) == 2  # the last two see the same neighbours
    built.clear()
    npvi.grid_search(model(), X, y, {"n_neighbors": [5, 10]})
    assert len(built) == 2


def test_a_warm_start_saves_iterations(survey):
    X, y = survey
    iterations = []

    def count(stage, numbers):
        if stage == "grid":
            iterations.append(0)
        elif stage == "iteration":
            iterations[-1] += 1

    with npvi.runtime.progress.reporting(count):
        npvi.grid_search(model(), X, y, {"length_scale": [2.0, 2.001]})
    cold, warm = iterations
    assert warm < cold


def test_the_papers_grid_is_the_default_and_the_model_is_left_alone(survey):
    X, y = survey
    start = model(random_state=3)
    found = npvi.grid_search(start, X[:200], y[:200])
    assert tuple(found.table["length_scale"]) == PAPER_LENGTH_SCALES
    assert start.kernel == "rbf"
    assert not hasattr(start, "elbo_")


def test_weights_exposure_and_frames_are_split_with_the_rows(survey):
    X, y = survey
    frame = pd.DataFrame(X, columns=["east", "north"])
    exposure = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    found = npvi.grid_search(
        model(), frame, pd.Series(y), {"length_scale": [1.0]}, sample_weight=np.ones(len(y)), exposure=exposure
    )
    assert list(found.best_model.feature_names_in_) == ["east", "north"]
    assert len(found.best_model.posterior_.mean) == 525  # an eighth is held out


@pytest.mark.parametrize(
    ("likelihood", "name"), [("poisson", "exposure"), ("binomial", "trials"), ("gaussian", "noise_variance")]
)
def test_data_per_row_reach_the_candidates(survey, likelihood, name):
    X, y = survey[0][:120], np.minimum(survey[1][:120], 20)
    values = np.random.default_rng(1).integers(20, 40, len(y)).astype(float)
    train, held_out = np.arange(100), np.arange(100, 120)
    settings = {"nugget": 0.01, "n_neighbors": 10}
    start = npvi.GPRegressor(likelihood, "matern32", **settings)  # which would learn
    by_tuple = npvi.grid_search(
        start,
        X[train],
        y[train],
        {"length_scale": [2.0]},
        validation=(X[held_out], y[held_out], {name: values[held_out]}),
        **{name: values[train]},
    )
    alone = npvi.GPRegressor(likelihood, npvi.kernels.Matern32(2.0), learn=False, **settings)
    alone.fit(X[train], y[train], **{name: values[train]})
    score = -alone.log_score(X[held_out], y[held_out], **{name: values[held_out]})
    assert by_tuple.table["nlpd"][0] == pytest.approx(score, rel=1e-6)
    assert by_tuple.best_model.learn is False
    assert start.learn is True
    found = npvi.grid_search(start, X, y, {"length_scale": [2.0]}, **{name: pd.Series(values)})
    rows = found.best_model.data_.row[name]
    assert len(rows) == 105
    assert set(rows) <= set(values)
    one = npvi.grid_search(start, X, y, {"length_scale": [2.0]}, **{name: 30.0})  # one number for all rows
    np.testing.assert_array_equal(one.best_model.data_.row[name], np.full(105, 30.0))


def test_limits_reach_the_candidates(survey):
    X, y = survey[0][:120], np.log1p(survey[1][:120])
    censored = (y > 2.0).astype(int)
    noise = npvi.likelihoods.CensoredGaussian(0.1)
    found = npvi.grid_search(npvi.GPRegressor(noise), X, np.minimum(y, 2.0), {"length_scale": [2.0]}, censored=censored)
    assert found.best_model.data_.row["censored"].sum() > 0


# -- learn="grid" -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["array", "pandas", "polars"])
def test_learning_by_grid(survey, table):
    """The paper's way: the best length scale on a validation split, then all rows."""
    X, y = survey[0][:200], survey[1][:200]
    exposure = np.full(200, 2.0)
    frame = {"array": X, "pandas": pd.DataFrame(X, columns=["a", "b"]), "polars": pl.DataFrame(X, ["a", "b"])}[table]
    found = model(learn="grid").fit(frame, y, exposure=exposure)
    search = npvi.grid_search(model(), X, y, exposure=exposure)
    assert found.fit_info_["grid"]["length_scale"] == list(PAPER_LENGTH_SCALES)
    assert found.kernel_.length_scale == search.best_params["length_scale"]
    assert len(found.posterior_.mean) == 200
    assert (found.kernel, found.learn) == ("rbf", "grid")
    alone = model(kernel=npvi.kernels.RBF(found.kernel_.length_scale)).fit(X, y, exposure=exposure)
    assert found.elbo_ == alone.elbo_
    np.testing.assert_array_equal(found.predict(frame, exposure=exposure), alone.predict(X, exposure=exposure))
    if table != "array":
        assert found.feature_names_in_.tolist() == ["a", "b"]


def test_learning_by_grid_with_names_labels_and_covariates():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 6, size=(150, 3)), columns=["u", "east", "north"])
    y = np.where(rng.random(150) < 0.5 + 0.4 * np.sin(X["east"]), "present", "absent")
    found = npvi.GPClassifier(learn="grid", coords=["east", "north"], n_neighbors=10).fit(X, y)
    assert found.classes_.tolist() == ["absent", "present"]
    assert set(found.predict(X)) <= {"absent", "present"}
    assert found.linear_part_.names == ("constant", "u")
    assert found.coords == ["east", "north"]


def test_a_classifier_is_scored_by_its_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(400, 1))
    y = np.where(rng.random(400) < 0.5 + 0.4 * np.sin(X[:, 0]), "present", "absent")
    classifier = npvi.GPClassifier(kernel=npvi.kernels.RBF(variance=4.0))
    found = npvi.grid_search(classifier, X, y, {"length_scale": [0.01, 1.0]})
    assert found.best_params == {"length_scale": 1.0}
    assert set(found.best_model.classes_) == {"present", "absent"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": {"lengthscale": [1.0]}}, "'lengthscale' is not a parameter of the model; its kernel has"),
        ({"validation": 1.5}, "validation must be between 0 and 1, got 1.5"),
        ({"validation": (1,)}, r"validation must be a share of the rows, \(X_val, y_val\)"),
    ],
)
def test_errors_say_what_is_wrong(survey, arguments, message):
    with pytest.raises(ValueError, match=message):
        npvi.grid_search(model(), *survey, **arguments)


def test_candidates_do_not_depend_on_each_other():
    """Methods have graphs of their own where there are many inputs."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(150, 6))
    y = np.sin(6.0 * X[:, 0])
    model = npvi.GPRegressor(kernel=npvi.kernels.RBF(1.0), learn=False)
    found = [
        npvi.grid_search(model, X[:120], y[:120], {"method": methods}, validation=(X[120:], y[120:])).table
        for methods in (["full", "npvi"], ["npvi", "full"])
    ]
    for name in ("nlpd", "elbo"):
        one, other = (table.set_index("method")[name] for table in found)
        np.testing.assert_allclose(one.sort_index(), other.sort_index(), rtol=1e-6)
