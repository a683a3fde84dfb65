"""What the guide shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"


def test_pages_name_the_paper_by_both_of_its_titles():
    for page in (GUIDE.with_name("reproduction.md"), GUIDE.parent.parent / "CITATION.cff"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        for kind in ("Amortized", "Non-Parametric"):
            title = f"{kind} Variational Inference with Graph Convolutional Networks for Gaussian Processes"
            assert title in text, f"{page.name} lacks {title}"


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
