"""A disk without room, for everything that `npvi.runtime.files` writes."""

from __future__ import annotations

import errno
import io

import pytest

import npvi.runtime.files


class _Full(io.FileIO):
    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch):
    """From here on nothing can be written."""
    monkeypatch.setattr(
        npvi.runtime.files, "open", lambda file, mode: io.BufferedRandom(_Full(file, "r+b")), raising=False
    )
