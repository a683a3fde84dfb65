"""Terms as plain JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from npvi.config import parameter_config, parameter_from_config
from npvi.parameters import Parameter
from npvi.terms.records import AR1, Field, Group, Linear, Offset, RandomWalk, Smooth, Term, Varying

__all__ = ["term_config", "term_from_config"]

_TYPE = "type"
_KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (AR1, Field, Group, Linear, Offset, RandomWalk, Smooth, Varying)
}
#: what a constructor takes one after the other
_IN_ORDER = {"Field": "columns", "Group": "columns", "Smooth": "columns", "Linear": "terms"}


def term_config(term: Any) -> dict[str, Any]:
    """What a term is, in JSON's own types.

    >>> term_config(Group("site", slope="effort"))
    {'type': 'Group', 'columns': ['site'], 'slope': ['effort'], 'intercept': True, 'sd': None}
    """
    return {_TYPE: type(term).__name__, **{one.name: _plain(getattr(term, one.name)) for one in fields(term)}}


def term_from_config(config: Mapping[str, Any]) -> Term:
    """The term that `term_config` described.

    >>> term_from_config(term_config(Field("x", "y", by=AR1("year")))) == Field("x", "y", by=AR1("year"))
    True
    """
    given = dict(config)
    name = given.pop(_TYPE, None)
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"no term is called {name!r}; terms are {', '.join(_KINDS)}")
    kind = _KINDS[name]
    unknown = sorted(set(given) - {one.name for one in fields(kind)})
    if unknown:
        raise ValueError(f"{name} has no {unknown[0]!r}")
    values = {key: _restored(value) for key, value in given.items()}
    inside = values.pop(_IN_ORDER[name], ()) if name in _IN_ORDER else ()
    made: Term = kind(*inside, **values)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Parameter):
        return parameter_config(value)
    if type(value) in _KINDS.values():
        return term_config(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return parameter_from_config(value) if "parameter" in value else term_from_config(value)
    return [_restored(one) for one in value] if isinstance(value, list) else value
