"""Side by side with GPBoost and GPyTorch's SVGP: same data, same neighbours, same threads. Needs the `bench` extra.

    NPVI_DATA=... python -m benchmarks.beside.gpboost [fixed] [learned] [large] [svgp]

Each side runs in a process of its own, one after the other. Times are of fitting and of predicting means and variances,
by the wall and, both together, in CPU seconds of all threads; our compilation is left out and shown by itself, peers
are warmed up on a few rows. A peer's work is counted once: at held parameters GPBoost's "fit" only makes the model, and
its prediction does the rest. A run that takes longer than 15 minutes is stopped and counts as 15 minutes by the wall.
How the programs are used, and more of them: `benchmarks.beside.peers`.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.beside.peers.arrays import LENGTH, TEST, VARIANCE, present
from benchmarks.beside.peers.cases import Case
from benchmarks.beside.peers.running import THREADS, run
from benchmarks.common import say, show, skip

_LIMIT = 900.0
_PARTS = ["fixed", "learned", "large", "svgp"]
_HEADER = ("data", "likelihood", "software", "fit s", "predict s", "CPU s", "NLPD", "slower by", "by CPU", "compile s")


def _side(case: Case, repeats: int = 1) -> dict[str, Any]:
    found = run(case, _LIMIT, repeats)
    if found["outcome"] == "failed":
        raise RuntimeError(f"{case.name}: {found['reason']}")
    return found


def _seconds(found: dict[str, Any]) -> float:
    return found["fit"] + found["predict"] if "fit" in found else _LIMIT


def _cells(found: dict[str, Any]) -> tuple[object, object, object, object]:
    if "fit" not in found:
        return f"> {_LIMIT:.0f}", "", "", ""
    return found["fit"], found["predict"], found["cpu"], f"{found['nlpd']:.4f}"


def _ratios(found: dict[str, Any], own: dict[str, Any]) -> tuple[object, object]:
    """Of seconds to ours, by the wall and of the CPU; the latter aren't known of a run that was stopped."""
    by_cpu = found["cpu"] / own["cpu"] if "cpu" in found and "cpu" in own else ""
    return _seconds(found) / _seconds(own), by_cpu


def _compare(title: str, ours: list[Case], peers: list[tuple[str, Case]]) -> None:
    """A table with each of our cases and, below it, the named cases of peers on the same data and noise."""
    rows = []
    for case in ours:
        if not present(case.data):
            continue
        # the first of our fits compiles; the fastest of three more counts
        own = _side(case, repeats=3)
        compiling = max(0.0, own["first"] - _seconds(own))
        rows.append((case.data, case.noise, "npvi", *_cells(own), *_ratios(own, own), compiling))
        for name, peer in peers:
            if (peer.data, peer.noise) == (case.data, case.noise):
                found = _side(peer)
                rows.append((case.data, case.noise, name, *_cells(found), *_ratios(found, own), ""))
    show(title, _HEADER, rows)


def _fixed() -> None:
    held = {"exponential": (LENGTH, VARIANCE)}
    ours = [Case(f"poisson{n}", "npvi", "poisson", held) for n in (20_000, 100_000)]
    peers = [
        (f"GPBoost, {route}", Case(f"poisson{n}", "gpboost", "poisson", {**held, "route": route}))
        for n, route in ((20_000, "cholesky"), (20_000, "iterative"), (100_000, "cholesky"))
    ]
    _compare(f"Fixed parameters, exponential kernel, {TEST} test points", ours, peers)


def _learned() -> None:
    cases = [
        ("bird_counts", "poisson", 0.5),
        ("bird_counts", "negative_binomial", 0.5),
        ("precipitation", "gamma", 1.5),
        ("precipitation", "lognormal", 1.5),
    ]
    _compare(
        "Learned parameters, our defaults; GPBoost: exponential for counts, Matérn-3/2 else",
        [Case(data, "npvi", noise) for data, noise, _ in cases],
        [("GPBoost, cholesky", Case(data, "gpboost", noise, {"smoothness": nu})) for data, noise, nu in cases],
    )


def _large() -> None:
    peer = Case("poisson100000", "gpboost", "poisson", {"route": "iterative"})
    ours = [Case("poisson100000", "npvi", "poisson")]
    _compare("Learned parameters, 100,000 simulated counts", ours, [("GPBoost, iterative", peer)])


def _svgp() -> None:
    cases = [("bird_counts", "poisson", 0.5), ("precipitation", "lognormal", 1.5)]
    _compare(
        "GPyTorch's SVGP, M = 1000, Adam until the bound stops rising",
        [Case(data, "npvi", noise) for data, noise, _ in cases],
        [("SVGP", Case(data, "svgp", noise, {"smoothness": nu})) for data, noise, nu in cases],
    )


def main() -> None:
    try:
        import gpboost
    except ImportError:
        skip("gpboost", "the `bench` extra isn't installed: make bench-peers")
        return
    parts = [part for part in sys.argv[1:] if part in _PARTS] or _PARTS
    say(f"  GPBoost {gpboost.__version__}, {THREADS} threads, K = 20; variances included")
    tables = {"fixed": _fixed, "learned": _learned, "large": _large, "svgp": _svgp}
    for part in parts:
        tables[part]()


if __name__ == "__main__":
    main()
