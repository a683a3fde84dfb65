"""One program on one data set, in a process of its own: `running` starts it, and reads its last line."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside.peers.arrays import arrays
from benchmarks.beside.peers.scoring import scores
from benchmarks.beside.peers.sides import Side, make

__all__ = ["measure"]

#: seconds that the fit on a few rows before the timed one may take, where it can be stopped
_WARM_UP = 3.0


def measure(side: Side, data: dict[str, np.ndarray], limit: float, repeats: int = 1) -> dict[str, Any]:
    """Seconds, memory and scores of a program that has run once before; the fastest of `repeats` counts.

    "fit" and "predict" are by the wall, "cpu" is of both together, all threads of the process added up.

    A timed fit with its predictions that takes longer than `limit` ends the process by SIGALRM, whatever it is doing.
    """
    rows = slice(side.warm_up_rows)
    started = time.perf_counter()
    _once(side, data, rows, _WARM_UP)
    first = time.perf_counter() - started
    runs = []
    for _ in range(repeats):
        signal.setitimer(signal.ITIMER_REAL, limit)
        runs.append(_once(side, data, slice(None), limit))
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    peak = _peak_mb()  # before scores, which need other programs
    fit, predict, cpu, predicted, stopped = min(runs, key=lambda run: run[0] + run[1])
    found = {"first": first, "fit": fit, "predict": predict, "cpu": cpu, "peak_mb": peak, "stopped": stopped}
    return found | scores(side.forecast(predicted), data["y_test"])


def _once(
    side: Side, data: dict[str, np.ndarray], rows: slice, seconds: float
) -> tuple[float, float, float, Any, bool]:
    started, cpu = time.perf_counter(), time.process_time()
    model = side.fit(data["X_train"][rows], data["y_train"][rows], seconds)
    fitted = time.perf_counter()
    predicted = side.predict(model, data["X_test"])
    ended = time.perf_counter()
    return fitted - started, ended - fitted, time.process_time() - cpu, predicted, side.stopped


def _peak_mb() -> float:
    """Peak memory of this process, the interpreter, libraries and data included, nothing taken off.

    Not getrusage's: on Linux that one starts from the parent's.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024.0
    raise OSError("no VmHWM in /proc/self/status")


def main() -> None:
    task = json.loads(sys.argv[1])
    data = arrays(task["data"])
    if data is None:
        sys.exit(f"no data set {task['data']!r} under the folder that NPVI_DATA names")
    side = make(task["software"], task["noise"], task["threads"], **task["options"])
    print(json.dumps(measure(side, data, task["limit"], task["repeats"])))


if __name__ == "__main__":
    main()
