"""Keyboard interrupts that wait for a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interrupts_held_back"]


@contextmanager
def interrupts_held_back() -> Iterator[list[bool]]:
    """A list that a keyboard interrupt makes non-empty, instead of striking at once; the second one strikes.

    >>> with interrupts_held_back() as happened:
    ...     total = 0
    ...     while total < 3 and not happened:
    ...         total += 1
    >>> total
    3
    """
    happened: list[bool] = []
    usual = signal.getsignal(signal.SIGINT)
    # only the main thread may do this, and a handler that somebody else put there has its reasons
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield happened
        return

    def note(*_: Any) -> None:
        happened.append(True)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield happened
    finally:
        signal.signal(signal.SIGINT, usual)
