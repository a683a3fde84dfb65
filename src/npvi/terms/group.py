"""Effects of levels: what a `Group` becomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.components import Group as Component
from npvi.components import OfGroup
from npvi.learning import GroupModel
from npvi.parameters import Parameter
from npvi.runtime.warn import warn
from npvi.terms.base import Setting, as_sd
from npvi.terms.records import Group
from npvi.terms.table import labels, numbers

__all__ = ["GroupPart"]

Vector = NDArray[np.float64]

#: where learning starts, in units of the predictor
_START = 0.5


class GroupPart:
    """Effects of levels, intercepts and slopes.

    Parameters
    ----------
    term : what was said.
    table : with all rows.
    setting : what it is made for.
    """

    def __init__(self, term: Group, table: pd.DataFrame, setting: Setting) -> None:
        self.name, self._term = term.name, term
        found = labels(table, term.columns, self.name)
        self.levels, at = np.unique(found.astype(str), return_inverse=True)
        if len(self.levels) < 2:
            raise ValueError(f"{self.name}: there is one level, {self.levels[0]!r}: its effect is that of the constant")
        if len(self.levels) == len(at) and not term.slope:
            warn(
                f"{self.name}: every row has a level of its own, so that its effect is noise of the predictor that no "
                "other row shares (a nugget)"
            )
        weight = self._raw_weight(table)
        d = weight.shape[1]
        self.scale = np.ones(d)
        mode = setting.unit if setting.weak else None
        start: Any = _START * setting.unit
        if term.sd is None and term.slope:  # so that one prior is right for all
            spread = np.sqrt(np.mean(weight[: setting.rows] ** 2, axis=0))
            self.scale = np.where(spread > 0.0, spread, 1.0)
        sd = as_sd(term.sd, start, mode)
        if d > 1 and np.ndim(sd.value) == 0:
            sd = Parameter([sd.value] * d, sd.fixed, sd.lower, sd.upper, sd.prior)
        if np.size(sd.value) != d:
            raise ValueError(f"{self.name}: sd has {np.size(sd.value)} numbers for {d} effects of a level")
        self._model = GroupModel(self.name, len(self.levels), at, sd, weight / self.scale)

    def _raw_weight(self, table: pd.DataFrame) -> NDArray[np.float64]:
        slopes = numbers(table, self._term.slope, self.name) if self._term.slope else np.zeros((len(table), 0))
        return np.hstack([np.ones((len(table), int(self._term.intercept))), slopes])

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the levels."""
        return self._term.columns

    # -- as a model of a part -----------------------------------------------------------------------------------------

    @property
    def sought(self) -> Mapping[str, Any]:
        return self._model.sought

    def component(self, values: Mapping[str, Any]) -> Component:
        return self._model.component(values)

    def gradient(self, component: Any, values: Mapping[str, Any], functions: Any, factor: Any) -> dict[str, Any]:
        return self._model.gradient(component, values, functions, factor)

    def nothing(self, at_end: Collection[str]) -> bool:
        return self._model.nothing(at_end)

    @property
    def alike(self) -> NDArray[np.intp]:
        return self._model.alike

    def of_rows(self, rows: NDArray[np.intp]) -> GroupModel:
        return self._model.of_rows(rows)

    # -- as a term ----------------------------------------------------------------------------------------------------

    def new_rows(self, component: Any, table: pd.DataFrame) -> OfGroup:
        found = labels(table, self._term.columns, self.name).astype(str)
        at = np.searchsorted(self.levels, found)
        at = np.where(self.levels[np.minimum(at, len(self.levels) - 1)] == found, at, -1)
        new = np.unique(found[at < 0], return_inverse=True)[1]
        return OfGroup(component, at, new, self._raw_weight(table) / self.scale)

    def units(self, name: str) -> float | Vector:
        return (1.0 / self.scale if len(self.scale) > 1 else 1.0) if name == "sd" else 1.0

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Of the numbers of a level."""
        return (*(("intercept",) if self._term.intercept else ()), *self._term.slope)

    def effects(self, mean: Vector, variance: Vector) -> list[dict[str, Any]]:
        d = len(self.scale)
        values, errors = mean.reshape(-1, d) / self.scale, np.sqrt(variance).reshape(-1, d) / self.scale
        return [
            {"level": str(level), "effect": effect, "mean": float(values[i, j]), "sd": float(errors[i, j])}
            for i, level in enumerate(self.levels)
            for j, effect in enumerate(self.effect_names)
        ]
