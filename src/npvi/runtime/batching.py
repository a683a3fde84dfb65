"""Compiled functions over rows, in chunks padded to powers of two: a new number of rows compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import takewhile

import numpy as np

from npvi.runtime.interrupts import safe_point
from npvi.runtime.parallel import over_chunks
from npvi.runtime.precision import float64

__all__ = ["map_rows"]

_SMALLEST = 2**8


def map_rows(
    function: Callable[..., Sequence],
    columns: Sequence[np.ndarray],
    row: dict[str, np.ndarray] | None = None,
    *,
    results: int = 1,
    largest: int = 2**14,
) -> tuple[np.ndarray, ...]:
    """Call ``function(*columns, row)`` on chunks of rows, in double precision and in threads.

    Parameters
    ----------
    function : callable
        Compiled by ``jax.jit``. It returns a sequence of arrays with one number per row, and what it returns
        for a row depends on that row only.
    columns : sequence of arrays
        Arrays whose first axis is the rows.
    row : dict of arrays, optional
        More of them, by name; `function` is called without it where it is None.
    results : int
        How many arrays `function` returns.
    largest : int
        Rows in a chunk, a power of two: what bounds the memory.

    Returns
    -------
    tuple of arrays, each of shape (rows,)

    Examples
    --------
    >>> import jax
    >>> both = jax.jit(lambda a, b: (a + b, a - b))
    >>> map_rows(both, (np.array([1.0, 2.0]), np.array([3.0, 4.0])), results=2)
    (array([4., 6.]), array([-2., -2.]))
    """
    safe_point()
    n = len(columns[0])
    out = tuple(np.empty(n) for _ in range(results))

    def chunks(first: int, last: int) -> None:
        with float64():  # entered here because each thread has a setting of its own
            for start in range(first * largest, min(n, last * largest), largest):
                rows = slice(start, min(n, start + largest))
                arguments: list = [_padded(column[rows]) for column in columns]
                if row is not None:
                    arguments.append({name: _padded(value[rows]) for name, value in row.items()})
                for whole, part in zip(out, function(*arguments)):
                    whole[rows] = np.asarray(part)[: rows.stop - rows.start]

    n_chunks = -(-n // largest)
    known = (*_key(function), largest, len(row or ()))
    if n_chunks > 1 and known in _compiled:
        over_chunks(chunks, n_chunks, grain=1)
        return out
    # The first chunk comes before the threads start: it compiles, and should do so once.
    chunks(0, 1)
    if n_chunks > 1:
        over_chunks(lambda first, last: chunks(first + 1, last + 1), n_chunks - 1, grain=1)
        _compiled.add(known)
    return out


#: functions that were compiled for whole chunks
_compiled: set[Hashable] = set()


def _key(function: Callable[..., Sequence]) -> tuple[Hashable, ...]:
    """What a compiled function is known by: its code and, where that comes first, what it is compiled for, such as the
    structure of its parameters."""
    given = function.args if isinstance(function, partial) else ()
    return getattr(function, "func", function), *takewhile(lambda argument: isinstance(argument, Hashable), given)


def _padded(rows: np.ndarray) -> np.ndarray:
    """`rows` and repeats of the last one: real numbers, which no formula can stumble over."""
    size = max(_SMALLEST, 1 << (len(rows) - 1).bit_length())
    if size == len(rows):
        return rows
    padded = np.empty((size, *rows.shape[1:]))
    padded[: len(rows)] = rows
    padded[len(rows) :] = rows[-1]
    return padded
