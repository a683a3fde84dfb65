"""Linear effects: columns, contrasts of words, products, transformations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.components import Coefficients, OfFew
from npvi.learning import Held
from npvi.runtime.warn import warn
from npvi.terms.base import Setting
from npvi.terms.records import Linear
from npvi.terms.table import Expressions

__all__ = ["LinearPart"]

Vector = NDArray[np.float64]

#: standard deviation of the coefficient of a standardised column, in units of the predictor; and of one with a flat
#: prior in numbers
_WEAK = 5.0


class LinearPart:
    """Hβ. Columns are centred, where there is a constant, and scaled, so that their units don't matter.

    Parameters
    ----------
    term : what was said.
    table : with all rows.
    setting : what it is made for.
    constant_precision : of the prior of the constant; 0 is a flat one.
    """

    def __init__(self, term: Linear, table: pd.DataFrame, setting: Setting, constant_precision: float = 0.0) -> None:
        self.name, self._term = term.name, term
        self._made = None
        names: Sequence[str] = ["constant"] if term.intercept else []
        if term.terms:
            self._made = Expressions(term.terms, term.intercept, table.iloc[: setting.rows], "linear")
            for name, levels in self._made.levels.items():
                if len(levels) < 2:
                    raise ValueError(f"linear: column {name!r} has one level, {str(levels[0])!r}: leave it out")
            names = ["constant" if name == "Intercept" else name for name in self._made.names]
        self.names = tuple(names)
        H = self._raw(table)
        self.constant = term.intercept
        scaled = np.array([name != "constant" for name in self.names])
        known = H[: setting.rows]
        centre = known.mean(axis=0) if self.constant else np.zeros(H.shape[1])
        scale = known.std(axis=0) if self.constant else np.sqrt(np.mean(known**2, axis=0))
        still = scaled & (scale <= 1e-12 * np.maximum(1.0, np.abs(centre)))
        if still.any():
            warn(
                f"linear: {self.names[int(np.argmax(still))]!r} is the same in all rows, as the constant is: "
                "leave it out"
            )
        self.center = np.where(scaled, centre, 0.0)
        self.scale = np.where(scaled & ~still, scale, 1.0)
        self._warn_about_rank(known)
        precision = np.full(H.shape[1], constant_precision)
        precision[scaled] = self._precision(setting)[scaled]
        self.held = Coefficients((H - self.center) / self.scale, precision)

    @property
    def log_volume(self) -> float:
        """What the bound has more with flat priors of these coefficients than of those of the columns as they came."""
        return float(np.log(self.scale[self.held.precision == 0.0]).sum())

    def _precision(self, setting: Setting) -> Vector:
        given = setting.coefficient_scale if self._term.scale is None else self._term.scale
        if given is None:
            return np.zeros(len(self.scale))
        if given == "weak":
            return np.full(len(self.scale), (_WEAK * setting.unit) ** -2.0)
        return np.asarray((given * self.scale) ** -2.0)

    def _raw(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """H in the table's units."""
        return np.ones((len(table), len(self.names))) if self._made is None else self._made.of(table)

    def _warn_about_rank(self, H: NDArray[np.float64]) -> None:
        basis = (H - self.center) / self.scale
        if basis.shape[1] < 2:
            return
        _, R = np.linalg.qr(basis)
        diagonal = np.abs(np.diag(R))
        if len(H) < H.shape[1] or diagonal.min() < 1e-9 * diagonal.max():
            name = self.names[int(np.argmin(diagonal))]
            warn(f"linear: {name!r} follows from the other columns: only their sum is known, the prior does the rest")

    # -- as a model of a part -----------------------------------------------------------------------------------------

    @property
    def sought(self) -> dict[str, Any]:
        return {}

    def component(self, values: Mapping[str, Any]) -> Coefficients:
        return self.held

    def gradient(self, component: Any, values: Mapping[str, Any], functions: Any, factor: Any) -> dict[str, Any]:
        return {}

    def nothing(self, at_end: Collection[str]) -> bool:
        return False

    @property
    def alike(self) -> None:
        return None

    def of_rows(self, rows: NDArray[np.intp]) -> Held:
        return Held(self.name, self.held.of_rows(rows))

    # -- as a term ----------------------------------------------------------------------------------------------------

    def new_rows(self, component: Any, table: pd.DataFrame) -> OfFew:
        H = self._raw(table)
        return OfFew((H - self.center) / self.scale)

    def units(self, name: str) -> float:
        return 1.0

    def in_units(self, mean: Vector, covariance: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """Coefficients for the columns as they came, and their covariance."""
        back = np.diag(1.0 / self.scale)
        if self.constant:
            back[self.names.index("constant")] -= self.center / self.scale
        return back @ mean, back @ covariance @ back.T

    def effects(self, mean: Vector, variance: Vector) -> None:
        """In `in_units`, with their covariance."""
        return
