"""Poisson counts from 10³ to 10⁶ points: time and memory, at fixed parameters and learned; what an update costs beside.

    python -m benchmarks growth

Each run is a process of its own; the fastest of three counts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside.peers.arrays import simulated
from benchmarks.common import show

_SIZES = (100_000, 400_000, 1_000_000)
#: everything learned, one run each
_DEFAULTS = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    results = []
    for n in _SIZES:
        runs = [_run("fixed", n) for _ in range(3)]
        results.append(min(runs, key=lambda run: run["total"]))
    rows = []
    before = None
    for now in results:
        growth = expected = ""
        if before is not None:
            growth = f"{now['total'] / before['total']:.2f}"
            expected = f"{1.25 * _n_log_n(now) / _n_log_n(before):.2f}"
        numbers = [now[name] for name in ("graph", "prior", "inference", "predict", "total", "peak_gb")]
        rows.append((now["rows"], *numbers, growth, expected))
        before = now
    header = ("points", "graph", "prior", "inference", "predict", "total", "peak GB", "growth", "allowed")
    show("Poisson counts, fixed parameters, exponential kernel, K = 20: seconds", header, rows)
    rows = []
    for n in (20_000, 100_000):
        runs = [_run("learn", n) for _ in range(3)]
        one = {name: min(run[name] for run in runs) for name in ("fixed", "learned", "update")}
        one["off"] = max(run["off"] for run in runs)
        rows.append(
            (
                n,
                one["fixed"],
                one["learned"],
                one["learned"] / one["fixed"],
                one["update"],
                one["update"] / one["fixed"],
                one["update"] / one["learned"],
                f"{one['off']:.1e}",
            )
        )
    header = (
        "points",
        "fixed, CPU s",
        "learned, CPU s",
        "in fits (≤ 25)",
        "update, CPU s",
        "of fixed",
        "of a default fit",
        "off by (sd)",
    )
    show("Learning, and an update with 1 % new points, compilation left out", header, rows)
    rows = []
    for n in _DEFAULTS:
        now = _run("defaults", n)
        rows.append((n, *(now[name] for name in ("cpu", "fit", "evaluations", "predict_cpu", "file_mb", "peak_gb"))))
    header = ("points", "fit, CPU s", "fit, wall s", "evaluations", "5,000 predictions, CPU s", "file MB", "peak GB")
    show("All defaults, everything learned, compilation left out", header, rows)


def _run(what: str, n: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed.growth", what, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _n_log_n(result: dict) -> float:
    return result["rows"] * math.log(result["rows"])


def _peak_gb() -> float:
    """Peak memory of this process. (Not getrusage's: on Linux that one starts from the parent's.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**20
    raise OSError("no VmHWM in /proc/self/status")


def _model(**settings: Any) -> Any:
    import npvi

    fixed = {"kernel": npvi.kernels.Matern12(0.1, 1.0), "nugget": 1e-3, "learn": False}
    return npvi.GPRegressor("poisson", **(fixed | settings))


def fixed(n: int) -> dict[str, Any]:
    data = simulated(n)
    small = _model().fit(data["X_train"][:5000], data["y_train"][:5000])  # compiles
    _ = small.predict_dist(data["X_test"]).mean
    started = time.perf_counter()
    model = _model().fit(data["X_train"], data["y_train"])
    fitted = time.perf_counter()
    _ = model.predict_dist(data["X_test"]).mean
    ended = time.perf_counter()
    seconds = {**model.fit_info_["seconds"], "predict": ended - fitted, "total": ended - started}
    return {"rows": n, **seconds, "peak_gb": _peak_gb()}


def defaults(n: int) -> dict[str, Any]:
    import npvi

    data = simulated(n)
    X, y = data["X_train"], data["y_train"]
    _ = npvi.GPRegressor("poisson").fit(X[:20_000], y[:20_000]).predict_dist(data["X_test"]).std  # compiles
    started, cpu = time.perf_counter(), time.process_time()
    model = npvi.GPRegressor("poisson").fit(X, y)
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    dist = model.predict_dist(data["X_test"])
    _ = dist.mean, dist.std
    predicted = time.process_time()
    peak = _peak_gb()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npvi")
        size = (Path(folder) / "model.npvi").stat().st_size / 1e6
    return {
        "fit": fitted - started,
        "cpu": fitted_cpu - cpu,
        "predict_cpu": predicted - fitted_cpu,
        "evaluations": model.fit_info_["learning"]["evaluations"],
        "file_mb": size,
        "peak_gb": peak,
    }


def learn(n: int) -> dict[str, Any]:
    import npvi

    data = simulated(n)
    X, y = data["X_train"], data["y_train"]
    npvi.GPRegressor("poisson").fit(X[:20_000], y[:20_000])  # compiles
    started = time.process_time()
    model = npvi.GPRegressor("poisson").fit(X, y)
    learned = time.process_time() - started
    settings = {"kernel": model.kernel_, "nugget": model.nugget_}
    started = time.process_time()
    _model(**settings).fit(X, y)
    single = time.process_time() - started
    old = n - n // 100
    whole = _model(**settings, order="given").fit(X, y)
    updates = []
    for _ in range(4):  # the first one compiles
        part = _model(**settings, order="given").fit(X[:old], y[:old])
        started = time.process_time()
        part.update(X[old:], y[old:])
        updates.append(time.process_time() - started)
    one, other = part.predict_dist(data["X_test"]), whole.predict_dist(data["X_test"])
    sd = np.sqrt(other.latent_var)
    off = max(np.abs(one.latent_mean - other.latent_mean) / sd, np.abs(np.sqrt(one.latent_var) / sd - 1.0), key=np.max)
    return {"learned": learned, "fixed": single, "update": min(updates[1:]), "off": float(off.max())}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps({"fixed": fixed, "learn": learn, "defaults": defaults}[sys.argv[1]](int(sys.argv[2]))))
    else:
        main()
