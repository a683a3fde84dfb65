"""A first fit that compiles says so on one line; one that finds its loops on disk, or that nobody watches, doesn't."""

from __future__ import annotations

from types import SimpleNamespace

from numba import njit
from numba.core import event

from npvi.runtime import progress
from npvi.runtime.compiling import _Announcement


def of_module(name: str) -> SimpleNamespace:
    """What numba tells about a loop that it is about to compile."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=name))})


def test_the_first_loop_is_announced_and_no_other():
    announcement, said = _Announcement(), []
    with progress.reporting(lambda stage, numbers: said.append(stage)):
        announcement.on_start(of_module("somebody.elses"))
        assert said == []
        for _ in range(2):
            announcement.on_start(of_module("npvi.graph.tree"))
    assert said == ["compiling loops, which are kept on disk for the next time"]


def test_nothing_is_said_to_nobody():
    announcement = _Announcement()
    announcement.on_start(of_module("npvi.graph.tree"))
    assert not announcement.said


def test_numba_tells_what_it_compiles():
    told = []
    listener = type(
        "_Listener", (event.Listener,), {"on_start": lambda _, e: told.append(e), "on_end": lambda _, e: None}
    )
    with event.install_listener("numba:compile", listener()):
        njit(lambda x: x + 1)(1)
    assert told[0].data["dispatcher"].py_func.__module__ == __name__
