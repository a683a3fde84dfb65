"""Each case in a process of its own, one at a time; what was found is kept in files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.beside.peers.cases import Case
from benchmarks.beside.peers.sides import SOFTWARE
from npvi.runtime.files import replacing

__all__ = ["THREADS", "Store", "run"]

#: every core that this process may use, for every program alike
THREADS = len(os.sched_getaffinity(0))
#: seconds that starting, a first fit and scoring may take besides
_BESIDES = 600.0
_ROOT = Path(__file__).resolve().parents[3]


def run(case: Case, limit: float, repeats: int = 1) -> dict[str, Any]:
    """What `child.measure` found, with an "outcome": "finished", "stopped", "out of time" or "failed"."""
    task = {"data": case.data, "software": case.software, "noise": case.noise, "options": case.options}
    task |= {"threads": THREADS, "limit": limit, "repeats": repeats}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(THREADS))}
    command = [sys.executable, "-m", "benchmarks.beside.peers.child", json.dumps(task)]
    whole = repeats * limit + _BESIDES
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=whole)
    except subprocess.TimeoutExpired:
        return {"outcome": "failed", "reason": f"no end after {whole:.0f} s, starting and scoring included"}
    if done.returncode == -signal.SIGALRM:
        return {"outcome": "out of time"}
    if done.returncode != 0:
        return {"outcome": "failed", "reason": _reason(done.returncode, done.stderr)}
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "outcome": "stopped" if found.pop("stopped") else "finished"}


def _reason(code: int, errors: str) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}" + (", most likely for want of memory" if code == -9 else "")
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with status {code}"


class Store:
    """Finished cases as JSON files in a folder, each written whole or not at all.

    A result holds while versions, code and threads are the same; that of a run which was out of time, while no longer
    limit is asked for. Failures are tried again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, case: Case) -> dict[str, Any] | None:
        """What was last found, however it was made."""
        path = self._path(case)
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is not a result of this benchmark ({error}): remove it") from error

    def holds(self, case: Case, limit: float) -> bool:
        """Whether the case need not run again."""
        found = self.get(case)
        if found is None or found["outcome"] == "failed" or found["made_with"] != made_with(case):
            return False
        return found["outcome"] == "finished" or found["limit"] >= limit

    def put(self, case: Case, found: dict[str, Any], limit: float) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {**found, "limit": limit, "date": time.strftime("%Y-%m-%d"), "made_with": made_with(case)}
        with replacing(self._path(case)) as file:
            file.write(json.dumps(found, indent=1).encode())
        return found

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.name}.json"


def made_with(case: Case) -> dict[str, Any]:
    """What a result depends on, besides the data."""
    here = Path(__file__).parent
    sources = [here / f"{name}.py" for name in ("child", "scoring", "forecasts")]
    sources.append(here / "sides" / f"{SOFTWARE[case.software].module}.py")
    if case.software == "npvi":
        sources += sorted((_ROOT / "src" / "npvi").rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    return {"options": case.options, "threads": THREADS, "code": digest, "versions": versions(case.software)}


def versions(software: str) -> dict[str, str | None]:
    """Of the packages that a program consists of; None for one that isn't installed."""
    found: dict[str, str | None] = {}
    for package in SOFTWARE[software].packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found
