"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, which removes no file that is open
    fcntl = None  # type: ignore[assignment]

__all__ = ["UnwritableError", "check_writable", "remove_unfinished", "replacing"]

#: what files are called until they are complete
_TEMPORARY = re.compile(r"\..{1,100}\.[0-9a-f]{8}\.npvi-tmp", re.DOTALL)


#: those of this process that aren't complete yet
_unfinished: set[Path] = set()


class UnwritableError(OSError):
    """A file that cannot be written; the message is a sentence for a person that names it and says why."""

    def __init__(self, path: str | os.PathLike[str], error: OSError) -> None:
        super().__init__(_why(path, error))
        self.errno = error.errno


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file in place of `path`, which keeps its old content until the block ends without an error.

    What processes that were killed have left of their own in the same folder is removed. A device or a pipe can't be
    replaced, and is written to.

    Raises
    ------
    UnwritableError
        Where the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"written whole")
    >>> path.read_text()
    'written whole'
    """
    try:
        target = _target(path)
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
            return
        temporary, descriptor = _temporary(target)
        try:
            with open(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, target)  # while it is locked, so that nobody takes it for a stale one
                _unfinished.discard(temporary)
        except BaseException:  # an interrupt too must not leave litter behind
            _remove(temporary)
            raise
        _sync_folder(target.parent)
    except UnwritableError:
        raise
    except OSError as error:
        raise UnwritableError(path, error) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise UnwritableError where `path` could not be written: by trying, without touching what is there.

    >>> check_writable("no/such/model.npvi")
    Traceback (most recent call last):
    npvi.runtime.files.UnwritableError: cannot write no/such/model.npvi: the folder 'no/such' does not exist
    """
    try:
        target = _target(path)
        if target.exists() and not target.is_file():
            return
        temporary, descriptor = _temporary(target)
        _remove(temporary)
        os.close(descriptor)
    except OSError as error:
        raise UnwritableError(path, error) from error


def remove_unfinished() -> None:
    """Remove what this process is still writing: for one that ends at once."""
    for temporary in list(_unfinished):
        _remove(temporary)


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        os.unlink(temporary)
    _unfinished.discard(temporary)


def _target(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(path))  # a link stays a link, and what it points to is replaced
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    return target


def _temporary(target: Path) -> tuple[Path, int]:
    """A new file beside `target`, open and locked: its lock tells others that somebody is still at it."""
    _remove_stale(target.parent)
    while True:
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.npvi-tmp")
        # not tempfile: its files are for the owner's eyes only, whatever the umask says
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is not None:
            with suppress(OSError):  # file systems without locks: there nothing counts as stale
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # not taken for a stale one before it was locked
            _unfinished.add(temporary)
            return temporary, descriptor
        os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Remove what is left in `folder` of this user's processes that were killed while they wrote."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if _TEMPORARY.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_if_stale(entry.path)


def _remove_if_stale(path: str) -> None:
    if fcntl is None:
        os.unlink(path)  # fails where it is open
        return
    # no link is followed, and a pipe doesn't make anybody wait
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while somebody writes
            os.unlink(path)
    finally:
        os.close(descriptor)


def _why(path: str | os.PathLike[str], error: OSError) -> str:
    """One sentence for a person.

    >>> _why("maps/a.npvi", FileNotFoundError())
    "cannot write maps/a.npvi: the folder 'maps' does not exist"
    """
    folder = os.path.dirname(os.fspath(path)) or "."
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError):
        reason = f"the folder {folder!r} does not exist"
    elif isinstance(error, NotADirectoryError):
        reason = f"{folder!r} is not a folder"
    elif isinstance(error, IsADirectoryError):
        reason = "it is a folder; name a file in it"
    elif isinstance(error, PermissionError):
        reason = f"no permission to write in the folder {folder!r}"
    elif error.errno == errno.ENOSPC:
        reason = "the disk is full; free some space, or name a file on another one"
    elif error.errno == getattr(errno, "EDQUOT", None):
        reason = "your share of the disk is full; free some space, or name a file on another one"
    elif isinstance(error, io.UnsupportedOperation):
        reason = "it is a pipe, and this kind of file isn't written from the first byte to the last; name a file"
    return f"cannot write {os.fspath(path)}: {reason}"


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
