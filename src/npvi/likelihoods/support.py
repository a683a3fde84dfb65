"""Which responses a likelihood allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["BINARY", "CENSORING", "COUNTS", "POSITIVE", "REAL", "TRIALS", "UNIT", "ZERO_OR_POSITIVE", "Support"]


@dataclass(frozen=True)
class Support:
    """A set of numbers that a response may be.

    >>> COUNTS.invalid(np.array([0.0, 1.5, -1.0, np.nan, 7.0]))
    array([False,  True,  True,  True, False])
    """

    name: str
    description: str
    """In plain words, for messages: "y must be …"."""
    lower: float = -np.inf
    upper: float = np.inf
    discrete: bool = False
    """Whole numbers only."""
    open_lower: bool = False
    """`lower` itself is not allowed."""
    open_upper: bool = False
    """`upper` itself is not allowed."""
    atom: float | None = None
    """One number, the smallest, that has a probability of its own where the rest has a density."""

    def invalid(self, y: np.ndarray) -> np.ndarray:
        """True for the entries of `y` that are outside."""
        y = np.asarray(y, dtype=np.float64)
        outside = ~np.isfinite(y)
        outside |= y <= self.lower if self.open_lower else y < self.lower
        outside |= y >= self.upper if self.open_upper else y > self.upper
        if self.discrete:
            outside |= y != np.floor(y)
        return outside


REAL = Support("real", "any finite number")
POSITIVE = Support("positive", "positive numbers", lower=0.0, open_lower=True)
COUNTS = Support("counts", "whole numbers 0, 1, 2, …", lower=0.0, discrete=True)
BINARY = Support("binary", "0 or 1", lower=0.0, upper=1.0, discrete=True)
ZERO_OR_POSITIVE = Support("zero or positive", "0 or positive numbers", lower=0.0, atom=0.0)
TRIALS = Support("trials", "whole numbers 1, 2, 3, …", lower=1.0, discrete=True)
UNIT = Support("unit", "numbers strictly between 0 and 1", lower=0.0, upper=1.0, open_lower=True, open_upper=True)
CENSORING = Support("censoring", "-1, 0 or 1", lower=-1.0, upper=1.0, discrete=True)
