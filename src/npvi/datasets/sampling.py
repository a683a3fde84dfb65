"""A random sample of a stream that is too long to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sample"]

#: rows that wait before they are sorted in among those kept
_WAITING = 200_000


class Sample:
    """The rows with the smallest keys, as many as asked for: with random keys a random sample without replacement.

    Rows with the same key are the same thing seen more than once: the one of the smallest rank stays.

    Parameters
    ----------
    columns : sequence of str
        Names of the values in a row.
    size : int, optional
        How many rows to keep; all unless given. No more than that many and 200,000 are ever held.

    Examples
    --------
    >>> sample = Sample(["letter"], size=2)
    >>> for rank, (key, letter) in enumerate([(0.9, "a"), (0.5, "b"), (0.1, "c"), (0.5, "b again")]):
    ...     sample.add(key, rank, (letter,))
    >>> sample.table()["letter"].tolist()
    ['b', 'c']
    """

    def __init__(self, columns: Sequence[str], size: int | None = None) -> None:
        self._names = ["key", "rank", *columns]
        self._size = size
        self._bound: float = float("inf")
        self._waiting: list[tuple[Any, ...]] = []
        self._kept: pd.DataFrame | None = None

    def add(self, key: float, rank: int, row: tuple[Any, ...]) -> None:
        """Offer a row."""
        if key > self._bound:
            return
        self._waiting.append((key, rank, *row))
        if len(self._waiting) >= _WAITING:
            self._sort_in()

    def table(self) -> pd.DataFrame:
        """The rows kept, by rank."""
        kept = self._sort_in()
        return kept.sort_values("rank").drop(columns=["key", "rank"]).reset_index(drop=True)

    def _sort_in(self) -> pd.DataFrame:
        import pandas as pd

        new = pd.DataFrame(self._waiting, columns=self._names)
        self._waiting = []
        filled = [frame for frame in (self._kept, new) if frame is not None and len(frame)]
        both = pd.concat(filled) if filled else new
        kept = both.sort_values(["key", "rank"]).drop_duplicates("key")
        if self._size is not None:
            kept = kept.head(self._size)
            if len(kept) == self._size > 0:
                self._bound = kept["key"].iloc[-1]
        self._kept = kept
        return kept
