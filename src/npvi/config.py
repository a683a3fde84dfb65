"""Kernels and likelihoods as plain JSON, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from npvi.parameters import Parameter, Parametrised, PenalisedComplexity
from npvi.runtime.fields import anything, flag, number, record

__all__ = ["from_config", "parameter_config", "parameter_from_config", "to_config"]

#: the first key of an object says what it is
_TYPE, _FUNCTION, _PARAMETER, _SUPPORT, _MAPPING = "type", "function", "parameter", "support", "mapping"


def to_config(obj: Parametrised) -> dict[str, Any]:
    """What `obj` is, in JSON's own types: its class and its parameters.

    A function of the user's is saved by name only.

    Examples
    --------
    >>> from npvi.kernels import RBF, Constant
    >>> to_config(RBF(length_scale=[1.0, 2.0]) + Constant())["k1"]
    {'type': 'RBF', 'length_scale': [1.0, 2.0], 'variance': 1.0}
    """
    parameters = obj.get_params(deep=False)
    names = [name for name in obj._get_param_names() if name not in obj.local]
    return {_TYPE: _type_name(type(obj)), **{name: _plain(obj, parameters[name]) for name in names}}


def from_config(config: Mapping[str, Any], custom: Mapping[str, Callable] | None = None) -> Any:
    """The object that `to_config` described.

    Parameters
    ----------
    config : mapping
    custom : mapping from names to functions, optional
        The user's own functions, which cannot be saved.

    Examples
    --------
    >>> from_config({"type": "Poisson", "link": "softplus"})
    Poisson(link='softplus')
    """
    # the classes register themselves when they are imported
    import npvi.kernels
    import npvi.likelihoods  # noqa: F401

    name = config.get(_TYPE)
    known = {_type_name(cls): cls for cls in _subclasses(Parametrised)}
    if name not in known:
        raise ValueError(
            f"no kernel or likelihood is called {name!r}; a class of your own must be imported before it is "
            f"loaded. Known are {', '.join(sorted(known))}"
        )
    parameters = {key: value for key, value in config.items() if key != _TYPE}
    allowed = known[name]._get_param_names()
    unknown = sorted(set(parameters) - set(allowed))
    if unknown:
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; it has {', '.join(allowed)}")
    kept = {key: value for key, value in parameters.items() if key not in known[name].local}  # older files had them
    return known[name](**{key: _restored(value, custom or {}) for key, value in kept.items()})


_any_number = number(finite=False)
_FIELDS = record(
    {_PARAMETER: anything},  # its kernel or likelihood looks at it
    {"fixed": flag, "lower": _any_number, "upper": _any_number},
)


def parameter_config(parameter: Parameter) -> dict[str, Any]:
    """A number that is fixed, bounded or has a prior, in JSON's own types.

    >>> from npvi.parameters import fixed
    >>> parameter_config(fixed(0.5))
    {'parameter': 0.5, 'fixed': True}
    """
    value = parameter.value
    plain = np.asarray(value).tolist() if hasattr(value, "dtype") or isinstance(value, tuple) else value
    said: dict[str, Any] = {_PARAMETER: plain}
    for field in dataclasses.fields(parameter)[1:]:
        here = getattr(parameter, field.name)
        if here != field.default:
            if isinstance(here, PenalisedComplexity):
                here = dataclasses.asdict(here)
            said[field.name] = list(here) if isinstance(here, tuple) else here
    return said


def parameter_from_config(config: Mapping[str, Any]) -> Parameter:
    """The parameter that `parameter_config` described.

    >>> parameter_from_config({"parameter": 1.0, "lower": 0.1, "upper": 10.0})
    Parameter(value=1.0, fixed=False, lower=0.1, upper=10.0, prior=None)
    """
    said = dict(config)
    _FIELDS(said, "parameter")
    value, prior = said.pop(_PARAMETER), said.pop("prior", None)
    if isinstance(prior, Mapping):
        prior = PenalisedComplexity(**{name: float(number) for name, number in prior.items()})
    elif prior is not None:
        prior = tuple(prior)
    return Parameter(value, prior=prior, **said)


def _plain(owner: Parametrised, value: Any) -> Any:
    from npvi.likelihoods import Support

    if isinstance(value, Parametrised):
        return to_config(value)
    if isinstance(value, Parameter):
        return parameter_config(value)
    if isinstance(value, Support):
        return {_SUPPORT: dataclasses.asdict(value)}
    if isinstance(value, Mapping):
        return {_MAPPING: {str(name): _plain(owner, item) for name, item in value.items()}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "dtype"):
        return np.asarray(value).tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(owner, item) for item in value]
    if callable(value):
        name = getattr(owner, "name", None) or getattr(value, "__name__", None)
        if name is None or name == "<lambda>":
            raise ValueError(
                f"{type(owner).__name__} cannot be saved because its function has no name: "
                f'write {type(owner).__name__}(function, name="…")'
            )
        return {_FUNCTION: name}
    raise TypeError(f"{type(owner).__name__} cannot be saved: it holds a {type(value).__name__}, {value!r}")


def _restored(value: Any, custom: Mapping[str, Callable]) -> Any:
    if isinstance(value, Mapping) and _TYPE in value:
        return from_config(value, custom)
    if isinstance(value, Mapping) and _FUNCTION in value:
        name = value[_FUNCTION]
        if name not in custom:
            raise ValueError(
                f"this was saved with a function of your own called {name!r}, which is not in the file; "
                f'pass custom={{"{name}": function}}'
            )
        return custom[name]
    if isinstance(value, Mapping) and _PARAMETER in value:
        return parameter_from_config(value)
    if isinstance(value, Mapping) and _MAPPING in value:
        return {name: _restored(item, custom) for name, item in value[_MAPPING].items()}
    if isinstance(value, Mapping) and _SUPPORT in value:
        from npvi.likelihoods import Support

        return Support(**value[_SUPPORT])
    return value


def _type_name(cls: type) -> str:
    """The class's name; with its module in front for classes that are not part of this library."""
    if cls.__module__.startswith("npvi."):
        return str(getattr(cls, "config_name", cls.__name__))
    return f"{cls.__module__}:{cls.__qualname__}"


def _subclasses(cls: type[Parametrised]) -> Iterator[type[Parametrised]]:
    for sub in cls.__subclasses__():
        if not sub.__name__.startswith("_"):
            yield sub
        yield from _subclasses(sub)
