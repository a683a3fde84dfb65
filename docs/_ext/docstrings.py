"""Docstrings are written to be read as they stand; what reStructuredText would take for markup is escaped."""

from __future__ import annotations

from sphinx.application import Sphinx

__all__ = ["setup"]


def _escape(app: Sphinx, what: str, name: str, subject: object, options: object, lines: list[str]) -> None:
    example = False
    for number, line in enumerate(lines):
        text = line.strip()
        example = text.startswith(">>>") or (example and bool(text))
        table = text.startswith(("|", "+-", ".. |"))
        if not (example or table or "``" in line):
            lines[number] = line.replace("|", r"\|")  # log |P⁻¹| is no substitution


def setup(app: Sphinx) -> dict:
    app.connect("autodoc-process-docstring", _escape, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
