"""Fits of each method, and runs that are killed, go on, fail in part or are done again."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from npvi.cli import app
from npvi.datasets import Dataset
from npvi.kernels import RBF
from npvi.likelihoods import LogNormal
from npvi.paper.experiments import choosing, running
from npvi.paper.experiments import plan as plans
from npvi.paper.experiments.methods import RIVALS, Fitted, fit_within, nlpd
from npvi.paper.experiments.plan import TINY
from npvi.paper.experiments.running import cells_of, reproduce
from npvi.paper.experiments.store import Store
from tests.support.experiment_folders import TINY_COMMAND, write_tables


def simulated(n=100):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, size=(n, 2))
    y = np.exp(np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(n))
    return Dataset("rain", X, y, ("east", "north"), "rain", "lognormal", "simulated")


# -- one fit ----------------------------------------------------------------------------------------------------------


def exact_nlpd(split, X, y):
    """Of a Gaussian process on the logarithms, densely: RBF with length 1 and variance 1, nugget and noise 0.01."""

    def kernel(a, b):
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=-1))

    inner = kernel(split.X_train, split.X_train) + 0.02 * np.eye(len(split.y_train))
    across = kernel(X, split.X_train)
    mean = across @ np.linalg.solve(inner, np.log(split.y_train))
    variance = 1.02 - np.einsum("ij,ji->i", across, np.linalg.solve(inner, across.T))
    return np.mean(0.5 * np.log(2.0 * np.pi * variance) + (np.log(y) - mean) ** 2 / (2.0 * variance) + np.log(y))


@pytest.mark.parametrize("method", ["svgp", "savigp", "npvi", "npvi-nn", "full"])
def test_with_all_points_every_method_is_near_the_exact_process(method):
    split = simulated().split(0)
    n = len(split.y_train)
    size = n if method in RIVALS else n - 1
    fitted = fit_within(method, split, LogNormal(0.01), RBF(1.0), 0.01, size, 0, None)
    # the rivals are where validation rows are predicted best, which is near the optimum, not at it
    tolerance = 0.03 if method in RIVALS else 1e-6
    exact = exact_nlpd(split, split.X_test, split.y_test)
    assert nlpd(fitted.model, split.X_test, split.y_test) == pytest.approx(exact, abs=tolerance)
    assert fitted.outcome == "finished"
    assert fitted.seconds > 0.0
    assert fitted.validation == pytest.approx(nlpd(fitted.model, split.X_val, split.y_val))
    assert fitted.validation <= min(score for _, score in fitted.trace) + 1e-9


def test_training_that_is_cut_short_keeps_what_it_has():
    split = simulated().split(0)
    fitted = fit_within("npvi-sgd", split, LogNormal(0.01), RBF(1.0), 0.01, 5, 0, 1e-3)
    assert fitted.outcome == "out of time"
    assert fitted.model.fit_info_["epochs"] == 1  # after which it looked at the clock
    assert np.isfinite(fitted.validation)


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match=r"method must be one of 'svgp', .*'npvi-sgd'; got 'svpg'"):
        fit_within("svpg", simulated().split(0), LogNormal(0.01), RBF(1.0), 0.01, 5, 0, None)


# -- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    data, output = write_tables(tmp_path / "data", "precipitation"), tmp_path / "results"
    options = ["--quick", "--methods", "npvi,full", "--seeds", ",".join(map(str, range(12)))]
    command = ["reproduce", "precipitation", *options, "--output", str(output)]
    monkeypatch.setenv("NPVI_DATA", str(data))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a kill leaves litter

    def finished():
        return sorted((output / "cells").glob("*.json"))

    process = subprocess.Popen([*TINY_COMMAND, *command], stderr=subprocess.DEVNULL)
    while len(finished()) < 3:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in finished()}
    assert 3 <= len(before) < 48  # two tables, two methods, twelve splits
    monkeypatch.setattr(plans, "QUICK", TINY)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert f"{len(before)} of 48 cells are stored already; {48 - len(before)} to do" in done.stderr
    assert len(finished()) == 48
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert (output / "precipitation-tuned.md").exists()


@pytest.fixture
def fake(monkeypatch):
    """Fits that take no time, as `fake.outcomes` says: an outcome or an error by method."""

    class Fake:
        fits = 0
        outcomes: dict = {}  # noqa: RUF012

        def __call__(self, method, split, likelihood, kernel, nugget, size, seed, seconds):
            self.fits += 1
            outcome = self.outcomes.get(method, "finished")
            if isinstance(outcome, BaseException):
                raise outcome
            return Fitted(None, 0.5, outcome, [(0.5, kernel.length_scale)])

    found = Fake()
    monkeypatch.setattr(choosing, "fit_within", found)
    monkeypatch.setattr(choosing, "nlpd", lambda model, X, y: 1.25)
    monkeypatch.setattr("npvi.paper.experiments.figures.draw", lambda store, plan, folder: [])
    return found


PLAN = replace(TINY, load=lambda name: simulated(), methods=("svgp", "npvi"), rows=100, budget=100.0)


def test_a_cell_is_done_again_only_where_more_time_may_help(fake, tmp_path):
    fake.outcomes = {"svgp": "out of time"}
    first = reproduce(["precipitation"], PLAN, tmp_path)
    assert (len(first.computed), len(first.stored)) == (4, 0)
    again = reproduce(["precipitation"], PLAN, tmp_path)
    assert (len(again.computed), len(again.stored)) == (0, 4)
    assert again.tables[0].markdown == first.tables[0].markdown
    less = reproduce(["precipitation"], replace(PLAN, budget=50.0), tmp_path)
    assert less.computed == []
    more = reproduce(["precipitation"], replace(PLAN, budget=200.0), tmp_path)
    assert [(cell.experiment, cell.method) for cell in more.computed] == [("paper", "svgp"), ("tuned", "svgp")]


def test_what_fails_is_stored_shown_and_tried_again(fake, tmp_path):
    fake.outcomes = {"svgp": MemoryError("too large")}
    report = reproduce(["precipitation"], PLAN, tmp_path)
    assert len(report.computed) == 4
    reasons = list(report.failed.values())
    assert "MemoryError: too large" in reasons[0]
    assert "the first table has no number to start from" in reasons[1]
    assert "failed [1]" in report.tables[0].markdown
    assert "MemoryError: too large" in report.tables[0].markdown
    assert "1.250" in report.tables[0].markdown  # of the method that works
    fake.outcomes = {}
    again = reproduce(["precipitation"], PLAN, tmp_path)
    assert {cell.method for cell in again.computed} == {"svgp"}
    assert again.failed == {}
    assert "failed" not in again.tables[0].markdown


def test_data_that_arent_there_are_skipped(fake, tmp_path):
    def load(name):
        if name == "flights":
            raise FileNotFoundError("there is no file flights.parquet")
        return simulated()

    plan = replace(PLAN, load=load)
    report = reproduce(["flights", "precipitation"], plan, tmp_path)
    assert report.skipped == {"flights": "there is no file flights.parquet"}
    assert {cell.data for cell in report.computed} == {"precipitation"}
    assert [table.name for table in report.tables] == ["precipitation", "precipitation-tuned"]
    with pytest.raises(FileNotFoundError, match=r"flights\.parquet"):
        reproduce(["flights"], plan, tmp_path / "other")


def test_an_interrupt_keeps_what_is_finished(fake, tmp_path):
    fake.outcomes = {"npvi": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        reproduce(["precipitation"], PLAN, tmp_path)
    [(cell, _)] = Store(tmp_path / "cells").all()
    assert cell.method == "svgp"


def test_every_experiment_has_cells_and_shares_those_of_the_first_table():
    by_name = {name: cells_of(name, TINY) for name in running.NAMES}
    assert all(by_name.values())
    assert set(by_name["length-scale"]) < set(by_name["bird-counts"])
    every = [cell for name, cells in by_name.items() if name != "length-scale" for cell in cells]
    assert len({cell.file for cell in every}) == len(every)
