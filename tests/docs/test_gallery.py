"""The examples run, in small versions, on simulated data and on real ones."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_is_short_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    title, line = text.removeprefix('"""\n').splitlines()[:2]
    assert line == "=" * len(title)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["simulated", "real"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_ends_in_a_picture(path, data, tmp_path, monkeypatch, capsys):
    if data == "real" and not (os.environ.get("NPVI_DATA") and "NPVI_DATA" in path.read_text(encoding="utf-8")):
        pytest.skip("needs the folder that NPVI_DATA names" if not os.environ.get("NPVI_DATA") else "simulates always")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPVI_EXAMPLES", "small")
    if data == "simulated":
        monkeypatch.delenv("NPVI_DATA", raising=False)
    plt.switch_backend("Agg")
    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(path), run_name="__main__")
    (figure,) = (plt.figure(number) for number in plt.get_fignums())
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 100  # maps have more colours than an empty frame
    plt.close("all")
