"""What the two methods share that are fitted by stochastic gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npvi.paper.rivals.base import InducingPointGP
from npvi.paper.rivals.stochastic import Schedule, check_optimizer, train_within
from npvi.paper.rivals.task import Task
from npvi.runtime.training import Batches, Loss, Trained

__all__ = ["GradientGP"]


class GradientGP(InducingPointGP):
    """A method whose bound is climbed by batches of rows; the parameters are documented in `SVGP`."""

    optimizer: str
    learning_rate: float

    def _check_settings(self) -> None:
        super()._check_settings()
        check_optimizer(self.optimizer, self.learning_rate)

    def _train(
        self,
        task: Task,
        loss: Loss,
        first: Any,
        batches: Callable[[Schedule], Batches],
        problem: Any,
        parts: Callable[[Any], Any],
    ) -> tuple[Trained, dict[str, Any]]:
        """Train within the budget.

        Parameters
        ----------
        loss, first, problem : minus the bound, the parameters to start from, and what else it depends on.
        batches : those of a schedule.
        parts : posterior and likelihood that parameters stand for.
        """
        n = len(task.data.y)
        schedule = Schedule(n, min(int(self.batch_size), n), int(self.epochs))
        return train_within(
            task.clock,
            schedule,
            loss,
            first,
            batches(schedule),
            problem,
            optimizer=self.optimizer,
            learning_rate=float(self.learning_rate),
            seed=task.seed,
            evaluate=task.evaluate(parts),
            patience=self.patience,
        )
