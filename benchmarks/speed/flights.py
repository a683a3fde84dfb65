"""Flight delays, 800,000 rows in 8-d: time and peak memory at a quarter, half and all of them.

    NPVI_DATA=... python -m benchmarks flights

Each run is a process of its own, which fits once, as a user's does; the fastest of three counts. (A second fit in the
same process would find its memory already mapped at the smaller sizes, and not at the largest.)
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import show, skip

_INPUTS = ["plane_age", "distance", "air_time", "dep_time", "arr_time", "day_of_week", "day_of_month", "month"]


def main() -> None:
    folder = os.environ.get("NPVI_DATA")
    if not folder or not Path(folder, "flight_delay").exists():
        skip("flights", "no flight_delay under the folder that NPVI_DATA names")
        return
    for order in ("grid", "maximin"):
        _table(order)


def _table(order: str) -> None:
    results = []
    for share in (0.25, 0.5, 1.0):
        command = [sys.executable, "-m", "benchmarks.speed.flights", str(share), order]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
        results.append(min((json.loads(run.stdout.splitlines()[-1]) for run in runs), key=lambda run: run["total"]))
    rows = []
    first = results[0]
    for now in results:
        growth = f"{now['total'] / first['total']:.2f}"
        expected = f"{_n_log_n(now) / _n_log_n(first):.2f}"
        numbers = [now[name] for name in ("graph", "prior", "inference", "predict", "total", "peak_gb", "nlpd")]
        rows.append((now["rows"], *numbers, growth, expected))
    show(
        f'Flights, order="{order}", RBF, K = 10, log-normal noise 0.01: seconds, peak memory, growth next to N log N',
        ("train rows", "graph", "prior", "inference", "predict", "total", "peak GB", "NLPD", "growth", "N log N"),
        rows,
    )


def _n_log_n(result: dict) -> float:
    return result["rows"] * math.log(result["rows"])


def _peak_gb() -> float:
    """Peak memory of this process. (Not getrusage's: on Linux that one starts from the parent's.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**20
    raise OSError("no VmHWM in /proc/self/status")


def one(share: float, order: str = "maximin") -> dict:
    """Fit and predict on a random share of the rows, 70 % of it for training."""
    import npvi

    table = pd.read_parquet(Path(os.environ["NPVI_DATA"], "flight_delay", "flight_delay.parquet"))
    delay = table["arr_delay"].to_numpy(float)
    low, high = np.quantile(delay, [0.001, 0.99])
    kept = (delay >= low) & (delay <= high)
    delay = delay[kept]
    X = table.loc[kept, _INPUTS].to_numpy(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (delay - delay.min() + 1.0) / (delay.max() - delay.min() + 1.0)
    rows = np.random.default_rng(0).permutation(len(y))[: int(share * len(y))]
    train, test = np.split(rows, [int(0.7 * len(rows))])
    # compile on a few rows first, so that the times compare
    settings = {"nugget": 0.1, "mean": "zero", "method": "npvi", "learn": False, "n_neighbors": 10}
    small = npvi.GPRegressor("lognormal", "rbf", **settings).fit(X[rows[:2000]], y[rows[:2000]])
    small.predict_dist(X[rows[:100]]).log_prob(y[rows[:100]])
    started = time.perf_counter()
    model = npvi.GPRegressor("lognormal", "rbf", order=order, **settings).fit(X[train], y[train])
    fitted = time.perf_counter()
    nlpd = -float(model.predict_dist(X[test]).log_prob(y[test]).mean())
    ended = time.perf_counter()
    times = {**model.fit_info_["seconds"], "predict": ended - fitted, "total": ended - started}
    return {"rows": len(train), **times, "nlpd": nlpd, "peak_gb": _peak_gb()}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one(float(sys.argv[1]), *sys.argv[2:])))
    else:
        main()
