"""What a new process pays: `import npvi`, and compilation in the first fit with and without its cache on disk.

python -m benchmarks cold_start
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.common import best, show

_FIT = """
import time, numpy as np, npvi
npvi.GPRegressor  # names are imported when first used: here, not inside the timed fit
rng = np.random.default_rng(0)
X = rng.random((10_000, 2)); y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(10_000)
def fit():
    started = time.perf_counter(); npvi.GPRegressor().fit(X, y); return time.perf_counter() - started
print(fit(), fit())
"""


def main() -> None:
    def run(code: str, **environment: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
        return done.stdout

    base = best(lambda: run("import jax, sklearn, scipy.sparse"))
    lazy = best(lambda: run("import npvi"))
    ours = best(lambda: run("import npvi; npvi.GPRegressor"))
    show(
        "Import",
        ("jax, sklearn, scipy.sparse s", "npvi s", "ratio (≤ 1.3)", "and GPRegressor s", "ratio"),
        [(base, lazy, lazy / base, ours, ours / base)],
    )
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first process", "second process"):
            started = time.perf_counter()
            first, second = map(float, run(_FIT, NUMBA_CACHE_DIR=cache).split())
            rows.append((name, first, second, first - second, time.perf_counter() - started))
    header = ("empty cache", "first fit s", "second fit s", "compiling s (≤ 10 in the first)", "whole process s")
    show("Default fit of 10,000 rows", header, rows)


if __name__ == "__main__":
    main()
