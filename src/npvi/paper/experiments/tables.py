"""The paper's tables from stored cells, with its number beside each of ours."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from npvi.paper.experiments.methods import METHODS, OURS, RIVALS
from npvi.paper.experiments.paper import LENGTH_SCALES, Published, published
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Cell, Store
from npvi.runtime.files import replacing

__all__ = ["DATA", "Table", "in_seconds", "length_scale_table", "score_table", "table_cells", "with_error"]


#: names and titles of the data sets, and how ours differ from the paper's
DATA = {
    "bird_counts": (
        "Bird counts",
        "The paper's counts are eBird's, of February 2012 to 2016; these are the Breeding Bird Survey's, which anyone "
        "may use. Methods can be compared, not digits.",
    ),
    "nightlight": (
        "Night light",
        "Pixels of NASA's Black Marble at the paper's size; its own picture and scaling aren't known to the last bit.",
    ),
    "flights": ("Flight delays", "Flights of 2008 with the paper's eight inputs; it has no NPVI."),
    "precipitation": ("Precipitation", "NOAA's normals 1981 to 2010 for May, as in the paper's appendix."),
}

_TITLES = {
    "paper": "table 1: length scale chosen on validation rows; variance 1, nugget 0.01",
    "tuned": "table 2: length scale, variance and nugget chosen on validation rows",
}


def table_cells(plan: Plan, data: str, experiment: str) -> list[Cell]:
    """The cells of a table, seed by seed.

    >>> from npvi.paper.experiments.plan import TINY
    >>> [(cell.method, cell.size) for cell in table_cells(TINY, "flights", "paper")][:4]
    [('svgp', 10), ('savigp', 10), ('dgp', 10), ('npvi', 5)]
    """
    settings = plan.table_settings if experiment == "paper" else plan.tuned_settings
    return [
        Cell(experiment, data, method, size, seed, settings)
        for seed in plan.seeds
        for row in range(max(len(plan.n_inducing), len(plan.n_neighbors)))
        for method in _methods(plan)
        for size in plan.sizes(method)[row : row + 1]
    ]


def score_table(store: Store, plan: Plan, data: str, experiment: str, command: str) -> Table | None:
    """The paper's table of one data set; None where nothing is stored."""
    results = _results(store, table_cells(plan, data, experiment))
    if not results:
        return None
    footnotes: list[str] = []
    numbers = {
        key: _Number.of(found, published(data, *key), len(plan.seeds)) for key, found in _by_number(results).items()
    }
    rows = []
    for sizes in _rows(plan):
        keys = [(method, size) for method in _methods(plan) if (size := sizes[method]) is not None]
        best = min((numbers[key].nlpd for key in keys if key in numbers and numbers[key].good), default=math.nan)
        texts = {}
        for key in keys:
            number = numbers.get(key, _Number([], published(data, *key), 0))
            texts[key[0]] = number.text(best, footnotes)
        rows.append(_line(plan, sizes, texts))
    title, about = DATA[data]
    seeds = f"{len(plan.seeds)} splits" if len(plan.seeds) > 1 else f"the split of seed {plan.seeds[0]}"
    notes = [
        "Negative log density per test row, lower is better, ± standard error over splits \\ seconds to train the "
        f"model that was chosen ({seeds}; {_rows_of(results)}). In brackets what the paper has; "
        "beside both NPVI-NN the paper's one. The best of a row is bold.",
        about,
        *_marks(results, footnotes),
        _made(results, command),
    ]
    return Table(
        data.replace("_", "-") + ("-tuned" if experiment == "tuned" else ""),
        f"{title}, {_TITLES[experiment]}",
        _header(plan),
        rows,
        [["method", "M or K", "ours", "seconds", "paper", "its seconds"], *_short(numbers)],
        [_record(cell, result) for cell, result in results],
        notes,
    )


def length_scale_table(store: Store, plan: Plan, command: str) -> Table | None:
    """The length scales that each method chose on the bird counts; None where nothing is stored."""
    results = _results(store, table_cells(plan, "bird_counts", "paper"))
    chosen = {key: _length_scales(found) for key, found in _by_number(results).items()}
    if not any(chosen.values()):
        return None
    texts: dict[tuple[str, int | None], str] = {}
    short = [["method", "M or K", "ours", "paper"]]
    for key, values in chosen.items():
        ours = ", ".join(f"{value:g}" for value in sorted(set(values))) or "failed"
        theirs = LENGTH_SCALES.get("npvi-nn" if key[0] == "gcn" else key[0], {}).get(key[1])
        paper = "–" if theirs is None else f"{theirs:g}"
        texts[key] = f"{ours} (paper: {paper})"
        short.append([METHODS[key[0]], str(key[1]), ours, paper])
    rows = [
        _line(plan, sizes, {method: texts[method, size] for method, size in sizes.items() if (method, size) in texts})
        for sizes in _rows(plan)
    ]
    notes = [
        "Length scales in units of 200 miles, those of different splits with commas between them; in brackets what the "
        "paper has.",
        _made(results, command),
    ]
    title = "Bird counts: the length scale that each method chose on validation rows"
    records = [_record(cell, result) for cell, result in results]
    return Table("length-scale", title, _header(plan), rows, short, records, notes)


@dataclass(frozen=True)
class _Number:
    """One number of a table, from the results of its seeds."""

    results: list[dict[str, Any]]
    paper: Published | None
    n_seeds: int

    @classmethod
    def of(cls, found: list[tuple[Cell, dict[str, Any]]], paper: Published | None, n_seeds: int) -> _Number:
        return cls([result for _, result in found], paper, n_seeds)

    @property
    def good(self) -> list[dict[str, Any]]:
        return [result for result in self.results if "error" not in result]

    @property
    def nlpd(self) -> float:
        return float(np.mean([result["test"] for result in self.good])) if self.good else math.nan

    @property
    def score(self) -> str:
        scores = [result["test"] for result in self.good]
        if not scores:
            return "failed" if self.results else "–"
        error = np.std(scores, ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None
        some = "" if len(scores) == self.n_seeds else f" ({len(scores)} of {self.n_seeds} splits)"
        cut = " †" if any(result["out_of_time"] for result in self.good) else ""
        return f"{with_error(self.nlpd, error)}{some}{cut}"

    @property
    def seconds(self) -> str:
        return in_seconds(float(np.mean([result["seconds"] for result in self.good]))) if self.good else ""

    def text(self, best: float, footnotes: list[str]) -> str:
        ours = f"**{self.score}**" if self.good and f"{self.nlpd:.3f}" == f"{best:.3f}" else self.score
        if self.seconds:
            ours += f" \\ {self.seconds}"
        for error in dict.fromkeys(result["error"] for result in self.results if "error" in result):
            if error not in footnotes:
                footnotes.append(error)
            ours += f" [{footnotes.index(error) + 1}]"
        paper = "–" if self.paper is None else _theirs(self.paper)
        return f"{ours} (paper: {paper})"


def _theirs(paper: Published) -> str:
    """
    >>> _theirs(Published(-1.1, 0.002, 770.0))
    '-1.10 ± .002 \\\\ 770 s'
    """
    return f"{_their_score(paper)} \\ {in_seconds(paper.seconds)}"


def _their_score(paper: Published) -> str:
    error = f"{paper.error:.3f}" if paper.error < 0.01 else f"{paper.error:.2f}"
    return f"{paper.nlpd:.2f} ± {error.removeprefix('0')}"


def _methods(plan: Plan) -> list[str]:
    return [method for method in METHODS if method in plan.methods]


def _sides(plan: Plan) -> list[tuple[str, tuple[int, ...], list[str]]]:
    """Letter, sizes and methods of the left and the right half of a table, as far as there are any."""
    halves = (("M", plan.n_inducing, RIVALS), ("K", plan.n_neighbors, OURS))
    found = [(letter, sizes, [method for method in group if method in plan.methods]) for letter, sizes, group in halves]
    return [half for half in found if half[2]]


def _rows(plan: Plan) -> list[dict[str, int | None]]:
    """The size of each method in each row; None where it has no more."""
    count = max(len(sizes) for _, sizes, _ in _sides(plan))
    every = {method: plan.sizes(method) for method in _methods(plan)}
    return [
        {method: sizes[row] if row < len(sizes) else None for method, sizes in every.items()} for row in range(count)
    ]


def _header(plan: Plan) -> list[str]:
    return [name for letter, _, methods in _sides(plan) for name in (letter, *(METHODS[one] for one in methods))]


def _line(plan: Plan, sizes: dict[str, int | None], texts: dict[str, str]) -> list[str]:
    line = []
    for _, _, methods in _sides(plan):
        size = sizes[methods[0]]
        line += ["" if size is None else str(size), *(texts.get(method, "") for method in methods)]
    return line


def _results(store: Store, cells: Iterable[Cell]) -> list[tuple[Cell, dict[str, Any]]]:
    return [(cell, result) for cell in cells if (result := store.get(cell)) is not None]


def _by_number(results: Sequence[tuple[Cell, dict[str, Any]]]) -> dict[tuple[str, int], list]:
    """Results of all seeds, by method and size, in the order of the columns."""
    groups: dict[tuple[str, int], list] = {}
    for cell, result in sorted(results, key=lambda one: (list(METHODS).index(one[0].method), one[0].size)):
        groups.setdefault((cell.method, cell.size), []).append((cell, result))
    return groups


def _length_scales(found: list[tuple[Cell, dict[str, Any]]]) -> list[float]:
    good = [result for _, result in found if "error" not in result]
    return [result["candidates"][result["chosen"]]["length_scale"] for result in good]


def _short(numbers: dict[tuple[str, int], _Number]) -> list[list[str]]:
    return [
        [
            METHODS[method],
            str(size),
            number.score,
            number.seconds,
            "" if number.paper is None else _their_score(number.paper),
            "" if number.paper is None else in_seconds(number.paper.seconds),
        ]
        for (method, size), number in numbers.items()
    ]


def _record(cell: Cell, result: dict[str, Any]) -> dict[str, Any]:
    chosen = {} if "error" in result else result["candidates"][result["chosen"]]
    paper = published(cell.data, cell.method, cell.size)
    names = ("length_scale", "variance", "nugget", "validation")
    return {
        "data": cell.data,
        "table": cell.experiment,
        "method": cell.method,
        "size": cell.size,
        "seed": cell.seed,
        "nlpd": result.get("test"),
        "seconds": result.get("seconds"),
        **{name: chosen.get(name) for name in names},
        "paper_nlpd": None if paper is None else paper.nlpd,
        "paper_error": None if paper is None else paper.error,
        "paper_seconds": None if paper is None else paper.seconds,
        "out_of_time": result.get("out_of_time"),
        "total_seconds": result.get("total_seconds"),
        "budget": result.get("budget"),
        "n_train": result.get("n_train"),
        "error": result.get("error"),
    }


def _rows_of(results: list[tuple[Cell, dict[str, Any]]]) -> str:
    """
    >>> _rows_of([(None, {"n_train": 6204}), (None, {"n_train": 6204})])
    '6,204 training rows'
    """
    counts = sorted({result["n_train"] for _, result in results if "n_train" in result})
    return f"{_span(f'{count:,}' for count in counts)} training rows"


def _span(values: Iterable[str]) -> str:
    """
    >>> _span(["a", "b", "c"]), _span(["a"]), _span([])
    ('a to c', 'a', 'no')
    """
    every = list(values) or ["no"]
    return " to ".join(dict.fromkeys((every[0], every[-1])))


def _marks(results: list[tuple[Cell, dict[str, Any]]], footnotes: list[str]) -> list[str]:
    notes = []
    if any(result.get("out_of_time") for _, result in results):
        notes.append("† The time was up before the search, or before one of its fits would have ended by itself.")
    return [*notes, *(f"[{number}] failed: {text}" for number, text in enumerate(footnotes, start=1))]


def _made(results: list[tuple[Cell, dict[str, Any]]], command: str) -> str:
    """How the numbers came about."""
    made = [result["made"] for _, result in results]
    budgets = " or ".join(in_seconds(value) for value in sorted({result["budget"] for _, result in results}))
    versions = sorted({f"npvi {one['npvi']}, JAX {one['jax']}" for one in made})
    devices = sorted({f"{one['device']}, {one['cores']} cores" for one in made})
    when = _span(sorted({one["date"] for one in made}))
    return f"Made by `{command}`; {budgets} a cell; {'; '.join(versions)}; {'; '.join(devices)}; {when}."


# -- what a table is, and how numbers are written in it ---------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """What is shown and written.

    Attributes
    ----------
    name : of its files.
    title : what it is of.
    header, rows : as in the paper, rows by M and K.
    short : header and rows for a narrow screen, a row per number.
    records : what the CSV file has, a row per number and seed.
    notes : what is to be said below it.
    """

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    short: list[list[str]]
    records: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    @property
    def markdown(self) -> str:
        """As a page."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"# {self.title}", table, *self.notes]) + "\n"

    @property
    def csv(self) -> str:
        """In long form."""
        file = io.StringIO()
        writer = csv.DictWriter(file, list(self.records[0]) if self.records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return file.getvalue()

    def write(self, folder: Path) -> list[Path]:
        """Both files."""
        paths = [folder / f"{self.name}.md", folder / f"{self.name}.csv"]
        for path, text in zip(paths, (self.markdown, self.csv)):
            with replacing(path) as file:
                file.write(text.encode())
        return paths


def with_error(value: float, error: float | None) -> str:
    """A score and its standard error.

    >>> with_error(1.6149, 0.0312), with_error(-1.27, 0.002), with_error(2.0, None)
    ('1.615 ± 0.031', '-1.270 ± 0.002', '2.000')
    """
    return f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")


def in_seconds(value: float) -> str:
    """Seconds as the paper writes them, in thousands where they are many.

    >>> [in_seconds(value) for value in (0.034, 5.1, 36.2, 691.0, 2700.0, 50e3)]
    ['0.03 s', '5.1 s', '36 s', '691 s', '2.7 ks', '50 ks']
    """
    if value >= 999.5:
        return f"{value / 1000:.1f} ks" if value < 9950.0 else f"{value / 1000:.0f} ks"
    return f"{value:.0f} s" if value >= 9.95 else f"{value:.1f} s" if value >= 0.95 else f"{value:.2f} s"
