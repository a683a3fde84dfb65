"""The file of a fitted model: an archive (`npvi.runtime.archive`), and what is said where there is none."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from npvi.runtime.archive import ArchiveError, Kind, read_archive, write_archive
from npvi.runtime.files import UnwritableError, replacing

__all__ = ["FORMAT", "MODEL", "ModelFileError", "read", "write"]

FORMAT = 2
"""The version of the format that this version of npvi writes, and the only one that it reads."""
MODEL = Kind("model", FORMAT, "fit the model again and save it")


class ModelFileError(ValueError):
    """A model cannot be saved, or a file is not a model that can be loaded."""


def write(path: str | os.PathLike[str], metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the file; an older one of that name is replaced only once the new one is complete."""
    try:
        with replacing(path) as file:
            write_archive(file, MODEL, metadata, arrays)
    except UnwritableError as error:
        raise ModelFileError(str(error)) from error
    except ValueError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from None


def read(path: str | os.PathLike[str], with_arrays: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a file whose checksum holds; the arrays can be left out."""
    try:
        with open(path, "rb") as file:
            return read_archive(file, MODEL, with_arrays)
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {os.fspath(path)}") from None
    except OSError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    except ArchiveError as error:
        raise ModelFileError(f"{os.fspath(path)} {error}") from error.__cause__
