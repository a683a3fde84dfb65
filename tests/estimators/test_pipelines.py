"""Pipelines and scikit-learn's model selection, with an estimator of npvi inside."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, PolynomialFeatures, StandardScaler
from typer.testing import CliRunner

import npvi
from npvi.cli import app
from npvi.io.persistence import ModelFileError
from npvi.kernels import Matern32


def survey(n=120):
    """Counts per hour, of very different hours."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, [1.0, 1000.0], size=(n, 2))
    hours = np.exp(rng.uniform(0.0, 5.0, n))
    return X, rng.poisson(0.2 * hours * np.exp(np.sin(6.0 * X[:, 0]))), hours


def gp(**settings):
    return npvi.GPRegressor("poisson", kernel=Matern32(1.0), nugget=0.05, learn=False, n_neighbors=8, **settings)


def pipeline(kind=npvi.Pipeline, **settings):
    return kind([("scale", StandardScaler()), ("gp", gp(**settings))])


def by_hand(model, X, y, row, splits=3):
    """Log scores of whole folds in turn, with the exposure of their own rows."""
    fold, scores = np.array_split(np.arange(len(y)), splits), []
    for test in fold:
        train = np.setdiff1d(np.arange(len(y)), test)
        scaler = StandardScaler().fit(X[train])
        fitted = sklearn.clone(model).fit(scaler.transform(X[train]), y[train], exposure=row[train])
        scores.append(fitted.log_score(scaler.transform(X[test]), y[test], exposure=row[test]))
    return scores


@pytest.mark.parametrize("kind", [Pipeline, npvi.Pipeline])
def test_the_scorer_looks_through_pipelines(kind):
    X, _, _ = survey()
    y = np.random.default_rng(1).poisson(np.exp(1.0 + np.sin(6.0 * X[:, 0])))
    grid = {"gp__kernel__length_scale": [0.002, 1.0]}  # the first is foolish
    search = GridSearchCV(pipeline(kind), grid, scoring=npvi.log_score_scorer, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"gp__kernel__length_scale": 1.0}
    scaled = StandardScaler().fit_transform(X)
    expected = search.best_estimator_[-1].log_score(scaled, y)
    assert npvi.log_score_scorer(search.best_estimator_, X, y) == pytest.approx(expected, rel=1e-12)
    assert npvi.log_score_scorer(search, X, y) == pytest.approx(expected, rel=1e-12)


def test_the_scorer_says_what_it_is_for():
    X, y, _ = survey(30)
    with pytest.raises(TypeError, match=r"estimators of npvi.*got Pipeline of LinearRegression"):
        npvi.log_score_scorer(make_pipeline(StandardScaler(), LinearRegression()).fit(X, y), X, y)
    with pytest.raises(TypeError, match="takes exposure, trials, noise_variance, censored; got hours"):
        npvi.log_score_scorer.set_score_request(hours=True)


@pytest.mark.parametrize("inside", [False, True])
def test_exposure_reaches_fit_and_scorer(inside):
    X, y, hours = survey()
    expected = by_hand(gp(), X, y, hours)
    model, inputs = (pipeline(), X) if inside else (gp(), None)
    with sklearn.config_context(enable_metadata_routing=True):
        cv = [(np.setdiff1d(np.arange(len(y)), t), t) for t in np.array_split(np.arange(len(y)), 3)]
        if inside:
            scores = cross_val_score(model, inputs, y, cv=cv, scoring=npvi.log_score_scorer, params={"exposure": hours})
            np.testing.assert_allclose(scores, expected, rtol=1e-9)
            search = GridSearchCV(model, {"gp__nugget": [0.05]}, cv=cv, scoring=npvi.log_score_scorer)
            assert search.fit(X, y, exposure=hours).best_score_ == pytest.approx(np.mean(expected), rel=1e-9)
        else:
            scaled = StandardScaler().fit_transform(X)
            scores = cross_val_score(model, scaled, y, cv=cv, scoring=npvi.log_score_scorer, params={"exposure": hours})
            assert scores.mean() == pytest.approx(np.mean(expected), abs=0.1)
            renamed = npvi.log_score_scorer.set_score_request(exposure="hours")
            model.set_fit_request(exposure="hours")
            again = cross_val_score(model, scaled, y, cv=cv, scoring=renamed, params={"hours": hours})
            np.testing.assert_array_equal(again, scores)


def test_exposure_that_only_fit_got_is_no_score():
    X, y, hours = survey()
    X = StandardScaler().fit_transform(X)
    with pytest.raises(ValueError, match=r"fitted with exposure.*enable_metadata_routing=True"):
        cross_val_score(
            gp(), X, y, cv=3, scoring=npvi.log_score_scorer, params={"exposure": hours}, error_score="raise"
        )


def test_forgotten_exposure_is_warned_about():
    X, y, hours = survey()
    X = StandardScaler().fit_transform(X)
    model = gp().fit(X, y, exposure=hours)
    words = "fitted with exposure, and none is given here: every row counts as exposure 1"
    for ask in (model.predict_dist, model.predict, lambda X: model.score(X, y), lambda X: model.log_score(X, y)):
        with pytest.warns(UserWarning, match=words):
            ask(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_dist(X, exposure=1.0)
        gp().fit(X, y).predict_dist(X)
        right = model.score(X, y, exposure=hours)
    assert right > 0.8
    mean = model.predict(X, exposure=hours)
    assert right == pytest.approx(1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    weight = np.arange(len(y)) % 2
    assert model.score(X, y, weight, exposure=hours) == pytest.approx(
        model.score(X[1::2], y[1::2], exposure=hours[1::2])
    )


def test_forgotten_trials_are_warned_about():
    X, _, _ = survey(60)
    X = StandardScaler().fit_transform(X)
    model = npvi.GPRegressor("binomial", kernel=Matern32(1.0), learn=False)
    model.fit(X, np.full(60, 3), trials=np.full(60, 9))
    with pytest.warns(UserWarning, match=r"fitted with trials.*every row counts as one trial"):
        model.predict(X)
    assert model.predict(X, trials=9).mean() == pytest.approx(3.0, abs=0.3)


def test_a_pipeline_answers_what_its_model_does():
    X, y, hours = survey()
    model = pipeline().fit(X, y, gp__exposure=hours)
    scaled = StandardScaler().fit_transform(X)
    alone = gp().fit(scaled, y, exposure=hours)
    dist = model.predict_dist(X[:9], exposure=hours[:9])
    np.testing.assert_allclose(dist.mean, alone.predict(scaled[:9], exposure=hours[:9]), rtol=1e-12)
    assert model.log_score(X, y, exposure=hours) == pytest.approx(alone.log_score(scaled, y, exposure=hours))
    other = npvi.Pipeline([("scale", StandardScaler()), ("line", LinearRegression())]).fit(X, y)
    assert not hasattr(other, "predict_dist")
    assert type(model[:1]) is npvi.Pipeline


@pytest.mark.parametrize("kind", [Pipeline, npvi.Pipeline])
def test_saved_and_loaded(kind, tmp_path):
    X, y, hours = survey()
    frame = pd.DataFrame(X, columns=["east", "height"])
    steps = [("a", MinMaxScaler((0, 2))), ("b", "passthrough"), ("c", PolynomialFeatures(1)), ("d", PCA(2))]
    model = kind([*steps, ("gp", gp())]).fit(frame, y, gp__exposure=hours)
    path = tmp_path / "model.npvi"
    model.save(path) if kind is npvi.Pipeline else npvi.io.persistence.save(model, path)
    again = npvi.load(path)
    assert type(again) is npvi.Pipeline
    assert [name for name, _ in again.steps] == ["a", "b", "c", "d", "gp"]
    ours = again.predict_dist(frame, exposure=hours)
    np.testing.assert_array_equal(ours.mean, model[-1].predict(model[:-1].transform(frame), exposure=hours))
    assert again.get_params()["a__feature_range"] == (0, 2)
    again.fit(frame, y, gp__exposure=hours)  # as one that was never saved
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"east": "west"}))


def test_steps_that_cannot_be_saved_are_named(tmp_path):
    X, y, _ = survey(40)
    model = npvi.Pipeline([("log", FunctionTransformer(np.log1p)), ("scale", StandardScaler()), ("gp", gp())])
    with pytest.raises(ModelFileError, match=r"step 'log' cannot be saved: it is a Function.*StandardScaler"):
        model.fit(X, y).save(tmp_path / "model.npvi")
    assert not (tmp_path / "model.npvi").exists()


def test_steps_that_make_tables_are_saved(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(40, 3)), columns=["a", "b", "c"])
    scale = StandardScaler().set_output(transform="pandas")
    kernel = npvi.kernels.Subset(npvi.kernels.RBF(1.0), ["a", "b"])
    model = npvi.Pipeline([("scale", scale), ("gp", npvi.GPRegressor(kernel=kernel, learn=False))])
    model.fit(table, np.sin(3.0 * table["a"])).save(tmp_path / "model.npvi")
    np.testing.assert_array_equal(npvi.load(tmp_path / "model.npvi").predict(table), model.predict(table))


def test_a_file_names_no_class_of_its_own(tmp_path):
    from npvi.io import archive as model_file

    X, y, _ = survey(40)
    path = tmp_path / "model.npvi"
    pipeline().fit(X, y).save(path)
    metadata, arrays = model_file.read(path)
    for about in ({"type": "FunctionTransformer"}, {"fitted": {"transform": "x"}}, {"parameters": {"other": 1}}):
        step = {**metadata["pipeline"]["steps"][0], **about}
        model_file.write(path, {**metadata, "pipeline": {**metadata["pipeline"], "steps": [step]}}, arrays)
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            npvi.load(path)


def test_files_of_pipelines_on_the_command_line(tmp_path):
    X, y, hours = survey()
    table = pd.DataFrame(X, columns=["east", "height"]).assign(count=y, hours=hours)
    model = pipeline().fit(table[["east", "height"]], y, gp__exposure=hours)
    model.save(tmp_path / "m.npvi")
    table.to_csv(tmp_path / "t.csv", index=False)
    path, rows, out = (str(tmp_path / name) for name in ("m.npvi", "t.csv", "out.csv"))
    run = CliRunner().invoke
    done = run(app, ["predict", path, rows, "--output", out, "--exposure", "hours"])
    assert done.exit_code == 0, done.output
    expected = model.predict_dist(table[["east", "height"]], exposure=hours).mean
    np.testing.assert_allclose(pd.read_csv(out)["mean"], expected, rtol=1e-6)
    done = run(app, ["score", path, rows, "--target", "count", "--exposure", "hours", "--json"])
    score = model.log_score(table[["east", "height"]], y, exposure=hours)
    assert json.loads(done.stdout)["mean_log_density"] == pytest.approx(score, rel=1e-9)
    assert run(app, ["diagnose", path, rows, "--target", "count", "--exposure", "hours"]).exit_code == 0
    assert "StandardScaler, GPRegressor" in run(app, ["info", path]).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": ["scale", "gp"]}, "steps must be pairs of a name and an estimator, got"),
        ({"steps": [(1, StandardScaler()), ("gp", gp())]}, "steps must be pairs of a name and an estimator, got"),
        ({"steps": [("gp", gp())], "memory": pl.LazyFrame({"a": [1]})}, "memory must be None, the name of a folder or"),
    ],
    ids=["words", "numbers", "memory"],
)
def test_steps_that_are_none(arguments, words):
    X, y, _ = survey(20)
    with pytest.raises(ValueError, match=words):
        npvi.Pipeline(**arguments).fit(X, y)


def test_a_memory_keeps_what_was_computed(tmp_path):
    X, y, _ = survey(20)
    steps = pipeline().steps
    kept = npvi.Pipeline(steps, memory=str(tmp_path)).fit(X, y).predict(X)
    np.testing.assert_array_equal(kept, pipeline().fit(X, y).predict(X))
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ({1, 2}, "X must be an array or a table"),
        (np.ndarray, "X must be an array or a table"),
        ([[1.0, 2.0], [3.0]], "X is no table: its rows differ in length"),
        (np.full((3, 2), np.timedelta64(3, "D")), "X holds dates or durations, not numbers"),
        (np.full((3, 2), 1j), "Complex data not supported: X"),
        (np.full((3, 2), 1e200), "X has values beyond"),
        (np.full((3, 2), object()), "X doesn't go through the step 'scale'"),
        (pl.LazyFrame({"a": [1.0]}), "X is a LazyFrame"),
    ],
    ids=["set", "class", "ragged", "durations", "complex", "huge", "objects", "lazy"],
)
def test_rows_that_are_no_table(X, words):
    model = pipeline().fit(*survey(20)[:2])
    for ask in (model.predict_dist, lambda rows: model.log_score(rows, np.ones(3))):
        with pytest.raises((TypeError, ValueError), match=words):
            ask(X)
