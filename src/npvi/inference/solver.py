"""Solving (P + W) x = r: conjugate gradients with the prior's own factor, and what to do when that crawls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import conjugate_gradients
from npvi.priors import PrecisionFactor, Prior
from npvi.priors.nngp import classical

__all__ = ["PrecisionSolver", "SolverLog", "classical"]


@dataclass
class SolverLog:
    """What the solves of one fit took; goes into ``fit_info_``."""

    iterations: list[int] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    breakdowns: list[int] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)


class PrecisionSolver:
    """Solves with P + W for one W.

    The prior says which factors of P + W there are. A nearest-neighbour prior has the zero-fill factor on the graph's
    pattern first (on a pattern twice as wide, if P is far denser than the graph). Where conjugate gradients haven't
    reached the tolerance in `patience` iterations, the wider factor goes on from there, then the classical
    preconditioner (I−B)ᵀ(D⁻¹+W)(I−B); each change is noted in the log. A low-rank prior's factor is exact: one
    iteration, and another to take back rounding.

    Parameters
    ----------
    prior, site_precision : P and w.
    log : where to note what solves take.
    tolerance : of solves.
    nearby : a factor for other site precisions, if there is one: it is tried first, and a few iterations more may cost
        less than a factor of its own.
    own : the first factor for these site precisions, with the name of its route, where there is one already.
    """

    patience = 25
    #: iterations with another's factor that say how many there will be, and those that are worth a factor of its own
    _few, _worth = 6, 16

    def __init__(
        self,
        prior: Prior,
        site_precision: NDArray[np.float64],
        log: SolverLog | None = None,
        tolerance: float = 1e-10,
        nearby: PrecisionFactor | None = None,
        own: tuple[str, Any] | None = None,
    ) -> None:
        self.prior, self.site_precision, self.tolerance = prior, site_precision, tolerance
        self._nearby = nearby
        self.log = log if log is not None else SolverLog()
        self._preconditioner = own

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P + W) x, for one vector or many."""
        return self.prior.matvec(x) + (self.site_precision * x.T).T

    def factor(self) -> Any:
        """That of the first route that makes one that can be used; None where w < 0 leaves none."""
        self._preconditioner = self._preconditioner or self._build(self._first_route())
        while not self._preconditioner[1].finite:
            if not self.fall_back():
                return None
        return self._preconditioner[1]

    @property
    def route(self) -> str:
        """The name of the factor that there is."""
        return self._first_route() if self._preconditioner is None else self._preconditioner[0]

    @property
    def best(self) -> Any:
        """The factor that solves ended with."""
        return self._nearby if self._preconditioner is None else self._preconditioner[1]

    def fall_back(self) -> bool:
        """Go on to the next route; False where there is none."""
        name = self._preconditioner[0] if self._preconditioner is not None else self._first_route()
        routes = self.prior.routes
        if name == routes[-1]:
            return False
        self._preconditioner = self._build(routes[routes.index(name) + 1])
        self.log.fallbacks.append(self._preconditioner[0])
        return True

    def solve(
        self,
        rhs: NDArray[np.float64],
        tolerance: float | None = None,
        less: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> NDArray[np.float64]:
        """x with ‖(P+W)x − rhs‖ ≤ tolerance·‖rhs‖, or as near as rounding lets it.

        With `less`, a product with a matrix of low rank, the system is that of P + W less this matrix.
        """
        tolerance = self.tolerance if tolerance is None else tolerance
        matvec = self.matvec if less is None else lambda x: self.matvec(x) - less(x)
        x = np.zeros_like(rhs)
        iterations, residual = 0, 1.0
        if self._nearby is not None and self._preconditioner is None:
            found = conjugate_gradients(matvec, rhs, self._nearby.solve, tolerance, self._worth, self._few)
            iterations = found.iterations
            if found.residual < 1.0:
                x, residual = found.x, found.residual
        while residual > tolerance:
            name, factor = self._preconditioner = self._preconditioner or self._build(self._first_route())
            if factor.finite:
                # an exact factor that doesn't get there has met rounding
                last = name == self.prior.routes[-1] and not self.prior.exact_factor
                limit = 3000 if last else self.patience
                left = rhs - matvec(x) if iterations else rhs
                with np.errstate(over="ignore", invalid="ignore"):  # a factor with breakdowns may be wild
                    found = conjugate_gradients(matvec, left, factor.solve, tolerance / residual, limit)
                iterations += found.iterations
                if found.residual < 1.0:
                    x += found.x
                    residual *= found.residual
                if found.converged:
                    break
            if not self.fall_back():
                break
        self.log.iterations.append(iterations)
        self.log.residuals.append(residual)
        return x

    def _first_route(self) -> str:
        return self.prior.routes[0]

    def _build(self, name: str) -> tuple[str, Any]:
        factor = self.prior.factor(self.site_precision, name)
        self.log.breakdowns.append(len(factor.breakdowns))
        return name, factor
