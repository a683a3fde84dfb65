"""Libraries that most users don't need, imported when they are."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["needed"]


def needed(module: str, extra: str, what: str) -> ModuleType:
    """The module, or ImportError that says which extra of npvi brings it.

    >>> needed("no_such_module", "geo", "maps")
    Traceback (most recent call last):
    ImportError: maps need no_such_module, which isn't installed: pip install 'npvi[geo]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        verb = "need" if what.endswith("s") else "needs"
        raise ImportError(f"{what} {verb} {module}, which isn't installed: pip install 'npvi[{extra}]'") from None
