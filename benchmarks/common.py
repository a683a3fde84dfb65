"""What the benchmarks share: the data folder, timing, tables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.record import say, show, skip

__all__ = ["best", "load", "means_beside", "say", "show", "skip"]


def load(name: str) -> dict[str, np.ndarray] | None:
    """The arrays of one benchmark set, or None (with a line that says so) where the data folder is absent."""
    folder = os.environ.get("NPVI_DATA")
    path = Path(folder or "", "benchmarks", f"{name}.npz")
    if not folder or not path.exists():
        skip(name, f"no {path.name} under the folder that NPVI_DATA names")
        return None
    with np.load(path) as arrays:
        return {key: arrays[key].astype(np.float64) for key in arrays.files}


def best(function: Callable[[], object], repeats: int = 5) -> float:
    """Shortest of several wall times in seconds: what the code costs when nobody else is at the machine."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def means_beside(mean: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Predicted means against what was seen: root mean squared error, and the ratio of both sums.

    >>> means_beside(np.array([2.0, 4.0]), np.array([1.0, 3.0]))
    (1.0, 1.5)
    """
    return float(np.sqrt(np.mean((mean - y) ** 2))), float(mean.sum() / y.sum())
