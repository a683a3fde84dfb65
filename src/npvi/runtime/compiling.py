"""How loops are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["compiled", "reordered"]

#: Cached on disk; without the interpreter's lock, for `over_chunks`; x/0 is inf, as in NumPy; and without a C
#: interface, which nobody calls and which takes a twentieth of the time to compile.
_SETTINGS: Any = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

compiled: Any = njit(**_SETTINGS)
#: for sums whose terms may be added in any order, several at a time
reordered: Any = njit(**_SETTINGS, fastmath={"reassoc", "contract", "nsz"})
