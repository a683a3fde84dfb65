"""npvi score, info, demo, --help and --version."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import npvi as library
from npvi.io import save
from tests.support import model_files


@pytest.mark.parametrize("rows", [7, 100_000])
def test_score_of_counts(npvi, folder, survey, monkeypatch, rows):
    monkeypatch.setattr("npvi.cli.models.ROWS", rows)
    done = npvi("score birds.npvi test.csv --target count --exposure hours --json")
    assert done.exit_code == 0, done.output
    scores = json.loads(done.stdout)
    new = survey[240:]
    model = library.load(folder / "birds.npvi")
    expected = model.log_score(new[["lon", "lat"]], new["count"], exposure=new["hours"])
    assert scores["rows"] == 60
    assert scores["mean_log_density"] == pytest.approx(expected, rel=1e-9)
    error = model.predict(new[["lon", "lat"]], exposure=new["hours"]) - new["count"]
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert scores["sum_seen"] == new["count"].sum()
    assert scores["sum_predicted"] == pytest.approx(scores["sum_seen"] + error.sum())
    assert scores["sum_lower"] < scores["sum_predicted"] < scores["sum_upper"]
    assert scores["sum_rows_together"] == (rows == 100_000)
    assert scores["rmse"] < scores["rmse_constant"]
    assert scores["rmse_neighbors"] > 0.0
    assert scores["warnings"] == []
    assert 0.3 < scores["coverage_0.5"] < 0.7
    assert scores["coverage_0.5"] < scores["coverage_0.9"] <= scores["coverage_0.95"]


def test_score_takes_target_and_exposure_from_the_fit(npvi):
    named = npvi("score birds.npvi test.csv --target count --exposure hours")
    done = npvi("score birds.npvi test.parquet")
    assert done.exit_code == 0
    assert "'hours' is taken as exposure, as in the fit" in done.stderr
    assert done.stdout.splitlines()[1:] == named.stdout.splitlines()[1:]
    for text in (
        "mean log density",
        "RMSE",
        "sum of means",
        "simpler means",
        "50% intervals",
        "90% intervals",
        "95% intervals",
        "randomised",
    ):
        assert text in done.stdout


def test_score_of_measurements_and_labels(npvi):
    assert "randomised" not in npvi("score warmth.npvi test.csv --target temperature").stdout
    done = npvi("score present.npvi test.csv --target present")
    assert done.exit_code == 0, done.output
    assert "right label" in done.stdout
    assert "Brier" in done.stdout
    assert "sum of means" in done.stdout
    scores = json.loads(npvi("score present.npvi test.csv --target present --json").stdout)
    assert scores["brier"] < scores["brier_constant"]
    assert 0 <= scores["sum_lower"] <= scores["sum_seen"] <= scores["sum_upper"] <= 60


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("score birds.npvi test.csv --target temperature", "column 'temperature' cannot be Poisson"),
        ("score birds.npvi test.csv --target cuont", "did you mean 'count'?"),
        (
            "score present.npvi test.csv --target site",
            "column 'site' holds '0240', but the model only knows 'no' and 'yes'",
        ),
        ("score nothing.npvi test.csv", "there is no file nothing.npvi"),
    ],
)
def test_score_of_the_wrong_thing(npvi, command, text):
    done = npvi(command)
    assert done.exit_code == 2
    assert text in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("labels", [[3, 7], [False, True], [2.0, 3.0]])
def test_labels_of_other_kinds(npvi, survey, tmp_path, labels):
    table = survey.assign(kind=np.array(labels)[(survey["count"] > 0).astype(int)])
    table.to_csv(tmp_path / "kinds.csv", index=False)
    fit = "fit {tmp}/kinds.csv --target kind --inputs lon,lat --classify --neighbors 8 --length-scale 12 --no-learn"
    assert npvi(f"{fit} --save {{tmp}}/m.npvi").exit_code == 0
    done = npvi("score {tmp}/m.npvi {tmp}/kinds.csv --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["accuracy"] > 0.7


@pytest.mark.parametrize("target", ["count", "present", "temperature"])
def test_diagnose(npvi, tmp_path, target):
    model = {"count": "birds", "present": "present", "temperature": "warmth"}[target]
    done = npvi(f"diagnose {model}.npvi test.csv --plot {{tmp}}/d.png")
    assert done.exit_code == 0, done.output
    for text in ("on 60 rows", "mean log density", "Intervals", "Correlation of residuals"):
        assert text in done.stdout
    assert (tmp_path / "d.png").read_bytes()[1:4] == b"PNG"
    assert ("'hours' is taken as exposure" in done.stderr) == (target == "count")


def test_diagnose_is_the_library_s(npvi, folder, survey):
    done = npvi("diagnose birds.npvi test.parquet --target count --exposure hours --more-neighbors")
    new = survey[240:]
    model = library.load(folder / "birds.npvi")
    found = library.diagnose(model, new[["lon", "lat"]], new["count"], exposure=new["hours"], refit=True)
    assert done.stdout.strip() == str(found).strip()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("diagnose birds.npvi test.csv --plot d.gif", "--plot must end in .png, .pdf or .svg"),
        ("diagnose birds.npvi test.csv --plot nowhere/d.png", "the folder 'nowhere' does not exist"),
        ("diagnose birds.npvi test.csv --target cuont", "did you mean 'count'?"),
        ("diagnose birds.npvi test.csv --target temperature", "cannot be Poisson"),
    ],
)
def test_diagnose_of_the_wrong_thing(npvi, command, text):
    done = npvi(command)
    assert done.exit_code == 2
    assert text in done.stderr


def test_info(npvi, folder):
    done = npvi("info birds.npvi")
    assert done.exit_code == 0
    for text in (
        "GPRegressor",
        "240",
        "lon, lat",
        "Poisson (link exp)",
        "length scale 12",
        "hours",
        "survey.csv",
        "yes",
    ):
        assert text in done.stdout
    assert "no, yes" in npvi("info present.npvi").stdout
    assert json.loads(npvi("info birds.npvi --json").stdout, parse_constant=pytest.fail)["n_rows"] == 240


def test_info_of_a_damaged_file(npvi, folder, tmp_path):
    (tmp_path / "cut.npvi").write_bytes((folder / "birds.npvi").read_bytes()[:-100])
    done = npvi("info {tmp}/cut.npvi")
    assert done.exit_code == 2
    assert "is cut off" in done.stderr


def test_notes_of_ones_own(npvi, folder, tmp_path):
    """Which may be anything that JSON has; only text names columns."""
    path = tmp_path / "own.npvi"
    save(library.load(folder / "birds.npvi"), path, notes={"target": 3, "exposure": ["hours"], "table": {"a": 1}})
    done = npvi("info {tmp}/own.npvi")
    assert done.exit_code == 0, done.output
    assert "['hours']" in done.stdout
    done = npvi("score {tmp}/own.npvi test.csv")
    assert done.exit_code == 2
    assert "does not say what its target was; name the column with --target" in " ".join(done.stderr.split())
    assert npvi("predict {tmp}/own.npvi test.csv --output {tmp}/map.csv").exit_code == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda about, _: about["parameters"].pop("rule"),
        lambda about, _: about.update(fit_info={}),
        lambda about, _: about["likelihood"].update(link={"numpy": 3}),
    ],
)
def test_info_of_a_strangers_file(npvi, folder, tmp_path, change):
    path = model_files.altered(library.load(folder / "birds.npvi"), tmp_path / "strange.npvi", change)
    done = npvi(f"info {path}")
    assert done.exit_code == 2
    assert "strange.npvi cannot be shown: it says of its model what no npvi writes" in " ".join(done.stderr.split())
    assert npvi(f"info {path} --json").exit_code == 0


def test_demo(npvi, tmp_path):
    done = npvi("demo --rows 200 --output {tmp}/demo.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "demo.png").read_bytes()[1:4] == b"PNG"
    assert "A simulated bird survey" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    for text in (
        "160 fitted",
        "log density",
        "50% intervals",
        "correlation",
        "length scale",
        "the truth: 12",
        "right; ",
        "seconds",
        "demo.png",
    ):
        assert text in done.stdout


@pytest.mark.parametrize("output", ["demo.gif", "nowhere/demo.png"])
def test_demo_that_cannot_write(npvi, output):
    assert npvi(f"demo --rows 100 --output {output}").exit_code == 2


def test_interrupted_demo(npvi, monkeypatch, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("npvi.demo.run_demo", interrupt)
    done = npvi("demo --output {tmp}/demo.png")
    assert done.exit_code == 130
    assert "npvi demo: interrupted" in done.stderr


@pytest.mark.parametrize("command", ["", "fit", "predict", "score", "diagnose", "info", "demo"])
def test_help_has_examples(npvi, command):
    done = npvi(f"{command} --help")
    assert done.exit_code == 0
    assert "Examples" in done.stdout
    assert f"npvi {command}" in done.stdout


def test_program_runs_in_a_shell():
    done = subprocess.run([sys.executable, "-m", "npvi.cli", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == f"npvi {library.__version__}\n"


def test_suggest_prints_reasons_and_a_command_that_fits(npvi):
    done = npvi("suggest survey.csv --target temperature")
    assert done.exit_code == 0, done.output
    assert "lon and lat are places" in done.output
    assert "npvi fit survey.csv --target temperature --inputs lon,lat" in done.output
    found = json.loads(npvi("suggest survey.csv --target present --json").stdout)
    assert (found["likelihood"], found["places"]) == ("bernoulli", ["lon", "lat"])
    command = found["command"].removeprefix("npvi ") + " --no-learn --neighbors 5"
    assert npvi(command).exit_code == 0


def test_suggest_refuses_a_column_that_is_not_there(npvi):
    done = npvi("suggest survey.csv --target cuont")
    assert done.exit_code == 2
    assert "did you mean 'count'" in done.output
