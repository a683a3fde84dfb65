"""A first fit that compiles says so on one line; one that finds its loops on disk, or is told to be quiet, doesn't."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import sys, numpy as np, npvi
X = np.random.default_rng(0).random((40, 1))
model = npvi.GPRegressor(kernel=npvi.kernels.RBF(0.3), learn=False, verbose=sys.argv[1] == "loud")
model.fit(X, X[:, 0])
"""


def test_the_first_fit_says_that_it_compiles(tmp_path):
    def lines(volume: str) -> list[str]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", CODE, volume]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return [line for line in done.stderr.splitlines() if "compiling" in line]

    assert lines("loud") == ["npvi: compiling loops, which are kept on disk for the next time"]
    assert lines("loud") == []


def test_quiet_fits_say_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CODE, "quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "compiling" not in done.stderr
