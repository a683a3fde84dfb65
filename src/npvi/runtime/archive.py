"""The file of whatever npvi keeps: JSON and arrays behind a checksum, nothing that could be executed.

In this order: four lines of text (what it is, the format's version, the SHA-256 checksum and the length of all that
follows), one line of JSON, and the arrays that it lists, as NPY records without pickles.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from npvi.runtime.reading import check_depth, read_array, read_json, read_npz

__all__ = ["ArchiveError", "Kind", "header", "read_archive", "write_archive"]

#: how a zip begins
_ZIP = b"PK"
#: how much of a file is read at a time
_BLOCK = 2**20


class ArchiveError(ValueError):
    """What is wrong with a file; it completes the sentence "the file …"."""


@dataclass(frozen=True)
class Kind:
    """What is in a file, and what to do where it can't be read.

    Attributes
    ----------
    name : one word, such as "model".
    version : of its format: the one that is written, and the only one that is read.
    renewed : how to have one in this version's format.
    intact : what follows where one is damaged: how to have another.
    zipped : before archives, files were NumPy's own (npz), and are still read: the name of the array with the JSON, and
        the format that it names. None where there were none.
    """

    name: str
    version: int
    renewed: str
    intact: str = ". Copy or save it again"
    zipped: tuple[str, str] | None = None

    @property
    def magic(self) -> bytes:
        return f"npvi {self.name}\n".encode()


def write_archive(file: BinaryIO, kind: Kind, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write `about`, which JSON can say, and arrays to a file that can be rewound.

    Raises
    ------
    ValueError
        Where `about` is nested too deep to be read again.

    Examples
    --------
    >>> import io
    >>> kind, file = Kind("toy", 1, "make another one"), io.BytesIO()
    >>> write_archive(file, kind, {"size": 3}, {"a": np.arange(3)})
    >>> file.seek(0)
    0
    >>> read_archive(file, kind)
    ({'size': 3}, {'a': array([0, 1, 2])})
    >>> read_archive(io.BytesIO(file.getvalue()[:-1]), kind)
    Traceback (most recent call last):
    npvi.runtime.archive.ArchiveError: is cut off: 180 of 181 bytes are there. Copy or save it again
    """
    check_depth(about)
    file.write(header(kind, "0" * 64, 0))
    payload = _HashedWriter(file)
    payload.write(json.dumps({**about, "arrays": list(arrays)}).encode() + b"\n")
    for array in arrays.values():
        npy.write_array(payload, array, allow_pickle=False)
    file.seek(0)
    file.write(header(kind, payload.digest.hexdigest(), payload.length))


def read_archive(file: BinaryIO, kind: Kind, with_arrays: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a file whose checksum holds; the arrays can be left out.

    Raises
    ------
    ArchiveError
        Where it is damaged, or of another kind or version.
    """
    if kind.zipped is not None and file.read(len(_ZIP)) == _ZIP:
        return _read_zipped(file, kind, *kind.zipped)
    file.seek(0)
    _check(file, kind)
    try:
        about = read_json(file.readline())
        if not isinstance(about, dict):
            raise ValueError("its JSON is not an object")
        names = about.pop("arrays", None)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("it does not say which arrays it has")
        size = _size(file)
        return about, {name: read_array(file, size) for name in names if with_arrays}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # half of which NumPy doesn't promise
        # the checksum holds, so it was written like this: by something that isn't npvi
        raise ArchiveError(f"does not hold a {kind.name} of npvi: {error}") from error


def header(kind: Kind, checksum: str, length: int) -> bytes:
    """The first lines, of fixed width, because they are written before their content is known."""
    return kind.magic + f"format {kind.version}\nsha256 {checksum}\nlength {length:020d}\n".encode()


class _HashedWriter:
    """Passes on what is written and keeps its length and checksum, so that a large model isn't copied first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest, self.length = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.length += len(data)
        return self._file.write(data)


def _check(file: BinaryIO, kind: Kind) -> None:
    """Go to the line of JSON, or raise an error."""
    if file.readline(len(kind.magic)) != kind.magic:
        raise ArchiveError(f"is not a {kind.name} saved by npvi")
    version = re.fullmatch(rb"format (\d{1,9})\n", file.readline(32))
    if version and int(version[1]) > kind.version:
        raise ArchiveError(
            f"was written by a newer npvi (format {int(version[1])}); this version reads format {kind.version}: "
            "upgrade npvi"
        )
    if version and int(version[1]) < kind.version:
        raise ArchiveError(
            f"was written by an older npvi (format {int(version[1])}); this version reads format {kind.version}: "
            f"{kind.renewed}"
        )
    checksum = re.fullmatch(rb"sha256 ([0-9a-f]{64})\n", file.readline(128))
    length = re.fullmatch(rb"length (\d{20})\n", file.readline(64))
    if not (version and checksum and length):
        raise ArchiveError(f"is damaged: its first lines are not those of a {kind.name}")
    start, expected = file.tell(), int(length[1])
    found = _size(file) - start
    if found < expected:
        raise ArchiveError(f"is cut off: {found:,} of {expected:,} bytes are there{kind.intact}")
    if found > expected or _digest(file) != checksum[1].decode():
        raise ArchiveError(f"was altered since it was saved: its checksum is wrong{kind.intact}")
    file.seek(start)


def _size(file: BinaryIO) -> int:
    """Bytes in a file, which stays where it is."""
    here = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(here)
    return size


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _read_zipped(file: BinaryIO, kind: Kind, name: str, version: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A file from before there were archives, which says itself what it is."""
    try:
        arrays = read_npz(file)
        about = read_json(str(arrays.pop(name)))
        if not isinstance(about, dict):
            raise ValueError("its JSON is not an object")
        if about.pop("format", None) != version:
            raise ValueError("it doesn't say that it is one")
    except (OSError, KeyError, ValueError) as error:  # an OSError of a place that the file hasn't
        raise ArchiveError(f"is cut off or is not a {kind.name} of npvi ({error}){kind.intact}") from error
    return about, arrays
