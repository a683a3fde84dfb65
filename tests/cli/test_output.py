"""What the commands write and print, where the disk is full and where names are hostile."""

from __future__ import annotations

import os

import pytest

from tests.support.full_disk import full_disk  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    "command",
    [
        "diagnose birds.npvi test.csv --plot {tmp}/x.png",
        "diagnose birds.npvi test.csv --plot {tmp}/x.pdf",
        "diagnose birds.npvi test.csv --plot {tmp}/x.svg",
        "predict birds.npvi test.csv --exposure hours --output {tmp}/x.csv",
        "predict birds.npvi test.csv --exposure hours --output {tmp}/x.parquet",
        "fit survey.csv --target temperature --inputs lon,lat --length-scale 12 --no-learn --save {tmp}/x.npvi",
    ],
)
def test_a_full_disk(npvi, tmp_path, full_disk, command):  # noqa: F811
    done = npvi(command)
    assert done.exit_code == 2, done.output
    assert "the disk is full" in done.stderr
    assert f"cannot write {tmp_path}/x." in done.stderr
    assert "unexpectedly" not in done.stderr
    assert os.listdir(tmp_path) == []
