"""What the modules of a folder define: classes that have a name, as in ``class RBF(Stationary, name="rbf")``."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

__all__ = ["import_all", "read_names"]


def import_all(package: ModuleType) -> None:
    """Import every module of a package, so that its classes register themselves."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def read_names(folder: Path) -> dict[str, str]:
    """The names of a folder's classes, and what each says it is about, sorted by name; read off the text.

    The help of the command line has them, and must not wait for the library to be imported.

    >>> import npvi
    >>> read_names(Path(npvi.__file__).parent / "kernels" / "families")["rbf"]
    'very smooth'
    """
    found = {}
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if 'name="' not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                said = {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
                if "name" in said:
                    found[str(said["name"])] = str(said.get("about", ""))
    return dict(sorted(found.items()))
