"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["check_writable", "replacing", "why_unwritable"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file in place of `path`, which keeps its old content until the block ends without an error.

    Raises
    ------
    OSError
        Where the file cannot be written; `why_unwritable` puts it in words.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"written whole")
    >>> path.read_text()
    'written whole'
    """
    target = Path(os.path.realpath(path))  # a link stays a link, and what it points to is replaced
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    # not tempfile: its files are for the owner's eyes only, whatever the umask says
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # an interrupt too must not leave litter behind
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError where `path` could not be written: by trying, without touching what is there.

    >>> check_writable("no/such/folder/model.npvi")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: ...
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    probe = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    os.unlink(probe)


def why_unwritable(path: str | os.PathLike[str], error: OSError) -> str:
    """One sentence for a person.

    >>> why_unwritable("maps/a.npvi", FileNotFoundError())
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
    return f"cannot write {os.fspath(path)}: {reason}"


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
