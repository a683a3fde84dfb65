"""The loop of an inference: better states until a certificate says that there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from npvi.components import SolverLog
from npvi.runtime.interrupts import forget_interrupt

__all__ = ["Ascending", "ascend", "joined"]

#: iterations that end a climb: no bound raised by more than rounding, no residual lower by a hundredth
_STILL, _ROUNDING, _LOWER = 20, 1e-12, 0.99
#: iterations without a higher bound after which a mean that no number is nearer to is as good as any
_UNMOVED = 3


class Ascending(Protocol):
    """A bound to climb; a state has its value as `elbo`."""

    log: SolverLog

    def improve(self, state: Any) -> Any:
        """A better state, or the same one where there is none."""
        ...

    def certificate(self, state: Any) -> dict[str, float]:
        """``elbo``, ``mean_residual`` and ``covariance_residual``, both relative to the terms of their equation."""
        ...

    def rounded(self, state: Any) -> bool:
        """Whether no mean in floating-point numbers is nearer to what a certificate asks for."""
        ...

    def complete(self, state: Any) -> bool:
        """Whether the state has all that a certificate and a posterior need; any better one has."""
        ...


def ascend(
    problem: Ascending,
    state: Any,
    tolerances: tuple[float, float],
    max_iterations: int = 200,
    enough: float = -np.inf,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The state that the iteration ends with, and how it went.

    Parameters
    ----------
    tolerances : of the residuals of mean and covariance.
    enough : an iteration that raises the bound by less is the last one; one that promises less than half is not made.
    progress : called with the numbers of each iteration.

    Notes
    -----
    A keyboard interrupt ends the iteration early; what was reached is returned with ``info["interrupted"]`` true.
    """
    history: dict[str, list[float]] = {"elbo": [], "mean_residual": [], "covariance_residual": []}

    def converged() -> bool:
        certificate = problem.certificate(state)
        for name, value in certificate.items():
            history[name].append(value)
        if progress is not None:
            progress(certificate)
        residuals = (certificate["mean_residual"], certificate["covariance_residual"])
        return all(residual <= limit for residual, limit in zip(residuals, tolerances))

    interrupted = False
    done = problem.complete(state) and converged()
    try:
        while not done and len(history["elbo"]) <= max_iterations:
            before = state
            with np.errstate(over="ignore", invalid="ignore"):  # of steps that go too far, which no bound accepts
                state = problem.improve(state)
            done = converged()
            # at the first standstill, for while the bound still rises a residual below rounding may be chance
            if not done and (state is before or _unmoved(history, _UNMOVED)) and problem.rounded(state):
                done = history["covariance_residual"][-1] <= tolerances[1]
            if state is before:  # no step raises the bound any more (rounding is reached), or by enough
                break
            if _stands_still(history):
                break
            if state.elbo - before.elbo < enough:
                state = max(before, state, key=lambda one: one.elbo)
                break
    except KeyboardInterrupt:
        if not problem.complete(state):
            raise
        forget_interrupt()
        interrupted = True
    log = problem.log
    return state, {
        **history,
        "n_iter": max(0, len(history["elbo"]) - 1),
        "converged": done,
        "interrupted": interrupted,
        "cg_iterations": log.iterations,
        "cg_residuals": log.residuals,
        "factor_breakdowns": log.breakdowns,
        "preconditioner_fallbacks": log.fallbacks,
    }


def _stands_still(history: dict[str, list[float]]) -> bool:
    """Whether in many iterations no number of a certificate became better: then no others will, however many."""
    if not _unmoved(history, _STILL):
        return False
    residuals = [history[name] for name in ("mean_residual", "covariance_residual")]
    lower = any(min(values[-_STILL:]) < _LOWER * min(values[:-_STILL]) for values in residuals)
    return not lower


def _unmoved(history: dict[str, list[float]], iterations: int) -> bool:
    """Whether so many of them raised the bound by no more than rounding."""
    if len(history["elbo"]) <= iterations:
        return False
    raised = max(history["elbo"][-iterations:]) - max(history["elbo"][:-iterations])
    return not raised > _ROUNDING * abs(history["elbo"][-1])


def joined(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """How two climbs went, one after the other on the same problem."""
    history = {name: first[name] + then[name][1:] for name in ("elbo", "mean_residual", "covariance_residual")}
    return {**then, **history, "n_iter": first["n_iter"] + then["n_iter"]}
