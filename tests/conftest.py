"""Test processes run side by side: a BLAS that takes every core in each of them makes all of them wait."""

from __future__ import annotations

import os

import numpy  # noqa: F401  (what isn't loaded can't be limited)
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_limits

if "PYTEST_XDIST_WORKER" in os.environ:
    threadpool_limits(1, "blas")
