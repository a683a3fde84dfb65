"""What each command says with `--help`, as a page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

__all__ = ["setup"]

_WIDTH = 110


def _help(*command: str) -> str:
    environment = {**os.environ, "COLUMNS": str(_WIDTH), "TERMINAL_WIDTH": str(_WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    line = [sys.executable, "-m", "npvi.cli", *command, "--help"]
    return subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout


def _plain(text: str) -> str:
    return "\n".join(f"   {line.rstrip()}" for line in text.strip("\n").splitlines())


def _write(app: Sphinx, config: object) -> None:
    from npvi.cli import app as commands

    names = [command.callback.__name__.replace("_", "-") for command in commands.registered_commands]
    text = "Commands\n========\n\nWhat ``npvi --help`` and ``npvi COMMAND --help`` print.\n"
    for name in ["", *names]:
        heading = f"npvi {name}".strip()
        shown = re.sub(r"Usage: python -m npvi\.cli", "Usage: npvi", _help(*name.split()))
        text += f"\n{heading}\n{'-' * len(heading)}\n\n.. code-block:: text\n\n{_plain(shown)}\n"
    page = Path(app.srcdir) / "api" / "commands.rst"
    page.parent.mkdir(exist_ok=True)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", _write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
