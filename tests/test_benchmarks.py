"""Benchmarks run rarely: here it is seen that each can at least be begun."""

from __future__ import annotations

import importlib
from pathlib import Path

import benchmarks
import pytest

NAMES = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_imported(name):
    importlib.import_module(f"benchmarks.{name}")
