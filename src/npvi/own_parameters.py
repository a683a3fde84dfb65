"""What kernels and likelihoods made of a user's own function have in common: its parameters are theirs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax
import numpy as np

from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, Parametrised

__all__ = ["OwnParameters", "check_mapping", "value_of"]


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
        jax.tree_util.register_pytree_node(
            cls, lambda obj: _flatten(obj), lambda static, leaves: _unflatten(cls, static, leaves)
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
            try:
                numbers = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                numbers = np.array([np.nan])
            if not np.all(np.isfinite(numbers) & (numbers > domain.lower) & (numbers < domain.upper)):
                advice = "" if isinstance(self.params[name], Parameter) else " (npvi.parameters.bounded allows others)"
                allowed = "positive" if domain == POSITIVE_NUMBER else f"between {domain.lower:g} and {domain.upper:g}"
                raise ValueError(f"{self._label}: {name} must be {allowed}, got {value!r}{advice}")


def check_mapping(params: Any) -> Mapping[str, Any]:
    """`params` as a constructor takes them: a mapping, or None for none."""
    if not isinstance(params, Mapping | None):
        raise TypeError(f"params must map names to numbers, got {params!r}")
    return {} if params is None else params


def value_of(parameter: Any) -> Any:
    """The number itself, without what was said about it."""
    return parameter.value if isinstance(parameter, Parameter) else parameter


def _exchanged(old: Any, new: Any) -> Any:
    keeps = isinstance(old, Parameter) and not isinstance(new, Parameter)
    return dataclasses.replace(old, value=new) if keeps else new


def _flatten(obj: Any) -> tuple[list[Any], tuple]:
    names = tuple(sorted(obj.params))
    values = [value_of(obj.params[name]) for name in names]
    leaves = [value if hasattr(value, "dtype") else np.asarray(value, dtype=np.float64) for value in values]
    return leaves, (tuple(getattr(obj, attribute) for attribute in obj.stored.values()), names)


def _unflatten(cls: Any, static: tuple, leaves: list[Any]) -> Any:
    obj: Any = object.__new__(cls)
    values, names = static
    for attribute, value in zip(cls.stored.values(), values, strict=True):
        setattr(obj, attribute, value)
    obj.params = dict(zip(names, leaves, strict=True))
    return obj
