"""Text files of any length, read line by line; where one is broken, the error says in which line and how."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal

from npvi.checks import check_path
from npvi.runtime.progress import report

__all__ = ["BrokenFileError", "Delimited", "FixedWidth", "PathLike"]

PathLike = str | os.PathLike[str]

#: lines between two reports of progress
_REPORT = 1_000_000


class BrokenFileError(ValueError):
    """A file is not what it should be; the message names the file, the line and what was expected there.

    Examples
    --------
    >>> raise BrokenFileError("2008.csv", 7, "'1x5' in column Month, where a whole number should be")
    Traceback (most recent call last):
    npvi.datasets.text.BrokenFileError: 2008.csv, line 7: '1x5' in column Month, where a whole number should be
    """

    def __init__(self, path: PathLike, line: int, what: str) -> None:
        super().__init__(f"{os.fspath(path)}, line {line}: {what}")


class _Lines:
    """A text file that knows which line it is at."""

    path: Path
    line: int

    def broken(self, what: str) -> BrokenFileError:
        """The error to raise about the present line."""
        return BrokenFileError(self.path, self.line, what)

    def whole(self, column: str, text: str) -> int:
        """A field as a whole number."""
        try:
            return int(text)
        except ValueError:
            raise self._wrong(column, text, "a whole number") from None

    def number(self, column: str, text: str, low: float = -float("inf"), high: float = float("inf")) -> float:
        """A field as a number within limits."""
        try:
            value = float(text)
        except ValueError:
            raise self._wrong(column, text, "a number") from None
        if not low <= value <= high:  # NaN too
            raise self._wrong(column, text, f"a number from {low:g} to {high:g}")
        return value

    def date(self, column: str, text: str) -> date:
        """A field as a date, written 2012-02-29."""
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise self._wrong(column, text, "a date such as 2012-02-29") from None

    def code(self, column: str, text: str, allowed: Sequence[str]) -> str:
        """A field that can only have a few values."""
        if text not in allowed:
            raise self._wrong(column, text, " or ".join(repr(value) for value in allowed))
        return text

    def _wrong(self, column: str, text: str, expected: str) -> BrokenFileError:
        return self.broken(f"{text[:40]!r} in column {column}, where {expected} should be")

    def _report(self) -> None:
        if self.line % _REPORT == 0:
            report(f"reading {self.path.name}", million_lines=self.line / 1e6)

    @contextmanager
    def _readable(self) -> Iterator[IO[str]]:
        """The open file, unpacked on the way; what the system says of it becomes one sentence."""
        try:
            with _opened(self.path) as file:
                yield file
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {self.path}") from None
        except csv.Error as error:
            raise self.broken(f"this is not a line of a table ({error})") from error
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise self.broken(f"from here on the file cannot be read ({reason}); is it whole?") from error


class Delimited(_Lines):
    """Some columns of a table with a line of names, one line at a time.

    Names are compared without regard to case and blanks around them; fields come without blanks around them.

    Parameters
    ----------
    path : path
        Plain text, or .gz, .bz2, or .zip with one file in it.
    columns : sequence of str
        The columns wanted.
    separator : "," or tab
        Fields between commas may be quoted; between tabs they are not, as in eBird's files.
    lone_key : bool
        Lines with nothing but their first field are whole, and have empty ones after it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "planes.csv"
    >>> _ = path.write_text("tailnum,maker,year\\nN101,BOEING,1999\\nN102,AIRBUS,none\\n")
    >>> planes = Delimited(path, ["year", "tailnum"])
    >>> for year, tail in planes:
    ...     print(tail, planes.whole("year", year))
    Traceback (most recent call last):
    npvi.datasets.text.BrokenFileError: ...planes.csv, line 3: 'none' in column year, where a whole number should be
    """

    def __init__(
        self, path: PathLike, columns: Sequence[str], separator: Literal[",", "\t"] = ",", lone_key: bool = False
    ) -> None:
        check_path(path, "the table")
        self.path, self.line = Path(path), 1
        self._columns, self._separator, self._lone_key = columns, separator, lone_key

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        quoting: Any = csv.QUOTE_NONE if self._separator == "\t" else csv.QUOTE_MINIMAL
        with self._readable() as file:
            reader = csv.reader(file, delimiter=self._separator, quoting=quoting)
            try:
                width, pick = self._layout(next(reader, []))
                for fields in reader:
                    self.line = reader.line_num
                    self._report()
                    if len(fields) != width:
                        if not fields:
                            continue
                        fields = self._mended(fields, width)
                    yield tuple(map(str.strip, pick(fields)))
            finally:  # also where the reader itself stumbled
                self.line = max(reader.line_num, 1)

    def _layout(self, names: list[str]) -> tuple[int, Any]:
        """The number of fields, and a function that takes the wanted ones out of them."""
        found = [name.strip().lower() for name in names]
        if found and not found[-1]:  # lines may end in a separator
            found.pop()
        lacking = [column for column in self._columns if column.lower() not in found]
        if lacking:
            listed = ", ".join(name.strip()[:30] for name in names[:60]) or "nothing"
            raise self.broken(f"no column {lacking[0]}; expected {', '.join(self._columns)}, found {listed}")
        places = [found.index(column.lower()) for column in self._columns]
        return len(found), itemgetter(*places) if len(places) > 1 else lambda fields: (fields[places[0]],)

    def _mended(self, fields: list[str], width: int) -> list[str]:
        """Fields of a line whose number is not that of the names, where that is all right."""
        if len(fields) == width + 1 and not fields[-1].strip():
            return fields
        if self._lone_key and len(fields) == 1:
            return fields + [""] * (width - 1)
        kind = "cut off" if len(fields) < width else "too long"
        raise self.broken(f"the line is {kind}: {len(fields)} fields, where {width} should be")


class FixedWidth(_Lines):
    """Lines whose fields have fixed places.

    Parameters
    ----------
    path : path
        Plain text, or .gz, .bz2, or .zip with one file in it.
    places : sequence of (first, last)
        Where the wanted fields are, counted from 1 as in printed layouts, both ends included.
    shortest : int
        Shorter lines are cut off.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stations.txt"
    >>> _ = path.write_text("USC1  31.57\\nUSC2\\n")
    >>> for name, latitude in FixedWidth(path, [(1, 4), (6, 11)], shortest=11):
    ...     print(name, latitude)
    Traceback (most recent call last):
    npvi.datasets.text.BrokenFileError: ...stations.txt, line 2: the line is cut off: 4 characters, where at least ...
    """

    def __init__(self, path: PathLike, places: Sequence[tuple[int, int]], shortest: int) -> None:
        check_path(path, "the table")
        self.path, self.line = Path(path), 1
        self._slices = [slice(first - 1, last) for first, last in places]
        self._shortest = shortest

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        with self._readable() as file:
            for self.line, text in enumerate(file, start=1):
                self._report()
                text = text.rstrip("\r\n")
                if not text.strip():
                    continue
                if len(text) < self._shortest:
                    expected = f"at least {self._shortest} should be"
                    raise self.broken(f"the line is cut off: {len(text)} characters, where {expected}")
                yield tuple(text[place].strip() for place in self._slices)


def _opened(path: Path) -> IO[str]:
    # names of routes and villages come in several encodings; nothing that is read here does
    how: Any = {"encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    kind = path.suffix.lower()
    if kind == ".gz":
        return gzip.open(path, "rt", **how)
    if kind == ".bz2":
        return bz2.open(path, "rt", **how)
    if kind == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"{path} has {len(names)} files in it, where one should be; unpack it first")
            return io.TextIOWrapper(archive.open(names[0]), **how)
    return open(path, **how)
