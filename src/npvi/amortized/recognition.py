"""A recognised posterior: sites from a network, and exact algebra for the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.amortized.guess import guess, sites
from npvi.amortized.recognizer import Recognizer
from npvi.components import ProcessPrecision, SolverLog, Stack
from npvi.inference import (
    Data,
    FactoredCovariances,
    Fit,
    Marginals,
    SparseFactors,
    Start,
    fit_from_sites,
    fit_posterior,
)
from npvi.priors import NotPositiveDefiniteError

__all__ = [
    "LARGEST_OFFSET",
    "MOST_SWEEPS",
    "SMALLEST_RATIO",
    "Distance",
    "Recognised",
    "Whole",
    "applicability",
    "distance",
    "full_marginals",
    "recognise",
    "recognised",
    "tell",
]


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


# -- all points together, by conjugate gradients and sweeps: exact, on the CPU ----------------------------------------


#: to which the systems of a round are solved; sites are no better known than that
_TOLERANCE = 1e-4


class Whole:
    """A `View` of all points.

    Parameters
    ----------
    data, stack : in the graph's order; the latter knows the prior.
    """

    xp = np

    def __init__(self, data: Data, stack: Stack, log: SolverLog | None = None) -> None:
        prior: Any = stack.prior
        self.data, self.stack, self.prior = data, stack, prior
        self.log = log if log is not None else SolverLog()
        self.start = data.likelihood.initial_latent(data.y, **data.row)
        self.start_variance = np.full_like(self.start, data.likelihood.start_sd**2)
        self.precision_diagonal: Vector = prior.precision_diagonal
        self.conditional_variance: Vector = prior.conditional_variance
        self.marginal_variance: Vector = prior.marginal_variance

    def pull(self, mean: Vector) -> Vector:
        return self.stack.matvec(mean)

    def solve(self, precision: Vector, slope: Vector) -> Vector:
        solver = ProcessPrecision(self.prior, precision, self.log, _TOLERANCE)
        return self.stack.solve(solver, slope)

    def variance(self, precision: Vector) -> Vector:
        covariance = SparseFactors(self.prior).covariance(precision)
        assert covariance is not None  # P + W is positive definite for w ≥ 0
        return covariance.variance

    def expectations(self, mean: Vector, variance: Vector) -> tuple[Vector, Vector]:
        expected = self.data.expectations(mean, variance)
        return expected.gradient, expected.precision

    def curvatures(self, mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        at = self.data.curvatures(mean, sd)
        return at.in_mean, at.in_sd, at.in_mean_mean, at.in_mean_sd, at.in_sd_sd


# -- whether a recognised posterior can be relied on: how far it is from the full one, in standard deviations ---------


#: how far a mean may be off in standard deviations, and how small a standard deviation may be, for "trust"
LARGEST_OFFSET, SMALLEST_RATIO = 0.5, 0.85
#: where the worst row lies between these multiples of a limit, exact variances are found: of so many rows at a time,
#: so many times
_OPEN, _PROBES, _ROUNDS = (0.7, 2.0), 4, 6
#: nats of all rows together that the full posterior's bound may lack: a mean that is t standard deviations off costs
#: t²/2 or more
_ENOUGH = 0.02
#: iterations towards it that tell a bad posterior, and those that are allowed where it isn't so bad
_FIRST, _LAST = 1, 20


class Distance(NamedTuple):
    """From one posterior to another: the largest difference of means in standard deviations of the other, the smallest
    and the largest ratio of standard deviations, and the share of rows beyond the limits for "trust"."""

    mean_offset: float
    smallest_sd_ratio: float
    largest_sd_ratio: float
    share_off: float

    @property
    def near(self) -> bool:
        """Whether it is within the limits for "trust"."""
        return (
            self.mean_offset <= LARGEST_OFFSET
            and self.smallest_sd_ratio >= SMALLEST_RATIO
            and self.largest_sd_ratio <= 1.0 / SMALLEST_RATIO
        )


_UNKNOWN = Distance(np.nan, np.nan, np.nan, np.nan)


def distance(one: Any, other: Any) -> Distance:
    """Between posteriors with `mean` and `variance` at the same points.

    >>> one = Marginals(np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.ones(2))
    >>> distance(one, one._replace(mean=np.array([0.0, 3.0]), variance=np.array([4.0, 4.0])))
    Distance(mean_offset=1.0, smallest_sd_ratio=0.5, largest_sd_ratio=1.0, share_off=1.0)
    """
    offset = np.abs(one.mean - other.mean) / np.sqrt(other.variance)
    ratio = np.sqrt(one.variance / other.variance)
    off = float(np.mean(_excess(one, other) > 1.0))
    return Distance(float(offset.max()), float(ratio.min()), float(ratio.max()), off)


def full_marginals(data: Data, stack: Stack, start: Any, max_iterations: int = _LAST) -> tuple[Marginals, bool] | None:
    """Means and variances of ``method="full"``, nearly, and whether they are settled; None where they can't be had.

    Newton steps for means and variances from `start`, a posterior near them; variances are those of the zero-fill
    factor of P + W, at each W by itself.
    """
    prior = stack.prior
    begin = Start(start.mean, start.variance, start.site_precision)
    family = FactoredCovariances(prior)
    try:
        fit = fit_posterior(family, data, stack, begin, max_iterations=max_iterations, enough=_ENOUGH)
    except NotPositiveDefiniteError:
        return None
    found: Any = fit.unless_interrupted().posterior
    bounds = fit.info["elbo"]
    return found, fit.info["converged"] or (len(bounds) > 1 and bounds[-1] - bounds[-2] < _ENOUGH)


def applicability(fit: Fit, data: Data, outside: float = 0.0, refinable: bool = True) -> dict[str, Any]:
    """Whether a recognised posterior can be trusted, by its distance from the full one.

    Parameters
    ----------
    fit : with the posterior that was recognised.
    data : in the graph's order.
    outside : the share of points unlike those that the network was trained on.
    refinable : whether another finishing sweep may be advised.

    Returns
    -------
    dict with ``verdict``: "trust" where no mean is more than 0.5 standard deviations off and no standard deviation is
    below 0.85 of the full posterior's or above 1/0.85 of it; "refine" where one more finishing sweep gets there; "full"
    where no factor on the graph's pattern has such variances, so that it takes ``method="full"``; else "retrain".
    ``mean_offset``, ``smallest_sd_ratio``, ``largest_sd_ratio`` and ``share_off``, the share of rows beyond these
    limits; ``outside``; and the ``seconds`` that it took.
    """
    started = time.perf_counter()
    verdict, found = _judged(fit, data, refinable)
    seconds = time.perf_counter() - started
    return {"verdict": verdict, **found._asdict(), "outside": outside, "seconds": seconds}


def _judged(fit: Fit, data: Data, refinable: bool) -> tuple[str, Distance]:
    mine: Any = fit.posterior
    stack, prior = fit.stack, fit.stack.prior
    reference = full_marginals(data, stack, mine, _FIRST)
    if reference is not None and not reference[1] and _excess(mine, reference[0]).max() < _OPEN[1]:
        reference = full_marginals(data, stack, reference[0])
    if reference is None:
        return "full", _UNKNOWN
    full, settled = reference
    full = _checked(stack, mine, full)
    found = distance(mine, full)
    if found.near and settled:
        return "trust", found
    family = SparseFactors(prior)
    best = family.covariance(full.site_precision)
    if best is None or not distance(full._replace(variance=best.variance), full).near:
        return "full", found  # finishing sweeps and networks lead to this L at best
    if refinable:
        start = Start(mine.mean, mine.variance, mine.site_precision)
        refined = fit_posterior(family, data, stack, start, max_iterations=0).unless_interrupted()
        if distance(refined.posterior, full).near:
            return "refine", found
    return "retrain", found


def _checked(stack: Stack, mine: Any, full: Marginals) -> Marginals:
    """With exact variances (P + W)⁻¹ᵢᵢ at the worst rows, where those of the factor leave it open what to say.

    Some rows at a time, until the worst ones are exact, or one of these is beyond the limits for certain.
    """
    low, high = _OPEN
    solver = ProcessPrecision(stack.prior, full.site_precision, tolerance=1e-3)
    full = full._replace(variance=full.variance.copy())
    exact = np.zeros(len(full.mean), dtype=bool)
    for _ in range(_ROUNDS):
        excess = _excess(mine, full)
        worst = np.argsort(excess)[-_PROBES:]
        if not low < excess[worst[-1]] < high or exact[worst].all() or np.any(exact & (excess > 1.0)):
            break
        for row in worst[~exact[worst]]:
            unit = np.zeros(len(excess))
            unit[row] = 1.0
            full.variance[row] = solver.solve(unit)[row]
        exact[worst] = True
    return full


def _excess(one: Any, other: Any) -> Vector:
    """How far each row is off, where 1 is the limit for "trust"."""
    offset = np.abs(one.mean - other.mean) / np.sqrt(other.variance)
    spread = 0.5 * np.abs(np.log(one.variance / other.variance))
    return np.maximum(offset / LARGEST_OFFSET, spread / -np.log(SMALLEST_RATIO))
