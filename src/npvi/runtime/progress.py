"""What a long computation tells whoever is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from npvi.runtime.interrupts import safe_point

__all__ = ["is_watched", "print_progress", "report", "reporting"]

Reporter = Callable[[str, Mapping[str, float]], None]

_reporter: ContextVar[Reporter | None] = ContextVar("npvi_reporter", default=None)


@contextmanager
def reporting(reporter: Reporter | None) -> Iterator[None]:
    """Everything inside reports to `reporter(stage, numbers)`; None leaves whoever listens already.

    >>> with reporting(lambda stage, numbers: print(stage, dict(numbers))):
    ...     report("graph", points=100)
    graph {'points': 100}
    """
    token = _reporter.set(reporter or _reporter.get())
    try:
        yield
    finally:
        _reporter.reset(token)


def is_watched() -> bool:
    """Whether reports reach anybody from this thread."""
    return _reporter.get() is not None


def report(stage: str, **numbers: float) -> None:
    """Say where the computation is, which is a good place to end it."""
    reporter = _reporter.get()
    if reporter is not None:
        reporter(stage, numbers)
    safe_point()


def print_progress(stage: str, numbers: Mapping[str, float]) -> None:
    """A reporter that writes one line per step to standard error."""
    details = "  ".join(f"{name} {value:.6g}" for name, value in numbers.items())
    print(f"npvi: {stage:<10} {details}".rstrip(), file=sys.stderr)
