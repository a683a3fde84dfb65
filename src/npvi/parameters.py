"""What kernels and likelihoods have in common: named numbers that JAX can trace and scikit-learn can set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["POSITIVE_NUMBER", "REAL_NUMBER", "Interval", "Parameter", "Parametrised", "bounded", "fixed", "positive"]


@dataclass(frozen=True)
class Interval:
    """The numbers that a parameter may be: strictly between `lower` and `upper`; `increasing` for a sorted vector.

    >>> Interval(0.0, 1.0)
    Interval(lower=0.0, upper=1.0, increasing=False)
    """

    lower: float = -math.inf
    upper: float = math.inf
    increasing: bool = False


POSITIVE_NUMBER = Interval(0.0)
REAL_NUMBER = Interval()


@dataclass(frozen=True)
class Parameter:
    """A number that learning starts from, and what it may become; plain numbers are free within their own domain.

    Attributes
    ----------
    value : the start, a number or a vector.
    fixed : whether learning leaves it alone.
    lower, upper : bounds, inside the parameter's own domain.
    prior : mean and standard deviation of its logarithm (of itself, where it may be negative), or None.

    Examples
    --------
    >>> fixed(0.5)
    Parameter(value=0.5, fixed=True, lower=-inf, upper=inf, prior=None)
    """

    value: Any
    fixed: bool = False
    lower: float = -math.inf
    upper: float = math.inf
    prior: tuple[float, float] | None = None


def fixed(value: Any) -> Parameter:
    """`value`, not to be learned: ``RBF(length_scale=npvi.fixed(2.0))``."""
    return Parameter(value, fixed=True)


def bounded(value: Any, lower: float, upper: float, prior: tuple[float, float] | None = None) -> Parameter:
    """`value` to start from, kept between `lower` and `upper`: ``RBF(length_scale=npvi.bounded(1.0, 0.1, 10.0))``."""
    if not lower < upper:
        raise ValueError(f"lower must be below upper, got {lower!r} and {upper!r}")
    return Parameter(value, lower=float(lower), upper=float(upper), prior=prior)


def positive(value: Any = 1.0, prior: tuple[float, float] | None = None) -> Parameter:
    """A positive number to start from; `prior` is the mean and standard deviation of its logarithm."""
    return Parameter(value, lower=0.0, prior=prior)


class Parametrised(BaseEstimator):
    """An object made of named parameters.

    The constructor only stores its arguments under their own names. scikit-learn's ``get_params``, ``set_params`` and
    ``clone`` then work (so ``model.set_params(kernel__length_scale=2.0)`` does), and every subclass is a JAX pytree
    whose leaves are its numbers: a compiled function that takes one is compiled once, not once per value.
    Names listed in ``static`` (strings, functions, column numbers) are part of the structure instead.
    """

    static: tuple[str, ...] = ()
    domains: ClassVar[dict[str, Interval]] = {}
    """What each learnable parameter may be; positive numbers where nothing is said."""
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # once: reading them off the constructor each time would be a good part of a small fit's time
        cls._names = tuple(cls._get_param_names())
        jax.tree_util.register_pytree_node(cls, _flatten, lambda structure, leaves: _unflatten(cls, structure, leaves))

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed; the original stays as it is."""
        return type(self)(**{**self.get_params(deep=False), **parameters})


def _flatten(obj: Parametrised) -> tuple[list[Any], tuple]:
    names = obj._names
    leaves = [
        value if isinstance(value, Parametrised) or hasattr(value, "dtype") else np.asarray(value, dtype=np.float64)
        for value in (getattr(obj, name) for name in names if name not in obj.static)
    ]
    return leaves, tuple((name, getattr(obj, name)) for name in names if name in obj.static)


def _unflatten(cls: type[Parametrised], static: tuple, leaves: list[Any]) -> Parametrised:
    obj = object.__new__(cls)
    for name, value in static:
        setattr(obj, name, value)
    dynamic = [name for name in cls._names if name not in cls.static]
    for name, value in zip(dynamic, leaves, strict=True):
        setattr(obj, name, value)
    return obj
