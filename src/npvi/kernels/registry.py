"""Kernels by name."""

from __future__ import annotations

from typing import Any

from npvi.kernels.base import Kernel
from npvi.kernels.custom import Custom
from npvi.kernels.linear import Constant, Linear
from npvi.kernels.matern import Matern, Matern12, Matern32, Matern52
from npvi.kernels.periodic import Periodic
from npvi.kernels.rational_quadratic import RationalQuadratic
from npvi.kernels.rbf import RBF

__all__ = ["KERNELS", "as_kernel"]

KERNELS: dict[str, type[Kernel]] = {
    "rbf": RBF,
    "matern": Matern,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "linear": Linear,
    "constant": Constant,
}


def as_kernel(obj: Any) -> Kernel:
    """A kernel from its name (with parameters at 1), from a function of two points, or from a kernel.

    >>> as_kernel("matern32")
    Matern32()
    """
    choices = ", ".join(repr(name) for name in KERNELS)
    if isinstance(obj, Kernel):
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
