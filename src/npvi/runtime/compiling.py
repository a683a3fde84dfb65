"""How loops are compiled."""

from __future__ import annotations

import gc
from typing import Any

from numba import njit
from numba.core import event

from npvi.runtime import progress

__all__ = ["compiled", "compiled_without_nan", "inlined", "inner", "inner_reordered", "inner_without_nan", "reordered"]

#: Cached on disk; without the interpreter's lock, for `over_chunks`; x/0 is inf, as in NumPy; and without a C
#: interface, which nobody calls and which takes a twentieth of the time to compile.
_SETTINGS: Any = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
#: For what only other compiled loops call, never Python: to take arrays from Python is a third of what a small one
#: compiles.
_INNER: Any = {**_SETTINGS, "no_cpython_wrapper": True}

compiled: Any = njit(**_SETTINGS)
inner: Any = njit(**_INNER)
#: for what other compiled loops call, as if it were written there: it isn't compiled by itself
inlined: Any = njit(**_SETTINGS, inline="always")
#: for sums whose terms may be added in any order, several at a time
_REORDERED = {"reassoc", "contract", "nsz"}
reordered: Any = njit(**_SETTINGS, fastmath=_REORDERED)
inner_reordered: Any = njit(**_INNER, fastmath=_REORDERED)
#: for numbers none of which is NaN: largest and smallest are then vector instructions
_WITHOUT_NAN = {"nnan", "nsz"}
compiled_without_nan: Any = njit(**_SETTINGS, fastmath=_WITHOUT_NAN)
inner_without_nan: Any = njit(**_INNER, fastmath=_WITHOUT_NAN)


class _Compiling(event.Listener):
    """What goes with compiling. It is said, once in a process: the first fit takes so much longer than the second. And
    Python doesn't look for cyclic garbage: there is none among the hundred thousands of objects that compiling makes,
    and looking takes a sixth of the time. Both happen under numba's lock, so no two threads are here at once."""

    def __init__(self) -> None:
        self.said = False
        self.depth = 0
        self.collecting = False

    def on_start(self, event: Any) -> None:
        # a loop that is found on disk never comes here; pool threads have nobody to report to, and leave it to the next
        if not self.said and progress.is_watched() and event.data["dispatcher"].py_func.__module__.startswith("npvi."):
            self.said = True
            progress.report("compiling loops, which are kept on disk for the next time")
        if not self.depth:
            self.collecting = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if not self.depth and self.collecting:
            gc.enable()


event.register("numba:compile", _Compiling())
