"""npvi fit: what it says, what it saves, and how it fails."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import npvi as library
from npvi.estimators import base as estimators
from npvi.persistence import describe

FIT = "fit survey.csv --target count --inputs lon,lat --likelihood poisson --neighbors 8"


def test_summary_and_starting_values(npvi, survey):
    done = npvi(FIT)
    assert done.exit_code == 0, done.output
    for text in (
        "240",
        "lon, lat",
        "Poisson (link exp)",
        "Matern32",
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
    done = npvi(f"{FIT} --length-scale 12 --exposure hours --mean zero --nugget 0.05 --save {{tmp}}/m.npvi")
    assert done.exit_code == 0, done.output
    assert "Taken from the data" not in done.stderr
    loaded = library.load(tmp_path / "m.npvi")
    kernel = library.kernels.Matern32(length_scale=12.0, variance=1.0)
    model = library.GPRegressor("poisson", kernel, nugget=0.05, n_neighbors=8, random_state=0)
    model.fit(survey[["lon", "lat"]][:240], survey["count"][:240], exposure=survey["hours"][:240])
    new = survey[["lon", "lat"]][240:]
    np.testing.assert_allclose(loaded.predict(new), model.predict(new), rtol=1e-10)
    assert describe(tmp_path / "m.npvi")["notes"]["exposure"] == "hours"


def test_values_for_measurements_are_of_their_own_size(npvi, survey):
    done = npvi("fit survey.csv --target temperature --inputs lon,lat --neighbors 8 --length-scale 12")
    assert done.exit_code == 0
    spread = float(f"{survey['temperature'][:240].var(ddof=0):.3g}")
    assert f"variance {spread:g} (that of the target); noise variance {0.1 * spread:.3g}" in done.stderr


def test_inputs_of_different_units_get_their_own_length_scales(npvi, survey, tmp_path):
    survey.assign(year=2000.0 + survey["lat"] / 1000, far=survey["lon"] * 1000)[:100].to_csv(tmp_path / "a.csv")
    done = npvi("fit {tmp}/a.csv --target count --inputs far,year --likelihood poisson --neighbors 8")
    assert done.exit_code == 0, done.output
    assert "a tenth of each input's extent" in done.stderr


def test_grid_shows_its_table_and_keeps_the_best(npvi, tmp_path):
    done = npvi(f"{FIT} --grid length_scale=0.01,12 --grid nugget=0.01,0.02 --save {{tmp}}/g.npvi --seed 1")
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
    assert about["likelihood"] == {"type": "Poisson", "link": "softplus"}
    expected = {"rule": "paper", "order": "random", "random_state": 3, "n_jobs": 1, "max_iter": 7, "mean": "constant"}
    assert {name: about["parameters"][name] for name in expected} == expected


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
    done = npvi(f"fit {path} --target count --inputs lon,lat --likelihood poisson --neighbors 8")
    assert done.exit_code == 0, done.output


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
        ("--noise-variance 1", ["--noise-variance does not go with"]),
        ("--kernel mattern32", ["did you mean 'matern32'?"]),
        ("--kernel linear --length-scale 1", ["has no length scale"]),
        ("--length-scale a", ["--length-scale must be numbers"]),
        ("--length-scale 1,2,3", ["3 numbers for 2 inputs"]),
        ("--length-scale 0", ["length_scale must be positive"]),
        ("--mean linear", ["--mean cannot be 'linear'"]),
        ("--rule near", ["did you mean 'nearest'?"]),
        ("--grid length=1", ["--grid cannot vary 'length'"]),
        ("--grid 1,2", ["--grid must look like"]),
        ("--grid nugget=0.1,0.2 --validation 2", ["validation must be between 0 and 1"]),
        ("--classify", ["--classify goes with the bernoulli likelihood"]),
        ("--classify --likelihood bernoulli", ["different labels; --classify takes two"]),
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


def test_missing_values(npvi, survey, tmp_path):
    holes = survey.copy()
    holes.loc[[3, 7, 9], "lat"] = np.nan
    holes.loc[7, "count"] = np.nan
    holes.loc[8, "temperature"] = np.nan  # not used
    holes.to_csv(tmp_path / "holes.csv", index=False)
    command = "fit {tmp}/holes.csv --target count --inputs lon,lat --likelihood poisson --neighbors 8 --length-scale 12"
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
