"""What the commands write and print, where the disk is full and where names are hostile."""

from __future__ import annotations

import os

import pytest

from npvi.cli.display import clean
from npvi.io.persistence import load
from tests.support import model_files
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


HOSTILE = "\x1b[31mred\x07\x1b]0;title\x07 \x9b2J [red]x[/red] :smile: \u202e"


def safe(text):
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}
    return text


def test_names_of_columns_do_nothing_to_the_terminal(npvi, survey, tmp_path):
    table = survey[:60].rename(columns={"lon": HOSTILE, "temperature": HOSTILE + "2"})
    table.to_csv(tmp_path / "survey.csv", index=False)
    done = npvi(
        "fit {tmp}/survey.csv --length-scale 12 --no-learn --save {tmp}/m.npvi",
        "--target",
        HOSTILE + "2",
        "--inputs",
        f"{HOSTILE},lat",
    )
    assert done.exit_code == 0, done.output
    safe(done.output)
    done = npvi("info {tmp}/m.npvi")
    assert done.exit_code == 0, done.output
    shown = safe(done.output).replace("\n", "")
    assert r"\x1b[31mred" in shown
    assert "[red]x[/red] :smile:" in shown
    for command in ("info {tmp}/m.npvi --json", "diagnose {tmp}/m.npvi {tmp}/survey.csv"):
        done = npvi(command)
        assert done.exit_code == 0, done.output
        safe(done.output)


def test_models_of_strangers_do_nothing_to_the_terminal(npvi, folder, tmp_path):
    def rename(metadata, arrays):
        metadata["npvi"] = HOSTILE
        metadata["notes"] = {"target": HOSTILE + "\n  nugget 3", "weight": HOSTILE}
        metadata["coefficients"] = {HOSTILE: [1.0, 2.0]}
        metadata["parameters"]["rule"] = HOSTILE

    model_files.altered(load(folder / "birds.npvi"), tmp_path / "m.npvi", rename)
    done = npvi("info {tmp}/m.npvi")
    assert done.exit_code == 0, done.output
    assert r"\n  nugget 3" in safe(done.output)
    done = npvi("predict {tmp}/m.npvi test.csv --output {tmp}/out.csv")
    assert done.exit_code == 2
    assert r"\x1b[31mred" in safe(done.stderr)


def test_text_in_a_console():
    shown = clean(HOSTILE + "\n\t\x00\ud800")
    assert shown == r"\x1b[31mred\x07\x1b]0;title\x07 \x9b2J [red]x[/red] :smile: \u202e" + "\n\t" + r"\x00\ud800"
    assert clean("Ærøskøbing 日本 €", lines=True) == "Ærøskøbing 日本 €"
    assert clean("a\nb", lines=True) == r"a\nb"
