"""Smooth functions: what a `Smooth` becomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from npvi.components import CyclicSpline, Dense, OfFew, Spline
from npvi.learning import Sought
from npvi.parameters import Parameter
from npvi.runtime.warn import warn
from npvi.terms.base import Setting, as_sd
from npvi.terms.records import Smooth
from npvi.terms.table import column, labels, numbers

__all__ = ["SmoothPart"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

#: where learning starts, in units of the predictor
_START = 0.5
#: of the start: with less of it nothing is left but what isn't penalised, and with more nothing changes
_LEAST, _MOST = 1.0 / 300.0, 300.0
#: standard deviation of what isn't penalised, such as a straight line, over the data, in units of the predictor
_WEAK = 5.0
#: mode of the weak prior of what is penalised, in units of the predictor: most effects are nearly straight, and those
#: that aren't say so
_BENT = 0.25
#: eigenvalues of a penalty that count as none, relative to the largest
_NONE = 1e-9


class SmoothPart:
    """Splines: ``sd``, the standard deviation over the data of what is penalised; of two covariates one along each.

    Parameters
    ----------
    term : what was said.
    table : with all rows.
    setting : what it is made for.
    """

    def __init__(self, term: Smooth, table: pd.DataFrame, setting: Setting) -> None:
        self.name, self._term = term.name, term
        x = numbers(table, term.columns, self.name)
        self._splines = [self._spline(x[: setting.rows, j], name) for j, name in enumerate(term.columns)]
        self._levels: NDArray | None = None
        if term.by is not None and column(table, term.by, self.name).dtype.kind not in "biuf":
            self._levels = np.unique(labels(table, [term.by], self.name).astype(str))
        penalties = self._set_up(x[: setting.rows])
        A = self._functions(table)
        self._seen: Any = scipy.sparse.csr_array(A) if self._levels is not None else A
        known = A[: setting.rows]
        unpenalised = _null_space(sum(penalties))
        #: so that a standard deviation of 1 is one of the function, on average over the data
        self._penalties = [_row_variance(known, S) * S for S in penalties]
        self._flat = np.zeros_like(penalties[0])
        if setting.weak and unpenalised.shape[1] and term.smoothing is None:
            size = np.sqrt(np.mean((known @ unpenalised) ** 2, axis=0)) / (_WEAK * setting.unit)
            self._flat = (unpenalised * np.where(size > 0.0, size, 1.0) ** 2) @ unpenalised.T
        self._held = None
        if term.smoothing is not None:
            self._held = term.smoothing * self._splines[0].mgcv_scale(x[: setting.rows, 0]) * penalties[0]
        mode = _BENT * setting.unit if setting.weak else None
        sd = as_sd(term.sd, _START * setting.unit, mode)
        if len(penalties) > 1:
            sd = Parameter([sd.value] * len(penalties), sd.fixed, sd.lower, sd.upper, sd.prior)
        self._sd = sd

    def _spline(self, x: Vector, name: str) -> Any:
        different = len(np.unique(x))
        k = self._term.k
        if different < 4:
            raise ValueError(
                f"{self.name}: column {name!r} has {different} different value{'s' * (different != 1)}: a smooth needs "
                f"at least 4. Use Linear({name!r}), or Group({name!r})"
            )
        if different < k:
            warn(f"{self.name}: {name!r} has only {different} different values: k={different} instead of {k}")
            k = different
        if self._term.cyclic:
            return CyclicSpline.of(x, k, self._term.period)
        return Spline.of(x, k, "even" if self._term.knots == "even" else "quantiles")

    def _set_up(self, x: Matrix) -> list[Matrix]:
        """Penalties of the numbers of the part, and how functions of two covariates are centred."""
        if len(self._splines) == 1:
            S, copies = self._splines[0].penalty, 1 if self._levels is None else len(self._levels)
            if self._by_number:  # the constant is one of the functions
                S = np.pad(S, ((1, 0), (1, 0)))
            return [np.kron(np.eye(copies), S)]
        one, other = (spline.with_constant() for spline in self._splines)
        sums = _products(one.functions(x[:, 0]), other.functions(x[:, 1])).sum(axis=0)
        Q, _ = np.linalg.qr(sums[:, None], mode="complete")
        self._pair, self._centred = (one, other), Q[:, 1:]
        along = np.kron(one.penalty, np.eye(other.size)), np.kron(np.eye(one.size), other.penalty)
        return [self._centred.T @ S @ self._centred for S in along]

    @property
    def _by_number(self) -> bool:
        return self._term.by is not None and self._levels is None

    def _functions(self, table: pd.DataFrame) -> Matrix:
        """A, shape (rows, size)."""
        x = numbers(table, self._term.columns, self.name)
        if len(self._splines) == 2:
            one, other = self._pair
            return _products(one.functions(x[:, 0]), other.functions(x[:, 1])) @ self._centred
        A = self._splines[0].functions(x[:, 0])
        by = self._term.by
        if by is None:
            return A
        if self._levels is None:
            return numbers(table, [by], self.name) * np.hstack([np.ones((len(A), 1)), A])
        found = labels(table, [by], self.name).astype(str)
        at = np.minimum(np.searchsorted(self._levels, found), len(self._levels) - 1)
        unknown = self._levels[at] != found
        if unknown.any():
            level = str(found[unknown][0])
            raise ValueError(
                f"{self.name}: column {by!r} has the level {level!r}, which the fit has not seen; there "
                f"are {', '.join(self._levels[:20])}"
            )
        wide = np.zeros((len(A), len(self._levels), A.shape[1]))
        wide[np.arange(len(A)), at] = A
        return wide.reshape(len(A), -1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The covariates."""
        return self._term.columns

    # -- as a model of a part -----------------------------------------------------------------------------------------

    @property
    def sought(self) -> dict[str, Sought]:
        if self._held is not None:
            return {}
        start = self._sd.value
        ends = np.multiply(start, _LEAST), np.multiply(start, _MOST)
        return {"sd": Sought(self._sd, low=ends[0], high=ends[1], simplest="low")}

    def component(self, values: Mapping[str, Any]) -> Dense:
        if self._held is not None:
            return Dense(self._seen, self._held)
        sd = np.atleast_1d(np.asarray(values["sd"], dtype=np.float64))
        return Dense(self._seen, sum(S / s**2 for S, s in zip(self._penalties, sd)) + self._flat)

    def gradient(
        self, component: Dense, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        if self._held is not None:
            return {}
        sd = np.atleast_1d(np.asarray(values["sd"], dtype=np.float64))
        slopes = [component.gradient(-2.0 * S / s**3, functions, factor) for S, s in zip(self._penalties, sd)]
        return {"sd": slopes if np.ndim(values["sd"]) else slopes[0]}

    def nothing(self, at_end: Collection[str]) -> bool:
        return False

    @property
    def alike(self) -> None:
        return None

    def of_rows(self, rows: NDArray[np.intp]) -> SmoothPart:
        some = copy(self)
        some._seen = self._seen[rows]
        return some

    # -- as a term ----------------------------------------------------------------------------------------------------

    def new_rows(self, component: Any, table: pd.DataFrame) -> OfFew:
        return OfFew(self._functions(table))

    def units(self, name: str) -> float:
        return 1.0

    def effects(self, mean: Vector, variance: Vector) -> None:
        """Coefficients of splines mean nothing alone."""
        return


def _products(one: Matrix, other: Matrix) -> Matrix:
    """All products of a function of one and a function of the other, row by row."""
    return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(one), -1))


def _null_space(S: Any) -> Matrix:
    values, vectors = np.linalg.eigh(S)
    return vectors[:, values <= _NONE * values.max()]


def _row_variance(A: Matrix, S: Matrix) -> float:
    """The mean variance over the rows of A z, z ~ N(0, S⁻¹) where S isn't flat."""
    values, vectors = np.linalg.eigh(S)
    proper = values > _NONE * values.max()
    root = vectors[:, proper] / np.sqrt(values[proper])
    return float(np.mean(np.sum((A @ root) ** 2, axis=1)))
