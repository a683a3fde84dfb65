"""npvi reproduce."""

from __future__ import annotations

import signal

import pytest
from typer.testing import CliRunner

from npvi.cli import app
from npvi.paper.experiments import plan as plans
from npvi.paper.experiments.running import NAMES
from npvi.runtime.interrupts import interrupts_held_back
from tests.support.experiment_folders import write_tables


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command, whose `--quick` is of the size of tests, with a data folder that lacks the flights."""
    monkeypatch.setattr(plans, "QUICK", plans.TINY)
    data = write_tables(tmp_path / "data", "bird_counts", "nightlight", "precipitation")
    monkeypatch.setenv("NPVI_DATA", str(data))
    monkeypatch.chdir(tmp_path)

    def run(command):
        return CliRunner().invoke(app, ["reproduce", *command.split()], env={"COLUMNS": "100"})

    return run


def test_all_in_tiny(run, tmp_path):
    done = run("all --quick --methods npvi,full --output made")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "made"
    names = {path.name for path in folder.iterdir()}
    for name in ("bird-counts", "nightlight", "precipitation", "length-scale", "ordering", "speed"):
        assert {f"{name}.md", f"{name}.csv"} <= names
    assert any(name.endswith(".png") for name in names)
    assert "flights.md" not in names
    assert "skipped flights: there is no file" in done.stderr
    assert "Precipitation, table 2" in done.stdout
    for path in folder.glob("*.*"):
        assert f"wrote made/{path.name}" in done.stdout
    again = run("all --quick --methods npvi,full --output made")
    assert again.exit_code == 0
    assert "are stored already; 4 to do" in again.stderr  # those of the flights


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("brid-counts", "there is no experiment 'brid-counts': did you mean 'bird-counts'?"),
        ("all --budget 10", "--budget must be a time such as 90s, 10m or 2h, got 10"),
        ("all --budget 0s", "--budget must be a time"),
        ("all --seeds 0,one", "--seeds must be whole numbers with commas between them, such as 0,1,2; got 0,one"),
        ("all --methods npvi,svpg", "--methods: there is no method 'svpg': did you mean 'svgp'?"),
        ("all --output data/nightlight/nightlight.parquet", "--output: cannot make the folder"),
        ("flights --quick", "`npvi data flights` says where the data come from"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(run, command, text):
    done = run(command)
    assert done.exit_code == 2
    assert text in done.stderr
    assert "Traceback" not in done.output


def test_without_a_data_folder(run, monkeypatch):
    monkeypatch.delenv("NPVI_DATA")
    done = run("precipitation --quick")
    assert done.exit_code == 2
    assert "the environment variable NPVI_DATA is not set" in done.stderr


def test_a_budget_seeds_methods_and_rows_go_into_the_plan(run, monkeypatch):
    asked = {}

    def reproduce(names, plan, output, command, watch):
        asked.update(names=names, plan=plan)
        raise KeyboardInterrupt

    monkeypatch.setattr("npvi.paper.experiments.running.reproduce", reproduce)
    done = run("speed bird-counts --budget 1.5m --seeds 3,1 --methods full,svgp --rows 500 --output out")
    assert asked["names"] == ["bird-counts", "speed"]
    plan = asked["plan"]
    assert (plan.budget, plan.seeds, plan.methods, plan.rows) == (90.0, (3, 1), ("svgp", "full"), 500)
    assert plan.n_inducing == (200, 1000, 2000)
    assert done.exit_code == 130
    assert "interrupted; 0 of 0 cells are kept in out/cells, and the same command goes on from there" in done.stderr
    run("all")
    assert asked["names"] == list(NAMES)
    assert asked["plan"] == plans.FULL


@pytest.fixture
def interruptible():
    """Started in the background, a process ignores interrupts, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_training_held_back_is_not_lost(run, monkeypatch):
    went_on = []

    def reproduce(names, plan, output, command, watch):
        watch.start(5, 2)
        with interrupts_held_back() as happened:
            signal.raise_signal(signal.SIGINT)
            assert happened
        watch.notice("the next candidate")
        went_on.append(True)

    monkeypatch.setattr("npvi.paper.experiments.running.reproduce", reproduce)
    done = run("speed --quick --output out")
    assert done.exit_code == 130
    assert "interrupted; 2 of 5 cells are kept in out/cells" in done.stderr
    assert not went_on


def test_help_names_every_experiment(run):
    done = run("--help")
    assert done.exit_code == 0
    for name in (*NAMES, "--quick", "--budget", "--output", "--seeds", "--methods", "--rows", "NPVI_DATA"):
        assert name in done.stdout
