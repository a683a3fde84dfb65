"""Where modules were before: the names that users may have written into their programs still lead to them."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["MOVED", "install"]

MOVED = {
    "npvi.baselines": "npvi.paper.rivals",
    "npvi.batching": "npvi.runtime.batching",
    "npvi.calibration": "npvi.predictive.calibration",
    "npvi.categorical": "npvi.predictive.categorical",
    "npvi.checkpoints": "npvi.runtime.checkpoints",
    "npvi.compiling": "npvi.runtime.compiling",
    "npvi.demo_picture": "npvi.demo.picture",
    "npvi.experiments": "npvi.paper.experiments",
    "npvi.files": "npvi.runtime.files",
    "npvi.interrupts": "npvi.runtime.interrupts",
    "npvi.joint": "npvi.predictive.joint",
    "npvi.mixture": "npvi.predictive.mixture",
    "npvi.model_file": "npvi.io.archive",
    "npvi.model_file_checks": "npvi.io.checks",
    "npvi.model_packing": "npvi.io.packing",
    "npvi.model_parts": "npvi.estimators.parts",
    "npvi.model_selection": "npvi.selection.grid",
    "npvi.model_unpacking": "npvi.io.unpacking",
    "npvi.networks": "npvi.amortized",
    "npvi.parallel": "npvi.runtime.parallel",
    "npvi.persistence": "npvi.io.persistence",
    "npvi.places": "npvi.graph.places",
    "npvi.precision": "npvi.runtime.precision",
    "npvi.predicting": "npvi.estimators.predicting",
    "npvi.progress": "npvi.runtime.progress",
    "npvi.reach": "npvi.predictive.reach",
    "npvi.sparse": "npvi.linalg",
    "npvi.splitters": "npvi.selection.splitters",
    "npvi.training": "npvi.runtime.training",
    "npvi.training_state": "npvi.runtime.training_state",
    "npvi.validation": "npvi.estimators.validation",
    "npvi.varying_predictive": "npvi.predictive.varying_noise",
}
"""Old names of modules and packages, and what they are now; what is in a package goes along."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for an old name with the module itself, not with another copy of it."""

    def __init__(self) -> None:
        self._specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return None if _present(fullname) is None else importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        name = _present(spec.name)
        assert name is not None
        module = importlib.import_module(name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has given it the spec of its old name
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)


def _present(name: str) -> str | None:
    """What a name is now; None where it hasn't moved.

    >>> _present("npvi.networks.streaming"), _present("npvi.kernels")
    ('npvi.amortized.streaming', None)
    """
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name[len(old) :]
    return None


def install() -> None:
    """Let old names be imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # before others, who would find what is in a package by its folder and load it a second time
        sys.meta_path.insert(0, _Finder())
