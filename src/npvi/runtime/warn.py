"""Warnings that name a line of the user's program."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn"]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called npvi, however deep inside of it this is.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn("few rows")
    >>> str(told[0].message)
    'few rows'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "npvi":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
