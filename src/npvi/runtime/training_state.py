"""Where a training is, between two epochs: what it goes on from, in memory and in a checkpoint."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npvi.runtime.checkpoints import CheckpointError, read_checkpoint, write_checkpoint
from npvi.runtime.fields import anything, each, items, maybe, number, record, text, whole
from npvi.runtime.files import UnwritableError, check_writable

__all__ = ["TrainingState", "owned", "resumed"]

_HISTORY = ("loss", "seconds", "evaluation", "evaluation_epoch")
#: what a checkpoint says in words and numbers; the rest of a state is arrays
_FIELDS = record(
    {
        "identity": each(anything),
        "epochs": whole(),
        "outcome": maybe(text),
        "stopped_at": maybe(items(whole(), 2, 2)),
        "best_epoch": maybe(whole()),
        "waited": whole(),
        "history": record(dict.fromkeys(_HISTORY, items(number(finite=False)))),
    }
)
"""What a checkpoint says."""
_TOLD = ("epochs", "outcome", "stopped_at", "best_epoch", "waited", "history")


def _no_history() -> dict[str, list[float]]:
    return {name: [] for name in _HISTORY}


@dataclass
class TrainingState:
    """Parameters and the optimiser's state after some epochs, the best parameters so far, and how it went.

    `outcome` is None as long as training may go on; `waited` counts the evaluations since the best one.

    >>> state = TrainingState(jnp.zeros(2), (), epochs=1)
    >>> state.judge(0.5, patience=None)
    >>> state.best_epoch
    0
    """

    parameters: Any
    optimizer_state: Any
    epochs: int = 0
    outcome: str | None = None
    stopped_at: tuple[int, int] | None = None
    best: Any = None
    best_epoch: int | None = None
    waited: int = 0
    history: dict[str, list[float]] = field(default_factory=_no_history)

    @property
    def lost(self) -> bool:
        """Whether the parameters were handed over to an epoch that never came back."""
        leaves = jax.tree.leaves((self.parameters, self.optimizer_state))
        return any(leaf.is_deleted() for leaf in leaves)

    def judge(self, value: float, patience: int | None) -> None:
        """Take note of an evaluation, and end training after `patience` of them without a better one."""
        lowest = min((old for old in self.history["evaluation"] if not np.isnan(old)), default=np.inf)
        self.history["evaluation"].append(value)
        self.history["evaluation_epoch"].append(self.epochs - 1)
        self.waited += 1
        if self.best is None or value < lowest:
            self.best, self.best_epoch, self.waited = owned(self.parameters), self.epochs - 1, 0
        if patience is not None and self.waited >= patience and self.outcome is None:
            self.outcome = "stopped early"

    def latest(self) -> dict[str, float]:
        """The numbers of the last epoch."""
        numbers = {name: values[-1] for name, values in self.history.items() if values}
        if numbers.pop("evaluation_epoch", None) != self.epochs - 1:
            numbers.pop("evaluation", None)
        return {"epoch": self.epochs - 1, **numbers}

    def save(self, path: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        """Write a checkpoint; `identity` says what training it belongs to."""
        trees = {"parameters": self.parameters, "optimizer_state": self.optimizer_state}
        if self.best is not None:
            trees["best"] = self.best
        write_checkpoint(path, trees, {"identity": identity, **{name: getattr(self, name) for name in _TOLD}})


def owned(tree: Any) -> Any:
    """A copy whose types don't depend on where the numbers came from: it may be handed over, or kept.

    >>> owned(3.0).weak_type
    False
    """
    return jax.tree.map(lambda leaf: jnp.array(leaf, dtype=jnp.asarray(leaf).dtype, copy=True), tree)


def resumed(path: str | os.PathLike[str], state: TrainingState, identity: dict[str, Any]) -> TrainingState:
    """The state that the checkpoint has, or `state`, a fresh one, where there is no checkpoint yet.

    Raises
    ------
    CheckpointError
        Where the checkpoint is damaged, could not be written, or belongs to something else.
    """
    if not os.path.exists(path):
        try:
            check_writable(path)
        except UnwritableError as error:
            raise CheckpointError(f"checkpoint: {error}") from error
        return state
    examples = {"parameters": state.parameters, "optimizer_state": state.optimizer_state, "best": state.parameters}
    trees, told = read_checkpoint(path, examples, _FIELDS)
    if not {"parameters", "optimizer_state"} <= set(trees):
        raise CheckpointError(f"checkpoint: {os.fspath(path)} lacks parameters; delete it to start anew")
    for name, value in json.loads(json.dumps(identity)).items():
        if told["identity"].get(name) != value:
            raise CheckpointError(
                f"checkpoint: {os.fspath(path)} belongs to another training, with other {name}; give another path, or "
                "delete it to start anew"
            )
    kept = jax.tree.leaves([trees["parameters"], trees.get("best")])
    if not all(np.isfinite(leaf).all() for leaf in kept):
        raise CheckpointError(f"checkpoint: {os.fspath(path)}: parameters aren't finite; delete it to start anew")
    stopped_at = told["stopped_at"]
    told["stopped_at"] = None if stopped_at is None else (stopped_at[0], stopped_at[1])
    return TrainingState(**{name: owned(tree) for name, tree in trees.items()}, **{name: told[name] for name in _TOLD})
