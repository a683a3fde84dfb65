"""The table that `summary` returns, and what it says of the model as a whole."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

__all__ = ["Summary"]


class Summary(pd.DataFrame):
    """A table of numbers, with facts about the model as a whole in `attrs`, which are shown above it.

    Parts of it, and what is computed from it, are plain tables.

    Examples
    --------
    >>> table = Summary({"value": [0.5]}, index=["nugget"])
    >>> table.attrs = {"likelihood": "Poisson()", "rows": 20000, "bound": -31045.678}
    >>> table
    likelihood Poisson(), rows 20,000, bound -31,045.68
            value
    nugget    0.5
    """

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return f"{self._facts}\n{super().__repr__()}" if self.attrs else super().__repr__()

    def _repr_html_(self) -> str | None:
        table = super()._repr_html_()  # type: ignore[misc]
        return table if table is None or not self.attrs else f"<p>{escape(self._facts)}</p>\n{table}"

    @property
    def _facts(self) -> str:
        return ", ".join(f"{name} {_shown(value)}" for name, value in self.attrs.items())


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
