"""Fits in processes that were forked: they work, or fail at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")

SCRIPT = """
import multiprocessing, sys
import numpy as np
import npvi

rng = np.random.default_rng(0)
X, y = rng.uniform(size=(3000, 2)), rng.poisson(3.0, 3000).astype(float)

def fit(likelihood):
    model = npvi.GPRegressor(likelihood, "matern32", n_jobs=2, learn=likelihood == "poisson")
    rows = 300 if likelihood == "poisson" else 3000
    return float(model.fit(X[:rows], y[:rows]).predict(X).sum())

def job(queue, likelihood):
    try:
        queue.put(fit(likelihood))
    except Exception as error:
        queue.put(f"{type(error).__name__}: {error}")

parent, child = sys.argv[1:]
before = fit(parent)
if parent == "poisson":
    npvi.graph.build_graph(X[np.arange(30_000) % 3000] + rng.uniform(size=(30_000, 2)), 5)  # with threads
queue = multiprocessing.get_context("fork").Queue()
process = multiprocessing.get_context("fork").Process(target=job, args=(queue, child), daemon=True)
process.start()
try:
    found = queue.get(timeout=100)
except Exception as error:
    found = f"{type(error).__name__}: it hangs"
print(found == before if isinstance(found, float) else found)
"""


def run(parent, child):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, parent, child]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout.strip()


def test_a_fit_that_needs_no_jax_works_in_a_forked_process():
    assert run("poisson", "poisson") == "True"


def test_jax_that_the_parent_has_used_fails_at_once_in_a_forked_process():
    found = run("student_t", "student_t")
    assert found.startswith("ForkedProcessError: this process was forked from one that had used JAX already")
    assert 'start processes by "spawn"' in found
