"""What a new process pays: `import npvi`, and compilation in the first fit with and without its cache on disk.

python -m benchmarks cold_start
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.common import best, show

_FIT = """
import time, numpy as np, npvi
npvi.GPRegressor  # names are imported when first used: here, not inside the timed fit
rng = np.random.default_rng(0)
X = rng.random((10_000, 2)); y = rng.poisson(np.exp(1.0 + np.sin(6 * X[:, 0])))
def fit():
    started = time.process_time(); npvi.GPRegressor("poisson").fit(X, y); return time.process_time() - started
imports = time.process_time()
print(imports, fit(), fit())
"""

_HELP = """
import atexit, sys, time
atexit.register(lambda: print(time.process_time()))
sys.argv = ["npvi", "--help"]
from npvi.cli import main
main()
"""


def main() -> None:
    def run(code: str, **environment: str) -> str:
        # modules are there as bytecode, as pip leaves them
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=usual | environment)
        return done.stdout

    base = best(lambda: run("import jax, sklearn, scipy.sparse"))
    lazy = best(lambda: run("import npvi"))
    ours = best(lambda: run("import npvi; npvi.GPRegressor"))
    show(
        "Import",
        ("jax, sklearn, scipy.sparse s", "npvi s", "ratio (≤ 1.3)", "and GPRegressor s", "ratio"),
        [(base, lazy, lazy / base, ours, ours / base)],
    )
    seconds = min(float(run(_HELP).split()[-1]) for _ in range(3))
    show("The command line, CPU seconds", ("npvi --help (≤ 0.5)",), [(seconds,)])
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first process", "second process"):
            imports, first, second = map(float, run(_FIT, NUMBA_CACHE_DIR=cache).split())
            rows.append((name, imports, first, second, imports + first))
    header = ("empty cache", "imports", "first fit", "second fit", "imports and first fit (≤ 9, then ≤ 3)")
    show("Default fit of 10,000 counts, CPU seconds", header, rows)


if __name__ == "__main__":
    main()
