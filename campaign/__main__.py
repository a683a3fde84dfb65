"""The command of the campaign."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter

from campaign.cases import Name, Outcome
from campaign.running import Summary, repeat, run

#: findings of one cause that are shown; the table at the end has their number
_SHOWN = 3
#: cases that are named because only some may end so
_NAMED = 40
#: parts in turn, and shares of the time; what one leaves over is for the others
PARTS = {"misuse": 5, "files": 2, "tables": 2, "signals": 3, "problems": 8}


def main(arguments: list[str] | None = None) -> int:
    """Run parts, or one case; 1 where something was found."""
    said = sys.argv[1:] if arguments is None else arguments
    if said[:1] == ["repeat"]:
        return _repeat(said[1:])
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"out of {', '.join(PARTS)}; all unless given")
    parser.add_argument("--seed", type=int, help="a fresh one unless given")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all parts together (30)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--cases", type=int, help="most cases of each part")
    options = parser.parse_args(said)
    if wrong := set(options.parts) - set(PARTS):
        parser.error(f"no part is named {', '.join(sorted(wrong))}; there are {', '.join(PARTS)}")
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    summaries, ends = [], time.monotonic() + 60.0 * options.minutes
    names = options.parts or list(PARTS)
    for number, name in enumerate(names):
        share = (ends - time.monotonic()) * PARTS[name] / sum(PARTS[left] for left in names[number:])
        numbers = None if options.cases is None else range(options.cases)
        summaries.append(run(name, seed, share, options.jobs, numbers, _Progress()))
    return _show(summaries, seed)


def _repeat(names: list[str]) -> int:
    outcomes = [repeat(Name.read(name)) for name in names]
    for outcome in outcomes:
        print(f"{outcome.name}  {outcome.what}\n  {outcome.came} in {_seconds(outcome)}\n{outcome.finding}")
    return int(any(outcome.finding for outcome in outcomes))


class _Progress:
    """Findings as they come, and a line every few seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._causes: Counter[str] = Counter()

    def __call__(self, summary: Summary, outcome: Outcome) -> None:
        if outcome.finding:
            self._causes[outcome.cause] += 1
            if self._causes[outcome.cause] <= _SHOWN:
                _show_finding(outcome)
        if time.monotonic() - self._said > 15.0:
            self._said = time.monotonic()
            print(f"{summary.part}: {summary.cases} cases in {summary.seconds:.0f} s", file=sys.stderr, flush=True)


def _show_finding(outcome: Outcome) -> None:
    print(f"\nFINDING  python -m campaign repeat {outcome.name}")
    print(f"  {outcome.what}\n  {outcome.finding.strip()}", flush=True)


def _seconds(outcome: Outcome) -> str:
    return f"{outcome.seconds:.1f} s ({outcome.cpu:.1f} of CPU)"


def _show(summaries: list[Summary], seed: int) -> int:
    print(
        f"\n{'part':10} {'cases':>6} {'seconds':>8} {'CPU':>6} {'findings':>9}  what came of the others (seed {seed})"
    )
    found = 0
    for summary in summaries:
        others = ", ".join(f"{n} {came}" for came, n in summary.counts.most_common() if came != "finding")
        n = len(summary.findings) + len(summary.too_many)
        print(f"{summary.part:10} {summary.cases:6} {summary.seconds:8.0f} {summary.cpu:6.0f} {n:9}  {others}")
        if summary.slowest is not None:
            print(f"{'':10} slowest: {summary.slowest.name}, {_seconds(summary.slowest)}, {summary.slowest.what}")
        for cause, times in Counter(outcome.cause for outcome in summary.findings).most_common(20):
            example = next(outcome for outcome in summary.findings if outcome.cause == cause)
            print(f"{'':10} {times:4} × {' '.join(cause.split())}, such as {example.name}, {example.what[:70]}")
        for outcome in summary.limited[:_NAMED]:
            print(f"{'':10} {outcome.came}: {outcome.name}, {outcome.what[:70]}")
        for line in summary.too_many:
            print(f"{'':10} too many: {line}")
        found += n
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
