"""What a saved model costs to serve: its file, a new process, and milliseconds a question, on one thread and on two.

    python -m benchmarks serving

Models of simulated counts with hyper-parameters held, saved, and loaded by a process of its own. Medians over many
questions after the first; the first one compiles, unless a process before has left that on disk. Wall times, with CPU
times beside.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside.peers.arrays import simulated
from benchmarks.common import show

_SIZES = (10_000, 100_000, 1_000_000)
_THREADS = (1, 2)
_ROWS = (1, 100, 10_000)


def main() -> None:
    import npvi

    files, questions = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in _SIZES:
            path = Path(folder) / f"{n}.npvi"
            data = simulated(n)
            kernel = npvi.kernels.Matern12(0.1, 1.0)
            npvi.GPRegressor("poisson", kernel, nugget=1e-3, learn=False).fit(data["X_train"], data["y_train"]).save(
                path
            )
            _ask(path, 1)  # leaves on disk what it compiled
            for threads in _THREADS:
                found = _ask(path, threads)
                if threads == 1:
                    size = path.stat().st_size / 1e6
                    files.append(
                        (n, size, found["import"], found["load"], found["load_cpu"], found["first"], found["gb"])
                    )
                questions += [(n, threads, int(rows), *answer) for rows, answer in found["answers"].items()]
    header = ("rows fitted", "file MB", "import s", "load s", "load, CPU s", "first answer s", "peak GB")
    show("A process that loads a model and answers, one thread", header, files)
    header = ("rows fitted", "threads", "rows asked", "mean and sd, ms", "CPU ms", "90 % interval, ms", "CPU ms")
    show("Milliseconds a question", header, questions)


def _ask(path: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed.serving", str(path), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _answer(path: str, threads: int) -> dict[str, Any]:
    started = time.perf_counter()
    import npvi

    loader = npvi.load
    imported = time.perf_counter()
    cpu = time.process_time()
    model = loader(path)
    loaded, loaded_cpu = time.perf_counter(), time.process_time()
    model.set_params(n_jobs=threads)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(max(_ROWS), 2))
    dist = model.predict_dist(X[:1])
    _ = dist.mean, dist.std, dist.interval(0.9)
    first = time.perf_counter()
    answers = {}
    for rows in _ROWS:
        repeats = 200 if rows < 1000 else 5
        moments = [_timed(lambda rows=rows: _moments(model.predict_dist(X[:rows]))) for _ in range(repeats)]
        intervals = [_timed(lambda rows=rows: model.predict_dist(X[:rows]).interval(0.9)) for _ in range(repeats)]
        answers[rows] = [1e3 * float(value) for times in (moments, intervals) for value in np.median(times, axis=0)]
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {
        "import": imported - started,
        "load": loaded - imported,
        "load_cpu": loaded_cpu - cpu,
        "first": first - loaded,
        "gb": int(peak.split()[1]) / 2**20,
        "answers": answers,
    }


def _moments(dist: Any) -> tuple[np.ndarray, np.ndarray]:
    return dist.mean, dist.std


def _timed(function: Any) -> tuple[float, float]:
    started, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - started, time.process_time() - cpu


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(_answer(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
