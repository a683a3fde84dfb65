"""Standard normal numbers by counting: each has a place, and is the same whoever else is asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.linalg.lanes import bits_of, float_of
from npvi.runtime.compiling import compiled, inlined
from npvi.runtime.parallel import over_chunks

__all__ = ["AT_ONCE", "Noise", "key_of", "normal_numbers"]

#: columns of a block; compiled loops, here and in `npvi.linalg.drawing`, have it written out
AT_ONCE = 32


class Noise:
    """Columns of standard normal numbers, one number for each row of the data.

    Each row has its own, whatever its place in an order and however many come after it. The first columns are the same
    however many there are.

    Parameters
    ----------
    rows : the row of the data at each place.
    seed : whole number; another one is another table.

    Examples
    --------
    >>> numbers = Noise(np.array([1, 0])).columns(0, 3)
    >>> np.array_equal(numbers, Noise(np.array([0, 1, 2])).columns(0, 64)[[1, 0], :3])
    True
    """

    def __init__(self, rows: NDArray[np.int64], seed: int = 0) -> None:
        self.rows, self.seed = rows, seed

    def columns(self, start: int, stop: int) -> NDArray[np.float64]:
        """Columns `start` to `stop`, shape (N, stop − start)."""
        numbers = np.empty((len(self.rows), stop - start))
        over_chunks(_fill, len(self.rows), self.rows, self.keys(stop), start, numbers)
        return numbers

    def keys(self, n: int) -> NDArray[np.uint64]:
        """What says which numbers a block of columns has, for each of those that the first n columns are in."""
        return np.array([key_of(self.seed, block) for block in range(-(-n // AT_ONCE))], dtype=np.uint64)


def key_of(seed: int, block: int) -> np.uint64:
    """A number that has nothing to do with others."""
    return np.random.SeedSequence((seed, block)).generate_state(1, np.uint64)[0]


@compiled
def _fill(start, stop, rows, keys, first, numbers):
    row, work, bits = np.empty(32, np.float32), np.empty(32, np.float32), np.empty(32, np.int32)
    last = first + numbers.shape[1]
    for i in range(start, stop):
        for block in range(first // 32, len(keys)):
            normal_numbers(keys[block], rows[i], row, work, bits)
            for c in range(max(first, 32 * block), min(last, 32 * (block + 1))):
                numbers[i, c - first] = row[c - 32 * block]


# Coefficients of single precision, as constants: to convert each inside the loop would triple its time to compile.
#: (log(1 + t) − t) / t², fitted by least squares
_LOG = tuple(
    np.float32(c)
    for c in (-0.100550547, 0.161563978, -0.172427595, 0.199101835, -0.249715507, 0.333346039, -0.500003159)
)
#: Giles' polynomials for erf⁻¹, near 0 and far from it
_NEAR = tuple(
    np.float32(c)
    for c in (
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    )
)
_FAR = tuple(
    np.float32(c)
    for c in (
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    )
)


@inlined
def normal_numbers(key, row, out, work, bits):
    """Write the 32 numbers of a row into `out`; `work` (float32) and `bits` (int32) are room for 32 each.

    SplitMix64 scrambles the place of each number. Its 31 leading bits after the sign make a probability p < ½, and the
    number is that with p beyond it: √2 erf⁻¹(1 − 2p), by Giles' polynomials (Approximating the erfinv function, GPU
    Computing Gems, 2011) in w = −log 4p(1−p), right to about 10⁻⁶. Every loop compiles to vector instructions.
    """
    b0, b1, b2, b3, b4, b5, b6 = _LOG
    n0, n1, n2, n3, n4, n5, n6, n7, n8 = _NEAR
    f0, f1, f2, f3, f4, f5, f6, f7, f8 = _FAR
    one = np.float32(1.0)
    place = np.uint64(32 * row)
    for r in range(32):
        mixed = (place + np.uint64(r)) * np.uint64(0x9E3779B97F4A7C15) + key
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits[r] = np.int32(mixed >> np.uint64(32))
    for r in range(32):
        p = (np.float32(bits[r] & np.int32(0x7FFFFFFF)) + np.float32(0.5)) * np.float32(2.0**-32)
        work[r] = np.float32(4.0) * p * (one - p)
        out[r] = one - np.float32(2.0) * p
    for r in range(32):  # into 2^exponent (1 + t), 1 + t from √½ to √2; the sign stays in the first bit
        as_bits = bits_of(work[r])  # type: ignore[call-arg, var-annotated]
        exponent = (as_bits - np.int32(0x3F3504F3)) >> np.int32(23)
        work[r] = float_of(as_bits - (exponent << np.int32(23)))  # type: ignore[call-arg]
        bits[r] = (bits[r] & np.int32(-(2**31))) | (exponent & np.int32(0xFF))
    for r in range(32):
        exponent = np.int32(bits[r] << np.int32(24)) >> np.int32(24)
        t = work[r] - one
        bend = b0
        bend = bend * t + b1
        bend = bend * t + b2
        bend = bend * t + b3
        bend = bend * t + b4
        bend = bend * t + b5
        bend = bend * t + b6
        work[r] = -(t + t * t * bend + np.float32(exponent) * np.float32(0.6931471805599453))
    for r in range(32):
        w = work[r]
        c = w - np.float32(2.5)
        near = n0
        near = near * c + n1
        near = near * c + n2
        near = near * c + n3
        near = near * c + n4
        near = near * c + n5
        near = near * c + n6
        near = near * c + n7
        near = near * c + n8
        c = np.sqrt(max(w, np.float32(0.0))) - np.float32(3.0)
        far = f0
        far = far * c + f1
        far = far * c + f2
        far = far * c + f3
        far = far * c + f4
        far = far * c + f5
        far = far * c + f6
        far = far * c + f7
        far = far * c + f8
        size = (near if w < np.float32(5.0) else far) * out[r] * np.float32(1.4142135623730951)
        out[r] = size if bits[r] >= 0 else -size
