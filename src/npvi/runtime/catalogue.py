"""What the modules of a folder define: classes that have a name, as in ``class RBF(Stationary, name="rbf")``."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

__all__ = ["import_all", "read_names"]

#: the first line of a class, or lines, as the call that it looks like
_HEADS = re.compile(r"^class (\w+\(.*?\)):(?:\s*#[^\n]*)?$", re.MULTILINE | re.DOTALL)


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
        for head in _HEADS.findall(file.read_text(encoding="utf-8")):
            call = ast.parse(head, mode="eval").body  # of heads alone: whole files are a tenth of what help takes
            assert isinstance(call, ast.Call)
            said = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
            if "name" in said:
                found[str(said["name"])] = str(said.get("about", ""))
    return dict(sorted(found.items()))
