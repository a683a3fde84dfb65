"""The site is whole: no page of it fetches a script, a font, a style or a picture from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

__all__ = ["elsewhere", "setup"]

_FETCHED = (
    re.compile(
        r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["'](?:https?:)?//([^"']+)""", re.IGNORECASE
    ),
    re.compile(
        r"""<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|icon))[^>]*\bhref=["'](?:https?:)?//([^"']+)""", re.I
    ),
    re.compile(r"""(?:url\(|@import\s+)\s*["']?(?:https?:)?//([^"')]+)""", re.IGNORECASE),
)


def elsewhere(folder: Path) -> list[tuple[Path, str]]:
    """Pages and styles of a site, with what they fetch from other places."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".css")]
    return [(path, found) for path in files for one in _FETCHED for found in one.findall(path.read_text("utf-8"))]


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for path, what in elsewhere(Path(app.outdir)):
            logging.getLogger(__name__).warning("%s fetches %s", path, what)


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
