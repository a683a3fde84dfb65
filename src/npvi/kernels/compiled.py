"""The most used correlations once more, as loops that stay in the cache: what learning spends its time on otherwise.

The formulas in JAX are what a kernel is; these are checked against them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from npvi.kernels.matern import SMOOTHNESS, Matern
from npvi.kernels.rbf import RBF
from npvi.kernels.stationary import Stationary

__all__ = ["NO_FORMULA", "correlate", "formula_of"]

NO_FORMULA, _EXPONENTIAL, _MATERN32, _MATERN52, _RBF = range(-1, 4)
_FORMULAS = {
    SMOOTHNESS[0.5]: _EXPONENTIAL,
    SMOOTHNESS[1.5]: _MATERN32,
    SMOOTHNESS[2.5]: _MATERN52,
    RBF.correlation: _RBF,
}


def formula_of(kernel: object) -> int:
    """Which of the loops is a kernel's correlation; `NO_FORMULA` where none is.

    >>> from npvi.kernels import Matern52, RationalQuadratic
    >>> formula_of(Matern52()), formula_of(RationalQuadratic())
    (2, -1)
    """
    if not isinstance(kernel, Stationary):
        return NO_FORMULA
    function = type(kernel).correlation
    if function is Matern.correlation:
        function = SMOOTHNESS[1.5 if kernel.smoothness is None else kernel.smoothness]  # type: ignore[attr-defined]
    return _FORMULAS.get(function, NO_FORMULA)


@njit(cache=True, nogil=True, fastmath={"contract"})
def correlate(formula, variance, squares, scratch, values, slopes):
    """Covariances at squared scaled distances r² and their derivatives in r², into `values` and `slopes`.

    All arrays are of shape (n,), but `slopes` may be empty: then they aren't wanted. `squares` is overwritten.
    """
    n = len(squares)
    wanted = len(slopes) > 0
    if formula == _RBF:
        for k in range(n):
            values[k] = -0.5 * squares[k]
        _exponentials(values, scratch)
        for k in range(n):
            values[k] *= variance
        if wanted:
            for k in range(n):
                slopes[k] = -0.5 * values[k]
        return
    steepness = math.sqrt(1.0 if formula == _EXPONENTIAL else 3.0 if formula == _MATERN32 else 5.0)
    for k in range(n):
        squares[k] = steepness * math.sqrt(squares[k])  # s, of which the formulas are made
        values[k] = -squares[k]
    _exponentials(values, scratch)
    for k in range(n):
        values[k] *= variance
    if formula == _EXPONENTIAL:
        if wanted:
            for k in range(n):
                slopes[k] = -0.5 * values[k] / squares[k] if squares[k] > 0.0 else 0.0
    elif formula == _MATERN32:
        if wanted:
            for k in range(n):
                slopes[k] = -1.5 * values[k]
        for k in range(n):
            values[k] *= 1.0 + squares[k]
    else:
        if wanted:
            for k in range(n):
                slopes[k] = (-5.0 / 6.0) * (1.0 + squares[k]) * values[k]
        for k in range(n):
            values[k] *= 1.0 + squares[k] + squares[k] * squares[k] / 3.0


#: log 2 in two parts, the first with so few digits that its multiples are exact
_LOG2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_PER_LOG2 = 1.0 / math.log(2.0)
#: added to a number it leaves the nearest integer in the last bits
_ROUND = 1.5 * 2.0**52
_TERMS = tuple(1.0 / math.factorial(k) for k in range(14))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _exponentials(x, scratch):
    """x ← exp(x) for x ≤ 0, in loops that compile to vector instructions, unlike calls of exp.

    exp x = 2ⁿ exp(x − n log 2), the last by its series; below exp(−700), which no covariance can tell from 0, that.
    """
    bits = scratch.view(np.int64)
    for k in range(len(x)):
        x[k] = max(x[k], -700.0)
        scratch[k] = x[k] * _PER_LOG2 + _ROUND
    for k in range(len(x)):
        n = scratch[k] - _ROUND
        r = (x[k] - n * _LOG2[0]) - n * _LOG2[1]
        # in pairs, then pairs of pairs: a single chain would wait for itself
        r2 = r * r
        r4 = r2 * r2
        low = (1.0 + r) + r2 * (_TERMS[2] + r * _TERMS[3])
        middle = (_TERMS[4] + r * _TERMS[5]) + r2 * (_TERMS[6] + r * _TERMS[7])
        high = (_TERMS[8] + r * _TERMS[9]) + r2 * (_TERMS[10] + r * _TERMS[11])
        highest = _TERMS[12] + r * _TERMS[13]
        x[k] = low + r4 * (middle + r4 * (high + r4 * highest))
    for k in range(len(x)):
        bits[k] = (bits[k] << 52) + (1023 << 52)
    for k in range(len(x)):
        x[k] *= scratch[k]
