"""Rows in padded chunks: every row comes back, in order, whatever their number."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from npvi.runtime.batching import map_rows
from npvi.runtime.parallel import threads


@pytest.mark.parametrize("n", [0, 1, 256, 257, 5000])
@pytest.mark.parametrize("jobs", [1, 3])
def test_rows_come_back_in_order(n, jobs):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, 2)), rng.normal(size=n)
    function = jax.jit(lambda a, row: (a.sum(1) + row["b"], a[:, 0]))
    with threads(jobs):
        total, first = map_rows(function, (a,), {"b": b}, results=2, largest=512)
    np.testing.assert_allclose(total, a.sum(1) + b, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(first, a[:, 0])
