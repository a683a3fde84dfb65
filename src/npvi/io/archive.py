"""The file of a fitted model: JSON and arrays behind a checksum, nothing that could be executed.

In this order: four lines of text (what it is, the format's version, the SHA-256 checksum and the length of all that
follows), one line of JSON, and the arrays that it lists, as NPY records without pickles.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from npvi.runtime.files import UnwritableError, replacing
from npvi.runtime.reading import check_depth, read_array, read_json

__all__ = ["FORMAT", "ModelFileError", "read", "write"]

FORMAT = 2
"""The version of the format that this version of npvi writes, and the only one that it reads."""

_MAGIC = b"npvi model\n"


class ModelFileError(ValueError):
    """A model cannot be saved, or a file is not a model that can be loaded."""


def write(path: str | os.PathLike[str], metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the file; an older one of that name is replaced only once the new one is complete."""
    try:
        check_depth(metadata)
    except ValueError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from None
    try:
        with replacing(path) as file:
            file.write(_header("0" * 64, 0))
            payload = _HashedWriter(file)
            payload.write(json.dumps({**metadata, "arrays": list(arrays)}).encode() + b"\n")
            for array in arrays.values():
                npy.write_array(payload, array, allow_pickle=False)
            file.seek(0)
            file.write(_header(payload.digest.hexdigest(), payload.length))
    except UnwritableError as error:
        raise ModelFileError(str(error)) from error


def read(path: str | os.PathLike[str], with_arrays: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a file whose checksum holds; the arrays can be left out."""
    try:
        with open(path, "rb") as file:
            _check(file)
            metadata = read_json(file.readline())
            if not isinstance(metadata, dict):
                raise ValueError("its JSON is not an object")
            names = metadata.pop("arrays", None)
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("it does not say which arrays it has")
            size = os.fstat(file.fileno()).st_size
            return metadata, {name: read_array(file, size) for name in names if with_arrays}
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {os.fspath(path)}") from None
    except OSError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # half of which NumPy doesn't promise
        # the checksum holds, so it was written like this: by something that isn't npvi
        raise ModelFileError(f"{os.fspath(path)} does not hold a model of npvi: {error}") from error


def _header(checksum: str, length: int) -> bytes:
    # of fixed width, because it is written before its content is known
    return _MAGIC + f"format {FORMAT}\nsha256 {checksum}\nlength {length:020d}\n".encode()


class _HashedWriter:
    """Passes on what is written and keeps its length and checksum, so that a large model isn't copied first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest, self.length = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.length += len(data)
        return self._file.write(data)


def _check(file: BinaryIO) -> None:
    """Go to the line of JSON, or raise an error that completes the sentence "the file …"."""
    if file.readline(len(_MAGIC)) != _MAGIC:
        raise ModelFileError("is not a model saved by npvi")
    version = re.fullmatch(rb"format (\d{1,9})\n", file.readline(32))
    if version and int(version[1]) > FORMAT:
        raise ModelFileError(
            f"was written by a newer npvi (format {int(version[1])}); this version reads format {FORMAT}: upgrade npvi"
        )
    if version and int(version[1]) < FORMAT:
        raise ModelFileError(
            f"was written by an older npvi (format {int(version[1])}); this version reads format {FORMAT}: fit the "
            "model again and save it"
        )
    checksum = re.fullmatch(rb"sha256 ([0-9a-f]{64})\n", file.readline(128))
    length = re.fullmatch(rb"length (\d{20})\n", file.readline(64))
    if not (version and checksum and length):
        raise ModelFileError("is damaged: its first lines are not those of a model")
    start, expected = file.tell(), int(length[1])
    found = os.fstat(file.fileno()).st_size - start
    if found < expected:
        raise ModelFileError(f"is cut off: {found:,} of {expected:,} bytes are there. Copy or save it again")
    if found > expected or hashlib.file_digest(file, "sha256").hexdigest() != checksum[1].decode():  # type: ignore[arg-type]
        raise ModelFileError("was altered since it was saved: its checksum is wrong. Copy or save it again")
    file.seek(start)
