"""Ctrl-C in whatever function a fit or an update happens to be: it ends, and leaves no half of an answer."""

from __future__ import annotations

import copy
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import npvi
from npvi.inference.stochastic import SGD
from npvi.runtime.interrupts import interrupts_remembered, safe_point

SOURCE = os.path.dirname(npvi.__file__)
#: one in so many of the functions that a kind of work goes through is struck
EVERY = 5
X = np.random.default_rng(0).uniform(size=(40, 2))
COUNTS, LABELS = np.arange(40) % 4, np.arange(40) % 3


def regressor(**settings):
    return npvi.GPRegressor("poisson", kernel=npvi.kernels.RBF(0.3), nugget=0.1, n_neighbors=5, learn=False, **settings)


def fitting(model, y=COUNTS) -> Callable[[], object]:
    return lambda: model.fit(X, y)


def updating(model) -> Callable[[], object]:
    model.fit(X[:30], COUNTS[:30])
    return lambda: copy.copy(model).update(X[30:], COUNTS[30:])


WORK = {
    "full": lambda: fitting(regressor()),
    "npvi": lambda: fitting(regressor(method="npvi")),
    "gradients": lambda: fitting(regressor(method="npvi", optimizer=SGD(epochs=3))),
    "gradients, patience": lambda: fitting(regressor(method="npvi", optimizer=SGD(epochs=30, patience=1))),
    "network": lambda: fitting(regressor(method="npvi-nn", network=npvi.networks.SiteNetwork(steps=5))),
    "labels": lambda: fitting(npvi.GPClassifier(n_neighbors=5, learn=False), LABELS),
    "update": lambda: updating(regressor()),
    "update, gradients": lambda: updating(regressor(method="npvi", optimizer=SGD(epochs=3))),
}


@pytest.fixture(autouse=True)
def usual_interrupts():
    """Started in the background, a process ignores interrupts, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def struck(number: int | None = None) -> Iterator[list[str]]:
    """The functions of npvi that are called inside, in the order of first calls; Ctrl-C in the one so numbered."""
    seen: set[object] = set()
    names: list[str] = []

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and code not in seen:
            seen.add(code)
            names.append(f"{os.path.relpath(code.co_filename, SOURCE)}: {code.co_name}")
            if len(names) - 1 == number:
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)
    try:
        yield names
    finally:
        sys.setprofile(None)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of fits that are too short to be right
@pytest.mark.parametrize("kind", WORK)
def test_an_interrupt_in_any_function_ends_the_work(kind):
    work = WORK[kind]()
    work()  # compiles
    with struck() as names:
        work()
    lost = []
    for number in range(0, len(names), EVERY):
        with suppress(KeyboardInterrupt), struck(number) as reached, interrupts_remembered():
            work()
            safe_point()
            lost.append(reached[number])
    assert len(names) > 50
    assert not lost
