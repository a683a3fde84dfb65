"""Write tables into pages: likelihoods and kernels into the guide, from what the classes say of themselves; figures
from what `python -m benchmarks NAME` and `make bench-peers` kept.

    python tools/tables.py

`make docs` does it first.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

import pandas as pd

from npvi.kernels import KERNELS
from npvi.likelihoods import LIKELIHOODS

__all__ = ["PAGES", "main", "tables", "with_tables"]

_ROOT = Path(__file__).parent.parent
_PEERS = _ROOT / "benchmarks" / "beside" / "peers.csv"
#: pages, and the tables that each has
PAGES = {
    _ROOT / "README.md": ("peers",),
    _ROOT / "docs" / "choosing.md": ("choices 0", "choices 1"),
    _ROOT / "docs" / "guide.md": ("likelihoods", "kernels"),
    _ROOT / "docs" / "serving.md": ("serving 0", "serving 1"),
    _ROOT / "docs" / "sizes.md": ("growth 2", "growth 0", "growth 1"),
}
_ROWS = {
    "bird_counts": "bird counts, 6,553",
    "precipitation": "precipitation, 6,204",
    "nightlight": "night light, 39,705",
    "flights50k": "flights in 8-d, 35,000",
}
_COLUMNS = {
    "npvi": "npvi",
    "varying": "npvi, varying noise",
    "GPBoost, Vecchia": "GPBoost",
    "GPyTorch, SVGP": "GPyTorch SVGP",
    "scikit-learn, k-NN": "k-NN",
    "scikit-learn, gradient boosting": "boosted trees",
}


def tables() -> dict[str, str]:
    """Each table, by the name that its marks have."""
    kinds = sorted(
        (cls.about, name, ", ".join(f"`{extra}`" for extra in cls.extras)) for name, cls in LIKELIHOODS.items()
    )
    of_likelihoods = ["| for | names | per row |", "| --- | --- | --- |"]
    for about, group in groupby(kinds, key=lambda kind: kind[0]):
        _, names, extras = zip(*group)
        of_likelihoods.append(
            f"| {about} | {', '.join(f'`{name}`' for name in names)} | {', '.join(sorted({*extras} - {''}))} |"
        )
    of_kernels = ["| name | functions |", "| --- | --- |"]
    of_kernels += [f"| `{name}` | {cls.about} |" for name, cls in sorted(KERNELS.items())]
    written = {"likelihoods": "\n".join(of_likelihoods), "kernels": "\n".join(of_kernels), "peers": _beside()}
    return written | {name: _kept(*name.split()) for names in PAGES.values() for name in names if " " in name}


def _kept(name: str, number: str) -> str:
    """A table that a benchmark kept, by the benchmark's name and the number of its table."""
    result = json.loads((_ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    table = [part for part in result["parts"] if "rows" in part][int(number)]
    lines = [f"*{table['title']}* (`python -m benchmarks {name}`, {result['date']}, {result['machine']})\n"]
    lines += ["| " + " | ".join(table["header"]) + " |", "| --- |" + " ---: |" * (len(table["header"]) - 1)]
    lines += ["| " + " | ".join(map(_figure, row)) + " |" for row in table["rows"]]
    return "\n".join(lines)


def _figure(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value).replace("-", "−") if str(value).startswith("-") else str(value)
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def _beside() -> str:
    """Scores and seconds on each set of data, of each program with the noise that gives it the best score."""
    runs = pd.read_csv(_PEERS)
    runs["column"] = runs["software"].mask(
        (runs["software"] == "npvi") & (runs["noise"] == "varying_lognormal"), "varying"
    )
    best = runs.loc[runs.dropna(subset="nlpd").groupby(["data", "column"])["nlpd"].idxmin()].set_index(
        ["data", "column"]
    )
    lines = ["| training rows | " + " | ".join(_COLUMNS.values()) + " |", "| --- |" + " --- |" * len(_COLUMNS)]
    for data, words in _ROWS.items():
        least = best.loc[data].loc[list(_COLUMNS.keys() & set(best.loc[data].index)), "nlpd"].min()
        cells = [_cell(best.loc[data, column], least) if (data, column) in best.index else "" for column in _COLUMNS]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(run: pd.Series, least: float) -> str:
    score = f"{run['nlpd']:.3f}".replace("-", "−")
    seconds = run["fit"] + run["predict"]
    took = f"{'> ' if run['outcome'] == 'stopped' else ''}{seconds:.{0 if seconds >= 10.0 else 1}f}"
    return f"{f'**{score}**' if run['nlpd'] == least else score} ({took})"


def with_tables(text: str, names: tuple[str, ...]) -> str:
    """A page's text with the tables of today between their marks."""
    today = tables()
    for name in names:
        marked = rf"(<!-- {name}: tools/tables\.py -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(marked, lambda m, table=today[name]: m[1] + table + m[2], text, flags=re.DOTALL)
        assert found == 1, f"the page must have one table marked {name!r}, it has {found}"
    return text


def main() -> None:
    """Bring the pages up to date."""
    for page, names in PAGES.items():
        page.write_text(with_tables(page.read_text(encoding="utf-8"), names), encoding="utf-8")


if __name__ == "__main__":
    main()
