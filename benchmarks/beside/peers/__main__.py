"""All programs on all data sets, into `RESULTS.md` and `peers.csv`.

    NPVI_DATA=... python -m benchmarks.beside.peers [--limit SECONDS] [--again] [--data NAME …] [--software NAME …]

Finished runs are kept under `results/peers` and not repeated.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.beside.peers.arrays import present
from benchmarks.beside.peers.cases import CASES, DATA, Case
from benchmarks.beside.peers.running import THREADS, Store, run
from benchmarks.beside.peers.sides import SOFTWARE
from benchmarks.beside.peers.table import Row, as_csv, as_markdown, between_markers, paired
from npvi.runtime.files import replacing

_ROOT = Path(__file__).resolve().parents[3]
_NOTES = (
    "*fit s*, *predict s*: mean and variance for all test rows, of f for Gaussian processes, else of y. Each run is a "
    "process of its own, one at a time. Of npvi the second fit in its process counts; peers fitted 500 rows before.",
    "*times ours*: fit and predict together, by ours with the same noise, else by ours with the best NLPD. **Bold**: "
    "better than that row of ours.",
    "*peak MB*: of the whole process up to the end of the predictions, interpreter, libraries and data included.",
    "*NLPD*, *CRPS*: per test row, lower is better; CRPS from 1,000 draws per row, for all alike. *90 % covers*: share "
    "of the test rows inside central 90 % intervals, randomised for counts.",
    "Peers' settings, and where they come from, are in the modules of `benchmarks/beside/peers/sides`.",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one fit with its predictions (900)")
    parser.add_argument("--again", action="store_true", help="run everything again, finished or not")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA), help="only run these data sets")
    parser.add_argument("--software", nargs="+", choices=list(SOFTWARE), default=list(SOFTWARE), help="only run these")
    given = parser.parse_args()
    if given.limit <= 0.0:
        parser.error(f"--limit must be a positive number of seconds, got {given.limit:g}")
    here = [name for name in given.data if present(name)]
    chosen = [case for case in CASES if case.data in here and case.software in given.software]
    store = Store(_ROOT / "results" / "peers")
    for case in chosen:
        if given.again or not store.holds(case, given.limit):
            started = time.perf_counter()
            figures = store.put(case, run(case, given.limit), given.limit)
            _tell(case, figures, time.perf_counter() - started)
    _write([(case, figures) for case in CASES if (figures := store.get(case)) is not None])


def _tell(case: Case, figures: dict, seconds: float) -> None:
    scores = f", NLPD {figures['nlpd']:.4f}" if "nlpd" in figures else ""
    print(f"  {case.name}: {figures['outcome']}{scores} ({seconds:.0f} s in all)", flush=True)


def _write(found: list[tuple[Case, dict]]) -> None:
    if not found:
        print("  nothing to show: is there a `benchmarks` folder under the one that NPVI_DATA names?")
        return
    rows = paired(found)
    section = as_markdown(rows, _heading(rows), _NOTES)
    results = _ROOT / "benchmarks" / "RESULTS.md"
    text = between_markers(results.read_text(), section)
    for path, content in ((results, text), (results.with_name("peers.csv"), as_csv(rows))):
        with replacing(path) as file:
            file.write(content.encode())
    print(section)


def _heading(rows: list[Row]) -> str:
    days = sorted({row.figures["date"] for row in rows})
    packages: dict[str, str | None] = {}
    for row in rows:
        packages |= row.figures["made_with"]["versions"]
    made = ", ".join(f"{name} {version or '(not installed)'}" for name, version in packages.items())
    dates = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"## Beside today's software\n\n`make bench-peers`, {dates}, {THREADS} threads each: {made}."


if __name__ == "__main__":
    main()
