"""Smooth functions of one covariate: penalised B-splines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from npvi.components.dense import Dense

__all__ = ["CyclicSpline", "Spline"]

Vector = NDArray[np.float64]

_DEGREE = 3
#: how far the outer knots lie beyond the data, relative to their range
_BEYOND = 1e-3


@dataclass(frozen=True)
class Spline:
    """Cubic B-splines, centred: they sum to zero over the rows they were made for.

    The penalty is ∫ f″², as mgcv's ``s(x, bs="bs")`` has it: a straight line costs nothing.

    Attributes
    ----------
    knots : with three beyond, or at, either end, shape (k + 4,) for k functions.
    centred : C, shape (k, k − 1): coefficients with which f sums to zero.
    linear : the direction of straight lines in coordinates of C, of length 1, shape (k − 1,).

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> spline = Spline.of(x, 8)
    >>> A = spline.functions(x)
    >>> A.shape, bool(np.allclose(A.sum(axis=0), 0.0))
    ((50, 7), True)
    >>> bool(np.allclose(spline.penalty @ spline.linear, 0.0, atol=1e-8 * np.abs(spline.penalty).max()))
    True
    """

    knots: Vector
    centred: NDArray[np.float64]
    linear: Vector

    @classmethod
    def of(cls, x: Vector, n_functions: int = 20, at: Literal["even", "quantiles"] = "even") -> Spline:
        """For values of a covariate: on evenly spaced knots, as mgcv has them, or with as many values between them.

        There are fewer functions where quantiles fall together.
        """
        shares = np.linspace(0.0, 1.0, n_functions - _DEGREE + 1)
        if at == "quantiles":
            inner = np.unique(np.quantile(x, shares))
            knots: Vector = np.concatenate([[inner[0]] * _DEGREE, inner, [inner[-1]] * _DEGREE])
        else:
            low, high = float(np.min(x)), float(np.max(x))
            low, high = low - _BEYOND * (high - low), high + _BEYOND * (high - low)
            step = (high - low) * shares[1]
            knots = low + step * np.arange(-_DEGREE, len(shares) + _DEGREE, dtype=np.float64)
        sums = _values(x, knots).sum(axis=0)
        # an orthogonal basis of what has no part along the sums, by the Householder reflection that takes them to e₁
        Q, _ = np.linalg.qr(sums[:, None], mode="complete")
        # f = Σ_j g_j B_j with these g is x itself
        greville = np.array([knots[j + 1 : j + 1 + _DEGREE].mean() for j in range(len(sums))])
        line: Vector = Q[:, 1:].T @ (greville - (greville @ sums) / sums.sum())
        return cls(knots, Q[:, 1:], line / float(np.linalg.norm(line)))

    def functions(self, x: Vector) -> NDArray[np.float64]:
        """A, shape (rows, k − 1); beyond the knots straight lines go on."""
        inside = np.clip(x, self.knots[_DEGREE], self.knots[-_DEGREE - 1])
        values = _values(inside, self.knots) @ self.centred
        outside = np.flatnonzero(inside != x)
        if len(outside):
            slope = BSpline(self.knots, self.centred, _DEGREE).derivative()(inside[outside])
            values[outside] += slope * (x - inside)[outside, None]
        return values

    def with_constant(self) -> Spline:
        """The same functions without having been centred: k of them, a constant among their sums."""
        return Spline(self.knots, np.eye(len(self.knots) - _DEGREE - 1), self.linear)

    @property
    def size(self) -> int:
        """How many functions there are."""
        return int(self.centred.shape[1])

    @cached_property
    def penalty(self) -> NDArray[np.float64]:
        """S with zᵀSz = ∫ f″², shape (k − 1, k − 1)."""
        return self._products(self.centred)

    def _products(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """∫ f″g″ of all pairs of functions, given by coefficients (k, m)."""
        bend = BSpline(self.knots, coefficients, _DEGREE).derivative(2)
        low, high = self.knots[_DEGREE : -_DEGREE - 1], self.knots[_DEGREE + 1 : -_DEGREE]
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        # f″ is linear between knots: two points of Gauss's rule are exact
        values = bend(np.concatenate([middle - half / np.sqrt(3.0), middle + half / np.sqrt(3.0)]))
        return values.T @ (np.concatenate([half, half])[:, None] * values)

    def mgcv_scale(self, x: Vector) -> float:
        """What a smoothing parameter of mgcv's is to be multiplied with for these rows: it scales S by the largest
        row sum of A, squared, over the largest column sum of S, both before centring."""
        rows = float(np.abs(_values(x, self.knots)).sum(axis=1).max())
        bend = self._products(np.eye(len(self.knots) - _DEGREE - 1))
        return rows**2 / float(np.abs(bend).sum(axis=0).max())

    def part(self, x: Vector, smoothing: float, line_precision: float = 0.0) -> Dense:
        """The component with P = smoothing · S, and a prior precision of the straight line's coefficient."""
        precision = smoothing * self.penalty
        return Dense(self.functions(x), precision + line_precision * np.outer(self.linear, self.linear))


@dataclass(frozen=True)
class CyclicSpline:
    """Cubic B-splines on a circle, centred; the penalty is ∫ f″² as before, and only a constant would cost nothing.

    Attributes
    ----------
    low, high : where the circle is closed.
    centred : as of a `Spline`, for functions that are added up where they are the same on the circle.

    Examples
    --------
    >>> spline = CyclicSpline.of(np.linspace(0.0, 350.0, 36), 8, (0.0, 360.0))
    >>> ends = spline.functions(np.array([0.0, 360.0, 10.0, 370.0]))
    >>> ends.shape, np.allclose(ends[0], ends[1]), np.allclose(ends[2], ends[3])
    ((4, 7), True, True)
    """

    low: float
    high: float
    centred: NDArray[np.float64]

    @classmethod
    def of(cls, x: Vector, k: int, period: tuple[float, float] | None = None) -> CyclicSpline:
        """With k functions, for the rows of a covariate; the period is their range unless given."""
        low, high = (float(x.min()), float(x.max())) if period is None else period
        whole = cls(low, high, np.eye(k))
        sums = whole.functions(x).sum(axis=0)
        Q, _ = np.linalg.qr(sums[:, None], mode="complete")
        return cls(low, high, Q[:, 1:])

    def functions(self, x: Vector) -> NDArray[np.float64]:
        """A, shape (rows, k − 1)."""
        around = self.low + np.mod(x - self.low, self.high - self.low)
        return np.asarray(_values(around, self._knots) @ self._folded, dtype=np.float64)

    @cached_property
    def penalty(self) -> NDArray[np.float64]:
        """S with zᵀSz = ∫ f″² once around, shape (k − 1, k − 1)."""
        return Spline(self._knots, self._folded, np.zeros(self.centred.shape[1])).penalty

    @property
    def _knots(self) -> Vector:
        k = len(self.centred)
        step = (self.high - self.low) / k
        return np.asarray(self.low + step * np.arange(-_DEGREE, k + _DEGREE + 1), dtype=np.float64)

    @property
    def _folded(self) -> NDArray[np.float64]:
        """Coefficients of the functions on the line, of which the last are the first on the circle."""
        k = len(self.centred)
        return np.take(self.centred, np.arange(k + _DEGREE) % k, axis=0)


def _values(x: Vector, knots: Vector) -> NDArray[np.float64]:
    """All B-splines on these knots, shape (rows, k)."""
    return np.asarray(scipy.sparse.csr_array(BSpline.design_matrix(x, knots, _DEGREE)).toarray(), dtype=np.float64)
