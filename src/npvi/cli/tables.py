"""Tables in CSV and Parquet: read whole or in chunks, checked column by column, written as they come."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.errors import InputError, unknown_name
from npvi.runtime.files import UnwritableError, check_writable, replacing
from npvi.runtime.interrupts import safe_point

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "check_output", "complete_rows", "labels", "numbers", "writing"]

#: most columns of a text file
_COLUMNS = 10_000
_TEXT, _PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
_MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "<NA>"))


class Table:
    """A file with named columns.

    Parameters
    ----------
    path : Path
        Ends in .csv, .tsv or .txt (possibly with .gz), .parquet or .pq.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
        if kind.lower() not in _TEXT + _PARQUET:
            raise InputError(f"{path}: tables are read from .csv, .tsv or .parquet files")
        self.is_parquet = kind.lower() in _PARQUET
        with self._readable():
            self.separator = "" if self.is_parquet else _separator(path)
            self.columns = self._names()

    def require(self, names: Sequence[str]) -> None:
        """Raise where a column isn't there."""
        for name in names:
            if name not in self.columns:
                raise unknown_name(f"{self.path} has no column", name, self.columns)
            if self.columns.count(name) > 1:
                raise InputError(f"{self.path} has more than one column {name!r}: rename or remove all but one")

    def read(self, names: Sequence[str]) -> pd.DataFrame:
        """Some columns, whole; at least one row."""
        import pandas as pd

        self.require(names)
        wanted = list(dict.fromkeys(names))
        with self._readable():
            if self.is_parquet:
                frame = pd.read_parquet(self.path, columns=wanted)
            else:
                # pandas' own parser would pass over surplus fields where only some columns are wanted
                frame = pd.read_csv(self.path, sep=self.separator, usecols=wanted, engine="pyarrow")
        safe_point()
        if frame.empty:
            raise InputError(f"{self.path} has no rows")
        return frame

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        """All columns, some rows at a time; text files as text, so that what isn't used comes out as it went in."""
        with self._readable():
            for frame in self._raw_chunks(rows):
                safe_point()
                if len(frame):
                    yield frame

    def _raw_chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        import pandas as pd

        if self.is_parquet:
            from pyarrow.parquet import ParquetFile

            start = 0
            with ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=rows):
                    frame = batch.to_pandas().reset_index(drop=True)
                    frame.index += start  # rows keep their numbers, for messages
                    start += len(frame)
                    yield frame
        else:
            how: dict[str, Any] = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
            with pd.read_csv(self.path, sep=self.separator, chunksize=rows, **how) as reader:
                for frame in reader:
                    if not isinstance(frame.index, pd.RangeIndex):  # what pandas makes of surplus fields
                        raise InputError(
                            f"cannot read {self.path}: its lines have more fields than there are names of columns, "
                            f"{len(self.columns)}; text with a {self.separator!r} in it needs quotes"
                        )
                    yield frame

    def _names(self) -> list[str]:
        import pandas as pd

        if self.is_parquet:
            from pyarrow.parquet import read_schema

            return [str(name) for name in read_schema(self.path).names]
        how: dict[str, Any] = {"sep": self.separator, "encoding": "utf-8-sig"}
        names = [str(name) for name in pd.read_csv(self.path, nrows=0, **how).columns]
        # pandas numbers those that come again
        given = pd.read_csv(self.path, nrows=1, header=None, dtype=str, keep_default_na=False, **how).iloc[0].tolist()
        return [own if own and given.count(own) > 1 else name for name, own in zip(names, given)]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import pandas as pd
        import pyarrow

        try:
            yield
        except FileNotFoundError:
            raise InputError(f"there is no file {self.path}") from None
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}") from error
        except pd.errors.EmptyDataError:
            raise InputError(f"{self.path} is empty") from None
        except UnicodeDecodeError as error:
            raise InputError(f"cannot read {self.path}: it is not text in UTF-8") from error
        except (ValueError, TypeError, LookupError, EOFError, pyarrow.ArrowException) as error:
            if "straddling object" in str(error):  # pyarrow's blocks
                raise InputError(f"{self.path} has a row longer than 1 MB: shorten it, or close its quotes") from error
            # pandas' parser errors are ValueErrors; TypeErrors and KeyErrors come of what Parquet files say about types
            kind = "a Parquet file" if self.is_parquet else "a table with a line of column names"
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise InputError(f"cannot read {self.path} as {kind}: {first_line}") from error


def _separator(path: Path) -> str:
    """The separator of the first line: a comma, unless only semicolons or tabs are there."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig") as file:
        line = file.readline(1_000_000)
    separator = next((mark for mark in (",", "\t", ";") if mark in line), ",")
    count = line.count(separator) + 1
    if count > _COLUMNS:
        more = "" if line.endswith("\n") else " or more"
        raise InputError(
            f"{path} has {count:,} columns{more}; text files may have {_COLUMNS:,}. Keep those that are needed, or "
            "make it a Parquet file"
        )
    return separator


# -- columns ----------------------------------------------------------------------------------------------------------


def numbers(frame: pd.DataFrame, name: str, path: Path) -> NDArray[np.float64]:
    """A column as float64, NaN where a value is missing; true and false are 1 and 0, other text is refused by name."""
    import pandas as pd

    column = frame[name]
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise InputError(f"{path}: column {name!r} holds dates, not numbers; turn them into days or years first")
    values = pd.to_numeric(column, errors="coerce")
    text = ~column.isna() & values.isna()
    if text.any():
        text &= ~column[text].astype(str).str.strip().isin(_MISSING).reindex(column.index, fill_value=True)
    if text.any() and not values.notna().any():  # of yes and no alone, as Python and R write them
        yes = column[text].astype(str).str.strip().str.lower().map({"true": 1.0, "false": 0.0})
        if yes.notna().all():
            return np.asarray(yes.reindex(column.index), dtype=np.float64)
    if text.any():
        first = int(np.flatnonzero(text)[0])
        value = str(column.iloc[first])[:40]
        hint = "; numbers need a decimal point, not a comma" if re.fullmatch(r"\s*-?\d+,\d+\s*", value) else ""
        raise InputError(
            f"{path}: column {name!r} is not numeric in {int(text.sum()):,} of {len(text):,} rows: "
            f"row {frame.index[first] + 1} holds {value!r}{hint}"
        )
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def labels(frame: pd.DataFrame, name: str, path: Path, like: NDArray | None = None) -> NDArray:
    """A column of labels, None where missing; of the kind of the labels `like`, where those are given."""
    import pandas as pd

    column = frame[name]
    text = column.astype(str).str.strip()
    missing = (column.isna() | text.isin(_MISSING)).to_numpy()
    if like is None:
        values = column.to_numpy(dtype=object, copy=True)
    elif like.dtype.kind in "iuf":
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=object, copy=True)
    elif like.dtype.kind == "b":
        values = (
            text.str.lower()
            .map({"true": True, "false": False, "1": True, "0": False})
            .to_numpy(dtype=object, copy=True)
        )
    else:
        values = column.astype(str).to_numpy(dtype=object, copy=True)
    values[missing] = None
    if like is not None:
        unknown = ~missing & ~np.isin(values, like.astype(object))
        if unknown.any():
            *others, last = (repr(label) for label in like.tolist())
            known = " and ".join([*([", ".join(others)] if others else []), last])
            first = text.iloc[int(np.flatnonzero(unknown)[0])]
            raise InputError(f"{path}: column {name!r} holds {first!r}, but the model only knows {known}")
    return values


def complete_rows(columns: dict[str, NDArray], path: Path, drop: bool) -> NDArray[np.bool_]:
    """Rows that have a value in every column; unless `drop`, it is an error that not all do."""
    lacking = {}
    for name, values in columns.items():
        finite = (
            np.isfinite(values) if values.dtype.kind in "iufb" else np.array([value is not None for value in values])
        )
        if not finite.all():
            lacking[name] = ~finite
    if not lacking:
        return np.ones(len(next(iter(columns.values()))), dtype=bool)
    missing = np.any(list(lacking.values()), axis=0)
    if not drop:
        which = ", ".join(f"{name!r} ({int(rows.sum()):,})" for name, rows in lacking.items())
        raise InputError(
            f"{path}: {int(missing.sum()):,} of {len(missing):,} rows have a missing or infinite value, in {which}.\n"
            "Fill them in, or leave those rows out with --drop-missing"
        )
    return ~missing


# -- output -----------------------------------------------------------------------------------------------------------


def check_output(path: Path, table: bool = True, inputs: Sequence[Path] = ()) -> None:
    """Raise where `path` could not be written, before anything is computed."""
    if table and path.suffix.lower() not in (*_TEXT, *_PARQUET):
        raise InputError(f"{path}: tables are written to .csv, .tsv or .parquet files")
    for other in inputs:
        if path.exists() and other.exists() and os.path.samefile(path, other):
            raise InputError(f"{path} is also an input; name another file for the output")
    try:
        check_writable(path)
    except UnwritableError as error:
        raise InputError(str(error)) from error


@contextmanager
def writing(path: Path) -> Iterator[_Writer]:
    """A table that grows by chunks and takes its name only when it is complete."""
    try:
        with replacing(path) as file:
            writer = _Parquet(file, path) if path.suffix.lower() in _PARQUET else _Text(file, path)
            yield writer
            writer.close()
    except UnwritableError as error:
        raise InputError(str(error)) from error


class _Writer:
    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path, self._begun = file, path, False

    def write(self, frame: pd.DataFrame) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Finish the file."""


class _Text(_Writer):
    def write(self, frame: pd.DataFrame) -> None:
        separator = "\t" if self._path.suffix.lower() == ".tsv" else ","
        frame.to_csv(self._file, index=False, header=not self._begun, sep=separator)
        self._begun = True


class _Parquet(_Writer):
    _writer: Any = None

    def write(self, frame: pd.DataFrame) -> None:
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        if self._writer is None:
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            self._writer = ParquetWriter(self._file, table.schema)
        else:
            table = pyarrow.Table.from_pandas(frame, schema=self._writer.schema, preserve_index=False)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
