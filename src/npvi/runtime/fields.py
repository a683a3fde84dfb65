"""What the fields of JSON may be: checks to be put together into a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = [
    "LARGEST",
    "Check",
    "anything",
    "choice",
    "each",
    "flag",
    "items",
    "maybe",
    "number",
    "record",
    "text",
    "whole",
]

#: raises ValueError unless the value may stand under the name
Check = Callable[[Any, str], None]

LARGEST = 1e150
"""Larger numbers have no finite square."""
_COUNTED = 2**63


def anything(value: Any, name: str) -> None:
    """Whatever it is."""


def text(value: Any, name: str) -> None:
    """Text that can be written down: half a pair of surrogates can't."""
    try:
        assert isinstance(value, str)
        value.encode()
    except (AssertionError, UnicodeEncodeError):
        raise _wrong(value, name, "text") from None


def flag(value: Any, name: str) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise _wrong(value, name, "true or false")


def number(low: float = -LARGEST, high: float = LARGEST, finite: bool = True) -> Check:
    """A number from `low` to `high`; any that a float can be, infinity and nan included, where it needn't be `finite`.

    >>> number(0.0)(-1, "nugget")
    Traceback (most recent call last):
    ValueError: its nugget must be a number from 0 to 1e+150, got -1
    """

    def check(value: Any, name: str) -> None:
        whole_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
        real = isinstance(value, float) or whole_number
        if not real or (finite and not low <= value <= high):
            raise _wrong(value, name, f"a number from {low:g} to {high:g}" if finite else "a number")

    return check


def whole(low: int = 0, high: int = _COUNTED) -> Check:
    """A whole number from `low` to `high`."""

    def check(value: Any, name: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _wrong(value, name, f"a whole number from {low}" + ("" if high == _COUNTED else f" to {high}"))

    return check


def choice(values: Collection[Any]) -> Check:
    """One of a few words."""

    def check(value: Any, name: str) -> None:
        if not isinstance(value, str) or value not in values:
            raise _wrong(value, name, f"one of {', '.join(values)}")

    return check


def maybe(check: Check) -> Check:
    """Null, or what `check` allows."""
    return lambda value, name: None if value is None else check(value, name)


def items(check: Check, least: int = 0, most: float = math.inf) -> Check:
    """A list of what `check` allows."""

    def whole_list(value: Any, name: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            bounds = "" if most == math.inf else f" of {least} to {most:g} items"
            raise _wrong(value, name, f"a list{bounds}")
        for place, item in enumerate(value):
            check(item, f"{name}[{place}]")

    return whole_list


def each(check: Check) -> Check:
    """A mapping from text to what `check` allows."""

    def whole_mapping(value: Any, name: str) -> None:
        if not isinstance(value, Mapping):
            raise _wrong(value, name, "a mapping")
        for key, item in value.items():
            text(key, name)
            check(item, f"{name}.{key}")

    return whole_mapping


def record(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A mapping with certain fields; what else is in it doesn't matter, because nobody looks at it.

    >>> record({"rows": whole(1)}, {"weight": number(0.0, 1.0)})({"rows": 3, "weight": 2.0}, "model")
    Traceback (most recent call last):
    ValueError: its model.weight must be a number from 0 to 1, got 2.0
    """

    def check(value: Any, name: str) -> None:
        if not isinstance(value, Mapping):
            raise _wrong(value, name or "JSON", "a mapping")
        start = f"{name}." if name else ""
        for key, inner in needed.items():
            if key not in value:
                raise ValueError(f"it has no {start + key!r}")
            inner(value[key], start + key)
        for key, inner in (optional or {}).items():
            if key in value:
                inner(value[key], start + key)

    return check


def _wrong(value: Any, name: str, allowed: str) -> ValueError:
    got = repr(value)
    return ValueError(f"its {name} must be {allowed}, got {got if len(got) <= 60 else got[:57] + '...'}")
