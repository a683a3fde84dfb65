"""Eight small Cholesky factorisations at once, one per SIMD lane, and what goes with them.

The prior's conditionals and the column sweep are both many small positive definite systems of nearly equal size. LAPACK
spends most of its time on call overhead there; eight systems side by side keep the vector units full whatever their
size. A group of eight is an array ``A`` of shape (n(n+1)/2, 8): the packed lower triangles (row i, column j at
i(i+1)/2 + j), with the lane last. numba does not vectorise across such a last axis by itself (it switches off LLVM's
SLP pass), hence the intrinsics below: loops over LLVM vectors, which compile to whatever the machine has.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from npvi.runtime.compiling import compiled

__all__ = [
    "LANES",
    "VectorRows",
    "add_blocks",
    "add_slopes",
    "bits_of",
    "combine_8",
    "combine_32",
    "float_of",
    "list_squares",
    "solve_last",
    "spread_8",
]

LANES = 8
_DOUBLE = ir.DoubleType()


class VectorRows:
    """The rows of a C-contiguous (…, LANES) array as LLVM vectors, for the code generators below."""

    vector = ir.VectorType(_DOUBLE, LANES)

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

    def multiply_add(self, a, b, c):
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(product, c, flags=("contract",))

    def loop(self, start, stop, step):
        return cgutils.for_range_slice(self.builder, start, stop, start.type(step), start.type)


def _columns_of(n_rows):
    """Intrinsic that finishes columns j and j+1 of the factor in `n_rows` rows: sharing loads is what makes it fast."""

    @intrinsic
    def finish(typingctx, array, first, second, j):
        """`first` and `second`: where the rows begin in the packed array (`second` is unused for one row)."""
        signature = types.void(array, types.intp, types.intp, types.intp)

        def codegen(context, builder, sig, args):
            rows = VectorRows(context, builder, sig.args[0], args[0])
            starts, j = args[1 : 1 + n_rows], args[3]
            one = j.type(1)
            next_j = builder.add(j, one)
            above = [_row_start(builder, j), _row_start(builder, next_j)]
            sums = [[cgutils.alloca_once_value(builder, ir.Constant(rows.vector, None)) for _ in above] for _ in starts]
            with rows.loop(j.type(0), j, 1) as (k, _):
                right = [rows.load(builder.add(start, k)) for start in above]
                for start, partial in zip(starts, sums):
                    left = rows.load(builder.add(start, k))
                    for total, other in zip(partial, right):
                        builder.store(rows.multiply_add(left, other, builder.load(total)), total)
            pivots = [rows.load(builder.add(above[0], j)), rows.load(builder.add(above[1], next_j))]
            coupling = rows.load(builder.add(above[1], j))
            for start, (total, next_total) in zip(starts, sums):
                here, there = builder.add(start, j), builder.add(start, next_j)
                value = builder.fmul(builder.fsub(rows.load(here), builder.load(total)), pivots[0])
                rows.store(value, here)
                known = rows.multiply_add(value, coupling, builder.load(next_total))
                rows.store(builder.fmul(builder.fsub(rows.load(there), known), pivots[1]), there)
            return context.get_dummy_value()

        return signature, codegen

    return finish


def _row_start(builder, i):
    return builder.lshr(builder.mul(i, builder.add(i, i.type(1))), i.type(1))


_finish_two_rows, _finish_one_row = _columns_of(2), _columns_of(1)


@intrinsic
def _subtract_dot(typingctx, array, target, p, q, n):
    """array[target] -= Σ_{k<n} array[p+k]·array[q+k], lane by lane."""
    signature = types.void(array, types.intp, types.intp, types.intp, types.intp)

    def codegen(context, builder, sig, args):
        rows = VectorRows(context, builder, sig.args[0], args[0])
        target, p, q, n = args[1:]
        total = cgutils.alloca_once_value(builder, ir.Constant(rows.vector, None))
        with rows.loop(n.type(0), n, 1) as (k, _):
            left, right = rows.load(builder.add(p, k)), rows.load(builder.add(q, k))
            builder.store(rows.multiply_add(left, right, builder.load(total)), total)
        rows.store(builder.fsub(rows.load(target), builder.load(total)), target)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _subtract_multiple(typingctx, array, target, p, by, n):
    """array[target+k] -= array[p+k]·array[by] for k < n, lane by lane."""
    signature = types.void(array, types.intp, types.intp, types.intp, types.intp)

    def codegen(context, builder, sig, args):
        rows = VectorRows(context, builder, sig.args[0], args[0])
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
        rows = VectorRows(context, builder, sig.args[0], args[0])
        rows.store(builder.fmul(rows.load(args[1]), rows.load(args[2])), args[1])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


@intrinsic
def _reciprocal_root(typingctx, array, target):
    """array[target] = 1/√array[target], lane by lane (NaN for negative numbers)."""

    def codegen(context, builder, sig, args):
        rows = VectorRows(context, builder, sig.args[0], args[0])
        kind = ir.FunctionType(rows.vector, [rows.vector])
        sqrt = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f64")
        root = builder.call(sqrt, [rows.load(args[1])])
        one = ir.Constant(rows.vector, [1.0] * LANES)
        rows.store(builder.fdiv(one, root), args[1])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


def _combiner(lanes, number=_DOUBLE, registers=1):
    """Intrinsic that adds up multiples of `lanes`·`registers` neighbouring numbers in some rows."""
    vector = ir.VectorType(number, lanes)
    size = 8 if number == _DOUBLE else 4

    @intrinsic
    def combine(typingctx, values, rows, start, stop, x, column, total):
        """total = Σ values[e] · x[rows[e], column:column+len(total)] over start ≤ e < stop."""
        if any(array.layout != "C" for array in (values, rows, x, total)):
            raise TypingError("arrays must be C-contiguous")
        signature = types.void(values, rows, types.intp, types.intp, x, types.intp, total)

        def codegen(context, builder, sig, args):
            start, stop, column = args[2], args[3], args[5]
            values, rows, x, total = (context.make_array(sig.args[k])(context, builder, args[k]) for k in (0, 1, 4, 6))
            width = cgutils.unpack_tuple(builder, x.shape)[1]
            undefined = ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
            sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(registers)]
            with cgutils.for_range_slice(builder, start, stop, start.type(1), start.type) as (e, _):
                row = builder.sext(builder.load(builder.gep(rows.data, [e])), start.type)
                at = builder.gep(x.data, [builder.add(builder.mul(row, width), column)])
                value = builder.load(builder.gep(values.data, [e]))
                value = value if value.type == number else builder.fptrunc(value, number)
                left = builder.shuffle_vector(
                    builder.insert_element(undefined, value, ir.IntType(32)(0)), undefined, first
                )
                for k, found in enumerate(sums):
                    place = builder.gep(at, [start.type(lanes * k)])
                    right = builder.load(builder.bitcast(place, vector.as_pointer()))
                    right.align = size
                    product = builder.fmul(left, right, flags=("contract",))
                    builder.store(builder.fadd(product, builder.load(found), flags=("contract",)), found)
            for k, found in enumerate(sums):
                place = builder.gep(total.data, [start.type(lanes * k)])
                builder.store(builder.load(found), builder.bitcast(place, vector.as_pointer())).align = size
            return context.get_dummy_value()

        return signature, codegen

    return combine


combine_8 = _combiner(8)
#: x and total in single precision
combine_32 = _combiner(16, ir.FloatType(), registers=2)


def _spreader(lanes):
    """Intrinsic that adds multiples of `lanes` numbers to neighbouring numbers in some rows."""
    vector = ir.VectorType(_DOUBLE, lanes)

    @intrinsic
    def spread(typingctx, values, rows, start, stop, what, x, column):
        """x[rows[e], column:column+lanes] += values[e] · what[:lanes] for start ≤ e < stop; these rows must differ."""
        if any(array.layout != "C" for array in (values, rows, what, x)):
            raise TypingError("arrays must be C-contiguous")
        signature = types.void(values, rows, types.intp, types.intp, what, x, types.intp)

        def codegen(context, builder, sig, args):
            start, stop, column = args[2], args[3], args[6]
            values, rows, what, x = (context.make_array(sig.args[k])(context, builder, args[k]) for k in (0, 1, 4, 5))
            width = cgutils.unpack_tuple(builder, x.shape)[1]
            undefined = ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
            right = builder.load(builder.bitcast(what.data, vector.as_pointer()))
            right.align = 8
            with cgutils.for_range_slice(builder, start, stop, start.type(1), start.type) as (e, _):
                row = builder.sext(builder.load(builder.gep(rows.data, [e])), start.type)
                at = builder.gep(x.data, [builder.add(builder.mul(row, width), column)])
                at = builder.bitcast(at, vector.as_pointer())
                value = builder.load(builder.gep(values.data, [e]))
                left = builder.shuffle_vector(
                    builder.insert_element(undefined, value, ir.IntType(32)(0)), undefined, first
                )
                before = builder.load(at)
                before.align = 8
                product = builder.fmul(left, right, flags=("contract",))
                builder.store(builder.fadd(product, before, flags=("contract",)), at).align = 8
            return context.get_dummy_value()

        return signature, codegen

    return spread


spread_8 = _spreader(8)


@intrinsic
def add_blocks(typingctx, values, start, count, x, first, second, third, total):
    """total[i] += Σ_{k<count} values[start+k] · x[row_i+k], lane by lane, for three blocks of rows: sums that don't
    wait for each other."""
    if any(array.layout != "C" for array in (values, x, total)):
        raise TypingError("arrays must be C-contiguous")
    signature = types.void(values, types.intp, types.intp, x, types.intp, types.intp, types.intp, total)

    def codegen(context, builder, sig, args):
        start, count, blocks = args[1], args[2], args[4:7]
        values = context.make_array(sig.args[0])(context, builder, args[0])
        x, total = (VectorRows(context, builder, sig.args[k], args[k]) for k in (3, 7))
        undefined = ir.Constant(x.vector, ir.Undefined)
        first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
        sums = [cgutils.alloca_once(builder, x.vector) for _ in blocks]
        for i, found in enumerate(sums):
            builder.store(total.load(start.type(i)), found)
        with x.loop(start.type(0), count, 1) as (k, _):
            value = builder.load(builder.gep(values.data, [builder.add(start, k)]))
            left = builder.shuffle_vector(builder.insert_element(undefined, value, ir.IntType(32)(0)), undefined, first)
            for block, found in zip(blocks, sums):
                builder.store(x.multiply_add(left, x.load(builder.add(block, k)), builder.load(found)), found)
        for i, found in enumerate(sums):
            total.store(builder.load(found), start.type(i))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def list_squares(typingctx, points, i, d, squares, at):
    """squares[at+j] = Σ_{c<d} (points[i·d+c] − points[j·d+c])² for j ≤ i, lane by lane."""
    signature = types.void(points, types.intp, types.intp, squares, types.intp)

    def codegen(context, builder, sig, args):
        points, squares = (VectorRows(context, builder, sig.args[k], args[k]) for k in (0, 3))
        i, d, at = args[1], args[2], args[4]
        own = builder.mul(i, d)
        total = cgutils.alloca_once(builder, points.vector)
        with points.loop(i.type(0), builder.add(i, i.type(1)), 1) as (j, _):
            other = builder.mul(j, d)
            builder.store(ir.Constant(points.vector, None), total)
            with points.loop(d.type(0), d, 1) as (c, _):
                gap = builder.fsub(points.load(builder.add(own, c)), points.load(builder.add(other, c)))
                builder.store(points.multiply_add(gap, gap, builder.load(total)), total)
            squares.store(builder.load(total), builder.add(at, j))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_slopes(typingctx, points, u, p, i, d, slopes, at, totals):
    """totals[c] += Σ_{j<i} (u_i p_j + p_i u_j) slopes[at+j] (points[i·d+c] − points[j·d+c])², lane by lane."""
    signature = types.void(points, u, p, types.intp, types.intp, slopes, types.intp, totals)

    def codegen(context, builder, sig, args):
        points, u, p, slopes, totals = (VectorRows(context, builder, sig.args[k], args[k]) for k in (0, 1, 2, 5, 7))
        i, d, at = args[3], args[4], args[6]
        own = builder.mul(i, d)
        u_i, p_i = u.load(i), p.load(i)
        with points.loop(i.type(0), i, 1) as (j, _):
            other = builder.mul(j, d)
            both = points.multiply_add(u_i, p.load(j), builder.fmul(p_i, u.load(j)))
            weight = builder.fmul(both, slopes.load(builder.add(at, j)))
            with points.loop(d.type(0), d, 1) as (c, _):
                gap = builder.fsub(points.load(builder.add(own, c)), points.load(builder.add(other, c)))
                product = builder.fmul(weight, gap)
                totals.store(points.multiply_add(product, gap, totals.load(c)), c)
        return context.get_dummy_value()

    return signature, codegen


@compiled
def solve_last(A, n):
    """Factor A = C Cᵀ in place and solve for the last unknown's row; eight systems of size n.

    Afterwards the last row of A holds, per lane, x = C₁₁⁻ᵀ c (c the last row of C without its diagonal), that is the
    solution of A₁₁ x = A₁₂, and on its diagonal 1/C_nn, the square root of the last diagonal entry of A⁻¹. A lane whose
    matrix isn't positive definite ends up as NaN there.
    """
    # rows two by two, columns two by two; diagonals are kept as reciprocals, and the root of a negative pivot is NaN,
    # which spreads to the last row
    for i in range(0, n, 2):
        row, below = i * (i + 1) // 2, (i + 1) * (i + 2) // 2
        two = i + 1 < n
        for j in range(0, i, 2):
            if two:
                _finish_two_rows(A, row, below, j)  # type: ignore[call-arg]
            else:
                _finish_one_row(A, row, row, j)  # type: ignore[call-arg]
        _subtract_dot(A, row + i, row, row, i)  # type: ignore[call-arg]
        _reciprocal_root(A, row + i)  # type: ignore[call-arg]
        if two:
            _subtract_dot(A, below + i, below, row, i)  # type: ignore[call-arg]
            _multiply(A, below + i, row + i)  # type: ignore[call-arg]
            _subtract_dot(A, below + i + 1, below, below, i + 1)  # type: ignore[call-arg]
            _reciprocal_root(A, below + i + 1)  # type: ignore[call-arg]
    last = n * (n - 1) // 2
    for i in range(n - 2, -1, -1):
        row_i = i * (i + 1) // 2
        _multiply(A, last + i, row_i + i)  # type: ignore[call-arg]
        _subtract_multiple(A, last, row_i, last + i, i)  # type: ignore[call-arg]


@intrinsic
def bits_of(typingctx, number):
    """The bits of a number in single precision (`ndarray.view` would take a third of a second to compile)."""
    return _same_bits(types.int32, types.float32, ir.IntType(32))


@intrinsic
def float_of(typingctx, bits):
    """The number in single precision that has these bits."""
    return _same_bits(types.float32, types.int32, ir.FloatType())


def _same_bits(there, here, kind):
    return there(here), lambda context, builder, sig, args: builder.bitcast(args[0], kind)
