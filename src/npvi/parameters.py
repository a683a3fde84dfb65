"""What kernels and likelihoods have in common: named numbers that JAX can trace and scikit-learn can set."""

from __future__ import annotations

from typing import Any, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["Parametrised"]


class Parametrised(BaseEstimator):
    """An object made of named parameters.

    The constructor only stores its arguments under their own names. scikit-learn's ``get_params``, ``set_params`` and
    ``clone`` then work (so ``model.set_params(kernel__length_scale=2.0)`` does), and every subclass is a JAX pytree
    whose leaves are its numbers: a compiled function that takes one is compiled once, not once per value.
    Names listed in ``static`` (strings, functions, column numbers) are part of the structure instead.
    """

    static: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_pytree_node(cls, _flatten, lambda structure, leaves: _unflatten(cls, structure, leaves))

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed; the original stays as it is."""
        return type(self)(**{**self.get_params(deep=False), **parameters})


def _flatten(obj: Parametrised) -> tuple[list[Any], tuple]:
    names = obj._get_param_names()
    leaves = [
        value if isinstance(value, Parametrised) or hasattr(value, "dtype") else np.asarray(value, dtype=np.float64)
        for value in (getattr(obj, name) for name in names if name not in obj.static)
    ]
    return leaves, tuple((name, getattr(obj, name)) for name in names if name in obj.static)


def _unflatten(cls: type[Parametrised], static: tuple, leaves: list[Any]) -> Parametrised:
    obj = object.__new__(cls)
    for name, value in static:
        setattr(obj, name, value)
    dynamic = [name for name in cls._get_param_names() if name not in cls.static]
    for name, value in zip(dynamic, leaves, strict=True):
        setattr(obj, name, value)
    return obj
