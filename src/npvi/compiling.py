"""How loops are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["compiled"]

#: Cached on disk; without the interpreter's lock, for `npvi.parallel.over_chunks`; x/0 is inf, as in NumPy; and without
#: a C interface, which nobody calls and which takes a twentieth of the time to compile.
compiled: Any = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)  # type: ignore[call-overload]
