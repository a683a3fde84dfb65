"""What is in files that may be anybody's: JSON and arrays, within bounds that the file's own size sets."""

from __future__ import annotations

import json
import math
import os
import threading
import zipfile
from io import BytesIO
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from npvi.runtime.forks import in_children

__all__ = ["DEPTH", "check_depth", "read_array", "read_json", "read_npz", "size_of"]

DEPTH = 100
"""How deep JSON may be nested: a sum of a hundred kernels is."""

#: kinds of arrays: truth values, whole numbers, floats and text
_KINDS = "biufU"


#: NumPy has Python parse what an array says of itself, and Python 3.11 counts the depth of all threads' parsing as one
#: ("AST constructor recursion depth mismatch", CPython's issue 106905)
_one_at_a_time = threading.Lock()


def _unlocked() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


in_children(_unlocked)  # whose threads that may have held it are gone


def read_json(text: str | bytes) -> Any:
    """What a text in JSON says; ValueError where it is none, or is nested deeper than `DEPTH`.

    >>> read_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> read_json("[" * 100_000 + "]" * 100_000)
    Traceback (most recent call last):
    ValueError: its JSON is nested more than 100 deep
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {DEPTH} deep") from None
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise ValueError where lists and mappings in each other are more than `DEPTH`."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [outer for outer in level if isinstance(outer, dict | list | tuple)]
        if not level:
            return
        level = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
    raise ValueError(f"its JSON is nested more than {DEPTH} deep")


def read_array(file: IO[bytes], size: int) -> np.ndarray:
    """The array in NumPy's format at this place of a file of `size` bytes.

    Raises
    ------
    ValueError
        Where it isn't of numbers or text, or claims to be larger than the file: NumPy would first reserve memory for
        whatever shape is claimed.
    """
    with _one_at_a_time:
        return _read_array(file, size)


def _read_array(file: IO[bytes], size: int) -> np.ndarray:
    start = file.tell()
    version = npy.read_magic(file)
    if version not in [(1, 0), (2, 0)]:
        raise ValueError(f"an array has the unknown version {version}")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.kind == "O":
        raise ValueError("an array holds objects of Python, which only a pickle could restore (allow_pickle=False)")
    if dtype.kind not in _KINDS or any(length < 0 for length in shape):
        raise ValueError(f"an array is of kind {dtype} and shape {shape}, which no model has")
    # also one without numbers in it, whose other sides may be any
    if max(shape, default=0) > size or math.prod(shape) * max(1, dtype.itemsize) > size:
        raise ValueError("an array claims to be larger than the file")
    file.seek(start)
    return npy.read_array(file, allow_pickle=False)


def read_npz(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays that `numpy.savez` wrote.

    Raises
    ------
    ValueError
        Where it is no such file, or one that would take more memory than the file has bytes: `savez` doesn't compress.

    Examples
    --------
    >>> file = BytesIO()
    >>> np.savez(file, a=np.arange(3))
    >>> read_npz(file)
    {'a': array([0, 1, 2])}
    """
    size = size_of(file)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("it is compressed, which files of npvi are not")
            if sum(member.file_size for member in members) > size:
                raise ValueError("its arrays claim to be larger than the file")
            return {
                member.filename.removesuffix(".npy"): read_array(BytesIO(archive.read(member)), member.file_size)
                for member in members
            }
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:  # zipfile has no error of its own for half of what may be wrong
        raise ValueError(str(error)) from error


def size_of(file: IO[bytes]) -> int:
    """Bytes in a file; it is left at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size
