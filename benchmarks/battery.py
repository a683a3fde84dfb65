"""What the batteries share: options, cases spread over processes, rows written as JSON.

A battery is a list of cases (dicts of arguments) and a function that turns one case into rows (dicts of figures).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import say

__all__ = ["column", "fan_out", "groups", "parser", "spread"]

Row = dict[str, Any]

#: read by libraries when they are loaded, so they are set before a process starts
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CACHE = "JAX_COMPILATION_CACHE_DIR"


def parser(text: str | None, seeds: int) -> argparse.ArgumentParser:
    """Options that every battery has; its own are added to it."""
    options = argparse.ArgumentParser(description=(text or "").strip().splitlines()[0])
    options.add_argument("--jobs", type=int, default=1, help="processes, each with its share of the cores (1)")
    options.add_argument("--limit", type=float, help="seconds after which what isn't done is left out")
    options.add_argument("--json", type=Path, help="file for all rows, written after every case")
    options.add_argument("--seeds", type=int, nargs="+", default=list(range(seeds)), help=f"0 to {seeds - 1}")
    return options


def fan_out(function: Callable[..., list[Row]], cases: Sequence[Row], chosen: argparse.Namespace) -> list[Row]:
    """The rows of ``function(**case)`` for all cases, each joined to its case, in the order of the cases.

    A case that fails has one row with ``error``; what was warned of is in ``warnings``. With one job everything happens
    in this process, on all its cores; several have processes of their own, pinned to their share of the cores.
    """
    started, found = time.monotonic(), dict[int, list[Row]]()
    for number, rows in (_here if chosen.jobs == 1 else _in_processes)(function, cases, chosen):
        found[number] = rows
        _report(cases[number], rows, f"{len(found)} of {len(cases)}, {time.monotonic() - started:.0f} s")
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(_in_order(found), default=_plain, indent=0))
    if len(found) < len(cases):
        say(f"  ({len(cases) - len(found)} of {len(cases)} cases were not done within {chosen.limit:g} s)")
    rows = _in_order(found)
    failed = sum("error" in row for row in rows)
    if failed:
        say(f"  ({failed} of {len(cases)} cases failed; they are left out below)")
    return [row for row in rows if "error" not in row]


def groups(rows: Iterable[Row], *keys: str) -> Iterator[tuple[tuple, list[Row]]]:
    """Rows that agree in the columns `keys`, in the order in which they first appear.

    >>> [(key, len(part)) for key, part in groups([{"a": 1}, {"a": 2}, {"a": 1}], "a")]
    [((1,), 2), ((2,), 1)]
    """
    parts: dict[tuple, list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[key] for key in keys), []).append(row)
    yield from parts.items()


def column(rows: Iterable[Row], name: str) -> np.ndarray:
    """One column of numbers; NaN where a row has none."""
    values = (row.get(name) for row in rows)
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def spread(values: np.ndarray, digits: int = 3) -> str:
    """Mean ± standard deviation.

    >>> spread(np.array([1.0, 3.0]))
    '2.000 ± 1.414'
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def _here(function: Callable, cases: Sequence[Row], chosen: argparse.Namespace) -> Iterator[tuple[int, list[Row]]]:
    started = time.monotonic()
    for number, case in enumerate(cases):
        if chosen.limit is not None and time.monotonic() - started > chosen.limit:
            return
        yield number, _rows(function, case)


def _in_processes(
    function: Callable, cases: Sequence[Row], chosen: argparse.Namespace
) -> Iterator[tuple[int, list[Row]]]:
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    jobs = min(chosen.jobs, len(cases))
    each = max(1, len(cores) // jobs)
    shares = context.Queue()
    for job in range(jobs):
        shares.put([cores[(job * each + k) % len(cores)] for k in range(each)] if cores else [])
    before = {name: os.environ.get(name) for name in (*_THREADS, _CACHE)}
    os.environ.update(dict.fromkeys(_THREADS, str(each)))
    compiled = tempfile.TemporaryDirectory()  # by one process, for all
    os.environ.setdefault(_CACHE, compiled.name)
    pool = ProcessPoolExecutor(jobs, context, _pin, (shares,))
    try:
        numbers = {pool.submit(_rows, function, case): number for number, case in enumerate(cases)}
        for future in as_completed(numbers, chosen.limit):
            yield numbers[future], future.result()
    except TimeoutError:
        for process in multiprocessing.active_children():
            process.terminate()
    finally:
        pool.shutdown(cancel_futures=True)
        compiled.cleanup()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _pin(shares: Any) -> None:
    """Give this process its cores: threads of npvi, JAX and BLAS are then as many as these."""
    cores = shares.get()
    if cores:
        os.sched_setaffinity(0, cores)


def _rows(function: Callable[..., list[Row]], case: Row) -> list[Row]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
        try:
            rows = function(**case)
        except Exception as error:  # one case must not end all others
            rows = [{"error": f"{type(error).__name__}: {error}"}]
    said = sorted({str(one.message) for one in caught if issubclass(one.category, UserWarning)})
    return [case | row | ({"warnings": said} if said else {}) for row in rows]


def _report(case: Row, rows: Sequence[Row], progress: str) -> None:
    name = " ".join(str(value) for value in case.values() if value is not None and not isinstance(value, list))
    failures = "".join(f": {row['error']}" for row in rows if "error" in row)
    print(f"  {name}{failures} ({progress})", flush=True)


def _in_order(found: dict[int, list[Row]]) -> list[Row]:
    return [row for number in sorted(found) for row in found[number]]


def _plain(value: Any) -> Any:
    """What JSON doesn't know."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
