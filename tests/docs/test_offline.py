"""What a page fetches from elsewhere is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def offline():
    pytest.importorskip("sphinx", reason="the extra `docs` isn't installed")
    spec = importlib.util.spec_from_file_location("offline", EXTENSIONS / "offline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page",
    [
        '<script async src="https://cdn.example.org/a.js"></script>',
        "<img alt='x' src='//example.org/a.png'>",
        '<link rel="stylesheet" href="https://example.org/a.css">',
        '<link href="https://example.org/a.css" rel="stylesheet" />',
        '<style>@import "https://example.org/a.css";</style>',
        "<style>b { background: url(https://example.org/a.png) }</style>",
    ],
)
def test_what_comes_from_elsewhere_is_named(page, tmp_path, offline):
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    ((path, what),) = offline.elsewhere(tmp_path)
    assert path.name == "a.html"
    assert "example.org" in what


def test_links_to_click_are_none(tmp_path, offline):
    (tmp_path / "a.html").write_text('<a href="https://example.org/">there</a><img src="b.png">', encoding="utf-8")
    assert offline.elsewhere(tmp_path) == []
