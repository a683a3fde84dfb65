"""Fits in tiles on two workers of Dask, with clients and workers killed at random moments: is the result the same?

python -m benchmarks tiles_killed --kills 20
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import npvi
from benchmarks.common import show

_ROWS, _MORE, _TILE_ROWS = 4000, 200, 400
#: what tasks write last
_FINISHED = re.compile(
    r"\d{5}|gathered|outline|fit|links|thin|moved|posterior|(product|state|step|thin|taken|solved)-\d\d"
)
#: a client of its own process: it fits, or it lets more rows join
_RUN = """
import sys
from distributed import Client
import npvi
from benchmarks.accuracy.tiles_killed import fit, update
with Client({address!r}) as client:
    {what}({folder!r}, {store!r}, client)
"""


def fit(folder: str, store: str, client: Any = None) -> None:
    """To the first rows."""
    kernel = npvi.kernels.Matern(0.05, 1.0, smoothness=1.5)
    settings = {"learn": False, "nugget": 0.01, "n_neighbors": 10, "tile_rows": _TILE_ROWS, "n_jobs": 1}
    model = npvi.TiledRegressor("poisson", kernel, **settings, store=store, client=client)
    model.fit(f"{folder}/first.parquet", target="count", inputs=["x", "y"])


def update(folder: str, store: str, client: Any = None) -> None:
    """With the others."""
    npvi.load(store).set_params(client=client, n_jobs=1).update(f"{folder}/more.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tiles_killed")
    parser.add_argument("--kills", type=int, default=20, help="how often a client or a worker is killed")
    show_kills(parser.parse_args().kills)


def show_kills(kills: int) -> None:
    """So many in a fit, and as many in an update."""
    from distributed import LocalCluster

    rng, rows = random.Random(0), []
    with tempfile.TemporaryDirectory() as folder:
        _tables(folder)
        calm = f"{folder}/calm"
        for what, one in (("fit", fit), ("update", update)):
            one(folder, calm)
            wanted, names = _content(Path(calm)), _files_of(one, folder, calm, what)
            with LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as cluster:
                counts = _killed(cluster.scheduler_address, what, folder, f"{folder}/store", kills, names, rng)
            same = _content(Path(f"{folder}/store")) == wanted
            rows.append((what, len(wanted), counts["client"], counts["worker"], counts["twice"], str(same)))
    header = ("run", "files in the end", "clients killed", "workers killed", "files made twice", "the same bits")
    show("Killed at random moments, and run again", header, rows)


def _tables(folder: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((_ROWS + _MORE, 2))
    X[_ROWS:] = 0.4 + 0.2 * X[_ROWS:]
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "count": rng.poisson(np.exp(np.sin(7.0 * X[:, 0])))})
    table[:_ROWS].to_parquet(f"{folder}/first.parquet", row_group_size=1000)
    table[_ROWS:].to_parquet(f"{folder}/more.parquet")


def _files_of(one: Any, folder: str, calm: str, what: str) -> int:
    """How many files a run makes, of which most are gone in the end."""
    from npvi.tiled import store

    made, replacing = [], store.replacing

    def counted(path: Path) -> Any:
        made.append(path)
        return replacing(path)

    again = f"{folder}/{what}-again"
    if what == "update":
        fit(folder, again)
    store.replacing = counted
    try:
        one(folder, again)
    finally:
        store.replacing = replacing
    return len(made)


def _content(store: Path) -> dict[str, bytes]:
    paths = (path for path in store.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(store)): path.read_bytes() for path in paths}


def _killed(
    address: str, what: str, folder: str, store: str, kills: int, files: int, rng: random.Random
) -> dict[str, int]:
    """Run again and again, until nobody is killed any more; how often who was, and which files were made twice."""
    counts, done, twice = {"client": 0, "worker": 0}, _Files(Path(store)), 0
    workers = [_worker(address), _worker(address)]
    code = _RUN.format(address=address, what=what, folder=folder, store=store)
    run = None
    for _ in range(kills):
        if run is None or run.poll() is not None:
            run = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
        twice += done.wait(run, rng.randint(1, max(1, 2 * files // (kills + 8))))
        if run.poll() is not None:  # nobody is left
            assert run.returncode == 0, run.communicate()[1].decode()
            break
        who = rng.choice(("client", "worker"))
        if who == "client":
            run.send_signal(signal.SIGKILL)
            run.communicate()
            run = None
        else:
            k = rng.randrange(2)
            workers[k].kill()
            workers[k].wait()
            workers[k] = _worker(address)
        counts[who] += 1
    if run is None:
        run = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    twice += done.wait(run, 10**9)
    assert run.wait() == 0, run.communicate()[1].decode()
    for worker in workers:
        worker.kill()
        worker.wait()
    return {**counts, "twice": twice}


def _worker(address: str) -> subprocess.Popen:
    """One with one thread, which nobody looks after."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    return subprocess.Popen([*command, "--nthreads", "1", "--no-nanny", "--no-dashboard"], stderr=subprocess.DEVNULL)


class _Files:
    """Which files of a store were seen, and whether one that is finished is made again."""

    def __init__(self, store: Path) -> None:
        self.store, self.states = store, {}

    def wait(self, run: Any, wanted: int) -> int:
        """Until there are so many new ones, or the run has ended; how many were made twice meanwhile."""
        seen = twice = 0
        while seen < wanted and run.poll() is None:
            for path in self._paths():
                try:
                    about = path.stat()
                except FileNotFoundError:
                    continue
                state = (about.st_ino, about.st_mtime_ns)
                before = self.states.setdefault(path, state)
                seen += before is state
                if before != state:
                    twice += _FINISHED.fullmatch(path.stem) is not None and path.suffix == ".npvi"

                    self.states[path] = state
            time.sleep(0.002)
        return twice

    def _paths(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self.store):
            yield from (Path(folder) / name for name in names if name.endswith((".npvi", ".f64", ".rows")))


if __name__ == "__main__":
    main()
