"""npvi fit: what it says, what it saves, and how it fails."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from rich.progress import Progress

import npvi as library
from npvi.cli import settings
from npvi.cli.display import _Bar
from npvi.estimators import base as estimators
from npvi.io.persistence import describe

FIT = "fit survey.csv --target count --inputs lon,lat --likelihood poisson --neighbors 8 --no-learn"


def test_summary_and_starting_values(npvi, survey):
    done = npvi(FIT)
    assert done.exit_code == 0, done.output
    for text in (
        "240",
        "lon, lat",
        "Poisson (link exp)",
        "Matern (length scale",
        "as given, not learned",
        "full, the best Gaussian",
        "ELBO",
        "per row",
        "converged",
        "residuals",
        "graph",
    ):
        assert text in done.stdout
    extent = np.ptp(survey[["lon", "lat"]][:240].to_numpy(), axis=0).max()
    assert f"length scale {0.1 * extent:.3g} (a tenth of the inputs' largest extent)" in done.stderr
    assert "--grid length_scale=" in done.stderr


def test_saved_model_is_the_library_s(npvi, survey, tmp_path):
    done = npvi(
        f"{FIT} --length-scale 12 --exposure hours --mean zero --nugget 0.05 --kernel matern32 --save {{tmp}}/m.npvi"
    )
    assert done.exit_code == 0, done.output
    assert "Taken from the data" not in done.stderr
    loaded = library.load(tmp_path / "m.npvi")
    kernel = library.kernels.Matern32(length_scale=12.0, variance=1.0)
    settings = {"mean": "zero", "learn": False, "n_neighbors": 8, "random_state": 0}
    model = library.GPRegressor("poisson", kernel, nugget=0.05, **settings)
    model.fit(survey[["lon", "lat"]][:240], survey["count"][:240], exposure=survey["hours"][:240])
    new = survey[["lon", "lat"]][240:]
    np.testing.assert_allclose(loaded.predict(new, exposure=1.0), model.predict(new, exposure=1.0), rtol=1e-10)
    assert describe(tmp_path / "m.npvi")["notes"]["exposure"] == "hours"


def test_lines_may_come_in_any_order(npvi, survey, tmp_path):
    survey[:240].sample(frac=1.0, random_state=0).to_csv(tmp_path / "shuffled.csv", index=False)
    command = "--target count --inputs lon,lat --likelihood poisson --neighbors 8 --exposure hours --save {tmp}/"
    for table in ("survey", "{tmp}/shuffled"):
        done = npvi(f"fit {table}.csv {command}{table.rpartition('/')[2]}.npvi")
        assert done.exit_code == 0, done.output
    first, second = (library.load(tmp_path / f"{name}.npvi") for name in ("survey", "shuffled"))
    new = survey[["lon", "lat"]][240:]
    for one, other in zip(*(model.predict(new, return_std=True, exposure=1.0) for model in (first, second))):
        np.testing.assert_array_equal(other, one)


def test_values_for_measurements_are_of_their_own_size(npvi, survey):
    done = npvi("fit survey.csv --target temperature --inputs lon,lat --neighbors 8 --length-scale 12 --no-learn")
    assert done.exit_code == 0
    spread = float(f"{survey['temperature'][:240].var(ddof=0):.3g}")
    assert f"variance {spread:g} (that of the target); noise variance {0.1 * spread:.3g}" in done.stderr


def test_inputs_of_different_units_get_their_own_length_scales(npvi, survey, tmp_path):
    survey.assign(year=2000.0 + survey["lat"] / 1000, far=survey["lon"] * 1000)[:100].to_csv(tmp_path / "a.csv")
    done = npvi("fit {tmp}/a.csv --target count --inputs far,year --likelihood poisson --neighbors 8 --no-learn")
    assert done.exit_code == 0, done.output
    assert "a tenth of each input's extent" in done.stderr


def test_grid_shows_its_table_and_keeps_the_best(npvi, tmp_path):
    done = npvi(
        f"{FIT.removesuffix(' --no-learn')} --grid length_scale=0.01,12 --grid nugget=0.01,0.02 --seed 1 "
        "--save {tmp}/g.npvi"
    )
    assert done.exit_code == 0, done.output
    for text in ("Values tried", "length scale", "nlpd", "← best", "minus the log density"):
        assert text in done.stdout
    about = describe(tmp_path / "g.npvi")
    assert about["kernel"]["length_scale"] == 12.0
    assert about["n_rows"] == 240  # the rows held out too
    assert "the best length scale is the largest that was tried" in done.stderr


def test_every_option_reaches_the_model(npvi, tmp_path):
    done = npvi(
        f"{FIT} --link softplus --kernel rbf --length-scale 12,15 --variance 2 --nugget 0.1 --rule paper "
        "--order random --weight hours --seed 3 --threads 1 --max-iter 7 --save {tmp}/o.npvi"
    )
    assert done.exit_code == 0, done.output
    about = describe(tmp_path / "o.npvi")
    assert about["kernel"] == {"type": "RBF", "length_scale": [12.0, 15.0], "variance": 2.0}
    assert about["likelihood"] == {"type": "Poisson", "link": "softplus", "knee": 1.0}
    expected = {"rule": "paper", "order": "random", "random_state": 3, "n_jobs": 1, "max_iter": 7, "mean": "constant"}
    assert {name: about["parameters"][name] for name in expected} == expected


def test_noise_that_varies(npvi, survey, tmp_path):
    place = "--inputs lon,lat --neighbors 8 --likelihood lognormal"
    rng = np.random.default_rng(0)
    loud = np.where(survey.lon > survey.lon.median(), 1.0, 0.02)
    survey.assign(light=np.exp(loud * rng.standard_normal(300))).to_csv(tmp_path / "light.csv", index=False)
    command = f"{{tmp}}/light.csv --target light {place} --varying-noise --save {{tmp}}/light.npvi"
    done = npvi(f"fit {command}")
    assert done.exit_code == 0, done.output
    assert "differs from place to place" in " ".join(done.output.split())
    about = " ".join(npvi("info {tmp}/light.npvi").output.split())
    assert "VaryingNoiseRegressor" in about
    assert "differs from place to place" in about
    for command in ("predict {tmp}/light.npvi {tmp}/light.csv", "score {tmp}/light.npvi {tmp}/light.csv"):
        done = npvi(command + (" --output {tmp}/out.csv" if command.startswith("predict") else ""))
        assert done.exit_code == 0, done.output
    assert npvi("diagnose {tmp}/light.npvi {tmp}/light.csv").exit_code == 0
    done = npvi("score {tmp}/light.npvi {tmp}/light.csv --noise-variance hours")
    assert done.exit_code != 0
    assert "takes no noise_variance" in done.output


def test_fit_that_has_not_converged_says_so(npvi):
    done = npvi(f"{FIT} --max-iter 1")
    assert done.exit_code == 0
    assert "did not converge" in done.stderr
    assert "NO:" in done.stdout


@pytest.mark.parametrize("ending", ["parquet", "tsv", "csv.gz"])
def test_other_formats(npvi, survey, tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    if ending == "parquet":
        survey.to_parquet(path)
    else:
        survey.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    done = npvi(f"fit {path} --target count --inputs lon,lat --likelihood poisson --neighbors 8 --no-learn")
    assert done.exit_code == 0, done.output


# -- learning, covariates, columns of data per row --------------------------------------------------------------------


def test_learning_says_what_it_found(npvi, tmp_path):
    done = npvi(
        "fit survey.csv --target temperature --inputs lon,lat --neighbors 4 --kernel rbf --save {tmp}/m.npvi "
        "--fix length_scale=30"
    )
    assert done.exit_code == 0, done.output
    for text in ("learned, ", "evaluations", "length scale 30", "constant mean", "±", "nugget"):
        assert text in done.stdout
    model = library.load(tmp_path / "m.npvi")
    assert model.kernel.length_scale == library.fixed(30.0)
    assert model.kernel_.variance != model.kernel.variance
    assert model.fit_info_["learning"]["evaluations"] > 1
    about = npvi("info {tmp}/m.npvi").stdout
    assert "yes, in" in about
    assert "constant" in about


def test_parameters_at_their_bounds_are_said(npvi, monkeypatch):
    real = library.GPRegressor.fit

    def fit(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.fit_info_["at_bound"] = ["kernel__length_scale", "nugget"]
        return self

    monkeypatch.setattr(library.GPRegressor, "fit", fit)
    done = npvi(f"{FIT} --length-scale 12")
    assert "note: the length scale and the nugget are at their bounds" in done.stderr


def test_covariates(npvi, survey, tmp_path):
    done = npvi(
        "fit survey.csv --target temperature --inputs lon,lat,hours --coords lon,lat --neighbors 8 --no-learn "
        "--length-scale 12 --method npvi --save {tmp}/m.npvi"
    )
    assert done.exit_code == 0, done.output
    assert "effect of hours" in done.stdout
    assert "variances are too small" in done.stdout
    model = library.load(tmp_path / "m.npvi")
    assert model.coords == ["lon", "lat"]
    assert len(model.mean_coefficients_) == 2
    done = npvi("predict {tmp}/m.npvi test.csv --output {tmp}/out.csv")
    assert done.exit_code == 0, done.output
    expected = model.predict(survey[["lon", "lat", "hours"]][240:])
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], expected, rtol=1e-6)
    assert "effect" not in npvi(f"{FIT} --length-scale 12 --mean zero").stdout


@pytest.mark.parametrize(
    ("target", "likelihood", "extra", "values"),
    [
        ("few", "binomial", "trials", 9),
        ("temperature", "gaussian", "noise_variance", 0.5),
        ("temperature", "censored_gaussian", "censored", 0),
        ("count", "poisson", "exposure", 2.0),
    ],
)
def test_columns_of_data_per_row(npvi, survey, tmp_path, target, likelihood, extra, values):
    table = survey.assign(few=np.minimum(survey["count"], 9), more=values)
    if extra == "censored":
        table["more"] = np.where(table["temperature"] > 20, 1, 0)
    table.to_csv(tmp_path / "more.csv", index=False)
    option = f"--{extra.replace('_', '-')} more"
    done = npvi(
        f"fit {{tmp}}/more.csv --target {target} --inputs lon,lat --neighbors 8 --length-scale 12 --no-learn "
        f"--likelihood {likelihood} {option} --save {{tmp}}/m.npvi"
    )
    assert done.exit_code == 0, done.output
    model = library.load(tmp_path / "m.npvi")
    np.testing.assert_array_equal(model.data_.row[extra], table["more"].to_numpy()[model.graph_.order])
    done = npvi(f"predict {{tmp}}/m.npvi {{tmp}}/more.csv --output {{tmp}}/out.csv {option}")
    assert done.exit_code == 0, done.output
    expected = model.predict(survey[["lon", "lat"]], **{extra: table["more"]})
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], expected, rtol=1e-6)
    done = npvi("predict {tmp}/m.npvi test.csv --output {tmp}/out.csv")
    assert ("note: the model was fitted with" in done.stderr) == (extra != "censored")
    done = npvi("score {tmp}/m.npvi {tmp}/more.csv --json")
    assert f"'more' is taken as {extra.replace('_', ' ')}, as in the fit" in done.stderr
    score = model.log_score(survey[["lon", "lat"]], table[target], **{extra: table["more"]})
    assert json.loads(done.stdout)["mean_log_density"] == pytest.approx(score, rel=1e-9)


def test_likelihood_with_numbers_of_its_own(npvi, survey, tmp_path):
    done = npvi(f"{FIT} --likelihood negative_binomial --fix dispersion=3 --length-scale 12 --save {{tmp}}/m.npvi")
    assert done.exit_code == 0, done.output
    assert describe(tmp_path / "m.npvi")["likelihood"]["dispersion"] == 3.0
    done = npvi(f"{FIT} --likelihood negative_binomial --length-scale 12")
    assert "Taken from the data: dispersion" in done.stderr


def test_ordered_categories(npvi, survey, tmp_path):
    survey.assign(rank=np.minimum(survey["count"], 4)).to_csv(tmp_path / "ranks.csv", index=False)
    done = npvi(
        "fit {tmp}/ranks.csv --target rank --inputs lon,lat --likelihood ordinal --neighbors 8 --no-learn "
        "--length-scale 12 --save {tmp}/m.npvi"
    )
    assert done.exit_code == 0, done.output
    about = describe(tmp_path / "m.npvi")
    assert len(about["likelihood"]["cuts"]) == 4
    assert about["parameters"]["mean"] == "zero"


def test_help_names_every_likelihood():
    from npvi.likelihoods.registry import LIKELIHOODS

    named = set(re.findall(r"[a-z_]{4,}", settings.likelihood_names()))
    assert set(LIKELIHOODS) <= named


# -- wrong input ------------------------------------------------------------------------------------------------------


def refused(done, *texts, code=2):
    assert done.exit_code == code, done.output
    for text in texts:
        assert text in done.stderr
    assert "Traceback" not in done.output
    assert len(done.stderr.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ("--target cuont", ["survey.csv has no column 'cuont': did you mean 'count'?", "There are site, lon, lat"]),
        ("--inputs Lon,lat", ["did you mean 'lon'?"]),
        ("--exposure minutes", ["has no column 'minutes'"]),
        ("--inputs lon,lon", ["names 'lon' twice"]),
        ("--inputs lon,count", ["'count' is both the target and an input"]),
        ("--inputs lon,present", ["column 'present' is not numeric", "row 1 holds"]),
        ("--target temperature", ["column 'temperature' cannot be Poisson in 240 of 240 rows", "whole numbers"]),
        ("--exposure count", ["column 'count' must be positive to be an exposure"]),
        ("--likelihood poison", ["did you mean 'poisson'?"]),
        ("--likelihood gaussian --exposure hours", ["--exposure does not go with the Gaussian"]),
        ("--link logit", ["cannot be 'logit'. There are exp, softplus"]),
        ("--noise 1", ["--noise does not go with the Poisson likelihood"]),
        ("--noise-variance hours", ["--noise-variance does not go with the Poisson likelihood; it is for gaussian"]),
        ("--varying-noise", ["--varying-noise goes with --likelihood gaussian or lognormal, not poisson"]),
        ("--target temperature --likelihood gaussian --varying-noise", ["leave --no-learn and --grid out"]),
        ("--trials hours", ["--trials does not go with the Poisson likelihood"]),
        ("--likelihood binomial --trials hours", ["column 'hours' must be whole numbers 1, 2, 3, …"]),
        ("--likelihood censored_gaussian --censored hours", ["column 'hours' must be -1, 0 or 1 to be --censored"]),
        ("--coords lon,height", ["--coords must be among the inputs; 'height'. There are lon, lat"]),
        ("--coords lon,lon", ["--coords names 'lon' twice"]),
        ("--method fast", ["--method cannot be 'fast'"]),
        ("--fix length=1", ["--fix does not know 'length': did you mean 'length_scale'?"]),
        ("--fix length_scale", ["--fix must look like length_scale=0.5"]),
        ("--fix nugget=a", ["--fix nugget must be numbers"]),
        ("--fix length_scale=3", ["--fix length_scale and --length-scale are both given"]),
        ("--learn --grid nugget=0.1,0.2", ["--grid tries values instead of learning them"]),
        ("--kernel mattern32", ["did you mean 'matern32'?"]),
        ("--kernel linear --length-scale 1", ["has no length scale"]),
        ("--length-scale a", ["--length-scale must be numbers"]),
        ("--length-scale 1,2,3", ["3 numbers for 2 inputs"]),
        ("--length-scale 0", ["length_scale must be positive"]),
        ("--mean linar", ["--mean cannot be 'linar': did you mean 'linear'?"]),
        ("--rule near", ["did you mean 'nearest'?"]),
        ("--grid length=1", ["--grid cannot vary 'length'"]),
        ("--grid 1,2", ["--grid must look like"]),
        ("--grid nugget=0.1,0.2 --validation 2", ["validation must be between 0 and 1"]),
        ("--classify", ["--classify goes with the bernoulli likelihood"]),
        (
            "--classify --likelihood bernoulli --target temperature",
            ["240 different labels; --classify takes 100"],
        ),
        ("--save nowhere/m.npvi", ["cannot write nowhere/m.npvi: the folder 'nowhere' does not exist"]),
        ("--save survey.csv", ["is also an input"]),
    ],
)
def test_wrong_options(npvi, options, texts):
    done = npvi(f"{FIT} --length-scale 12 {options}")
    refused(done, *texts)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("missing.csv", None, "there is no file"),
        ("table.xlsx", b"", "tables are read from .csv, .tsv or .parquet"),
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"lon,lat,count\n", "has no rows"),
        ("one.csv", b"lon,lat,count\n1,2,3\n", "a model needs at least two"),
        ("binary.csv", bytes(range(128, 256)) * 9, "it is not text in UTF-8"),
        ("ragged.csv", b"lon,lat,count\n1,2,3\n1,2,3,4,5\n", "Expected 3 columns, got 5"),
        ("comma.csv", b"lon;lat;count\n1,5;2;3\n2;2;3\n", "a decimal point, not a comma"),
        ("garbled.parquet", b"PAR1" + b"\x00" * 100, "as a Parquet file"),
    ],
)
def test_wrong_files(npvi, tmp_path, name, content, text):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(npvi(f"fit {{tmp}}/{name} --target count --inputs lon,lat --likelihood poisson"), name, text)


def test_tables_too_wide_are_refused_at_once(npvi, tmp_path):
    wide = tmp_path / "wide.csv"
    for names in (100_000, 10_001):
        wide.write_text(",".join(f"c{number}" for number in range(names)) + "\n" + ",".join(["0.5"] * names) + "\n")
        started = time.perf_counter()
        done = npvi("fit {tmp}/wide.csv --target c0 --inputs c1,c2 --no-learn")
        assert (done.exit_code, time.perf_counter() - started < 10.0) == (2, True)
        assert f"has {names:,} columns; text files may have 10,000" in done.stderr
    row = "0.5,0.5,0.5\n"
    wide.write_text(f'x,z,y\n{5 * row}"{"a" * 5_000_000}",0.5,0.5\n{5 * row}')
    refused(npvi("fit {tmp}/wide.csv --target y --inputs x,z --no-learn"), "has a row longer than 1 MB")


def test_missing_values(npvi, survey, tmp_path):
    holes = survey.copy()
    holes.loc[[3, 7, 9], "lat"] = np.nan
    holes.loc[7, "count"] = np.nan
    holes.loc[8, "temperature"] = np.nan  # not used
    holes.to_csv(tmp_path / "holes.csv", index=False)
    command = (
        "fit {tmp}/holes.csv --target count --inputs lon,lat --likelihood poisson --neighbors 8 --length-scale 12 "
        "--no-learn"
    )
    refused(
        npvi(command), "3 of 300 rows have a missing or infinite value, in 'lat' (3), 'count' (1)", "--drop-missing"
    )
    done = npvi(f"{command} --drop-missing")
    assert done.exit_code == 0
    assert "left out 3 of 300 rows" in done.stderr
    assert "297" in done.stdout


def test_dates_are_not_numbers(npvi, survey, tmp_path):
    survey.assign(day=pd.Timestamp("2020-01-01")).to_parquet(tmp_path / "dates.parquet")
    refused(npvi("fit {tmp}/dates.parquet --target count --inputs lon,day --likelihood poisson"), "'day' holds dates")


def test_computation_that_fails(npvi):
    refused(npvi(f"{FIT} --nugget 0 --kernel rbf --length-scale 10000"), "isn't positive definite", code=1)


def test_unexpected_failure_has_no_traceback_unless_asked_for(npvi, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the moon is full")

    monkeypatch.setattr(library.GPRegressor, "fit", fail)
    done = npvi(f"{FIT} --length-scale 12")
    refused(done, "RuntimeError: the moon is full", "NPVI_DEBUG=1", code=1)


def test_missing_option_is_wrong_usage(npvi):
    assert npvi("fit survey.csv").exit_code == 2


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def interrupt(monkeypatch, stage, times):
    real, seen = estimators.progress.report, []

    def report(name, **numbers):
        real(name, **numbers)
        seen.append(name)
        if seen.count(stage) == times:
            raise KeyboardInterrupt

    monkeypatch.setattr(estimators.progress, "report", report)


def test_interrupt_keeps_the_last_good_state(npvi, monkeypatch, tmp_path):
    interrupt(monkeypatch, "iteration", 3)
    done = npvi(f"{FIT} --length-scale 12 --save {{tmp}}/part.npvi")
    refused(done, "interrupted after 2 iterations", "the last good state is in", code=130)
    about = describe(tmp_path / "part.npvi")
    assert about["fit_info"]["interrupted"]
    assert about["notes"]["target"] == "count"


def test_interrupt_without_a_file_to_save(npvi, monkeypatch):
    interrupt(monkeypatch, "iteration", 3)
    refused(npvi(f"{FIT} --length-scale 12"), "with --save the state reached would have been kept", code=130)


def test_interrupt_before_there_is_a_result(npvi, monkeypatch, tmp_path):
    interrupt(monkeypatch, "graph", 1)
    done = npvi(f"{FIT} --length-scale 12 --save {{tmp}}/part.npvi")
    refused(done, "interrupted before there was a result", code=130)
    assert list(tmp_path.iterdir()) == []


def test_interrupt_while_learning(npvi, monkeypatch, tmp_path):
    interrupt(monkeypatch, "learn", 2)
    done = npvi(f"{FIT.removesuffix(' --no-learn')} --save {{tmp}}/part.npvi")
    refused(done, "interrupted before there was a result", code=130)
    assert list(tmp_path.iterdir()) == []


def test_bar_shows_how_learning_goes():
    bar = Progress(disable=True)
    show = _Bar(bar, 1e-7)
    show("learn", {"evaluation": 7, "bound": -1234.56})
    assert bar.tasks[0].description == "learning: evaluation 7, bound -1,234.6"
    show("iteration", {"elbo": -1200.0, "mean_residual": 1e-3, "covariance_residual": 1e-4})
    assert bar.tasks[0].description == "iteration 0: bound -1,200.0, residual 1e-03"
