"""Chunks of rows in threads."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

from npvi.likelihoods import NegativeBinomial
from npvi.predictive import Predictive
from npvi.runtime.parallel import over_chunks, threads


def _nested(_):
    with threads(2):
        inner = over_chunks(lambda a, b: sum(over_chunks(lambda c, d: d - c, b - a, grain=1)), 64, grain=1)
        return sum(inner)


def _quantiles(_):
    rows = 2**15
    with threads(2):
        dist = Predictive(NegativeBinomial(2.0), np.linspace(-1.0, 4.0, rows), np.full(rows, 0.3))
        some = np.linspace(0, rows - 1, 7).astype(int)
        alone = Predictive(NegativeBinomial(2.0), dist.latent_mean[some], dist.latent_var[some]).quantile(0.9)
        return bool(np.array_equal(dist.quantile(0.9)[some], alone))


@pytest.mark.parametrize(("work", "answer"), [(_nested, 64), (_quantiles, True)], ids=["loops", "quantiles"])
def test_chunks_inside_of_chunks_come_to_an_end(work, answer):
    # in a process of its own, which can be ended
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map_async(work, [0]).get(timeout=60) == [answer]


_LATER = """
from threadpoolctl import threadpool_info, threadpool_limits
from npvi.runtime.parallel import threads
with threads(1):
    pass
import scipy.linalg
threadpool_limits(2, "blas")
with threads(1):
    print({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})
"""


def test_linear_algebra_has_one_thread_though_it_is_loaded_later():
    run = subprocess.run([sys.executable, "-c", _LATER], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "{1}\n"
