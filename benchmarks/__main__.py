"""All benchmarks, one after the other: `make bench`, or `python -m benchmarks NAME …` for some of them."""

from __future__ import annotations

import importlib
import sys

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
    "calibration",
    "recovery",
    "growth",
    "gpboost",
    "gcn",
)


def main() -> None:
    chosen = sys.argv[1:] or _NAMES
    unknown = set(chosen) - set(_NAMES)
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(_NAMES)}")
    for name in chosen:
        print(f"\n=== {name} ===", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
