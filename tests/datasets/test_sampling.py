"""Samples of streams."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.datasets.sampling import Sample


@pytest.mark.parametrize("size", [0, 1, 17, 100, 500, None])
@pytest.mark.parametrize("waiting", [3, 100, 10_000])
def test_the_smallest_keys_stay(monkeypatch, size, waiting):
    monkeypatch.setattr("npvi.datasets.sampling._WAITING", waiting)
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 150, 300)  # many of them twice
    ranks = rng.permutation(300)
    sample = Sample(["key_again", "rank_again"], size)
    best: dict[int, int] = {}
    for key, rank in zip(keys.tolist(), ranks.tolist()):
        sample.add(key, rank, (key, rank))
        best[key] = min(best.get(key, 300), rank)
    expected = sorted((best[key], key) for key in sorted(best)[:size])
    table = sample.table()
    assert list(zip(table["rank_again"], table["key_again"])) == expected


def test_every_row_is_as_likely(monkeypatch):
    monkeypatch.setattr("npvi.datasets.sampling._WAITING", 7)
    rng = np.random.default_rng(1)
    drawn = np.zeros(20)
    for _ in range(300):
        sample = Sample(["row"], 5)
        for row, key in enumerate(rng.random(20)):
            sample.add(key, row, (row,))
        drawn[sample.table()["row"]] += 1
    # 300 draws with a chance of a quarter: 75, with a standard deviation of 7.5
    assert np.all(np.abs(drawn - 75) < 4 * 7.5)
