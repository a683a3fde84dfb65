"""Eight small Cholesky factorisations at once, one per SIMD lane.

The prior's conditionals and the column sweep are both many small positive definite systems of nearly equal size. LAPACK
spends most of its time on call overhead there; eight systems side by side keep the vector units full whatever their
size. A group of eight is an array ``A`` of shape (n(n+1)/2, 8): the packed lower triangles (row i, column j at
i(i+1)/2 + j), with the lane last. numba does not vectorise across such a last axis by itself (it switches off LLVM's SLP
pass), hence the intrinsics below: loops over LLVM vectors, which compile to whatever the machine has.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "solve_last"]

LANES = 8


class _Rows:
    """The rows of a C-contiguous (…, LANES) array as LLVM vectors, for the code generators below."""

    vector = ir.VectorType(ir.DoubleType(), LANES)

    def __init__(self, context, builder, array_type, array):
        self.builder = builder
        data = context.make_array(array_type)(context, builder, array).data
        self.pointer = builder.bitcast(data, self.vector.as_pointer())

    def load(self, index):
        value = self.builder.load(self.builder.gep(self.pointer, [index]))
        value.align = 8
        return value

    def store(self, value, index):
        self.builder.store(value, self.builder.gep(self.pointer, [index])).align = 8

    def loop(self, start, stop, step):
        return cgutils.for_range_slice(self.builder, start, stop, start.type(step), start.type)


@intrinsic
def _subtract_dot(typingctx, array, target, p, q, n):
    """array[target] -= Σ_{k<n} array[p+k]·array[q+k], lane by lane; four partial sums hide the latency."""
    signature = types.void(array, types.intp, types.intp, types.intp, types.intp)
    unroll = 4

    def codegen(context, builder, sig, args):
        rows = _Rows(context, builder, sig.args[0], args[0])
        target, p, q, n = args[1:]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(rows.vector, None)) for _ in range(unroll)]

        def add(total, k):
            product = builder.fmul(
                rows.load(builder.add(p, k)), rows.load(builder.add(q, k)), flags=("contract",)
            )
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        whole = builder.and_(n, n.type(-unroll))
        with rows.loop(n.type(0), whole, unroll) as (k, _):
            for u in range(unroll):
                add(sums[u], builder.add(k, n.type(u)))
        with rows.loop(whole, n, 1) as (k, _):
            add(sums[0], k)
        pairs = [builder.fadd(builder.load(sums[u]), builder.load(sums[u + 1])) for u in (0, 2)]
        rows.store(builder.fsub(rows.load(target), builder.fadd(*pairs)), target)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _subtract_multiple(typingctx, array, target, p, by, n):
    """array[target+k] -= array[p+k]·array[by] for k < n, lane by lane."""
    signature = types.void(array, types.intp, types.intp, types.intp, types.intp)

    def codegen(context, builder, sig, args):
        rows = _Rows(context, builder, sig.args[0], args[0])
        target, p, by, n = args[1:]
        factor = rows.load(by)
        with rows.loop(n.type(0), n, 1) as (k, _):
            product = builder.fmul(rows.load(builder.add(p, k)), factor, flags=("contract",))
            here = builder.add(target, k)
            rows.store(builder.fsub(rows.load(here), product, flags=("contract",)), here)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _multiply(typingctx, array, target, by):
    """array[target] *= array[by], lane by lane."""

    def codegen(context, builder, sig, args):
        rows = _Rows(context, builder, sig.args[0], args[0])
        rows.store(builder.fmul(rows.load(args[1]), rows.load(args[2])), args[1])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


@intrinsic
def _reciprocal_root(typingctx, array, target):
    """array[target] = 1/√array[target], lane by lane (NaN for negative numbers)."""

    def codegen(context, builder, sig, args):
        rows = _Rows(context, builder, sig.args[0], args[0])
        kind = ir.FunctionType(rows.vector, [rows.vector])
        sqrt = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f64")
        root = builder.call(sqrt, [rows.load(args[1])])
        one = ir.Constant(rows.vector, [1.0] * LANES)
        rows.store(builder.fdiv(one, root), args[1])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def solve_last(A, n):
    """Factor A = C Cᵀ in place and solve for the last unknown's row; eight systems of size n.

    Afterwards the last row of A holds, per lane, x = C₁₁⁻ᵀ c (c the last row of C without its diagonal), that is the
    solution of A₁₁ x = A₁₂, and on its diagonal 1/C_nn, the square root of the last diagonal entry of A⁻¹. A lane whose
    matrix isn't positive definite ends up as NaN there.
    """
    for i in range(n):
        row_i = i * (i + 1) // 2
        for j in range(i):
            row_j = j * (j + 1) // 2
            _subtract_dot(A, row_i + j, row_i, row_j, j)
            _multiply(A, row_i + j, row_j + j)
        _subtract_dot(A, row_i + i, row_i, row_i, i)
        _reciprocal_root(
            A, row_i + i
        )  # diagonals are kept as reciprocals; a negative pivot spreads NaN to the last row
    last = n * (n - 1) // 2
    for i in range(n - 2, -1, -1):
        row_i = i * (i + 1) // 2
        _multiply(A, last + i, row_i + i)
        _subtract_multiple(A, last, row_i, last + i, i)
