"""What benchmarks find is kept as `benchmarks/results/NAME.json`; `benchmarks.report` puts it into RESULTS.md."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["RESULTS", "Record", "recording", "say", "show", "skip", "table_lines"]

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("npvi", "jax", "numba", "numpy", "scipy", "scikit-learn")


@dataclass
class Record:
    """Tables and lines, in the order in which they were printed.

    Attributes
    ----------
    parts : tables {"title", "header", "rows"} and lines {"line"}.
    skipped : what couldn't be run; a record with holes isn't kept.
    """

    parts: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


_open: list[Record] = []


@contextmanager
def recording(name: str, folder: Path = RESULTS, keep: bool = True) -> Iterator[Record]:
    """Collect what is shown, and write it to `NAME.json` at the end if it is to be kept and nothing was skipped."""
    about: dict[str, Any] = {"name": name, "date": datetime.now(UTC).date().isoformat(), **_circumstances()}
    record, started, work = Record(), time.perf_counter(), _cpu_seconds()
    _open.append(record)
    try:
        yield record
    finally:
        _open.remove(record)
    if not record.parts:
        return
    if record.skipped or not keep:
        why = f"{', '.join(record.skipped)} skipped" if record.skipped else "options were given"
        print(f"\n  (not kept in {name}.json: {why})")
        return
    about |= {"seconds": round(time.perf_counter() - started, 1), "cpu_seconds": round(_cpu_seconds() - work, 1)}
    folder.mkdir(exist_ok=True)
    text = json.dumps({**about, "parts": record.parts}, indent=1, ensure_ascii=False, default=_plain, allow_nan=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"\n  (kept in {name}.json; `python -m benchmarks.report` puts it into RESULTS.md)")


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table, on standard output and in the record."""
    cells = [[_kept(cell) for cell in row] for row in rows]
    print("\n".join(table_lines(title, header, cells)))
    if _open:
        _open[-1].parts.append({"title": title, "header": list(header), "rows": cells})


def say(line: str) -> None:
    """A line between tables, on standard output and in the record."""
    print(line, flush=True)
    if _open:
        _open[-1].parts.append({"line": line})


def skip(what: str, why: str) -> None:
    """Say what couldn't be run."""
    print(f"  ({what}: skipped, {why})")
    if _open:
        _open[-1].skipped.append(what)


def table_lines(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table as it is printed.

    >>> print("\\n".join(table_lines("Sizes", ("rows", "seconds"), [(100, 0.12345), (1000, 2.0)])))
    <BLANKLINE>
    Sizes
      rows  seconds
      ----  -------
       100    0.123
      1000        2
    """
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in cells]
    return ["", *title.split("\n"), lines[0], "  " + "  ".join("-" * width for width in widths), *lines[1:]]


def _text(cell: object) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def _kept(cell: object) -> object:
    """As JSON has it: numbers as they are, those that are none, and whatever else, as text."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    whole = cell is None or isinstance(cell, str | bool | int)
    return cell if whole or (isinstance(cell, float) and math.isfinite(cell)) else _text(cell)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _circumstances() -> dict[str, Any]:
    """Of which tree, with what and on what kind of machine; no names of hosts, users or folders."""
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py")),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "machine": _machine(),
        "load": round(os.getloadavg()[0], 1),
    }


def _git(*arguments: str) -> str | None:
    """What git says of this tree; None where it isn't there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> str:
    """Such as "2 cores of Intel(R) Xeon(R), 24 GB"."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processor = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores} cores of {processor}, {memory:.0f} GB"


def _cpu_seconds() -> float:
    """Of this process and of those that it started and that are done."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)
