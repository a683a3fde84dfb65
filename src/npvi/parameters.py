"""What kernels and likelihoods have in common: named numbers that JAX can trace and scikit-learn can set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from npvi.lazy import jax, when_jax_is_there

__all__ = [
    "POSITIVE_NUMBER",
    "REAL_NUMBER",
    "Interval",
    "Parameter",
    "Parametrised",
    "PenalisedComplexity",
    "bounded",
    "fixed",
    "map_numbers",
    "pc",
    "positive",
]


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
class PenalisedComplexity:
    """A penalised-complexity prior of a positive number x, on the scale of log x: log density t − exp(t) + const with
    t = exponent · log(x / mode).

    For a standard deviation, exponential with rate λ (x its square, the variance): exponent ½, mode λ⁻². For a length
    scale in one dimension, density ∝ x^{−3/2} exp(−λ x^{−½}): exponent −½, mode λ². (Simpson et al. 2017; Fuglstad et
    al. 2019.)

    >>> prior = PenalisedComplexity(0.5, 4.0)
    >>> float(prior.log_density(math.log(4.0))), round(prior.slope(math.log(4.0)), 3)  # the mode
    (-1.0, 0.0)
    """

    exponent: float
    mode: float

    def log_density(self, z: Any) -> Any:
        """At z = log x, a number or an array, up to a constant."""
        t = self.exponent * (z - math.log(self.mode))
        return t - np.exp(np.minimum(t, 700.0))

    def slope(self, z: float) -> float:
        """Its derivative."""
        t = self.exponent * (z - math.log(self.mode))
        return self.exponent * (1.0 - math.exp(min(t, 700.0)))


@dataclass(frozen=True)
class Parameter:
    """A number that learning starts from, and what it may become; plain numbers are free within their own domain.

    Attributes
    ----------
    value : the start, a number or a vector.
    fixed : whether learning leaves it alone.
    lower, upper : bounds, inside the parameter's own domain.
    prior : mean and standard deviation of its logarithm (of itself, where it may be negative), a
        `PenalisedComplexity`, or None.

    Examples
    --------
    >>> fixed(0.5)
    Parameter(value=0.5, fixed=True, lower=-inf, upper=inf, prior=None)
    """

    value: Any
    fixed: bool = False
    lower: float = -math.inf
    upper: float = math.inf
    prior: tuple[float, float] | PenalisedComplexity | None = None


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


def pc(
    value: Any = None, *, below: float | None = None, above: float | None = None, probability: float = 0.05
) -> Parameter:
    """A number with a penalised-complexity prior, which pulls towards the simpler model: one that varies less.

    Parameters
    ----------
    value : where learning starts; by default where the prior is highest.
    below : for a length scale: it is below this with the given `probability`.
    above : for a variance (or a nugget): its *square root* is above this with the given `probability`.
    probability : between 0 and 1.

    Examples
    --------
    >>> import npvi
    >>> kernel = npvi.kernels.Matern32(length_scale=npvi.pc(below=5.0), variance=npvi.pc(above=2.0, probability=0.01))
    >>> round(kernel.length_scale.value, 1), round(kernel.variance.value, 3)
    (44.9, 0.189)
    >>> npvi.pc(1.0)
    Traceback (most recent call last):
    ValueError: pc needs either below= (a length scale) or above= (the square root of a variance)
    """
    if (below is None) == (above is None):
        raise ValueError("pc needs either below= (a length scale) or above= (the square root of a variance)")
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
    limit = float(below if above is None else above)  # type: ignore[arg-type]
    if not 0.0 < limit < math.inf:
        raise ValueError(f"{'below' if above is None else 'above'} must be a positive number, got {limit!r}")
    rate = -math.log(probability)
    prior = (
        PenalisedComplexity(-0.5, limit * rate**2) if above is None else PenalisedComplexity(0.5, (limit / rate) ** 2)
    )
    return Parameter(prior.mode if value is None else value, lower=0.0, prior=prior)


class Parametrised(BaseEstimator):
    """An object made of named parameters.

    The constructor only stores its arguments under their own names. scikit-learn's ``get_params``, ``set_params`` and
    ``clone`` then work (so ``model.set_params(kernel__length_scale=2.0)`` does), and every subclass is a JAX pytree
    whose leaves are its numbers: a compiled function that takes one is compiled once, not once per value.
    Names listed in ``static`` (strings, functions, column numbers) are part of the structure instead.
    """

    static: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Names of numbers that are never learned."""
    domains: ClassVar[dict[str, Interval]] = {}
    """What each learnable parameter may be; positive numbers where nothing is said."""
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # once: reading them off the constructor each time would be a good part of a small fit's time
        cls._names = tuple(cls._get_param_names())
        when_jax_is_there(lambda: _register(cls))

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed; the original stays as it is."""
        return type(self)(**{**self.get_params(deep=False), **parameters})


def map_numbers(function: Callable[[Any], Any], obj: Any) -> Any:
    """The same object with every number replaced: `jax.tree.map`, without JAX.

    >>> from npvi.kernels import RBF
    >>> map_numbers(lambda number: 2.0 * number, RBF(length_scale=2.0, variance=3.0)).get_params()
    {'length_scale': np.float64(4.0), 'variance': np.float64(6.0)}
    """
    if not isinstance(obj, Parametrised):
        return function(obj)
    leaves, static = _flatten(obj)
    return _unflatten(type(obj), static, [map_numbers(function, leaf) for leaf in leaves])


def _register(cls: type[Parametrised]) -> None:
    jax.tree_util.register_pytree_node(cls, _flatten, lambda structure, leaves: _unflatten(cls, structure, leaves))


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
