"""All benchmarks, one after the other: `make bench`, or `python -m benchmarks NAME …` for some of them.

Batteries run by name only, since each takes long on one core: `python -m benchmarks places --jobs 16 --json rows.json`;
`--help` after a name lists its options. So do `npvi_nn` and `device`, whose networks take long to train.
"""

from __future__ import annotations

import importlib
import sys
from itertools import takewhile

_NAMES = (
    "cold_start",
    "sweep",
    "real_data",
    "factor",
    "graph",
    "flights",
    "defaults",
    "splits",
    "links",
    "quantiles",
    "totals",
    "calibration",
    "recovery",
    "growth",
    "gpboost",
    "gcn",
    "verdicts",
)
_BATTERIES = (
    "places",
    "sizes",
    "separation",
    "hard",
    "latent",
    "invariance",
    "nuts",
    "variances",
    "coverage",
    "exact_bayes",
)
#: by name only too, since networks take long to train, or a GPU
_NETWORKS = ("npvi_nn", "device")


def main() -> None:
    given = list(takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    unknown = set(given) - {*_NAMES, *_BATTERIES, *_NETWORKS}
    if unknown:
        there = ", ".join((*_NAMES, *_BATTERIES, *_NETWORKS))
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {there}")
    sys.argv[1:] = sys.argv[1 + len(given) :]  # options are for the benchmark
    for name in given or _NAMES:
        print(f"\n=== {name} ===", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
