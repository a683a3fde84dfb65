"""Parquet files, read a part at a time: which rows they have, and whether they still are what they were."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import LARGEST
from npvi.likelihoods import Likelihood

__all__ = ["Part", "Source", "SourceError"]

#: rows of a part, at most, unless a row group has more, and rows that are read at a time
_PART, _BATCH = 2**20, 2**17
#: columns that pandas keeps an index in
_INDEX = re.compile(r"__index_level_\d+__")


class SourceError(ValueError):
    """A table that can't be read, or isn't what it was."""


@dataclass(frozen=True)
class Part:
    """Row groups of a file that are read together.

    Attributes
    ----------
    path, groups : the file, and numbers of its row groups.
    first : number in the file of the first row.
    rows : how many there are.
    size, modified : of the file, when it was first looked at.
    """

    path: str
    groups: tuple[int, ...]
    first: int
    rows: int
    size: int
    modified: int

    def check(self) -> None:
        """Raise SourceError where the file isn't what it was."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise SourceError(f"{self.path} can't be read any more: {error.strerror}") from error
        if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
            raise SourceError(
                f"{self.path} has changed since the fit began: a model is of one state of the data. Fit into another "
                "folder"
            )


@dataclass(frozen=True)
class Source:
    """Tables in Parquet files, as one.

    Attributes
    ----------
    parts : what is read together.
    inputs, target : columns.
    extras : column of each of the likelihood's extras, such as the exposure.
    """

    parts: tuple[Part, ...]
    inputs: tuple[str, ...]
    target: str
    extras: Mapping[str, str]

    @classmethod
    def of(
        cls,
        given: Any,
        target: str,
        inputs: Sequence[str] | None = None,
        extras: Mapping[str, str] | None = None,
    ) -> Source:
        """Files by name, pattern or folder, or several of these; all columns are inputs but those named otherwise."""
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile

        extras = dict(extras or {})
        parts: list[Part] = []
        for path in _paths(given):
            state = os.stat(path)
            try:
                with ParquetFile(path) as file:
                    names, metadata = file.schema_arrow.names, file.metadata
                    counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
            except (OSError, ArrowInvalid) as error:
                raise SourceError(f"{path} can't be read as a Parquet file: {error}") from error
            if inputs is None:
                others = {target, *extras.values()}
                inputs = [name for name in names if name not in others and not _INDEX.fullmatch(name)]
            missing = [name for name in (*inputs, target, *extras.values()) if name not in names]
            if missing:
                raise SourceError(f"{path} has no column {', '.join(map(repr, missing))}; it has {', '.join(names)}")
            parts += _grouped(path, counts, state)
        source = cls(tuple(parts), tuple(inputs or ()), target, extras)
        if not source.inputs:
            raise SourceError(f"there are no inputs: the only column is the target, {target!r}")
        if not source.rows:
            raise SourceError(f"{_named(given)}: the tables have no rows")
        return source

    @property
    def rows(self) -> int:
        """In all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the arrays that are read: inputs, target, extras."""
        return (*self.inputs, self.target, *self.extras.values())

    def split(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Any]]:
        """X, y and what there is per row besides, of rows as they are read."""
        d = len(self.inputs)
        X = np.ascontiguousarray(rows[:, :d])
        return X, rows[:, d].copy(), {name: rows[:, d + 1 + k].copy() for k, name in enumerate(self.extras)}

    def read(self, number: int, likelihood: Likelihood) -> Iterator[NDArray[np.float64]]:
        """Rows of a part, some at a time, checked.

        Raises
        ------
        SourceError
            Where the file has changed, or holds what is no number or not allowed: it names file, column and row.
        """
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile

        part = self.parts[number]
        part.check()
        at, names = part.first, list(dict.fromkeys(self.columns))
        try:
            with ParquetFile(part.path) as file:
                for batch in file.iter_batches(_BATCH, row_groups=list(part.groups), columns=names):
                    if batch.num_rows:
                        columns = {name: _numbers(batch.column(name), name, part.path, at) for name in names}
                        rows = np.column_stack([columns[name] for name in self.columns])
                        self._check(rows, likelihood, part.path, at)
                        yield rows
                    at += batch.num_rows
        except (OSError, ArrowInvalid) as error:
            if isinstance(error, SourceError):
                raise
            part.check()
            raise SourceError(f"{part.path} can't be read: {error}") from error
        part.check()

    def _check(self, rows: NDArray[np.float64], likelihood: Likelihood, path: str, first: int) -> None:
        _, y, row = self.split(rows)
        try:
            likelihood.check_response(y)
            likelihood.check_row(row, len(y), y)
        except ValueError as error:
            raise SourceError(f"{path}, rows {first + 1:,} to {first + len(rows):,}: {error}") from error

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        about = {**asdict(self), "parts": [asdict(part) for part in self.parts]}
        return {
            "inputs": list(about["inputs"]),
            "target": self.target,
            "extras": dict(self.extras),
            "parts": [{**part, "groups": list(part["groups"])} for part in about["parts"]],
        }

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Source:
        """What `as_dict` has said."""
        parts = tuple(Part(**{**part, "groups": tuple(part["groups"])}) for part in about["parts"])
        return cls(parts, tuple(about["inputs"]), about["target"], dict(about["extras"]))


def _paths(given: Any) -> list[str]:
    """Of all files, sorted."""
    several = [given] if isinstance(given, str | os.PathLike) else given
    paths = isinstance(several, list | tuple) and all(isinstance(one, str | os.PathLike) for one in several)
    if not paths or not several:
        raise TypeError(
            f"source must be the path of a Parquet file, a folder of such, a pattern such as 'survey/*.parquet', or "
            f"several of these; got {type(given).__name__}. Tables in memory are for GPRegressor"
        )
    found: list[str] = []
    for one in several:
        text = os.fspath(one)
        if os.path.isdir(text):
            text = os.path.join(glob.escape(text), "**", "*.parquet")
        if glob.has_magic(text):
            here = sorted(glob.glob(text, recursive=True))
            if not here:
                raise SourceError(f"no file matches {text}")
            found += here
        elif os.path.exists(text):
            found.append(text)
        else:
            raise SourceError(f"there is no file {text}")
    return list(dict.fromkeys(os.path.abspath(path) for path in found))


def _named(given: Any) -> str:
    return os.fspath(given) if isinstance(given, str | os.PathLike) else "source"


def _grouped(path: str, counts: list[int], state: os.stat_result) -> Iterator[Part]:
    """Row groups, as many together as there is room for in a part."""
    groups: list[int] = []
    first = rows = 0
    for number, count in enumerate(counts):
        if groups and rows + count > _PART:
            yield Part(path, tuple(groups), first, rows, state.st_size, state.st_mtime_ns)
            groups, first, rows = [], first + rows, 0
        groups.append(number)
        rows += count
    if groups:
        yield Part(path, tuple(groups), first, rows, state.st_size, state.st_mtime_ns)


def _numbers(column: Any, name: str, path: str, first: int) -> NDArray[np.float64]:
    """A column as finite numbers."""
    from pyarrow import ArrowInvalid, ArrowNotImplementedError, float64, types

    if types.is_dictionary(column.type) or types.is_string(column.type) or types.is_large_string(column.type):
        raise SourceError(f"{path}: column {name!r} must hold numbers, got {column.type}")
    try:
        values = column.cast(float64(), safe=False).to_numpy(zero_copy_only=False)
    except (ArrowInvalid, ArrowNotImplementedError) as error:
        raise SourceError(f"{path}: column {name!r} must hold numbers, got {column.type}") from error
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise SourceError(
            f"{path}: column {name!r} must hold finite numbers; row {first + int(wrong[0]) + 1:,} has "
            f"{values[wrong[0]]}, and {len(wrong):,} of these {len(values):,} rows are missing or not finite. Leave "
            "such rows out of the files"
        )
    if np.abs(values).max(initial=0.0) > LARGEST:
        raise SourceError(f"{path}: column {name!r} has numbers beyond ±{LARGEST:g}, for which there are no distances")
    return values
