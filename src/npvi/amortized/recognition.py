"""A recognised posterior: sites from a network, and exact algebra for the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.amortized.guess import guess, sites
from npvi.amortized.recognizer import Recognizer
from npvi.amortized.verdicts import applicability
from npvi.amortized.whole import Whole
from npvi.components import SolverLog, Stack
from npvi.inference import Data, SparseFactors
from npvi.inference.fit import Fit, fit_from_sites

__all__ = ["MOST_SWEEPS", "Recognised", "recognise", "recognised", "tell"]

Vector = NDArray[np.float64]

#: finishing sweeps that may be asked for
MOST_SWEEPS = 3


class Recognised(NamedTuple):
    """What a network recognises: means, site precisions, and the inputs that it saw."""

    mean: Vector
    site_precision: Vector
    features: NDArray[np.float64]


def recognised(recognizer: Recognizer | None, data: Data, stack: Stack, log: SolverLog) -> Recognised:
    """Means and site precisions of all these points together, in the graph's order."""
    view = Whole(data, stack, log)
    guessed = guess(view, 1 if recognizer is None else recognizer.rounds)
    correction = np.zeros((len(data.y), 2))
    if recognizer is not None:
        correction = np.asarray(recognizer.corrections(guessed.features), dtype=np.float64)
    found = sites(view, guessed, correction)
    mean = found.mean + view.solve(found.precision, found.gradient - view.pull(found.mean))
    return Recognised(mean, found.precision, guessed.features)


def recognise(
    recognizer: Recognizer | None,
    data: Data,
    stack: Stack,
    refine: int = 0,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Fit:
    """The posterior that a network recognises, all points together.

    Parameters
    ----------
    recognizer : None where sites are exact.
    data, stack : in the graph's order.
    refine : finishing sweeps, each a step of the closed-form iteration.
    progress : called with the numbers of each sweep.
    """
    started, log = time.perf_counter(), SolverLog()
    found = recognised(recognizer, data, stack, log)
    family = SparseFactors(stack.prior)
    fit = fit_from_sites(family, data, stack, found.mean, found.site_precision, refine, progress)
    seconds = time.perf_counter() - started
    tell(fit, recognizer, data, found.features, seconds, refine, solves=len(log.iterations))
    return fit


def tell(
    fit: Fit, recognizer: Recognizer | None, data: Data, features: NDArray, seconds: float, refine: int, **numbers: Any
) -> None:
    """What there is to say about a recognised posterior after some finishing sweeps, into its `info`."""
    outside = 0.0 if recognizer is None else recognizer.outside(features)
    fit.info.update(
        network="none needed" if recognizer is None else repr(recognizer),
        points_per_second=len(data.y) / seconds,
        applicability=applicability(fit, data, outside, refinable=refine < MOST_SWEEPS),
        **numbers,
    )
