"""Scores on the way of training, and the seconds that count."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from npvi import SGD, GPRegressor
from npvi.datasets import Dataset
from npvi.kernels import RBF
from npvi.likelihoods import LogNormal
from npvi.paper.experiments import speed
from npvi.paper.experiments.methods import Fitted
from npvi.paper.experiments.plan import TINY
from npvi.paper.experiments.speed import cells, chosen_length_scale, compute, speed_table
from npvi.paper.experiments.store import Cell, Store
from npvi.runtime import progress

RNG = np.random.default_rng(3)
X = RNG.uniform(0.0, 1.0, (60, 2))
Y = np.exp(np.sin(6.0 * X[:, 0]) + 0.1 * RNG.standard_normal(60))
LIGHT = Dataset("light", X, Y, (), "", "", "")


def plan_for(*methods, **settings):
    return replace(TINY, **{"rows": 60, "load": lambda name: LIGHT, "methods": methods, **settings})


def cell_of(method, plan):
    return next(cell for cell in cells(plan) if cell.method == method)


def exact_score(split, length_scale):
    """Of validation rows under a Gaussian process on the logarithms, densely."""

    def kernel(a, b):
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=-1) / length_scale**2)

    inner = kernel(split.X_train, split.X_train) + 0.02 * np.eye(len(split.y_train))
    across, y = kernel(split.X_val, split.X_train), np.log(split.y_val)
    mean = across @ np.linalg.solve(inner, np.log(split.y_train))
    variance = 1.02 - np.einsum("ij,ji->i", across, np.linalg.solve(inner, across.T))
    return np.mean(0.5 * np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / (2.0 * variance) + y)


@pytest.mark.parametrize("method", ["npvi", "full", "npvi-nn"])
def test_closed_forms_end_at_the_exact_score(method):
    plan = plan_for(method, n_neighbors=(41,))  # all of the 42 training rows
    result = compute(cell_of(method, plan), plan)
    assert result["final"] == pytest.approx(exact_score(plan.split("nightlight", 0), 0.1), abs=1e-6)
    seconds, scores = zip(*result["trace"])
    assert list(seconds) == sorted(seconds)
    assert result["final"] == scores[-1]
    assert not result["out_of_time"]


def test_training_that_is_looked_at_is_the_same_as_without(monkeypatch):
    monkeypatch.setattr(speed, "_has_settled", lambda trace: len(trace) == 4)
    plan = plan_for("npvi")
    cell = cell_of("npvi-sgd", plan)
    result = compute(cell, plan)
    split = plan.split("nightlight", 0)
    model = GPRegressor(LogNormal(0.01), RBF(0.1), 0.01, mean="zero", method="npvi", learn=False, random_state=0)
    model.set_params(n_neighbors=5, optimizer=SGD(epochs=8))
    with pytest.warns(UserWarning, match="stochastic gradients ended"):
        model.fit(split.X_train, split.y_train)
    assert len(result["trace"]) == 4  # after 1, 2, 4 and 8 epochs
    assert result["trace"][-1][1] == pytest.approx(-model.log_score(split.X_val, split.y_val), abs=1e-9)
    assert result["final"] == min(score for _, score in result["trace"])


def test_training_ends_with_the_budget(monkeypatch):
    monkeypatch.setattr(speed, "_has_settled", lambda trace: False)
    plan = plan_for("npvi", budget=1e-9)
    result = compute(cell_of("npvi-sgd", plan), plan)
    assert len(result["trace"]) == 1
    assert result["out_of_time"]


def test_networks_are_looked_at_after_each_epoch_until_the_time_ends():
    plan = plan_for("gcn", budget=1e-9)
    result = compute(cell_of("gcn", plan), plan)
    (first, _), (second, _) = result["trace"]  # the first epoch compiles and is free
    assert 0.0 < first < second
    assert result["final"] == min(score for _, score in result["trace"])
    assert result["out_of_time"]


def rival(monkeypatch, ends, trace, outcome):
    """A fit that tells of rounds that ended at these seconds."""
    model = SimpleNamespace(fit_info_={"seconds": ends})
    fitted = Fitted(model, ends[-1] if ends else 0.0, outcome, trace)
    monkeypatch.setattr(speed, "fit_within", lambda *settings: fitted)
    plan = plan_for("svgp")
    return compute(cell_of("svgp", plan), plan)


def test_compiling_is_left_out(monkeypatch):
    trace = [(9.0, 4.0), (11.0, 2.03), (13.0, 2.0), (15.0, 2.5), (15.1, 2.0)]
    result = rival(monkeypatch, [9.0, 11.0, 13.0, 15.0], trace, "out of time")
    # a round takes 2 s, so that the first one compiled for 7; the best state, 2.0, comes once more at the end
    assert result["trace"] == [(2.0, 4.0), (4.0, 2.03), (6.0, 2.0), (8.0, 2.5)]
    assert (result["final"], result["seconds_to_final"], result["seconds"]) == (2.0, 4.0, 8.0)
    assert result["out_of_time"]


def test_close_to_a_negative_score(monkeypatch):
    trace = [(1.0, 3.0), (2.0, -0.97), (3.0, -0.99), (4.0, -1.0), (4.0, -1.0)]
    result = rival(monkeypatch, [1.0, 2.0, 3.0, 4.0], trace, "finished")
    assert result["seconds_to_final"] == 3.0
    assert not result["out_of_time"]


def test_one_score_is_enough(monkeypatch):
    result = rival(monkeypatch, [], [(5.0, 1.5)], "out of time")
    assert result["trace"] == [(5.0, 1.5)]


def test_length_scale_of_the_first_table(tmp_path):
    plan, store = plan_for("npvi", "svgp"), Store(tmp_path)
    stored = {"candidates": [{"length_scale": 0.5}, {"length_scale": 2.0}], "chosen": 1}
    store.put(Cell("paper", "nightlight", "npvi", 5, 0, plan.table_settings), stored)
    store.put(Cell("paper", "nightlight", "svgp", 10, 0, plan.table_settings), {"error": "MemoryError"})
    found = {cell.method: chosen_length_scale(store, cell, plan, 0.1) for cell in cells(plan)}
    assert found == {"svgp": 0.1, "npvi": 2.0, "npvi-sgd": 2.0}
    assert chosen_length_scale(None, cell_of("npvi", plan), plan, 0.3) == 0.3


def test_table(tmp_path):
    plan, store = plan_for("npvi", "gcn"), Store(tmp_path)
    assert speed_table(store, plan) is None
    numbers = {"length_scale": 0.5, "trace": [[0.5, 1.0]], "seconds": 700.0, "n_train": 42, "budget": 600.0}
    store.put(cell_of("npvi", plan), {**numbers, "final": 1.0, "seconds_to_final": 0.5, "out_of_time": False})
    store.put(cell_of("npvi-sgd", plan), {**numbers, "final": -1.0, "seconds_to_final": 60.0, "out_of_time": True})
    store.put(cell_of("gcn", plan), {"error": "MemoryError"})
    table = speed_table(store, plan)
    assert [row[0] for row in table.rows] == ["NPVI", "NPVI by AdaGrad"]
    assert table.rows[1][3:] == ["0.5", "-1.000 †", "60 s", "700 s"]
    assert "† The time ended" in table.markdown
    assert "42 training rows" in table.markdown


def test_a_persons_interrupt_is_not_the_end_of_the_time():
    plan = plan_for("npvi")

    def interrupt(stage, numbers):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress.reporting(interrupt):
        compute(cell_of("npvi-sgd", plan), plan)
