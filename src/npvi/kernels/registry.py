"""Kernels by name: those of `families`, and any other class that has one."""

from __future__ import annotations

from typing import Any

from npvi.kernels import families
from npvi.kernels.base import Kernel
from npvi.kernels.custom import Custom
from npvi.parameters import check_kinds
from npvi.runtime.catalogue import import_all

__all__ = ["KERNELS", "as_kernel"]

import_all(families)
KERNELS: dict[str, type[Kernel]] = Kernel.named


def as_kernel(obj: Any) -> Kernel:
    """A kernel from its name (with parameters at 1), from a function of two points, or from a kernel.

    >>> as_kernel("matern32")
    Matern32()
    """
    choices = ", ".join(repr(name) for name in sorted(KERNELS))
    if isinstance(obj, Kernel):
        check_kinds(obj)
        return obj
    if isinstance(obj, str):
        if obj not in KERNELS:
            raise ValueError(f"no kernel is named {obj!r}; the names are {choices}")
        return KERNELS[obj]()
    if isinstance(obj, type):
        raise TypeError(f"expected a kernel, got the class {obj.__name__}; write {obj.__name__}()")
    # scikit-learn's kernels are callable too, but on whole matrices
    if callable(obj) and not type(obj).__module__.startswith("sklearn."):
        return Custom(obj)
    raise TypeError(
        f"expected a kernel from npvi.kernels, a function of two points, or one of {choices}; "
        f"got {type(obj).__module__}.{type(obj).__name__}"
    )
