"""Training by batches of rows, within a budget of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from npvi.checks import RATE, check_choice, check_number
from npvi.paper.rivals.base import InducingPointGP
from npvi.paper.rivals.task import Clock, Task
from npvi.runtime import progress
from npvi.runtime.training import OPTIMIZERS, Batches, Loss, Trained, named_optimizer, shuffled, train

__all__ = ["GradientGP", "Schedule", "check_optimizer", "train_within"]


#: steps from one look at the clock (and at the rows held out) to the next, and rows in all of them together, at most
_STEPS, _ROWS = 100, 2**22


@dataclass(frozen=True)
class Schedule:
    """Passes through `n` rows by batches, in rounds of about 100 steps.

    >>> Schedule(n=100_000, batch_size=50, epochs=3).rounds
    60
    """

    n: int
    batch_size: int
    epochs: int

    @property
    def _steps_per_epoch(self) -> int:
        return -(-self.n // self.batch_size)

    @property
    def rounds(self) -> int:
        """In all."""
        longest = min(_STEPS, max(1, _ROWS // self.batch_size))
        return -(-self.epochs * self._steps_per_epoch // longest)

    @property
    def steps(self) -> int:
        """In a round."""
        return -(-self.epochs * self._steps_per_epoch // self.rounds)

    def rows(self) -> Batches:
        """The batches of a round, from as many shuffled passes as it takes."""
        if self.batch_size == self.n:
            return lambda key, data: jnp.tile(jnp.arange(self.n), (self.steps, 1))
        one_pass = shuffled(self.n, self.batch_size)
        passes = -(-self.steps // self._steps_per_epoch)

        def batches(key: jax.Array, data: Any) -> jax.Array:
            drawn = jax.vmap(lambda key: one_pass(key, data))(jax.random.split(key, passes))
            return drawn.reshape(-1, self.batch_size)[: self.steps]

        return batches

    def passed(self, rounds: int) -> float:
        """Passes through the data after so many rounds."""
        return rounds * self.steps / self._steps_per_epoch


def check_optimizer(name: Any, learning_rate: Any) -> None:
    """Raise ValueError where one of them is not allowed."""
    check_choice(name, "optimizer", OPTIMIZERS)
    check_number(learning_rate, "learning_rate", RATE)


def train_within(
    clock: Clock,
    schedule: Schedule,
    loss: Loss,
    parameters: Any,
    batches: Batches,
    data: Any,
    *,
    optimizer: str,
    learning_rate: float,
    seed: int,
    evaluate: Callable[[Any], float] | None,
    patience: int | None,
) -> tuple[Trained, dict[str, Any]]:
    """`train`, until the clock's budget is spent; and what there is to tell about it."""
    seconds: list[float] = []
    out_of_time = False

    def report(epoch: int, loss: float, **numbers: float) -> None:
        nonlocal out_of_time
        seconds.append(clock.seconds)
        told = {**numbers, "epoch": schedule.passed(epoch + 1), "elbo": -loss, "seconds": seconds[-1]}
        progress.report("train", **told)
        if clock.spent and epoch + 1 < schedule.rounds:
            out_of_time = True
            raise KeyboardInterrupt  # which ends training between two rounds, with what was reached

    # AdaGrad lets its steps shrink by itself
    steps = None if optimizer == "adagrad" else schedule.rounds * schedule.steps
    trained = train(
        loss,
        parameters,
        batches,
        named_optimizer(optimizer, learning_rate, steps),
        epochs=schedule.rounds,
        data=data,
        seed=seed,
        evaluate=evaluate,
        patience=patience,
        report=report,
    )
    info = {
        "outcome": "out of time" if out_of_time else trained.outcome,
        "epochs": schedule.passed(trained.epochs),
        "elbo": [-value for value in trained.history["loss"]],
        "seconds": seconds,
    }
    return trained, info


# -- what the two methods share that are fitted by stochastic gradients -----------------------------------------------


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
