"""Benchmarks run rarely: here it is seen that each can at least be begun."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import special

import benchmarks
from benchmarks import __main__ as command
from benchmarks import battery, fields

FOLDER = Path(benchmarks.__file__).parent
FILES = [path for path in (*FOLDER.glob("*.py"), *FOLDER.glob("*/*.py")) if not path.stem.startswith("__")]
NAMES = {path.stem: ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts) for path in sorted(FILES)}


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_all_and_runs_none(monkeypatch, capsys, option):
    monkeypatch.setattr(command, "importlib", SimpleNamespace(import_module=lambda name: pytest.fail("it runs")))
    monkeypatch.setattr("sys.argv", ["benchmarks", option])
    command.main()
    listed = re.findall(r"^  (\w+) +\S", capsys.readouterr().out, re.MULTILINE)
    assert set(listed) == {*command._NAMES, *command._BATTERIES, *command._NETWORKS}
    monkeypatch.setattr("sys.argv", ["benchmarks", "sweep", option])
    command.main()
    assert "Stages of an NPVI fit" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_imported(name):
    importlib.import_module(NAMES[name])


def test_each_is_in_the_folder_of_its_subject():
    named = (*command._NAMES, *command._BATTERIES, *command._NETWORKS)
    assert {NAMES[name].split(".")[1] for name in named} == {"accuracy", "beside", "speed"}
    inside = {path.stem for path in FILES if path.parent != FOLDER}
    assert inside == set(named)


def test_each_that_a_page_names_is_accepted(monkeypatch):
    rows = [row for row in (FOLDER.parent / "docs" / "measured.md").read_text().splitlines() if row.startswith("|")]
    named = {name for row in rows for name in re.findall(r"\(\*(\w+)\*\)", row)}
    named |= set(re.findall(r"^=== (\w+) ===$", (FOLDER / "RESULTS.md").read_text(), re.MULTILINE))
    assert {"npvi_nn", "growth"} <= named
    begun = []
    importing = SimpleNamespace(import_module=lambda name: SimpleNamespace(main=lambda: begun.append(name)))
    monkeypatch.setattr(command, "importlib", importing)
    monkeypatch.setattr("sys.argv", ["benchmarks", *sorted(named)])
    command.main()
    assert begun == [NAMES[name] for name in sorted(named)]
    assert named <= set(NAMES)


BATTERIES = {
    "places": ["--species", "lark", "--likelihoods", "poisson", "--seeds", "0"],
    "sizes": ["--truths", "smooth", "--rows", "200", "--noises", "poisson"],
    "separation": ["--noises", "poisson", "--rates", "-1", "--scales", "1", "--seeds", "0", "--rows", "200"],
    "hard": ["--kinds", "few_inputs", "--rivals", "matern32", "K=40", "--seeds", "0"],
    "latent": ["--noises", "poisson", "--seeds", "0", "--rows", "80"],
    "invariance": ["--kinds", "y × 1000", "rows shuffled", "--rows", "60", "--counts", "60"],
}


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """Forty routes in a degree of Kansas, two years each."""
    folder = tmp_path / "bbs_savannah_sparrow"
    folder.mkdir()
    rng = np.random.default_rng(0)
    place = rng.uniform([-99.0, 38.0], [-98.0, 39.0], size=(40, 2)).repeat(2, axis=0)
    table = pd.DataFrame({"state_num": 38, "route": np.arange(80) // 2, "lon": place[:, 0], "lat": place[:, 1]})
    table["lark"] = rng.poisson(np.exp(1.0 + np.sin(6.0 * place[:, 0])))
    table.to_parquet(folder / "bbs_savannah_sparrow.parquet")
    monkeypatch.setenv("NPVI_DATA", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", BATTERIES)
def test_each_battery_has_figures_for_every_case(name, survey, tmp_path, capsys):
    battery = importlib.import_module(NAMES[name])
    battery.main([*BATTERIES[name], "--json", str(tmp_path / "rows.json")])
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert rows
    for row in rows:
        assert "error" not in row
        assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))
    assert "---" in capsys.readouterr().out  # a table


def _squares(number: int) -> list[dict]:
    if number == 3:
        raise ValueError("three")
    return [{"square": number**2}]


@pytest.mark.parametrize("jobs", [1, 2])
def test_cases_are_spread_over_processes(jobs, tmp_path, capsys):
    path = tmp_path / "rows.json"
    chosen = battery.parser("Squares.", seeds=1).parse_args(["--jobs", str(jobs), "--json", str(path)])
    rows = battery.fan_out(_squares, [{"number": number} for number in (4, 3, 2)], chosen)
    assert rows == [{"number": 4, "square": 16}, {"number": 2, "square": 4}]
    assert [row.get("error") for row in json.loads(path.read_text())] == [None, "ValueError: three", None]
    assert "1 of 3 cases failed" in capsys.readouterr().out


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_fields_have_the_covariance_they_are_named_after(smoothness):
    distance = np.array([0.01, 0.4, 2.0])
    r = np.sqrt(2.0 * smoothness) * distance
    bessel = 2.0 ** (1.0 - smoothness) / special.gamma(smoothness) * r**smoothness * special.kv(smoothness, r)
    np.testing.assert_allclose(fields.matern(distance, smoothness), bessel, rtol=1e-10)
    draws = [fields.on_grid(1.0, 128, 0.05, smoothness, np.random.default_rng(seed)) for seed in range(20)]
    for lag in (1, 4, 16):
        half_squares = np.mean([0.5 * np.mean((f[:, lag:] - f[:, :-lag]) ** 2) for f in draws])
        assert half_squares == pytest.approx(1.0 - fields.matern(np.array(lag / 128 / 0.05), smoothness), rel=0.05)
    X = np.array([[0.0, 0.0], [0.3, 0.4]])
    pairs = np.array([fields.dense_draw(X, 0.5, smoothness, np.random.default_rng(seed)) for seed in range(4000)])
    assert np.mean(pairs[:, 0] * pairs[:, 1]) == pytest.approx(
        float(fields.matern(np.array(1.0), smoothness)), abs=0.05
    )
