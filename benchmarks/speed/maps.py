"""A map of 2,000 × 2,000 cells: time and memory beside one call of predict_dist per chunk.

    python -m benchmarks maps [--side 2000] [--rows 20000]

Mean, standard deviation, three quantiles and a probability of exceeding a threshold of each cell, after counts with
their parameters held, two threads. The loop asks for the same numbers, as many cells at a time as a map takes, and
keeps them; what it leaves out are axes, reach, masks and names. Memory is the largest resident size of a process of
its own for each, imports, data and model included; the map reports how far it is, which is counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.common import show
from npvi import GPRegressor
from npvi.kernels import Matern32
from npvi.maps.predicting import CELLS
from npvi.runtime import progress

_LEVELS, _THRESHOLD = (0.05, 0.5, 0.95), 3.0


def fitted(rows: int) -> GPRegressor:
    """Counts on a square of as many units of area as there are rows."""
    rng = np.random.default_rng(0)
    X = np.sqrt(rows) * rng.random((rows, 2))
    y = rng.poisson(np.exp(0.5 + 0.7 * np.sin(X[:, 0] / 12.0) + 0.5 * np.cos(X[:, 1] / 9.0)))
    return GPRegressor("poisson", Matern32(10.0, variance=0.5), nugget=0.01, learn=False, n_jobs=2).fit(X, y)


def axes_of(rows: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres of columns and of rows."""
    middle = (np.arange(side) + 0.5) * np.sqrt(rows) / side
    return middle, middle[::-1]


def mapped(model: GPRegressor, rows: int, side: int) -> dict[str, np.ndarray]:
    """By `predict_grid`."""
    found = model.predict_grid(axes_of(rows, side), quantiles=_LEVELS, exceed=_THRESHOLD)
    return {str(name): values.to_numpy() for name, values in found.data_vars.items()}


def looped(model: GPRegressor, rows: int, side: int) -> dict[str, np.ndarray]:
    """By one call of `predict_dist` per chunk."""
    x, y = axes_of(rows, side)
    step = max(1, CELLS // side)
    pieces = []
    for start in range(0, side, step):
        places = np.column_stack([one.ravel() for one in np.meshgrid(x, y[start : start + step])])
        dist = model.predict_dist(places)
        pieces.append([dist.mean, dist.std, *dist.quantile(list(_LEVELS)), dist.exceed(_THRESHOLD)])
    names = ("mean", "std", "q5", "q50", "q95", "exceed_3")
    return {name: np.concatenate(parts).reshape(side, side) for name, parts in zip(names, zip(*pieces))}


_WAYS = {"predict_grid": mapped, "predict_dist per chunk": looped}


def alone(way: str, rows: int, side: int) -> dict[str, Any]:
    """CPU and wall seconds, peak memory in GB, and the sums of what came out."""
    model = fitted(rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _WAYS[way](model, rows, 64)  # compiles
    reports: list[float] = []
    cpu, wall = time.process_time(), time.perf_counter()
    with progress.reporting(lambda stage, numbers: reports.append(numbers["cells"]) if stage == "map" else None):
        found = _WAYS[way](model, rows, side)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sums = {name: float(np.nansum(values)) for name, values in found.items()}
    return {"cpu": cpu, "wall": wall, "peak": peak / 2**20, "before": before / 2**20, "n": len(reports), "sums": sums}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--alone", choices=tuple(_WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone is not None:
        print(json.dumps(alone(options.alone, options.rows, options.side)))
        return
    size = ["--side", str(options.side), "--rows", str(options.rows)]
    found = {}
    for way in _WAYS:
        command = [sys.executable, "-m", "benchmarks.speed.maps", *size, "--alone", way]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
    one, other = found.values()
    rows = [
        [
            way,
            f"{r['cpu']:.1f}",
            f"{r['wall']:.1f}",
            f"{r['cpu'] / other['cpu']:.2f}",
            f"{r['peak']:.2f}",
            r["n"] or "none",
        ]
        for way, r in found.items()
    ]
    off = max(abs(one["sums"][name] / value - 1.0) for name, value in other["sums"].items())
    title = (
        f"{options.side:,} × {options.side:,} cells, {options.rows:,} rows of counts: mean, sd, 3 quantiles, exceedance"
    )
    show(title, ("how", "CPU s", "wall s", "CPU ratio", "peak GB", "reports of progress"), rows)
    show("the same numbers", ("largest difference of a sum, relative",), [[f"{off:.0e}"]])


if __name__ == "__main__":
    main()
