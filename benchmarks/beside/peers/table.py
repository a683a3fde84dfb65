"""Results as one table: Markdown with a peer's wins in bold, and plain CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.beside.peers.cases import Case
from benchmarks.beside.peers.sides import SOFTWARE

__all__ = ["BEGIN", "END", "Row", "as_csv", "as_markdown", "between_markers", "paired"]

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
_NOISE = {
    "poisson": "Poisson",
    "negative_binomial": "negative binomial",
    "gamma": "gamma",
    "lognormal": "log-normal",
    ("subset", "poisson"): "rounded log-normal",
    ("knn", "negative_binomial"): "mixture of negative binomials",
    "varying_lognormal": "log-normal, local variance",
}


class Column(NamedTuple):
    """A figure: its name, its key in results and CSV, how it is written, and how far it is from the best one."""

    name: str
    key: str
    text: str
    off: Callable[[float], float] = float


_RATIO = Column("times ours", "ratio", ".2g")
_COLUMNS = (
    Column("fit s", "fit", ".3g"),
    Column("predict s", "predict", ".2g"),
    _RATIO,
    Column("peak MB", "peak_mb", ".0f"),
    Column("NLPD", "nlpd", ".4f"),
    Column("CRPS", "crps", ".4g"),
    Column("90 % covers", "coverage", ".3f", lambda share: abs(share - 0.9)),
)


@dataclass(frozen=True)
class Row:
    """A case, its figures (see `running.run`), and those of ours that it is held against; none for ours."""

    case: Case
    figures: dict[str, Any]
    ours: dict[str, Any] | None = None

    def cell(self, column: Column) -> str:
        value, outcome = self.figures.get(column.key), self.figures["outcome"]
        if column.key == "fit" and outcome in ("failed", "out of time"):
            return "failed" if outcome == "failed" else f"> {self.figures['limit']:.0f}"
        if value is None:
            return ""
        at_least = outcome != "finished" and column.key in ("fit", "ratio")
        return f"> {value:{column.text}}" if at_least else f"{value:{column.text}}"

    def wins(self, column: Column) -> bool:
        """Whether a peer's figure is better than ours as far as both are written out."""
        if self.ours is None or self.cell(column).startswith(">"):
            return False
        values = self.figures.get(column.key), self.ours.get(column.key)
        if None in values:
            return False
        theirs, ours = (column.off(float(f"{value:{column.text}}")) for value in values)
        return theirs < ours


def paired(found: Sequence[tuple[Case, dict[str, Any]]]) -> list[Row]:
    """Each peer beside ours on the same data: with the same noise if there is such a one, else with our best NLPD."""
    rows = []
    for case, figures in found:
        if case.software == "npvi":
            rows.append(Row(case, {**figures, "ratio": 1.0} if "fit" in figures else figures))
            continue
        ours = [
            (own.noise != case.noise, its["nlpd"], its)
            for own, its in found
            if own.software == "npvi" and own.data == case.data and "nlpd" in its
        ]
        partner = min(ours, key=lambda entry: entry[:2])[2] if ours else None
        rows.append(Row(case, _with_ratio(figures, partner), partner and {**partner, "ratio": 1.0}))
    return rows


def _with_ratio(figures: dict[str, Any], ours: dict[str, Any] | None) -> dict[str, Any]:
    if ours is None or figures["outcome"] == "failed":
        return figures
    seconds = figures["fit"] + figures["predict"] if "fit" in figures else figures["limit"]
    return {**figures, "ratio": seconds / (ours["fit"] + ours["predict"])}


def as_markdown(rows: Sequence[Row], heading: str, notes: Sequence[str]) -> str:
    """The whole section, markers left out."""
    lines = [heading, ""]
    header = ("data", "software", "noise", *(column.name for column in _COLUMNS))
    lines += [_line(header), _line(["---", "---", "---", *["---:"] * len(_COLUMNS)])]
    last = None
    for row in rows:
        name = SOFTWARE[row.case.software].name
        noise = _NOISE.get((row.case.software, row.case.noise), _NOISE[row.case.noise])
        cells = [f"**{row.cell(column)}**" if row.wins(column) else row.cell(column) for column in _COLUMNS]
        lines.append(_line(["" if row.case.data == last else row.case.data, name, noise, *cells]))
        last = row.case.data
    lines += ["", *(f"* {note}" for note in [*notes, *_explained(rows)])]
    return "\n".join(lines) + "\n"


def _explained(rows: Sequence[Row]) -> list[str]:
    """A note for each row that did not finish."""
    found = []
    for row in rows:
        what = f"{SOFTWARE[row.case.software].name}, {row.case.data}, {_NOISE[row.case.noise]}"
        if row.figures["outcome"] == "failed":
            found.append(f"{what}: failed, {row.figures['reason']}")
        elif row.figures["outcome"] == "out of time":
            found.append(f"{what}: not finished after {row.figures['limit']:.0f} s.")
        elif row.figures["outcome"] == "stopped":
            found.append(f"{what}: its bound was still rising when time was up; the scores are those it had reached.")
    return found


def as_csv(rows: Sequence[Row]) -> str:
    """One line per case, all digits."""
    keys = [column.key for column in _COLUMNS]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["data", "software", "noise", "outcome", *keys, "limit", "date", "versions", "reason"])
    for row in rows:
        of = row.figures
        made = " ".join(f"{name} {version}" for name, version in of["made_with"]["versions"].items())
        figures = [of.get(key, "") for key in keys]
        case = row.case
        named = (case.data, SOFTWARE[case.software].name, case.noise, of["outcome"])
        out.writerow([*named, *figures, of["limit"], of["date"], made, of.get("reason", "")])
    return text.getvalue()


def between_markers(text: str, section: str) -> str:
    """`text` with `section` in place of what is between the markers, or at its end with markers of its own.

    >>> between_markers("before\\n<!-- peers: begin -->\\nold\\n<!-- peers: end -->\\nafter\\n", "new\\n")
    'before\\n<!-- peers: begin -->\\nnew\\n<!-- peers: end -->\\nafter\\n'
    """
    marked = f"{BEGIN}\n{section}{END}"
    if BEGIN not in text and END not in text:
        return f"{text.rstrip()}\n\n{marked}\n"
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the text has {BEGIN} and {END} not both, or not in this order: put them right by hand")
    return f"{before}{marked}{after}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
