"""What benchmarks find is kept as it was shown, and RESULTS.md has what is kept."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest
from benchmarks.record import recording, say, show, skip

from benchmarks import report


def found(folder, **options):
    with recording("toy", folder, **options):
        show(
            "Sizes,\nof a toy",
            ("rows", "share", "none"),
            [(np.int64(7), np.float64(0.12345), np.nan), ("all", 2, None)],
        )
        say("  fine")
    return folder / "toy.json"


def test_kept_as_shown(tmp_path, capsys):
    path = found(tmp_path / "results")
    shown = capsys.readouterr().out
    kept = json.loads(path.read_text())
    assert [part.get("line") for part in kept["parts"]] == [None, "  fine"]
    assert kept["parts"][0]["rows"] == [[7, 0.12345, "nan"], ["all", 2, None]]
    assert {"date", "commit", "versions", "machine", "seconds", "cpu_seconds"} <= set(kept)
    assert kept["versions"]["numpy"] == np.__version__
    inside = report.section(kept).split("=== toy ===\n")[1].removesuffix("\n```\n")
    assert "   7  0.123   nan" in inside
    assert inside in shown


def test_no_names_of_machines_or_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "a-certain-host")
    text = found(tmp_path).read_text()
    assert not [name for name in ("a-certain-host", str(tmp_path), str(Path.cwd()), str(Path.home())) if name in text]


def fail(folder):
    with recording("toy", folder):
        say("half")
        raise ZeroDivisionError


@pytest.mark.parametrize("hole", ["skipped", "options", "failed"])
def test_what_is_not_the_benchmark_itself_is_not_kept(tmp_path, hole):
    if hole == "options":
        found(tmp_path, keep=False)
    elif hole == "skipped":
        with recording("toy", tmp_path):
            say("half")
            skip("the other half", "no data")
    else:
        with pytest.raises(ZeroDivisionError):
            fail(tmp_path)
    assert list(tmp_path.iterdir()) == []


PAGE = f"""# Results

<!-- benchmark: old -->
{report.BY_HAND}

```text
=== old ===
3
```
<!-- end -->

<!-- benchmark: toy -->
anything
<!-- end -->
prose
<!-- peers: begin -->
"""


def test_places_are_filled_and_the_rest_stays(tmp_path):
    kept = json.loads(found(tmp_path).read_text())
    once = report.page(PAGE, {"toy": kept, "new": {**kept, "name": "new"}})
    assert "anything" not in once
    assert PAGE[: PAGE.index("<!-- benchmark: toy")] in once
    assert "\nprose\n" in once
    assert once.index("=== toy ===") < once.index("=== new ===") < once.index("<!-- peers")
    assert report.page(once, {"toy": kept, "new": {**kept, "name": "new"}}) == once
    with pytest.raises(ValueError, match=r"figures of new are from a file new\.json that isn't there"):
        report.page(once, {"toy": kept})


def test_the_page_is_what_the_results_say(monkeypatch):
    monkeypatch.setattr("sys.argv", ["report", "--check"])
    with pytest.raises(SystemExit) as end:
        report.main()
    assert end.value.code is None
