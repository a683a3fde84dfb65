"""What arrays and numbers are called in signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Columns", "Number", "Seed", "Slice", "Span", "Vector"]

Array = NDArray[np.float64]
"""Of any shape."""
Vector = NDArray[np.float64]
"""(N,), one number a row or a position."""
Columns = NDArray[np.float64]
"""(N, n), or (N,) where there is one."""
Number = float | NDArray[np.float64]
"""One number, or an array where there may be several."""
Seed = int | np.random.Generator | None
"""What random numbers start from; None for others each time."""

if TYPE_CHECKING:
    Slice = slice[int | None, int | None, int | None]
    """Some of the rows."""
    Span = slice[int, int, int | None]
    """Those from one to before another."""
else:
    Slice = Span = slice
