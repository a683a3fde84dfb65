"""The tables that pages have."""

from __future__ import annotations

import pytest

from .scripts import script

tables = script("tables")


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_pages_have_the_tables_of_today(page):
    text = page.read_text(encoding="utf-8")
    assert tables.with_tables(text, tables.PAGES[page]) == text, "run `python tools/tables.py`"
