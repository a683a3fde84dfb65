"""What kernels and likelihoods have in common: named numbers that JAX can trace and scikit-learn can set."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from npvi.checks import LARGEST, NOT_NEGATIVE, POSITIVE, SCALE, SMALLEST, Kind, as_numbers, check_number, is_number
from npvi.runtime.lazy import jax, when_jax_is_there

__all__ = [
    "POSITIVE_NUMBER",
    "REAL_NUMBER",
    "Interval",
    "OwnParameters",
    "Parameter",
    "Parametrised",
    "PenalisedComplexity",
    "bounded",
    "check_kinds",
    "check_mapping",
    "check_name",
    "check_nugget",
    "check_positive",
    "check_size",
    "fixed",
    "half_normal",
    "inside",
    "map_numbers",
    "numbers_in",
    "pc",
    "positive",
    "value_of",
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


#: an end of what a parameter may be, and a probability
_END = Kind("a number, or infinite", lambda value: value == value)
_INSIDE_SHARE = Kind("between 0 and 1", lambda value: 0.0 < value < 1.0)

#: what a parameter annotated `float` may be, before anyone asks which numbers are allowed
_ONE = Kind("one number", lambda value: True)

POSITIVE_NUMBER = Interval(0.0)
REAL_NUMBER = Interval()


@dataclass(frozen=True)
class PenalisedComplexity:
    """A penalised-complexity prior of a positive number x, on the scale of log x: log density
    weight · (t − exp(t)) + const with t = exponent · log(x / mode).

    For a standard deviation, exponential with rate λ (x its square, the variance): exponent ½, mode λ⁻². For a length
    scale in one dimension, density ∝ x^{−3/2} exp(−λ x^{−½}): exponent −½, mode λ². (Simpson et al. 2017; Fuglstad et
    al. 2019.) For a half-normal standard deviation of scale s (x its square): exponent 1, mode s², weight ½.

    >>> prior = PenalisedComplexity(0.5, 4.0)
    >>> float(prior.log_density(math.log(4.0))), round(prior.slope(math.log(4.0)), 3)  # the mode
    (-1.0, 0.0)
    """

    exponent: float
    mode: float
    weight: float = 1.0

    def log_density(self, z: Any) -> Any:
        """At z = log x, a number or an array, up to a constant."""
        t = self.exponent * (z - math.log(self.mode))
        return self.weight * (t - np.exp(np.minimum(t, 700.0)))

    def slope(self, z: float) -> float:
        """Its derivative."""
        t = self.exponent * (z - math.log(self.mode))
        return self.weight * self.exponent * (1.0 - math.exp(min(t, 700.0)))


@dataclass(frozen=True)
class Parameter:
    """A number that learning starts from, and what it may become; plain numbers are free within their own domain.

    Attributes
    ----------
    value : the start, a number or a vector; outside the bounds it is the nearer one.
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

    def __post_init__(self) -> None:
        if self.prior is None or isinstance(self.prior, PenalisedComplexity):
            return
        words = "prior must be None, or two numbers: a mean and a positive standard deviation"
        if not isinstance(self.prior, tuple | list) or len(self.prior) != 2:
            raise ValueError(f"{words}; got {self.prior!r}")
        mean, deviation = self.prior
        if not (is_number(mean) and is_number(deviation, POSITIVE)):
            raise ValueError(f"{words}; got {self.prior!r}")


def fixed(value: Any) -> Parameter:
    """`value`, not to be learned: ``RBF(length_scale=npvi.fixed(2.0))``."""
    return Parameter(value, fixed=True)


def bounded(value: Any, lower: float, upper: float, prior: tuple[float, float] | None = None) -> Parameter:
    """`value` to start from, kept between `lower` and `upper`: ``RBF(length_scale=npvi.bounded(1.0, 0.1, 10.0))``.

    A value outside is brought to the nearer end, whether it is learned or not.
    """
    low, high = check_number(lower, "lower", _END), check_number(upper, "upper", _END)
    if not low < high:
        raise ValueError(f"lower must be below upper, got {lower!r} and {upper!r}")
    return Parameter(value, lower=low, upper=high, prior=prior)


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
    check_number(probability, "probability", _INSIDE_SHARE)
    name, given = ("below", below) if above is None else ("above", above)
    limit = check_number(given, name, SCALE)
    if value is not None:
        check_number(value, "value", POSITIVE)
    rate = -math.log(probability)
    prior = (
        PenalisedComplexity(-0.5, limit * rate**2) if above is None else PenalisedComplexity(0.5, (limit / rate) ** 2)
    )
    return Parameter(prior.mode if value is None else value, lower=0.0, prior=prior)


def half_normal(scale: float, value: float | None = None) -> Parameter:
    """A variance (or a nugget) whose *square root* has a half-normal prior, or a term's standard deviation that has.

    Parameters
    ----------
    scale : of the normal distribution: the standard deviation is below it with probability .68.
    value : where learning starts, of the variance; by default where the prior is highest.

    Examples
    --------
    >>> import npvi
    >>> npvi.kernels.Matern32(variance=npvi.half_normal(2.0)).variance.prior
    PenalisedComplexity(exponent=1.0, mode=4.0, weight=0.5)
    """
    limit = check_number(scale, "scale", SCALE)
    if value is not None:
        check_number(value, "value", POSITIVE)
    prior = PenalisedComplexity(1.0, limit**2, 0.5)
    return Parameter(prior.mode if value is None else value, lower=0.0, prior=prior)


class Parametrised(BaseEstimator):
    """An object made of named parameters.

    The constructor only stores its arguments under their own names. scikit-learn's ``get_params``, ``set_params`` and
    ``clone`` then work (so ``model.set_params(kernel__length_scale=2.0)`` does), and every subclass is a JAX pytree
    whose leaves are its numbers: a compiled function that takes one is compiled once, not once per value.
    Names listed in ``static`` (strings, functions, column numbers) are part of the structure instead.

    A class may have a name, ``class RBF(Stationary, name="rbf", about="very smooth")``: what to ask for it by, and what
    the help says of it. `Kernel.named` and `Likelihood.named` have them all.
    """

    static: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Names of numbers that are never learned."""
    local: ClassVar[tuple[str, ...]] = ()
    """Names of settings that belong to this computer, such as paths: no file has them, and none may set them."""
    domains: ClassVar[dict[str, Interval]] = {}
    """What each learnable parameter may be; positive numbers where nothing is said."""
    named: ClassVar[dict[str, type[Self]]] = {}
    """The classes that have a name."""
    about: ClassVar[str] = ""
    """What the help says of the class."""
    _names: ClassVar[tuple[str, ...]] = ()
    _annotations: ClassVar[dict[str, str]] = {}
    """What the constructor says that its arguments are."""

    def __init_subclass__(cls, name: str | None = None, about: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.about = about
        if name is not None:
            _check_free(name, cls)
            cls.named[name] = cls
        # once: reading them off the constructor each time would be a good part of a small fit's time
        cls._names = tuple(cls._get_param_names())
        cls._annotations = {
            key: value if isinstance(value, str) else getattr(value, "__name__", "")
            for key, value in getattr(cls.__init__, "__annotations__", {}).items()
        }
        when_jax_is_there(lambda: _register(cls))

    def replace(self, **parameters: object) -> Self:
        """A copy with some parameters changed; the original stays as it is."""
        return type(self)(**{**self.get_params(deep=False), **parameters})

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn's takes twice as long for every object around another: a sum of 20 kernels had no end
        defaults = {name: about.default for name, about in inspect.signature(type(self).__init__).parameters.items()}
        given = sorted(self.get_params(deep=False).items())
        changed = [(name, repr(value.item() if isinstance(value, np.generic) else value)) for name, value in given]
        items = [f"{name}={text}" for name, text in changed if name not in defaults or text != repr(defaults[name])]
        return _filled(f"{type(self).__name__}(", items)


def map_numbers(function: Callable[[Any], Any], obj: Any) -> Any:
    """The same object with every number replaced: `jax.tree.map`, without JAX.

    >>> from npvi.kernels import RBF
    >>> map_numbers(lambda number: 2.0 * number, RBF(length_scale=2.0, variance=3.0)).get_params()
    {'length_scale': np.float64(4.0), 'variance': np.float64(6.0)}
    """
    if not isinstance(obj, Parametrised):
        return function(obj)
    own = isinstance(obj, OwnParameters)
    leaves, static = _flatten_own(obj) if own else _flatten(obj)
    return (_unflatten_own if own else _unflatten)(type(obj), static, [map_numbers(function, leaf) for leaf in leaves])


def _check_free(name: str, cls: type[Parametrised]) -> None:
    """Raise ValueError where another class has the name; the same one again, as in a notebook, is no other."""
    other = cls.named.get(name, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"{cls.__name__} cannot have the name {name!r}: {other.__module__}.{other.__qualname__} has it; "
            "give another one"
        )


def _filled(start: str, items: list[str], width: int = 80) -> str:
    """A call with these arguments, on one line or, where that is longer than `width`, on several.

    >>> print(_filled("Sum(", ["k1=RBF()", "k2=RBF()"], width=20))
    Sum(k1=RBF(),
        k2=RBF())
    """
    line = f"{start}{', '.join(items)})"
    if len(line) <= width and "\n" not in line:
        return line
    indent = "\n" + " " * len(start)
    return start + f",{indent}".join(item.replace("\n", indent) for item in items) + ")"


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


def check_kinds(obj: Parametrised) -> None:
    """Raise ValueError unless what the constructor calls a `float` is one number, what it calls a `Kernel` is a kernel,
    and all else that learning may change holds numbers. Which numbers are allowed is for `validate` to say.

    >>> from npvi.kernels import RBF, Sphere
    >>> check_kinds(Sphere(RBF(variance=[1.0, 2.0])))
    Traceback (most recent call last):
    ValueError: RBF: variance must be one number, got [1.0, 2.0]
    """
    label = type(obj).__name__
    for name in obj._names:
        value, annotation = value_of(getattr(obj, name)), obj._annotations.get(name)
        if name in obj.static:
            continue
        if annotation == "Kernel" and annotation not in (base.__name__ for base in type(value).__mro__):
            instance = f"; write {value.__name__}()" if isinstance(value, type) else ""
            raise ValueError(f"{label}: {name} must be a kernel, got {value!r}{instance}")
        if annotation == "float":
            check_number(value, f"{label}: {name}", _ONE)
        elif isinstance(value, Parametrised):
            check_kinds(value)
        elif numbers_in(value) is None:
            raise ValueError(f"{label}: {name} must be a number, or a sequence of numbers, got {value!r}")


def numbers_in(value: Any) -> NDArray[np.float64] | None:
    """`value` as an array, or None where it holds something else: text, dates, complex numbers.

    >>> numbers_in([1, 2]), numbers_in("9")
    (array([1., 2.]), None)
    """
    try:
        return as_numbers(value, "value")
    except (TypeError, ValueError):
        return None


def check_positive(obj: Parametrised, name: str) -> None:
    """Raise ValueError unless the parameter `name` of `obj` is a positive number, or an array of them.

    >>> from npvi.kernels import RBF
    >>> check_positive(RBF(variance=-1.0), "variance")
    Traceback (most recent call last):
    ValueError: RBF: variance must be positive and finite, got -1.0
    """
    value = getattr(obj, name)
    values = numbers_in(value)
    if values is None:
        raise ValueError(f"{type(obj).__name__}: {name} must be a positive number, got {value!r}")
    if values.size == 0 or not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{type(obj).__name__}: {name} must be positive and finite, got {value!r}")
    check_size(values, f"{type(obj).__name__}: {name}", POSITIVE_NUMBER)


def check_size(values: NDArray[np.float64], name: str, domain: Interval) -> None:
    """Raise ValueError where numbers inside `domain` are so large, or so close to an end at 0, that squares fail.

    >>> check_size(np.array([1e-200]), "RBF: length_scale", POSITIVE_NUMBER)
    Traceback (most recent call last):
    ValueError: RBF: length_scale must be from 1e-150 to 1e+150, or squares are no numbers any more; got 1e-200
    """
    lowest = SMALLEST if domain.lower == 0.0 else -LARGEST
    wrong = values[~((lowest <= values) & (values <= LARGEST))]
    if wrong.size:
        raise ValueError(
            f"{name} must be from {lowest:g} to {LARGEST:g}, or squares are no numbers any more; got {wrong.flat[0]:g}"
        )


def check_nugget(nugget: Any) -> None:
    """Raise ValueError where it is no finite number, negative, or so large that its square is none.

    >>> check_nugget(-1.0)
    Traceback (most recent call last):
    ValueError: nugget must be a finite number that isn't negative, got -1.0
    """
    check_size(np.array(check_number(value_of(nugget), "nugget", NOT_NEGATIVE)), "nugget", REAL_NUMBER)


class OwnParameters:
    """To be inherited from before a `Parametrised` class: the numbers in `params` are as good as attributes.

    They are what JAX sees and what is learned; all else that the constructor takes is part of the structure.
    """

    stored: ClassVar[dict[str, str]] = {}
    """What the constructor takes besides `params`, and under which name it is stored."""
    params: Mapping[str, Any]
    function: Any
    name: str | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # past `Parametrised`, which would register them in the usual way
        super(Parametrised, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
        when_jax_is_there(
            lambda: jax.tree_util.register_pytree_node(
                cls, lambda obj: _flatten_own(obj), lambda static, leaves: _unflatten_own(cls, static, leaves)
            )
        )

    def __getattr__(self, name: str) -> Any:
        params = self.__dict__.get("params", {})
        if name in params:
            return value_of(params[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor takes, and each of `params` under its own name; with `deep`, as a plain number."""
        return {
            **{name: getattr(self, attribute) for name, attribute in self.stored.items()},
            "params": self.params,
            **{name: value_of(self.params[name]) if deep else self.params[name] for name in sorted(self.params)},
        }

    def set_params(self, **parameters: Any) -> Self:
        """Set what the constructor takes, or some of `params` by name."""
        self.__dict__.update(self.replace(**parameters).__dict__)
        return self

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed; numbers keep the bounds of those that they replace."""
        known = {name: getattr(self, attribute) for name, attribute in self.stored.items()} | {"params": self.params}
        unknown = sorted(set(parameters) - set(known) - set(self.params))
        if unknown:
            names = ", ".join([*known, *self.params])
            raise ValueError(f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {names}")
        known.update({name: value for name, value in parameters.items() if name in known})
        own = {name: value for name, value in parameters.items() if name not in known}
        known["params"] = {
            name: _exchanged(old, own[name]) if name in own else old for name, old in known["params"].items()
        }
        return type(self)(**known)

    def __sklearn_clone__(self) -> Self:
        return self.replace(params=copy.deepcopy(dict(self.params)))

    def _domains(self) -> dict[str, Interval]:
        return {
            name: Interval(value.lower, value.upper) if isinstance(value, Parameter) else POSITIVE_NUMBER
            for name, value in self.params.items()
        }

    domains: ClassVar[dict[str, Interval]] = property(_domains)  # type: ignore[assignment]
    """What each of `params` may be."""

    def plain_params(self) -> dict[str, Any]:
        """`params` as numbers."""
        return {name: value_of(value) for name, value in self.params.items()}

    @property
    def _label(self) -> str:
        return f"{type(self).__name__} ({self._function_name})"

    @property
    def _function_name(self) -> str:
        return self.name or str(getattr(self.function, "__name__", repr(self.function)))

    def _check_params(self, *arguments: str) -> None:
        """Raise ValueError where a name is taken, by `arguments` of the function too, or a number isn't allowed."""
        taken = {*self.stored, *arguments, *dir(type(self)), "function", "params"}
        for name, domain in self.domains.items():
            if not (isinstance(name, str) and name.isidentifier()) or name in taken:
                raise ValueError(f"{self._label}: a parameter cannot be called {name!r}; choose another name")
            value = value_of(self.params[name])
            numbers = numbers_in(value)
            if numbers is None or not np.all(
                np.isfinite(numbers) & (numbers > domain.lower) & (numbers < domain.upper)
            ):
                advice = "" if isinstance(self.params[name], Parameter) else " (npvi.parameters.bounded allows others)"
                allowed = "positive" if domain == POSITIVE_NUMBER else f"between {domain.lower:g} and {domain.upper:g}"
                raise ValueError(f"{self._label}: {name} must be {allowed}, got {value!r}{advice}")
            check_size(numbers, f"{self._label}: {name}", domain)


def check_mapping(params: Any) -> Mapping[str, Any]:
    """`params` as a constructor takes them: a mapping, or None for none."""
    if not isinstance(params, Mapping | None):
        raise TypeError(f"params must map names to numbers, got {params!r}")
    return {} if params is None else params


def check_name(name: Any) -> str | None:
    """The name of a function of the user's, or None for its own."""
    if not isinstance(name, str | None):
        raise TypeError(f"name must be text or None, got {name!r}")
    return name


def value_of(parameter: Any) -> Any:
    """The number itself, without what was said about it."""
    return parameter.value if isinstance(parameter, Parameter) else parameter


def inside(parameter: Parameter) -> Any:
    """The number itself, brought inside what was said about it.

    >>> inside(bounded(5.0, 0.1, 1.0)), inside(fixed(5.0))
    (1.0, 5.0)
    """
    value, low, high = parameter.value, parameter.lower, parameter.upper
    if is_number(value):
        return value if low <= value <= high else min(max(value, low), high)
    if np.ndim(value) == 0:  # whoever takes it says what is wrong with it
        return value
    values = numbers_in(value)
    return (
        value if values is None or np.all((low <= values) & (values <= high)) else np.clip(values, low, high).tolist()
    )


def _exchanged(old: Any, new: Any) -> Any:
    keeps = isinstance(old, Parameter) and not isinstance(new, Parameter)
    return dataclasses.replace(old, value=new) if keeps else new


def _flatten_own(obj: Any) -> tuple[list[Any], tuple]:
    names = tuple(sorted(obj.params))
    values = [value_of(obj.params[name]) for name in names]
    leaves = [value if hasattr(value, "dtype") else np.asarray(value, dtype=np.float64) for value in values]
    return leaves, (tuple(getattr(obj, attribute) for attribute in obj.stored.values()), names)


def _unflatten_own(cls: Any, static: tuple, leaves: list[Any]) -> Any:
    obj: Any = object.__new__(cls)
    values, names = static
    for attribute, value in zip(cls.stored.values(), values, strict=True):
        setattr(obj, attribute, value)
    obj.params = dict(zip(names, leaves, strict=True))
    return obj
