"""All terms of a predictor, made for a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import LARGEST, check_finite
from npvi.terms.base import Setting, TermPart
from npvi.terms.field import FieldPart, SurfacePart
from npvi.terms.group import GroupPart
from npvi.terms.linear import LinearPart
from npvi.terms.mesh import MeshPart
from npvi.terms.records import Field, Group, Linear, Offset, Smooth, Term, Varying
from npvi.terms.smooth import SmoothPart
from npvi.terms.table import expression

__all__ = ["Design", "total_offset"]

Vector = NDArray[np.float64]

_MADE: dict[type[Term], Callable[..., Any]] = {
    Field: FieldPart,
    Group: GroupPart,
    Smooth: SmoothPart,
    Varying: FieldPart,
}


class Design:
    """The parts of a predictor and its offset, for the rows of a table.

    Parameters
    ----------
    terms : what was said; a constant is added where there is no `Linear`.
    table : a row for each observation.
    setting : what the parts are made for.
    constant_precision : of the prior of the constant.

    Examples
    --------
    >>> table = pd.DataFrame({"x": np.arange(6.0), "site": list("aabbcc")})
    >>> found = Design([Group("site"), Smooth("x", k=5)], table, Setting(6, 1.0, True))
    >>> [part.name for part in found.parts]
    ['1|site', 's(x)', 'linear']
    """

    def __init__(
        self, terms: Sequence[Term], table: pd.DataFrame, setting: Setting, constant_precision: float = 0.0
    ) -> None:
        self.terms = check_terms(terms)
        self.setting, self.constant_precision = setting, constant_precision
        with_rows = replace(setting, rows=min(setting.rows, len(table)))
        linear = _joined([term for term in self.terms if isinstance(term, Linear)])
        others = [term for term in self.terms if type(term) in _MADE]
        self.parts: list[TermPart] = [_made(term)(term, table, with_rows) for term in others]
        if linear.intercept or linear.terms:
            self.parts.append(LinearPart(linear, table, with_rows, constant_precision))
        if not self.parts:
            raise ValueError("terms: there is nothing that could be fitted: give at least one term besides an Offset")
        self._offsets = [term for term in self.terms if isinstance(term, Offset)]
        self.offset = self.offset_of(table)
        #: parameters that are another one's: of fields with a range in common
        self.same = _shared(self.parts)

    def offset_of(self, table: pd.DataFrame) -> Vector | None:
        """What is added to the predictor of each row."""
        return total_offset(self._offsets, table)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parts."""
        return tuple(part.name for part in self.parts)


def _made(term: Any) -> Callable[..., Any]:
    field = term.over if isinstance(term, Varying) else term
    return MeshPart if isinstance(field, Field) and field.mesh is not None else _MADE[type(term)]


def total_offset(offsets: Sequence[Offset], table: pd.DataFrame) -> Vector | None:
    """The sum of offsets for the rows of a table; None where there is none."""
    if not offsets:
        return None
    total = sum((expression(one.expression, table, one.name) for one in offsets), np.zeros(len(table)))
    check_finite(total, "offset", LARGEST)
    return total


def check_terms(terms: Any) -> tuple[Term, ...]:
    """Terms as a tuple, none twice.

    >>> check_terms([Group("a"), Group("a")])
    Traceback (most recent call last):
    ValueError: terms: '1|a' is there twice: data can only tell the sum of both. Leave one out
    """
    if isinstance(terms, Term):
        terms = [terms]
    # not by index, as lazy tables; nor by a method that only says that it can't, as numbers of JAX
    if isinstance(terms, str) or not (isinstance(terms, Iterable) and np.iterable(terms)):
        raise ValueError(f"terms must be a list such as [npvi.Field('lon', 'lat'), npvi.Group('site')]; got {terms!r}")
    found = tuple(terms)
    for term in found:
        if not isinstance(term, Term):
            hint = "; a formula is given as formula=" if isinstance(term, str) else ""
            raise ValueError(f"terms must be npvi.Field, Smooth, Group, Varying, Linear or Offset; got {term!r}{hint}")
    names = [term.name for term in found if not isinstance(term, Linear | Offset)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"terms: {name!r} is there twice: data can only tell the sum of both. Leave one out")
    return found


def _joined(linear: Sequence[Linear]) -> Linear:
    if not linear:
        return Linear()
    if len(linear) == 1:
        return linear[0]
    scales = {term.scale for term in linear}
    if len(scales) > 1:
        raise ValueError("terms: several Linear terms must have the same scale: give one, or the same for all")
    terms = list(dict.fromkeys(text for term in linear for text in term.terms))
    return Linear(*terms, intercept=all(term.intercept for term in linear), scale=scales.pop())


def _shared(parts: Sequence[TermPart]) -> dict[str, str]:
    fields = [part for part in parts if isinstance(part, SurfacePart)]
    if not any(part.shared for part in fields):
        return {}
    if fields[0].shared:
        raise ValueError(f"{fields[0].name}: range='shared' is that of the first field, which this is: leave it out")
    return {f"{part.name}__range": f"{fields[0].name}__range" for part in fields if part.shared}
