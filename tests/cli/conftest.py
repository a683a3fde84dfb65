"""A small survey in files, a model fitted to it, and a way to run the commands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from npvi.cli import app
from npvi.demo.survey import simulate_survey


@pytest.fixture(scope="session")
def survey():
    """300 visits, with a column of each kind."""
    data = simulate_survey(300, seed=1)
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "site": [f"{number:04d}" for number in range(300)],
            "lon": data.places[:, 0],
            "lat": data.places[:, 1],
            "hours": data.hours.round(2),
            "count": data.counts.astype(int),
            "temperature": 15.0 + data.places[:, 1] / 10 + rng.normal(size=300),
            "present": np.where(data.counts > 0, "yes", "no"),
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory, survey):
    """survey.csv, test.csv, and three models."""
    folder = tmp_path_factory.mktemp("survey")
    survey[:240].to_csv(folder / "survey.csv", index=False)
    survey[240:].to_csv(folder / "test.csv", index=False)
    survey[240:].to_parquet(folder / "test.parquet")
    place = ["--inputs", "lon,lat", "--neighbors", "8", "--length-scale", "12", "--no-learn"]
    for target, name, options in [
        ("count", "birds", ["--likelihood", "poisson", "--exposure", "hours"]),
        ("present", "present", ["--classify"]),
        ("temperature", "warmth", []),
    ]:
        command = ["fit", str(folder / "survey.csv"), "--target", target, *place, *options]
        done = CliRunner().invoke(app, [*command, "--save", str(folder / f"{name}.npvi")], env=_ENVIRONMENT)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def npvi(folder, monkeypatch, tmp_path):
    """Run a command in the folder of the survey; ``{tmp}`` in an argument is a folder for output; `more` are arguments
    with spaces."""
    monkeypatch.chdir(folder)

    def run(command: str, *more: str):
        arguments = [part.replace("{tmp}", str(tmp_path)) for part in command.split()]
        return CliRunner().invoke(app, [*arguments, *more], env=_ENVIRONMENT)

    return run


_ENVIRONMENT = {"COLUMNS": "100", "NPVI_DEBUG": ""}
