"""The most used correlations once more, in vector instructions: what learning spends its time on otherwise.

The formulas in JAX are what a kernel is; these are checked against them.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from npvi.kernels.families.matern import SMOOTHNESS, Matern
from npvi.kernels.families.rbf import RBF
from npvi.kernels.stationary import Stationary
from npvi.linalg import LANES, VectorRows

__all__ = ["FORMULAS", "NO_FORMULA", "correlate", "formula_of"]

#: of a kernel that has none
NO_FORMULA = -1
#: With s = |q| r, or r²/2 where q is negative: the covariance is (1 + a s + b s²) exp(−s), and its derivative in r² is
#: (c + d s + e/s) exp(−s). A row is (q, a, b, c, d, e): Matérn-1/2, -3/2, -5/2, RBF.
FORMULAS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, -0.5],
        [math.sqrt(3.0), 1.0, 0.0, -1.5, 0.0, 0.0],
        [math.sqrt(5.0), 1.0, 1.0 / 3.0, -5.0 / 6.0, -5.0 / 6.0, 0.0],
        [-1.0, 0.0, 0.0, -0.5, 0.0, 0.0],
    ]
)
_NUMBERS = {function: at for at, function in enumerate((*SMOOTHNESS.values(), RBF.correlation))}

#: log 2 in two parts, the first with so few digits that its multiples are exact
_LOG2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
#: added to a number it leaves the nearest integer in the last bits
_ROUND = 1.5 * 2.0**52


def formula_of(kernel: object) -> int:
    """Which of the formulas is a kernel's correlation; `NO_FORMULA` where none is.

    >>> from npvi.kernels import Matern52, RationalQuadratic
    >>> formula_of(Matern52()), formula_of(RationalQuadratic())
    (2, -1)
    """
    if not isinstance(kernel, Stationary):
        return NO_FORMULA
    function = type(kernel).correlation
    if function is Matern.correlation:
        function = SMOOTHNESS[1.5 if kernel.smoothness is None else kernel.smoothness]  # type: ignore[attr-defined]
    return _NUMBERS.get(function, NO_FORMULA)


class _Vectors:
    """Arithmetic on vectors of eight numbers, for the code generator below."""

    def __init__(self, builder):
        self.builder = builder
        self.double = ir.VectorType(ir.DoubleType(), LANES)
        self.long = ir.VectorType(ir.IntType(64), LANES)

    def constant(self, number):
        return ir.Constant(self.double, [number] * LANES)

    def everywhere(self, number):
        undefined = ir.Constant(self.double, ir.Undefined)
        first = self.builder.insert_element(undefined, number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))

    def times(self, x, y):
        return self.builder.fmul(x, y, flags=("contract",))

    def plus(self, x, y):
        return self.builder.fadd(x, y, flags=("contract",))

    def polynomial(self, x, *coefficients):
        """In pairs, then pairs of pairs: a single chain would wait for itself."""
        terms = list(coefficients)
        while len(terms) > 1:
            pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
            terms = [self.plus(pair[0], self.times(pair[1], x)) if len(pair) > 1 else pair[0] for pair in pairs]
            x = self.times(x, x)
        return terms[0]

    def at_least(self, x, lowest):
        lowest = self.constant(lowest)
        return self.builder.select(self.builder.fcmp_ordered(">", x, lowest), x, lowest)

    def at_most(self, x, highest):
        highest = self.constant(highest)
        return self.builder.select(self.builder.fcmp_ordered("<", x, highest), x, highest)

    def square_root(self, x):
        kind = ir.FunctionType(self.double, [self.double])
        name = f"llvm.sqrt.v{LANES}f64"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [x])

    def exponential(self, x):
        """exp(x) = 2ⁿ exp(x − n log 2), the last by its series, for x ≤ 0; exp(−700), no more than 0 for a covariance,
        where it would be less."""
        builder = self.builder
        x = self.at_least(x, -700.0)
        rounded = self.plus(self.times(x, self.constant(1.0 / math.log(2.0))), self.constant(_ROUND))
        n = builder.fsub(rounded, self.constant(_ROUND))
        for part in _LOG2:
            x = self.plus(x, self.times(n, self.constant(-part)))
        series = self.polynomial(x, *(self.constant(1.0 / math.factorial(k)) for k in range(14)))
        shift, one = (ir.Constant(self.long, [number] * LANES) for number in (52, 1023 << 52))
        power = builder.add(builder.shl(builder.bitcast(rounded, self.long), shift), one)
        return builder.fmul(series, builder.bitcast(power, self.double))


@intrinsic
def correlate(typingctx, formula, variance, n, squares, values, slopes):
    """Covariances at n times eight squared scaled distances r² and, where `slopes` isn't empty, derivatives in r².

    `formula` is a row of `FORMULAS`.
    """
    signature = types.void(formula, types.float64, types.intp, squares, values, slopes)

    def codegen(context, builder, sig, args):
        vectors = _Vectors(builder)
        squares, values, slopes = (VectorRows(context, builder, sig.args[k], args[k]) for k in (3, 4, 5))
        n = args[2]
        wanted = context.make_array(sig.args[5])(context, builder, args[5]).nitems
        wanted = builder.icmp_signed(">", wanted, wanted.type(0))
        numbers = context.make_array(sig.args[0])(context, builder, args[0]).data
        q, *others = (builder.load(builder.gep(numbers, [n.type(k)])) for k in range(6))
        a, b, c, d, e = map(vectors.everywhere, others)
        by_distance = builder.fcmp_ordered(">", q, q.type(0.0))
        q, variance = vectors.everywhere(q), vectors.everywhere(args[1])
        with squares.loop(n.type(0), n, 1) as (k, _):
            square = squares.load(k)
            s = builder.select(
                by_distance,
                vectors.times(q, vectors.square_root(square)),
                vectors.times(square, vectors.constant(0.5)),
            )
            s = vectors.at_most(s, 1e4)  # by far too much for anything but 0, and its square is finite
            decay = vectors.times(variance, vectors.exponential(builder.fsub(vectors.constant(0.0), s)))
            values.store(vectors.times(decay, vectors.polynomial(s, vectors.constant(1.0), a, b)), k)
            with builder.if_then(wanted):
                # at 0 any number will do: it is multiplied by r²
                inverse = builder.fdiv(e, vectors.at_least(s, 1e-150))
                slopes.store(vectors.times(decay, vectors.plus(vectors.polynomial(s, c, d), inverse)), k)
        return context.get_dummy_value()

    return signature, codegen
