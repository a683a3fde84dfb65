"""Many draws at once: T⁻¹ε in single precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.linalg.lanes import combine_32
from npvi.linalg.many_columns import ends_of
from npvi.linalg.normals import AT_ONCE, Noise, normal_numbers
from npvi.linalg.triangular import Triangular
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["draw"]


def draw(matrix: Triangular, noise: Noise, n: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """T⁻¹ε for the first n columns ε of `noise`, and for each row the mean square of what its parents say in them.

    That is Σ_j (T_ij/T_ii) x_j over the parents j; the rest of x_i is ε_i/T_ii. Threads share out the columns. The
    random numbers are made on the way, in registers, which takes less time than to read them from memory.

    Examples
    --------
    >>> from npvi.graph import build_graph
    >>> graph = build_graph([[0.0], [1.0]], 1, order="given")
    >>> T = Triangular(graph, np.array([1.0, 2.0]), np.array([[0.0], [1.0]]))
    >>> x, squares = draw(T, Noise(graph.order), 3)
    >>> np.allclose(T.dot(x), Noise(graph.order).columns(0, 3), atol=1e-6)
    True
    >>> np.allclose(squares, [0.0, np.mean((x[0] / 2.0) ** 2)])
    True
    """
    keys = noise.keys(n)
    draws = np.empty((len(matrix.diagonal), AT_ONCE * len(keys)), dtype=np.float32)
    parents = matrix.graph.parents
    lists = (noise.rows, parents, parents.reshape(-1), matrix.edges.reshape(-1), matrix.diagonal)

    def some(first: int, last: int) -> NDArray[np.float64]:
        squares = np.zeros(len(draws))
        for block in range(first, last):
            _substitute(*lists, keys[block], draws, AT_ONCE * block, min(n, AT_ONCE * (block + 1)), squares)
        return squares

    squares = sum(over_chunks(some, len(keys), grain=1))
    return np.ascontiguousarray(draws[:, :n]), squares / n


@compiled
def _substitute(rows, parents, neighbors, values, diagonal, key, x, column, last, squares):
    """Columns `column` to `column` + 32 of x; of those before `last` the squares are added up."""
    total, noise = np.empty(32, np.float32), np.empty(32, np.float32)
    work, bits = np.empty(32, np.float32), np.empty(32, np.int32)
    for i in range(len(diagonal)):
        first, end = ends_of(parents, np.uintp(i))
        combine_32(values, neighbors, first, end, x, column, total)  # type: ignore[call-arg]
        normal_numbers(key, rows[i], noise, work, bits)
        inverse = np.float32(1.0 / diagonal[i])
        for r in range(32):
            total[r] *= inverse
            x[i, column + r] = noise[r] * inverse - total[r]
        for r in range(last - column):
            squares[i] += np.float64(total[r]) ** 2  # which in single precision may not be a number at all
