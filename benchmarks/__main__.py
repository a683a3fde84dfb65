"""All benchmarks, one after the other: `make bench`, or `python -m benchmarks NAME …` for some of them.

Batteries run by name only, since each takes long on one core: `python -m benchmarks places --jobs 16 --json rows.json`;
`--help` after a name lists its options. So do `npvi_nn` and `device`, whose networks take long to train.

What a benchmark finds is kept in `benchmarks/results/NAME.json`, unless options ask for something else than usual;
`python -m benchmarks.report` makes the tables of RESULTS.md of it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from itertools import takewhile
from pathlib import Path

from benchmarks.record import recording

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
    "maps",
    "calibration",
    "recovery",
    "growth",
    "gpboost",
    "gcn",
    "verdicts",
    "suggest",
    "choices",
    "serving",
    "terms",
    "published",
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
    "components",
    "nested",
    "part_variances",
    "tiles",
    "tiles_killed",
    "term_means",
)
#: by name only too, since networks take long to train, a peer long to fit, or a GPU is needed
_NETWORKS = ("npvi_nn", "device", "grouped", "sums", "dense")


def _help() -> str:
    """Every benchmark with the first line of what it says of itself."""
    groups = {"All": _NAMES, "By name only, batteries": _BATTERIES, "By name only, networks": _NETWORKS}
    listed = [
        "\n".join([f"{title}:", *(f"  {name:<12} {_docstring(name).partition(chr(10))[0]}" for name in names)])
        for title, names in groups.items()
    ]
    return "\n\n".join(
        [
            "usage: python -m benchmarks [NAME …] [OPTION …]",
            "Without a name, those of the first group run one after the other, which takes an hour.\n"
            "`python -m benchmarks NAME --help` says more of one, and lists its options, if it has any.",
            *listed,
        ]
    )


def _docstring(name: str) -> str:
    """Of a module, which is read and not run."""
    return ast.get_docstring(ast.parse(_source(name))) or ""


def _source(name: str) -> str:
    return _file(name).read_text(encoding="utf-8")


def _file(name: str) -> Path:
    """Of a benchmark, in the folder of its subject."""
    (found,) = Path(__file__).parent.glob(f"*/{name}.py")
    return found


def main() -> None:
    given = list(takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    unknown = set(given) - {*_NAMES, *_BATTERIES, *_NETWORKS}
    if unknown:
        there = ", ".join((*_NAMES, *_BATTERIES, *_NETWORKS))
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {there}")
    sys.argv[1:] = sys.argv[1 + len(given) :]  # options are for the benchmark
    asked = {"-h", "--help"} & set(sys.argv)
    if asked and not given:
        print(_help())
        return
    for name in given or _NAMES:
        print(f"\n=== {name} ===", flush=True)
        if asked and not (name in _BATTERIES or "argparse" in _source(name)):
            print(_docstring(name))  # it has no options, and would run
            continue
        with recording(name, keep=_as_it_is(sys.argv[1:])):
            importlib.import_module(f"benchmarks.{_file(name).parent.name}.{name}").main()


def _as_it_is(options: list[str]) -> bool:
    """Whether options leave the figures what they are: how many processes there are does.

    >>> _as_it_is(["--jobs", "4"]), _as_it_is(["--seeds", "0"])
    (True, False)
    """
    return not options or (len(options) == 2 and options[0] == "--jobs")


if __name__ == "__main__":
    main()
