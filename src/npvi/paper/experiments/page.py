"""What a table is, and how numbers are written in it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npvi.runtime.files import replacing

__all__ = ["Table", "in_seconds", "with_error"]


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
