"""Processes that were forked: what threads of the parent would have to do there, nobody does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

__all__ = ["ForkedProcessError", "in_children"]


class ForkedProcessError(RuntimeError):
    """JAX was used before this process was forked, and would wait for its threads for ever."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from one that had used JAX already, whose threads don't exist here, so that it "
            'would wait for them for ever: start processes by "spawn" (or "forkserver") instead, such as '
            'multiprocessing.get_context("spawn").Pool(), or before anything is fitted'
        )


def in_children(task: Callable[[], None]) -> None:
    """Do something in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
        os.register_at_fork(after_in_child=task)


def jax_has_threads() -> bool:
    """Whether JAX was used, and not only imported."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "_backends", True))
