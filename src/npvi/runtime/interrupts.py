"""Keyboard interrupts that wait for a good moment.

Python raises KeyboardInterrupt wherever it happens to be. Where that is a callback of JAX or numba, or the garbage
collector, it is printed and forgotten, and the program runs on. So a first Ctrl-C is only noted, and strikes at the
next `safe_point`; a second one strikes at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["forget_interrupt", "interrupts_held_back", "interrupts_remembered", "safe_point"]

#: not empty where there was an interrupt that hasn't struck yet
_pending: list[bool] = []
#: for each part of the program that holds interrupts back, innermost last: what it sees of them
_held: list[list[bool]] = []


def safe_point() -> None:
    """Raise KeyboardInterrupt where there was a Ctrl-C, and nobody holds it back."""
    if _pending and not _held and _in_main_thread():
        _pending.clear()
        raise KeyboardInterrupt


def forget_interrupt() -> None:
    """An interrupt was acted on, and is to strike no more."""
    _pending.clear()


@contextmanager
def interrupts_remembered() -> Iterator[None]:
    """Inside, an interrupt strikes at the next `safe_point`, or at the end; the second one strikes at once.

    >>> with interrupts_remembered():
    ...     safe_point()  # nothing has happened
    """
    if not _ours_to_handle():
        yield
        return
    usual = signal.signal(signal.SIGINT, _note)
    try:
        yield
        safe_point()
    finally:
        _pending.clear()
        signal.signal(signal.SIGINT, usual)


@contextmanager
def interrupts_held_back() -> Iterator[list[bool]]:
    """A list that a keyboard interrupt makes non-empty, instead of striking at a safe point; the second one strikes.

    Whoever acts on it says so by `forget_interrupt`; else it strikes at the next safe point outside. One that came
    before strikes at once.

    >>> with interrupts_held_back() as happened:
    ...     total = 0
    ...     while total < 3 and not happened:
    ...         total += 1
    >>> total
    3
    """
    with interrupts_remembered():
        safe_point()  # of an interrupt that came before, nobody here would know
        happened: list[bool] = []
        if not _is_handled():
            yield happened
            return
        _held.append(happened)
        try:
            yield happened
        finally:
            _held.pop()


def _ours_to_handle() -> bool:
    """Only the main thread may, and a handler that somebody else put there has its reasons."""
    return _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _is_handled() -> bool:
    return _in_main_thread() and signal.getsignal(signal.SIGINT) is _note


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _note(*_: Any) -> None:
    if _pending:
        raise KeyboardInterrupt
    _pending.append(True)
    for happened in _held:
        happened.append(True)
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(2, b"\nnpvi: stopping at the next safe point; Ctrl-C once more stops at once\n")
