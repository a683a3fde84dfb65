"""The folder of a tiled model: files written whole or not at all, so that what is there is right.

A file that exists is finished: it is written beside its place and renamed (`npvi.runtime.files`), and has a checksum
(`npvi.runtime.archive`). So running a fit again goes on where it was stopped, however it was. The model is whole when
``manifest.json`` is there, which lists all of its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.runtime.archive import ArchiveError, Kind, read_archive, write_archive
from npvi.runtime.files import UnwritableError, replacing
from npvi.runtime.reading import read_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["MANIFEST", "VECTORS", "Store", "StoreError", "checksum_of"]

MANIFEST = "manifest.json"
_VERSION = 1
#: how files with numbers alone end
VECTORS = ".f64"
_MISSING = (
    "{} is missing: a part of the store was removed. Fit again into the same folder, which makes only what is missing"
)
#: lines of an archive before what it says
_HEADER = 4
_KIND = Kind(
    "tile",
    _VERSION,
    renewed="fit it again, into another folder",
    intact=". Delete it and fit again into the same folder: the rest is kept",
)


class StoreError(ValueError):
    """A store that can't be used; the message says which file and what to do."""


class Store:
    """A folder with archives.

    Parameters
    ----------
    folder : its path; it need not be there yet.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> store.write("tiles/00000/fit", {"rows": 3}, mean=np.zeros(3))
    >>> store.has("tiles/00000/fit"), store.about("tiles/00000/fit")
    (True, {'rows': 3})
    >>> store.read("tiles/00000/fit")["mean"]
    array([0., 0., 0.])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, name: str) -> Path:
        """Of an archive by its name, or of numbers alone by theirs."""
        return self.folder / (name if name.endswith(VECTORS) else f"{name}.npvi")

    def has(self, name: str) -> bool:
        """Whether it is there, which means finished."""
        return self.path(name).exists()

    def write(self, name: str, about: Mapping[str, Any] | None = None, /, **arrays: Any) -> None:
        """Write an archive, whole or not at all."""
        path = self.path(name)
        _make(path.parent)
        # an array without numbers may have any number of rows, which is more than an archive believes
        empty = {key: [list(array.shape), array.dtype.str] for key, array in arrays.items() if not array.size}
        full = {key: array for key, array in arrays.items() if array.size}
        with replacing(path) as file:
            write_archive(file, _KIND, {"about": dict(about or {}), "empty": empty}, full)

    def read(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of an archive whose checksum holds."""
        return self.read_all(name)[1]

    def about(self, name: str) -> dict[str, Any]:
        """What an archive says beside its arrays, which aren't looked at."""
        try:
            with open(self.path(name), "rb") as file:
                for _ in range(_HEADER):
                    file.readline()
                found: dict[str, Any] = read_json(file.readline())["about"]
            return found
        except (OSError, ValueError, LookupError, TypeError):
            return self.read_all(name, with_arrays=False)[0]  # which says what is wrong with it

    def read_all(self, name: str, with_arrays: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Both."""
        path = self.path(name)
        try:
            with open(path, "rb") as file:
                found, arrays = read_archive(file, _KIND, with_arrays)
            empty = {key: _without_numbers(*made) for key, made in found["empty"].items()}
            return dict(found["about"]), arrays | empty
        except FileNotFoundError:
            raise StoreError(_MISSING.format(path)) from None
        except ArchiveError as error:
            raise StoreError(f"{path} {error}") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreError(f"{path} can't be used: it doesn't say what it holds ({error})") from error

    def write_vectors(self, name: str, values: NDArray[np.float64]) -> None:
        """Write what other tiles read parts of: numbers alone, row by row; whole or not at all."""
        path = self.folder / f"{name}{VECTORS}"
        _make(path.parent)
        with replacing(path) as file:
            file.write(np.ascontiguousarray(values, np.float64).data)

    def read_vectors(self, name: str, rows: int, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Rows `start` to `stop` of a file that has so many `rows`, shape (stop − start, columns)."""
        path, stop = self.folder / f"{name}{VECTORS}", rows if stop is None else stop
        try:
            width, left = divmod(path.stat().st_size, 8 * max(rows, 1))
            found = np.fromfile(path, np.float64, (stop - start) * width, offset=8 * width * start)
        except FileNotFoundError:
            raise StoreError(_MISSING.format(path)) from None
        if left or len(found) != (stop - start) * width:
            raise StoreError(f"{path} is cut off{_KIND.intact}")
        return found.reshape(stop - start, width)

    def checksum(self, name: str) -> str:
        """Of a file with numbers alone."""
        path = self.folder / name
        try:
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise StoreError(_MISSING.format(path)) from None

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file of JSON with a checksum of its own."""
        _make((self.folder / name).parent)
        text = json.dumps({**content, "checksum": checksum_of(content)}, indent=1)
        with replacing(self.folder / name) as file:
            file.write(text.encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """What `write_json` has written."""
        path = self.folder / name
        try:
            content = read_json(path.read_bytes())
        except FileNotFoundError:
            raise StoreError(f"{self.folder} is not a tiled model of npvi, or not a finished one: no {name}") from None
        except ValueError as error:
            raise StoreError(f"{path} is damaged: {error}") from error
        if not isinstance(content, dict) or content.pop("checksum", None) != checksum_of(content):
            raise StoreError(f"{path} was altered since it was written: its checksum is wrong")
        return content

    def has_json(self, name: str) -> bool:
        """Whether it is there."""
        return (self.folder / name).exists()

    def finish(self, content: Mapping[str, Any], files: list[str]) -> None:
        """Write the manifest, with the size of each file: from now on the model is whole."""
        sizes = {name: self.path(name).stat().st_size for name in files}
        self.write_json(MANIFEST, {"format": _VERSION, **content, "files": sizes})

    def manifest(self) -> dict[str, Any]:
        """Of a finished model whose files are all there, as long as they were.

        Raises
        ------
        StoreError
            Where it isn't finished, of another version, or files are missing or cut off.
        """
        content = self.read_json(MANIFEST)
        if content.get("format") != _VERSION:
            raise StoreError(
                f"{self.folder} was written in format {content.get('format')}, and this npvi reads format {_VERSION}: "
                "fit it again into another folder, or use that version"
            )
        files = content.get("files")
        if not isinstance(files, dict) or not all(type(size) is int for size in files.values()):
            raise StoreError(f"{self.folder / MANIFEST} can't be used: its files must have sizes")
        then = ". Then update it again with the tables of its updates" if content.get("updates") else ""
        for name, size in files.items():
            path = self.path(name)
            if not path.exists():
                raise StoreError(
                    f"{path} is missing: a part of the store was removed. Remove {self.folder / MANIFEST} and fit "
                    f"again into the same folder, which makes only what is missing{then}"
                )
            if path.stat().st_size != size:
                raise StoreError(
                    f"{path} has {path.stat().st_size:,} of {size:,} bytes: it was cut off or altered. Remove it and "
                    f"{self.folder / MANIFEST}, and fit again into the same folder: the rest is kept{then}"
                )
        return content

    def remove(self, name: str) -> None:
        """Remove a folder, or an archive and the numbers beside it, if they are there."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self.path(name).unlink(missing_ok=True)
        (self.folder / f"{name}{VECTORS}").unlink(missing_ok=True)

    @contextmanager
    def working(self, name: str) -> Iterator[None]:
        """Nobody else makes a file of the same tile meanwhile; the next waits. Of parts, others may."""
        folder = self.path(name).parent
        if fcntl is None or folder.parent.name != "tiles":
            yield
            return
        _make(folder)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else works on it meanwhile: the second to try is told so. The lock ends with the process."""
        _make(self.folder)
        with open(self.folder / ".lock", "w") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise StoreError(
                        f"another run is at work on {self.folder}: wait for it, or give this one a folder of its own"
                    ) from None
                except OSError:  # a file system without locks
                    pass
            yield


def _without_numbers(shape: list[int], dtype: str) -> np.ndarray:
    if 0 not in shape:
        raise ValueError(f"an array of shape {shape} isn't empty")
    return np.zeros(shape, dtype)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(folder, error) from error


def checksum_of(content: Mapping[str, Any]) -> str:
    """Of what JSON can say."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
