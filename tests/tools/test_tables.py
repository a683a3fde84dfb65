"""The tables of the guide."""

from __future__ import annotations

from .scripts import script

tables = script("tables")


def test_the_guide_has_the_tables_of_today():
    text = tables.GUIDE.read_text(encoding="utf-8")
    assert tables.with_tables(text) == text, "run `python tools/tables.py`"
