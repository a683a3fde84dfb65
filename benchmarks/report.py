"""Put the figures of `benchmarks/results/*.json` into RESULTS.md, between its markers; the rest of the page stays.

    python -m benchmarks.report [--check]

Each benchmark has a place on the page, from `<!-- benchmark: NAME -->` to `<!-- end -->`. Where there is no JSON of it
yet the place keeps what was copied by hand, and says so. `--check` writes nothing and fails where the page and the
JSON differ.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, table_lines

__all__ = ["BY_HAND", "main", "page", "section"]

_PAGE = Path(__file__).parent / "RESULTS.md"
_PLACE = re.compile(r"<!-- benchmark: (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
#: what comes behind all of them
_BEHIND = "<!-- peers: begin -->"
BY_HAND = "*Copied by hand from what was printed, before figures were kept as JSON.*"


def section(result: dict[str, Any]) -> str:
    """What stands between the markers of one benchmark."""
    lines = [f"=== {result['name']} ==="]
    for part in result["parts"]:
        lines += [part["line"]] if "line" in part else table_lines(part["title"], part["header"], part["rows"])
    return f"{_made(result)}\n\n```text\n" + "\n".join(lines) + "\n```\n"


def page(text: str, results: dict[str, dict[str, Any]]) -> str:
    """The page with these results in their places; those without one get one at the end.

    Raises
    ------
    ValueError
        Where a place has neither a result nor words that say that it was copied by hand.
    """
    missing = [name for name in results if f"<!-- benchmark: {name} -->" not in text]
    places = "".join(f"<!-- benchmark: {name} -->\n<!-- end -->\n\n" for name in missing)
    text = text.replace(_BEHIND, places + _BEHIND, 1)

    def filled(place: re.Match[str]) -> str:
        name, now = place[1], place[2]
        if name in results:
            now = section(results[name])
        elif not now.startswith(BY_HAND):
            raise ValueError(f"the figures of {name} are from a file {name}.json that isn't there")
        return f"<!-- benchmark: {name} -->\n{now}<!-- end -->\n"

    return _PLACE.sub(filled, text)


def _made(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
    commit = f"commit {result['commit']}" if result["commit"] else "no commit"
    changed = " with changes" if result["changed"] else ""
    return (
        f"*{result['date']}, {commit}{changed}; {result['machine']}, load {result['load']:g} at the start; {versions}; "
        f"{result['seconds']:g} s, {result['cpu_seconds']:g} CPU seconds.*"
    )


def main() -> None:
    """Write the page, or compare it."""
    files = sorted(RESULTS.glob("*.json"))
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    before = _PAGE.read_text(encoding="utf-8")
    after = page(before, results)
    if "--check" in sys.argv[1:]:
        sys.exit(None if before == after else "RESULTS.md isn't what the results say: run python -m benchmarks.report")
    _PAGE.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
