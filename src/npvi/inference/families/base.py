"""What the posterior's covariance V may be: a family, in which the best V is known for given site precisions w."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision
from npvi.posteriors import Posterior
from npvi.priors import PrecisionFactor
from npvi.runtime.arrays import Vector

__all__ = ["DENSE", "Covariance", "Family", "Start"]

DENSE = 400
"""Points up to which covariances may be dense matrices: at the price of half as much again, where all of a fit is a few
hundredths of a second."""


@dataclass(frozen=True)
class Start:
    """Where to begin: marginal means and variances of f; with site precisions, where they go with them already, and
    perhaps something like a factor of P + W, and the ratio of marginal variances to those that such a factor tells, of
    the first points."""

    mean: Vector
    variance: Vector
    site_precision: Vector | None = None
    factor: PrecisionFactor | None = None
    ratio: Vector | None = None


class Covariance(Protocol):
    """The best V of a family for some site precisions w."""

    site_precision: Vector
    variance: Vector
    """Its diagonal."""
    log_determinant: float
    """log |V|."""
    precision_factor: PrecisionFactor | None
    """That of P + W, if there is one."""
    matrix: NDArray[np.float64] | None
    """V itself, of few points (`DENSE`)."""

    def mismatch(self, w: Vector) -> float:
        """How far the equation of the best V is from holding for other site precisions w, relative to its terms."""
        ...


C = TypeVar("C", bound=Covariance)


class Family(Protocol[C]):
    """What V may be; each family knows covariances of its own kind, C."""

    name: str
    tolerances: tuple[float, float]
    """Residuals of mean and covariance below these mean nothing, because of how V is computed."""
    solve_tolerance: float
    """To which systems of a Newton step are solved: no better than the rest of the iteration is."""

    def begin(self, start: Start) -> None:
        """Take from a start what helps to compute V."""
        ...

    def covariance(self, w: Vector, solver: ProcessPrecision | None = None) -> C | None:
        """The best V for w, or None where there is none; `solver` is for P + W, if there is one."""
        ...

    def noise(self, before: C, after: C) -> float:
        """By how much the bound may seem to fall from one V to another because of how they are computed."""
        ...

    def posterior(self, mean: Vector, covariance: C, like: Posterior | None = None) -> Posterior:
        """What predictions need of N(mean, V); in the way of another one, for nearly the same V, if there is one."""
        ...

    def corrected(self, posterior: Posterior, covariance: C) -> C | None:
        """The covariance with better marginal variances, where a posterior shows that they were off; else None. `log`
        says what solves have taken so far."""
        ...

    def info(self) -> dict[str, object]:
        """What there is to say about how V was found."""
        ...
