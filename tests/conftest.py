"""Test processes run side by side.

A BLAS that takes every core in each of them makes all of them wait. What JAX compiled in one of them, which takes
longer than most of what is done with it, serves the others, and the next run.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy  # noqa: F401  (what isn't loaded can't be limited)
import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_limits

from npvi.model import hyper

if "PYTEST_XDIST_WORKER" in os.environ:
    threadpool_limits(1, "blas")

# JAX reads these when it is first imported, here and in programs that tests start. Most of what it compiles runs once,
# and making that fast takes far longer than running it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def pytest_configure(config):
    # what another process is just writing can't be read yet, and is compiled here as well
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache entry")


def pytest_collection_finish(session):
    # compiling makes hundred thousands of objects that stay: to look through them for cyclic garbage as often as Python
    # does by itself takes a tenth of the time of all tests
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


_LIMITS = hyper._ROWS, hyper._ROWS_COLLAPSED


@pytest.fixture(scope="session", autouse=True)
def _plugged_in():
    """Few rows make `hyper="auto"` fit some twenty models around the best one, of which most tests have nothing to say:
    here it takes the best, unless a module or a test asks for `integrating`."""
    hyper._ROWS, hyper._ROWS_COLLAPSED = 0, 0


@pytest.fixture(scope="module")
def integrating():
    """What users have."""
    hyper._ROWS, hyper._ROWS_COLLAPSED = _LIMITS
    yield
    hyper._ROWS, hyper._ROWS_COLLAPSED = 0, 0
