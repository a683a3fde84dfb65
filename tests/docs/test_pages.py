"""What the pages show runs as it stands: Python, and commands of npvi."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: a block, and a package that it needs and tests may lack; ```text and ```r are only shown
BLOCK = re.compile(r"(?:<!-- needs (\w+) -->\n)?```(python|sh)\n(.*?)```", re.DOTALL)
#: pages with blocks; those of CONTRIBUTING.md are files, see `test_contributing.py`
PAGES = [page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if BLOCK.search(page.read_text("utf-8"))]


def test_pages_name_the_paper_by_both_of_its_titles():
    for page in (DOCS / "reproduction.md", ROOT / "CITATION.cff"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        for kind in ("Amortized", "Non-Parametric"):
            title = f"{kind} Variational Inference with Graph Convolutional Networks for Gaussian Processes"
            assert title in text, f"{page.name} lacks {title}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inside of GPyTorch
@pytest.mark.filterwarnings("ignore:Port 8787 is already in use")  # where another cluster of Dask is running
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    plt.close("all")
    names: dict[str, Any] = {"__name__": page.stem, **BEFORE.get(page.stem, dict)()}
    for number, (needed, language, block) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
        if needed and importlib.util.find_spec(needed) is None:
            continue  # another program's, which tests may lack; ours beside it runs
        if language == "python":
            exec(compile(block, f"block {number} of {page.name}", "exec"), names)
        else:
            _commands(block)
    AFTER.get(page.stem, lambda names, shown: None)(names, capsys.readouterr().out)
    plt.close("all")


def _commands(block: str) -> None:
    from npvi.cli import app

    for line in block.replace("\\\n", " ").strip().splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "npvi", f"only commands of npvi are run, this is {line!r}: mark the block as text"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def _survey() -> dict[str, Any]:
    """What the README takes for granted."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"lon": rng.uniform(0, 3, 250), "lat": rng.uniform(0, 3, 250), "forest": rng.uniform(size=250)})
    hours = rng.uniform(0.5, 3.0, size=250)
    y = rng.poisson(hours * np.exp(1.0 + np.sin(2.0 * X["lon"]) + X["forest"]))
    train, test = slice(0, 200), slice(200, None)
    return {
        **{"X": X[train], "y": y[train], "hours": hours[train]},
        **{"X_new": X[test], "y_new": y[test], "hours_new": hours[test]},
    }


def _files() -> dict[str, Any]:
    """What the page on tiles takes for granted."""
    rng = np.random.default_rng(0)
    Path("survey").mkdir()
    for number in range(3):
        table = pd.DataFrame({"lon": rng.uniform(0, 3, 500), "lat": rng.uniform(0, 3, 500)})
        table["hours"] = rng.uniform(0.5, 3.0, 500)
        table["count"] = rng.poisson(table["hours"] * np.exp(np.sin(2.0 * table["lon"])))
        table.to_parquet(f"survey/{number}.parquet")
    return {"places": pd.DataFrame({"lon": [1.0, 2.0], "lat": [1.0, 2.0]})}


def _guide(names: dict[str, Any], shown: str) -> None:
    assert "forest: " in shown
    assert "mean log density" in shown
    assert names["model"].kernel_.smoothness in (0.5, 1.5, 2.5)
    assert names["careful"].nugget_ == 0.01
    assert 0.5 < names["careful"].kernel_.length_scale < 10.0
    assert names["surfaces"].shape == (50, 100)


BEFORE: dict[str, Callable[[], dict[str, Any]]] = {"README": _survey, "index": _survey, "tiles": _files}
AFTER: dict[str, Callable[[dict[str, Any], str], None]] = {"guide": _guide}
