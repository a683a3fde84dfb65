"""Random orders: what changes with them, what doesn't, and what is said of it."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from npvi.datasets import Dataset
from npvi.paper.experiments.ordering import KERNELS, cells, compute, kernel_of, order_table
from npvi.paper.experiments.plan import FULL, TINY
from npvi.paper.experiments.store import Store


def birds(n=40):
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, (n, 2))
    return Dataset("birds", X, rng.poisson(np.exp(1.0 + np.sin(5.0 * X[:, 0]))) * 1.0, (), "", "", "")


def test_ten_orders_for_each_method_and_number_of_neighbours():
    counts = Counter((cell.method, cell.size, kernel_of(cell)) for cell in cells(FULL))
    assert set(counts.values()) == {10}
    by_kernel = [{method for method, _, kernel in counts if kernel == one} for one in KERNELS]
    assert by_kernel == [{"npvi-nn", "npvi", "full", "gcn"}, {"npvi-nn", "npvi", "full"}]
    assert len({cell.file for cell in cells(FULL)}) == len(cells(FULL))


def test_orders_matter_only_where_a_point_lacks_neighbours():
    n_train = 28  # of 40 rows
    scores = {}
    for n_neighbors in (2, n_train - 1):
        plan = replace(TINY, rows=40, load=lambda name: birds(), methods=("full",), n_neighbors=(n_neighbors,))
        found = [compute(cell, plan)["test"] for cell in cells(plan) if kernel_of(cell) == KERNELS[1]]
        scores[n_neighbors] = found
    first, second = scores[n_train - 1]
    assert first == pytest.approx(second, abs=1e-6)  # all earlier points: the same process in any order
    first, second = scores[2]
    assert abs(first - second) > 1e-4


def test_table_of_deviations(tmp_path):
    store = Store(tmp_path)
    plan = replace(TINY, n_orders=3, methods=("npvi-nn", "npvi"))
    assert order_table(store, plan) is None
    for cell in cells(plan):
        if kernel_of(cell) == KERNELS[0] and cell.method == "npvi-nn":
            store.put(cell, {"test": (1.0, 1.2, 1.4)[cell.seed]})
        elif kernel_of(cell) == KERNELS[1]:
            store.put(cell, {"test": 2.0} if cell.seed == 0 else {"error": "MemoryError"})
    table = order_table(store, plan)
    assert [row[0] for row in table.rows] == ["NPVI-NN", "NPVI-NN", "NPVI"]
    assert table.rows[0][-3:] == ["1.200", "0.200", "about 0.02"]
    assert table.rows[2][-3:] == ["2.000", "–", "–"]
    table.write(tmp_path)
    with open(tmp_path / "ordering.csv", newline="") as file:
        first, *_ = csv.DictReader(file)
    assert (first["method"], first["K"], first["orders"]) == ("npvi-nn", "5", "3")
    assert float(first["standard deviation"]) == pytest.approx(np.std([1.0, 1.2, 1.4], ddof=1))
