"""Links to files outside of `docs/` lead to the pages that show them: sources can be read where they are."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

__all__ = ["setup"]

#: a file, from the root of the repository, and the page that includes it
PAGES = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "README.md": "index",
    "benchmarks/RESULTS.md": "results",
    "benchmarks/reproduction/README.md": "reproduction_tables",
}
_LINK = re.compile(r"\]\((?:\.\./)*([\w/.-]+?)(#[\w-]+)?\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")


def _leading(text: str, up: str) -> str:
    """The text with its links leading to pages; `up` leads from its page to the folder of pages."""

    def page(match: re.Match) -> str:
        target, anchor = match[1], match[2] or ""
        if target.startswith("docs/"):
            return f"]({up}{target.removeprefix('docs/')}{anchor})"
        return f"]({up}{PAGES[target]}.md{anchor})" if target in PAGES else match[0]

    return _LINK.sub(page, text)


def _pages(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = _leading(source[0], "../" * name.count("/"))


def _included(app: Sphinx, path, name: str, source: list[str]) -> None:
    _pages(app, name, source)


def setup(app: Sphinx) -> dict:
    app.connect("source-read", _pages)
    app.connect("include-read", _included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
