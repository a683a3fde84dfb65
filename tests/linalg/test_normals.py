"""Standard normal numbers by counting."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

from npvi.linalg import Noise
from npvi.linalg.normals import key_of, normal_numbers
from npvi.runtime.parallel import threads

MASK = 2**64 - 1


def exact(key, row):
    """The same from Python's whole numbers and SciPy's quantiles."""
    numbers = []
    for r in range(32):
        mixed = ((32 * row + r) * 0x9E3779B97F4A7C15 + int(key)) & MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        bits = mixed >> 32
        size = -scipy.special.ndtri(((bits & 0x7FFFFFFF) + 0.5) * 2.0**-32)
        numbers.append(-size if bits >> 31 else size)
    return np.array(numbers)


@pytest.mark.parametrize("row", [0, 1, 12345, 10**9])
def test_quantiles_of_scrambled_places(row):
    for block in range(200):
        key = key_of(3, block)
        out, work, bits = np.empty(32, np.float32), np.empty(32, np.float32), np.empty(32, np.int32)
        normal_numbers(key, row, out, work, bits)
        np.testing.assert_allclose(out, exact(key, row), rtol=2e-6, atol=2e-7)


def test_they_are_normal_and_have_nothing_to_do_with_each_other():
    n = 20_000
    numbers = Noise(np.arange(n)).columns(0, 64)
    flat = numbers.ravel()
    assert scipy.stats.kstest(flat, "norm").pvalue > 1e-3
    for power, mean, variance in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]:
        assert abs(np.mean(flat**power) - mean) < 4.0 * np.sqrt(variance / len(flat))
    correlations = numbers.T @ numbers / np.sqrt(n)
    assert np.abs(correlations[np.triu_indices(64, 1)]).max() < 4.5  # of 2016
    for lag in (1, 2, 31, 32, 33, 64, 1024):
        assert abs(np.mean(flat[lag:] * flat[:-lag])) < 4.0 / np.sqrt(len(flat))
    others = Noise(np.arange(n), seed=1).columns(0, 64)
    assert abs(np.mean(flat * others.ravel())) < 4.0 / np.sqrt(len(flat))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 64), (5, 7), (30, 100), (32, 33)])
def test_a_number_has_its_place(start, stop, n_threads):
    rows = np.random.default_rng(0).permutation(3000)
    with threads(n_threads):
        some = Noise(rows[:2500]).columns(start, stop)
    np.testing.assert_array_equal(some, Noise(np.arange(3000)).columns(0, 128)[rows[:2500], start:stop])
