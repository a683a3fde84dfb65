"""Maps: rates by a quadrature of their own, blank where nothing was observed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from npvi.datasets import Dataset
from npvi.kernels import RBF
from npvi.paper.experiments.methods import LIKELIHOODS, fit_within
from npvi.paper.experiments.plan import TINY
from npvi.paper.experiments.store import Cell, Store
from npvi.paper.experiments.surfaces import Grid, cells, compute

REACH = 0.3


def birds(n=60):
    """Places in two clumps far apart, each visited twice."""
    rng = np.random.default_rng(2)
    places = np.repeat(rng.uniform(0.0, 0.5, (n // 2, 2)), 2, axis=0)
    places[::4, 0] += 2.0
    places[1::4, 0] += 2.0
    return Dataset("birds", places, rng.poisson(3.0, n) * 1.0, (), "", "", "")


@pytest.fixture(scope="module")
def made():
    plan = replace(TINY, rows=60, load=lambda name: birds(), methods=("npvi", "full"), map_columns=12)
    cell = next(cell for cell in cells(plan) if cell.method == "full")
    return plan, cell, compute(cell, plan)


def test_mean_and_deviation_of_the_rate(made):
    plan, cell, result = made
    split = plan.split(cell.data, cell.seed)
    kernel, likelihood = RBF(result["length_scale"], variance=1.0), LIKELIHOODS["bird_counts"]
    model = fit_within("full", split, likelihood, kernel, 0.01, cell.size, cell.seed, None).model
    grid = Grid(result["west"], result["south"], result["step"], tuple(result["shape"]))
    shown = np.array([value is not None for value in result["mean"]])
    latent = model.predict_dist(grid.places[shown])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    sd = np.sqrt(latent.latent_var + latent.nugget)
    rates = np.logaddexp(0.0, latent.latent_mean[:, None] + sd[:, None] * nodes)
    mean = rates @ weights / weights.sum()
    deviation = np.sqrt((rates - mean[:, None]) ** 2 @ weights / weights.sum())
    np.testing.assert_allclose(np.array(result["mean"])[shown].astype(float), mean, rtol=1e-3)
    np.testing.assert_allclose(np.array(result["std"])[shown].astype(float), deviation, rtol=2e-3)


def test_places_without_observations_are_blank(made):
    plan, cell, result = made
    X = plan.split(cell.data, cell.seed).X_train
    west, south, step, (rows, columns) = (result[name] for name in ("west", "south", "step", "shape"))
    assert columns == 12
    for row in range(rows):
        for column in range(columns):
            place = np.array([west + (column + 0.5) * step, south + (row + 0.5) * step])
            nearest = min(np.hypot(*(x - place)) for x in X)
            for name in ("mean", "std"):
                assert (result[name][row * columns + column] is None) == (nearest > REACH)
    assert {None} < set(result["mean"])  # some of both


def test_observations_are_means_over_visits(made):
    plan, cell, result = made
    split = plan.split(cell.data, cell.seed)
    visits = {}
    for place, count in zip(split.X_train, split.y_train):
        visits.setdefault(tuple(place), []).append(count)
    seen = result["observed"]
    assert len(seen["east"]) == len(visits) < len(split.y_train)
    expected = {tuple(f"{x:.5g}" for x in place): np.mean(counts) for place, counts in visits.items()}
    for east, north, count in zip(seen["east"], seen["north"], seen["count"]):
        assert count == pytest.approx(expected[f"{east:.5g}", f"{north:.5g}"])


def test_length_scale_of_the_first_table(made, tmp_path):
    plan, cell, result = made
    assert result["length_scale"] == 0.1  # the paper's choice for its own method
    store = Store(tmp_path)
    first = Cell("paper", cell.data, "full", cell.size, cell.seed, plan.table_settings)
    store.put(first, {"candidates": [{"length_scale": 0.5}, {"length_scale": 1.0}], "chosen": 1})
    other = compute(cell, plan, store)
    assert other["length_scale"] == 1.0
    store.put(cell, other)  # what JSON can't say is refused
    assert json.loads((tmp_path / cell.file).read_text())["result"]["mean"] == other["mean"]
