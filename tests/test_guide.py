"""What the guide shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"


@pytest.mark.slow
def test_every_block_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names: dict = {"__name__": "guide"}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), names)
    shown = capsys.readouterr().out
    assert "forest: " in shown
    assert "mean log density" in shown
    model = names["model"]
    assert model.kernel_.smoothness in (0.5, 1.5, 2.5)
    assert names["careful"].nugget_ == 0.01
    assert 0.5 < names["careful"].kernel_.length_scale < 10.0
    assert names["surfaces"].shape == (50, 100)
