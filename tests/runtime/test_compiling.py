"""A first fit that compiles says so on one line; one that finds its loops on disk, or that nobody watches, doesn't."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from numba import njit
from numba.core import event
from numba.core.errors import TypingError

from npvi.runtime import progress
from npvi.runtime.compiling import _Compiling


def of_module(name: str) -> SimpleNamespace:
    """What numba tells about a loop that it is about to compile."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=name))})


def test_the_first_loop_is_announced_and_no_other():
    compiling, said = _Compiling(), []
    with progress.reporting(lambda stage, numbers: said.append(stage)):
        compiling.on_start(of_module("somebody.elses"))
        assert said == []
        for _ in range(2):
            compiling.on_start(of_module("npvi.graph.neighbors"))
            compiling.on_end(None)
        compiling.on_end(None)
    assert said == ["compiling loops, which are kept on disk for the next time"]


def test_nothing_is_said_to_nobody():
    compiling = _Compiling()
    compiling.on_start(of_module("npvi.graph.neighbors"))
    compiling.on_end(None)
    assert not compiling.said


@pytest.mark.parametrize("collecting", [True, False])
def test_no_garbage_is_looked_for_meanwhile(collecting):
    compiling = _Compiling()
    (gc.enable if collecting else gc.disable)()
    try:
        for _ in range(2):  # one loop calls another
            compiling.on_start(of_module("npvi.graph.neighbors"))
            assert not gc.isenabled()
        compiling.on_end(None)
        assert not gc.isenabled()
        compiling.on_end(None)
        assert gc.isenabled() == collecting
    finally:
        gc.enable()


def test_garbage_is_looked_for_after_a_failure():
    with pytest.raises(TypingError):
        njit(lambda x: x + "one")(1)
    assert gc.isenabled()


def test_numba_tells_what_it_compiles():
    told = []
    listener = type(
        "_Listener", (event.Listener,), {"on_start": lambda _, e: told.append(e), "on_end": lambda _, e: None}
    )
    with event.install_listener("numba:compile", listener()):
        njit(lambda x: x + 1)(1)
    assert told[0].data["dispatcher"].py_func.__module__ == __name__
