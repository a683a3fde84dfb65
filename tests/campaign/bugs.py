"""Bugs that the campaign must find; a worker puts one in before its first case."""

from __future__ import annotations

import functools
import os
import signal

import numpy as np


def skip_checksums():
    from npvi.runtime import archive

    def check(file, kind):
        for _ in range(4):
            file.readline()

    archive._check = check


def forget_checks():
    from npvi.estimators import validation

    validation.check_weights = lambda weights, X: None if weights is None else np.asarray(weights, dtype=float)


def predict_infinity():
    from npvi.predictive.base import Predictive

    right = Predictive._moments.func
    Predictive._moments = property(lambda self: (right(self)[0] * np.inf, right(self)[1]))


def another_quantile():
    from npvi.predictive.base import Predictive

    right = Predictive._quantile
    Predictive._quantile = lambda self, q: right(self, min(1.0, q * 1.2))


def swallow_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def show_what_comes():
    from npvi.cli import errors

    errors.guarded.__wrapped__.__globals__["_stop"] = lambda *_: 1 / 0


def crash():
    _instead_of_updates(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def hang():
    def forever():
        while True:
            pass

    _instead_of_updates(forever)


def _instead_of_updates(act):
    from npvi.estimators.base import BaseGP

    @functools.wraps(BaseGP.update)  # with the arguments that it has, so that cases keep their numbers
    def update(*_, **__):
        act()

    BaseGP.update = update
