"""Find a browser for `make test-browser`; install chromium where there is none and that is possible.

    python tools/browser.py

Where it isn't possible the tests skip, and say why. NPVI_BROWSER names another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

__all__ = ["find", "install"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"])


def find() -> str | None:
    """The path of a browser that is installed, or None."""
    named = os.environ.get("NPVI_BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)


def install() -> str:
    """Install chromium, where this is root on a system with apt-get; what came of it, in words."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "no browser, and only root can install one"
    if shutil.which("apt-get") is None:
        return "no browser, and no apt-get to install one"
    for command in _INSTALL:
        done = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"no browser, and {' '.join(command)} failed: {done.stderr.strip()[-300:]}"
    return f"installed {find()}"


if __name__ == "__main__":
    found = find()
    print(f"browser: {found or install()}", file=sys.stderr)
