"""What a term becomes once there is a table: a part of the predictor that can be learned, and seen by new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.components import NewRows
from npvi.learning import PartModel
from npvi.parameters import Parameter, PenalisedComplexity

__all__ = ["Setting", "TermPart", "as_range", "as_sd"]


@dataclass(frozen=True)
class Setting:
    """What a term is made for.

    Attributes
    ----------
    rows : how many, from the first one on, say what the units and knots are; the others came later.
    unit : what counts as one of the predictor.
    weak : whether what has no prior of its own gets a weak one.
    coefficient_scale : as the model has it.
    """

    rows: int
    unit: float
    weak: bool
    coefficient_scale: Any = "weak"


class TermPart(PartModel, Protocol):
    """A part with its parameters, and what it knows of the table's columns."""

    def new_rows(self, component: Any, table: pd.DataFrame) -> NewRows:
        """What other rows see of it."""
        ...

    def units(self, name: str) -> float | Sequence[float]:
        """What a parameter is multiplied with to have the units of the table."""
        ...

    def effects(self, mean: NDArray[np.float64], variance: NDArray[np.float64]) -> list[dict[str, Any]] | None:
        """Its numbers as a table, from their means and marginal variances; None where they mean nothing alone."""
        ...


def as_sd(given: Any, start: float, mode: float | None) -> Any:
    """A standard deviation to learn, from what a term says: `start` and a weak prior with this `mode` unless it does.

    A prior of `npvi.pc` or `npvi.half_normal` is one of the square, as kernels have it.

    >>> as_sd(None, 0.5, 1.0).prior
    PenalisedComplexity(exponent=1.0, mode=1.0, weight=1.0)
    >>> from npvi.parameters import pc
    >>> round(as_sd(pc(above=3.0), 0.5, None).value, 3)
    1.001
    """
    if given is None:
        return Parameter(start, prior=None if mode is None else PenalisedComplexity(1.0, mode))
    if isinstance(given, Parameter):
        prior = given.prior
        if not isinstance(prior, PenalisedComplexity):
            return given
        square = replace(prior, exponent=2.0 * prior.exponent, mode=float(np.sqrt(prior.mode)))
        return replace(given, value=np.sqrt(np.asarray(given.value, dtype=np.float64)).tolist(), prior=square)
    return Parameter(given, prior=None if mode is None else PenalisedComplexity(1.0, mode))


def as_range(given: Any, start: Any, mode: float | None) -> Any:
    """A range to learn, likewise."""
    prior = None if mode is None else PenalisedComplexity(-0.5, mode)
    if given is None:
        return Parameter(start, prior=prior)
    return given if isinstance(given, Parameter) else Parameter(given, prior=prior)


def only(values: Mapping[str, Any], name: str) -> float:
    """One number of a part."""
    return float(np.asarray(values[name]))
