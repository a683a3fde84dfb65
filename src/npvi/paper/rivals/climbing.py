"""L-BFGS-B over a tree of arrays, within a budget of time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from npvi.paper.rivals.tracing import Clock
from npvi.runtime import progress
from npvi.runtime.interrupts import forget_interrupt, interrupts_held_back
from npvi.runtime.training import TrainingStopped

__all__ = ["OutOfTime", "climb"]

Vector = NDArray[np.float64]
#: value and gradient of what is to be made large
Objective = Callable[[Any], tuple[float, Any]]

#: what stands for a value that isn't finite, which the line search then steps back from
_WORST = 1e50


class OutOfTime(Exception):
    """Raised inside an objective where the budget is spent."""


class _Packing:
    """A tree of arrays as one vector; entries that the masks leave out are zero."""

    def __init__(self, masks: Any) -> None:
        self._masks, self._structure = jax.tree.flatten(masks)

    def vector(self, tree: Any) -> Vector:
        parts = [np.asarray(leaf)[mask] for leaf, mask in zip(jax.tree.leaves(tree), self._masks)]
        return np.concatenate(parts)

    def tree(self, x: Vector) -> Any:
        leaves, start = [], 0
        for mask in self._masks:
            leaf, count = np.zeros(mask.shape), int(mask.sum())
            leaf[mask] = x[start : start + count]
            leaves.append(leaf)
            start += count
        return jax.tree.unflatten(self._structure, leaves)


class _Negative:
    """Minus an objective, as L-BFGS-B takes it."""

    def __init__(self, objective: Objective, packing: _Packing) -> None:
        self.objective, self.packing = objective, packing
        self.was_finite = False

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        value, gradient = self.objective(self.packing.tree(x))
        slope = self.packing.vector(gradient)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return _WORST, np.zeros_like(x)
        self.was_finite = True
        return -value, -slope


class _Watch:
    """What happens after each iteration."""

    def __init__(
        self,
        first: Vector,
        clock: Clock,
        judge: Callable[[Vector], float] | None,
        patience: int | None,
        interrupted: list[bool],
    ) -> None:
        self.best, self.clock, self.judge, self.patience = first, clock, judge, patience
        self.interrupted = interrupted
        self.outcome = "finished"
        self.elbo: list[float] = []
        self.seconds: list[float] = []
        self._lowest, self._waited = np.inf, 0

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        self.elbo.append(-float(intermediate_result.fun))
        self.seconds.append(self.clock.seconds)
        told = {"epoch": len(self.elbo), "elbo": self.elbo[-1], "seconds": self.seconds[-1]}
        if self.judge is None:
            self.best = intermediate_result.x.copy()
        else:
            told["evaluation"] = self._compare(intermediate_result.x)
        progress.report("climb", **told)
        if self.interrupted:
            self.outcome = "interrupted"
        elif self.clock.spent:
            self.outcome = "out of time"
        elif self.patience is not None and self._waited >= self.patience:
            self.outcome = "stopped early"
        if self.outcome != "finished":
            raise StopIteration

    def _compare(self, x: Vector) -> float:
        value = self.judge(x)  # type: ignore[misc]
        self._waited += 1
        if value < self._lowest:
            self.best, self._lowest, self._waited = x.copy(), value, 0
        return value


def climb(
    objective: Objective,
    first: Any,
    masks: Any,
    *,
    clock: Clock,
    iterations: int,
    evaluate: Callable[[Any], float] | None,
    patience: int | None,
) -> tuple[Any, dict[str, Any]]:
    """The arrays at which `objective` is largest, or which `evaluate` found best; and what there is to tell.

    Parameters
    ----------
    objective : value and gradient; it may raise `OutOfTime`, and then the last iterate counts.
    first : tree of arrays to start from.
    masks : tree of boolean arrays: which entries vary.

    Examples
    --------
    >>> def objective(x):
    ...     return -float(np.sum((x - 3.0) ** 2)), -2.0 * (x - 3.0)
    >>> every = np.ones(2, dtype=bool)
    >>> found, info = climb(
    ...     objective, np.zeros(2), every, clock=Clock(), iterations=10, evaluate=None, patience=None
    ... )
    >>> found.round(6), info["outcome"]
    (array([3., 3.]), 'finished')
    """
    packing = _Packing(masks)
    start, negative = packing.vector(first), _Negative(objective, packing)
    message = "the budget was spent"
    with interrupts_held_back() as interrupted:
        judge = None if evaluate is None else lambda x: evaluate(packing.tree(x))
        watch = _Watch(start, clock, judge, patience, interrupted)
        try:
            result = minimize(
                negative,
                start,
                jac=True,
                method="L-BFGS-B",
                callback=watch,
                options={"maxiter": iterations, "ftol": 1e-10},
            )
            message = str(result.message)
        except OutOfTime:
            watch.outcome = "out of time"
        if watch.outcome == "interrupted":
            forget_interrupt()  # the result tells of it
    if watch.outcome == "finished" and not negative.was_finite:
        watch.outcome = "not finite"
        warnings.warn(
            "the bound or its gradient is not finite where the fit starts, at the prior, which was kept. Try a smaller "
            "variance of the kernel",
            TrainingStopped,
            stacklevel=4,
        )
    info = {
        "outcome": watch.outcome,
        "message": message,
        "epochs": float(len(watch.elbo)),
        "elbo": watch.elbo,
        "seconds": watch.seconds,
    }
    return packing.tree(watch.best), info
