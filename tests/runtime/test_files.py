"""Files are written whole or not at all, and what a killed process has left goes with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from npvi.runtime import files
from npvi.runtime.checkpoints import CheckpointError, write_checkpoint
from npvi.runtime.files import UnwritableError, check_writable, replacing
from tests.support.full_disk import full_disk  # noqa: F401 - a fixture

HALF_WRITTEN = """
import sys, time
from npvi.runtime.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing `killed.npvi`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, str(tmp_path / "killed.npvi")], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"writing\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def write(path):
    with replacing(path) as file:
        file.write(b"new")


def hidden(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_what_a_killed_process_left_goes_with_the_next_file(writer, tmp_path):
    assert len(hidden(tmp_path)) == 1
    write(tmp_path / "other.npvi")
    assert len(hidden(tmp_path)) == 1, "its writer is alive"
    writer.kill()
    writer.wait()
    assert len(hidden(tmp_path)) == 1
    write(tmp_path / "other.npvi")
    assert os.listdir(tmp_path) == ["other.npvi"]


def test_files_of_others_stay(tmp_path):
    others = [".a.npvi.0123abcd.tmp", ".a.npvi.npvi-tmp", "a.0123abcd.npvi-tmp", ".a.0123ABCD.npvi-tmp", ".notes"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".folder.0123abcd.npvi-tmp").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".link.0123abcd.npvi-tmp").symlink_to(tmp_path / "precious")
    write(tmp_path / "a.npvi")
    there = {*others, ".folder.0123abcd.npvi-tmp", ".link.0123abcd.npvi-tmp", "precious", "a.npvi"}
    assert set(os.listdir(tmp_path)) == there


@pytest.mark.skipif(files.fcntl is None, reason="no users that are numbers")
def test_files_of_another_user_stay(tmp_path, monkeypatch):
    stale = tmp_path / ".a.npvi.0123abcd.npvi-tmp"
    stale.write_text("theirs")
    monkeypatch.setattr(files.os, "geteuid", lambda: stale.stat().st_uid + 1)
    write(tmp_path / "a.npvi")
    assert stale.exists()
    monkeypatch.undo()
    write(tmp_path / "a.npvi")
    assert not stale.exists()


def test_a_file_taken_for_stale_before_it_was_locked(tmp_path, monkeypatch):
    real, made = os.open, []

    def removed_at_once(path, *args):
        descriptor = real(path, *args)
        if not made and str(path).endswith(".npvi-tmp"):
            made.append(path)
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(files.os, "open", removed_at_once)
    write(tmp_path / "a.npvi")
    assert made
    assert (tmp_path / "a.npvi").read_bytes() == b"new"


def test_a_full_disk(tmp_path, full_disk):  # noqa: F811
    (tmp_path / "a.npvi").write_text("old")
    with pytest.raises(UnwritableError, match=r"cannot write .*a\.npvi: the disk is full"):
        write(tmp_path / "a.npvi")
    with pytest.raises(CheckpointError, match=r"checkpoint: cannot write .*a\.npvi: the disk is full"):
        write_checkpoint(tmp_path / "a.npvi", {"parameters": np.zeros(1000)}, {})
    assert os.listdir(tmp_path) == ["a.npvi"]
    assert (tmp_path / "a.npvi").read_text() == "old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_devices_are_written_to_and_not_replaced():
    check_writable("/dev/full")
    with pytest.raises(UnwritableError, match="cannot write /dev/full: the disk is full"):
        write("/dev/full")
    write("/dev/null")
    assert not os.path.isfile("/dev/null")
    assert not os.path.isfile("/dev/full")
