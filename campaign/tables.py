"""Tables as they come: CSV and Parquet with one thing wrong, through the commands.

A command may end well, with finite output, or with exit code 1 or 2 and a reason in words: no traceback, no control
characters on the terminal, nothing half written.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from campaign.cases import Case, check

__all__ = ["SECONDS", "SHARES", "case", "count", "in_folder", "npvi", "survey"]

SECONDS = 60.0
SHARES: dict[str, float] = {}

_PLACE = "--inputs lon,lat --neighbors 5 --no-learn --length-scale 0.3"
#: what is run; {table} is the altered one, {out} a file that is to be written
_COMMANDS = {
    "fit counts": f"fit {{table}} --target n --exposure hours --likelihood poisson {_PLACE} --save {{out}}.npvi",
    "fit classes": f"fit {{table}} --target kind --classify {_PLACE} --save {{out}}.npvi",
    "fit heights": f"fit {{table}} --target height {_PLACE} --save {{out}}.npvi",
    "fit, holes dropped": f"fit {{table}} --target height {_PLACE} --drop-missing --save {{out}}.npvi",
    "predict counts": "predict counts.npvi {table} --exposure hours --output {out}.csv",
    "predict classes": "predict classes.npvi {table} --output {out}.parquet",
    "predict, holes dropped": "predict heights.npvi {table} --drop-missing --output {out}.csv",
    "score": "score counts.npvi {table} --exposure hours",
    "score classes": "score classes.npvi {table}",
    "diagnose": "diagnose heights.npvi {table} --plot {out}.png",
    "info": "info {table}",
    "fit terms": "fit {table} --formula 'n ~ height + s(lon) + (1|kind) + offset(log(hours))' --likelihood poisson "
    "--no-learn --save {out}.npvi",
    "predict terms": "predict terms.npvi {table} --output {out}.csv",
    "report": "report heights.npvi --data {table} --output {out}.html",
    "suggest": "suggest {table} --target n",
}
_ODD_CELLS = (
    *("", " ", "NA", "nan", "inf", "-inf", "1e400", "1e300", "-1", "0", "1,5", "1.5.2", "0x10", "1_000", "true", "abc"),
    *(
        "2020-01-01",
        "=1+1",
        '"',
        '""',
        "'",
        "\\",
        "\x00",
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "é",
        "日本",
        "\u202e",
        "x" * 200_000,
    ),
    *("99999999999999999999999", "1e-320", "\ufeff1", "NULL", "None", "[1, 2]"),
)
_ODD_NAMES = (
    "",
    " lon",
    "LON",
    "lat",
    "\x1b[31mlon\x1b[0m",
    "lon\nlat",
    "x" * 5000,
    "0",
    "[bold]lon[/bold]",
    "é",
    "\u202elon",
    "mean",
    "row",
)


@functools.cache
def survey() -> pd.DataFrame:
    """60 rows with a column of each kind."""
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(size=(2, 60)).round(4)
    f = np.sin(6.0 * lon) + lat
    return pd.DataFrame(
        {
            "lon": lon,
            "lat": lat,
            "n": rng.poisson(np.exp(f)),
            "hours": rng.uniform(0.5, 2.0, 60).round(2),
            "height": (f + 0.1 * rng.standard_normal(60)).round(4),
            "kind": np.where(f > 1.0, "high", "low"),
        }
    )


def count() -> int:
    return 2000


def case(seed: int, number: int) -> Case:
    rng = np.random.default_rng([seed, number])
    command = list(_COMMANDS)[rng.integers(len(_COMMANDS))]
    folder = Path(tempfile.mkdtemp(prefix="npvi-campaign-"))
    if rng.uniform() < 0.7:
        said, content, name = _csv(rng)
        table = folder / ("table.csv" if rng.uniform() < 0.9 else "table.txt")
    else:
        said, content, name = _parquet(rng)
        table = folder / "table.parquet"
    table.write_bytes(content)
    old = bool(rng.uniform() < 0.5)
    return Case(f"{command}: {table.suffix[1:]} {said}", lambda: _run(command, table, name if number % 2 else "", old))


def _csv(rng: np.random.Generator) -> tuple[str, bytes, str]:
    """What was done to the CSV, the CSV, and the new name of the column lon, if it has one."""
    rows = [survey().columns.tolist(), *survey().astype(str).to_numpy().tolist()]
    at, column = int(rng.integers(1, len(rows))), int(rng.integers(len(rows[0])))
    said, name, what = "", "", int(rng.integers(14))
    ends, separator, encoding, quote = "\n", ",", "utf-8", False
    if what <= 3:
        cell = _ODD_CELLS[rng.integers(len(_ODD_CELLS))]
        for row in rows[1:] if what == 3 else [rows[at]]:
            row[column] = cell
        quote = bool(rng.uniform() < 0.5)
        said = (
            f"with {cell[:30]!r} in {rows[0][column]}{' everywhere' if what == 3 else ''}{', quoted' if quote else ''}"
        )
    elif what == 4:
        name = _ODD_NAMES[rng.integers(len(_ODD_NAMES))]
        column = column if rng.uniform() < 0.5 else 0
        said, rows[0][column] = f"with {rows[0][column]} named {name[:40]!r}", name
        quote, name = True, name if column == 0 else ""
    elif what == 5:
        separator = str(rng.choice([";", "\t", "|", " ", ", "]))
        said = f"separated by {separator!r}"
    elif what == 6:
        encoding = str(rng.choice(["utf-16", "utf-32", "utf-8-sig", "latin-1", "cp1252"]))
        rows[at][5] = "näh"
        said = f"in {encoding}"
    elif what == 7:
        ends = str(rng.choice(["\r\n", "\r", "\n\n", "\n\r", "\x0c"]))
        said = f"with lines that end in {ends!r}"
    elif what == 8:
        rows = rows[: int(rng.choice([0, 1, 2, 3]))]
        said = f"with {len(rows)} lines"
    elif what == 9:
        rows[at] = rows[at][: int(rng.integers(6))] if rng.uniform() < 0.5 else rows[at] * 2
        said = f"with {len(rows[at])} cells in line {at}"
    elif what == 10:
        rows = [[*row[:column], *row[column + 1 :]] for row in rows]
        said = f"without column {column}"
    elif what == 11:
        rows = [[*row, row[column]] for row in rows]
        said = f"with column {column} twice"
    elif what == 12:
        rows[at : at + 1] = [rows[0], rows[at]]
        said = f"with the header again in line {at}"
    text = _text(rows, separator, ends, quote)
    content = text.encode(encoding, "replace")
    if what == 13:
        cut = int(rng.integers(len(content)))
        odd = [b"\x00" * 7, b"\xff\xfe", b'"', b"\x1b[2J", b"\x80"][rng.integers(5)]
        said, content = f"with {odd!r} at byte {cut}", content[:cut] + odd + content[cut:]
    return said, content, name


def _text(rows: list[list[str]], separator: str, ends: str, quote: bool) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quote else text

    return ends.join(separator.join(cell(text) for text in row) for row in rows) + (ends if rows else "")


def _parquet(rng: np.random.Generator) -> tuple[str, bytes, str]:
    table = pa.Table.from_pandas(survey(), preserve_index=False)
    column, name = int(rng.integers(table.num_columns)), ""
    what, n = int(rng.integers(6)), len(survey())
    said = ""
    if what == 0:
        odd = _columns(n)
        kind = list(odd)[rng.integers(len(odd))]
        said = f"with {table.column_names[column]} of {kind}"
        table = table.set_column(column, table.column_names[column], odd[kind])
    elif what == 1:
        name = _ODD_NAMES[rng.integers(len(_ODD_NAMES))]
        said = f"with {table.column_names[column]} named {name[:40]!r}"
        table = table.rename_columns([name if k == column else old for k, old in enumerate(table.column_names)])
        name = name if column == 0 else ""
    elif what == 2:
        table = table.slice(0, int(rng.choice([0, 1, 2])))
        said = f"with {len(table)} rows"
    elif what == 3:
        said, table = f"without {table.column_names[column]}", table.remove_column(column)
    elif what == 4:
        table = table.append_column(table.column_names[column], table.column(column))
        said = f"with {table.column_names[column]} twice"
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    content = buffer.getvalue()
    if what == 5:
        at = int(rng.integers(len(content)))
        if rng.uniform() < 0.5:
            return f"cut off after {at} bytes", content[:at], name
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        return f"with a bit of byte {at} turned", bytes(changed), name
    return said, content, name


def _columns(n: int) -> dict[str, pa.Array]:
    return {
        "text": pa.array([f"t{k}" for k in range(n)]),
        "text of numbers": pa.array([str(k / n) for k in range(n)]),
        "truths": pa.array([k % 2 == 0 for k in range(n)]),
        "times": pa.array(pd.date_range("2020-01-01", periods=n)),
        "durations": pa.array(pd.to_timedelta(np.arange(n), "D")),
        "lists": pa.array([[k, k + 1] for k in range(n)]),
        "records": pa.array([{"a": k} for k in range(n)]),
        "nothing": pa.nulls(n),
        "decimals": pa.array(np.arange(n)).cast(pa.decimal128(21, 2)),
        "categories": pa.array([f"c{k % 3}" for k in range(n)]).dictionary_encode(),
        "bytes": pa.array([b"\x00\xff" for _ in range(n)]),
        "long integers": pa.array(np.full(n, 2**63 - 1)),
        "infinities": pa.array(np.full(n, np.inf)),
        "some gaps": pa.array([None if k == 3 else float(k) for k in range(n)]),
        "gaps in integers": pa.array([None if k == 3 else k for k in range(n)]),
        "half precision": pa.array(np.linspace(0, 1, n).astype(np.float16)),
    }


def _run(command: str, table: Path, name: str, old: bool) -> str:
    folder = table.parent
    with in_folder(_models()):
        out, words = folder / "out", shlex.split(_COMMANDS[command])
        words = [word.replace("{table}", str(table)).replace("{out}", str(out)) for word in words]
        if name.isprintable() is False or name:  # ask for the column by its odd name
            words = [word.replace("lon,lat", f"{name},lat") for word in words]
        path = next((Path(word) for word in words if word.startswith(str(out))), None)
        if old and path is not None:
            path.write_bytes(b"old")
        code, said, shown = npvi(words)
    found = sorted(file.name for file in folder.iterdir() if file != table)
    whole = {path.name} if path is not None and (old or code == 0) else set()
    check(code in (0, 1, 2), f"exit code {code}: {said[-400:]!r}")
    for odd in ("Traceback", "failed unexpectedly", "Warning: "):
        check(odd not in said, f"{odd!r} is shown: {said[-600:]}")
    control = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", said + shown)
    check(control is None, f"a control character is shown: {(said + shown)[:600]!r}")
    check(set(found) == whole, f"exit code {code}, and the folder has {found}")
    if code:
        check(bool(said.strip()), f"exit code {code} without a word")
        check(path is None or not old or path.read_bytes() == b"old", "a command that failed replaced the old file")
        return "refused"
    numbers = re.sub(r"│ labels +│[^│]*│|\[[^\]]*\]", "", shown)  # a label may have any name
    check("inf" not in re.findall(r"[a-z]+", numbers), f"infinity is shown: {shown[:600]}")
    if path is not None and path.suffix in (".csv", ".parquet"):
        _check_predictions(path)
    if path is not None and path.suffix == ".npvi":
        code, said, _ = npvi(["info", str(path)])
        check(code == 0 and "Traceback" not in said, f"the model that was saved can't be read: {said}")
    return "worked"


def _check_predictions(path: Path) -> None:
    read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
    table = read(path)
    for column in ("mean", "std", "lower", "upper", "probability"):
        if column in table and table[column].dtype.kind == "f":
            bad = ~np.isfinite(table[column])
            check(not bad.any(), f"{bad.sum()} of {len(bad)} numbers of {column} in the output are not finite")


@functools.cache
def _models() -> Path:
    """A folder with models, fitted by the command itself."""
    folder = Path(tempfile.mkdtemp(prefix="npvi-campaign-"))
    survey().to_csv(folder / "survey.csv", index=False)
    with in_folder(folder):
        for name in ("counts", "classes", "heights", "terms"):
            words = shlex.split(_COMMANDS[f"fit {name}"].replace("{table}", "survey.csv").replace("{out}", name))
            code, said, _ = npvi(words)
            check(code == 0, f"npvi {' '.join(words)}: {said}")
    return folder


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def npvi(words: list[str]) -> tuple[int, str, str]:
    """Run a command in this process: its exit code, and what it wrote to standard error and standard output."""
    from npvi.cli import main

    with _elsewhere(2) as errors, _elsewhere(1) as output:
        arguments, sys.argv = sys.argv, ["npvi", *words]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            code = -1
            sys.stderr.write(f"Traceback: {type(error).__name__}: {error}")
        finally:
            sys.argv = arguments
    return code, errors(), output()


@contextlib.contextmanager
def _elsewhere(descriptor: int) -> Iterator[Callable[[], str]]:
    """What is written to a file descriptor, by whomever, instead of the terminal."""
    stream = sys.stdout if descriptor == 1 else sys.stderr
    stream.flush()
    before = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        written = ""
        try:
            yield lambda: written
        finally:
            stream.flush()
            os.dup2(before, descriptor)
            os.close(before)
            file.seek(0)
            written = file.read().decode("utf-8", "backslashreplace")
