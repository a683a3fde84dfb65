"""Training by stochastic gradients: one compiled loop over epochs, for whatever has a loss and batches.

An epoch is one compiled scan over its batches, which are drawn inside it. Parameters and the optimiser's state are
handed over to each epoch and come back, so that they are in memory once.
"""

from __future__ import annotations

import inspect
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from npvi.runtime.checkpoints import CheckpointError, fingerprint, read_checkpoint, write_checkpoint
from npvi.runtime.fields import anything, choice, each, items, maybe, number, record, text, whole
from npvi.runtime.files import UnwritableError, check_writable
from npvi.runtime.interrupts import forget_interrupt, interrupts_held_back

__all__ = [
    "OPTIMIZERS",
    "CheckpointError",
    "Trained",
    "TrainingState",
    "TrainingStopped",
    "named_optimizer",
    "owned",
    "resumed",
    "shuffled",
    "train",
]


Loss = Callable[[Any, Any, jax.Array, Any], jax.Array]
Batches = Callable[[jax.Array, Any], Any]

#: the optimisers that have a name; optax has many more
OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adagrad": optax.adagrad,
    "adam": optax.adam,
    "rmsprop": optax.rmsprop,
    "sgd": optax.sgd,
}

#: seconds between two checkpoints; the last one is always written
_BETWEEN_CHECKPOINTS = 5.0


class TrainingStopped(UserWarning):
    """A loss or a gradient was not finite; the parameters before that batch were kept."""


@dataclass(frozen=True)
class Trained:
    """What training ended with.

    Attributes
    ----------
    parameters : the best ones by `evaluate`, the last ones without it.
    history : lists by name: ``loss`` (the mean over the batches) and ``seconds`` (since the start) of each epoch,
        ``evaluation`` and ``evaluation_epoch`` of each evaluation.
    epochs : how many epochs were finished; they count from 0.
    outcome : "finished", "stopped early", "not finite" or "interrupted".
    best_epoch : after which epoch `evaluate` was lowest.
    stopped_at : epoch and batch with the first loss or gradient that was not finite.
    """

    parameters: Any
    history: dict[str, list[float]]
    epochs: int
    outcome: str
    best_epoch: int | None = None
    stopped_at: tuple[int, int] | None = None


def train(
    loss: Loss,
    parameters: Any,
    batches: Batches,
    optimizer: optax.GradientTransformation,
    *,
    epochs: int,
    data: Any = None,
    seed: int = 0,
    evaluate: Callable[[Any], float] | None = None,
    evaluate_every: int = 1,
    patience: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    report: Callable[..., None] | None = None,
) -> Trained:
    """Minimise the expected `loss` over batches.

    Parameters
    ----------
    loss : ``loss(parameters, batch, key, data)``, a number; `key` is for random numbers.
    parameters : tree of arrays to start from; it stays as it is.
    batches : ``batches(key, data)``, the batches of one epoch: a tree of arrays whose first axis is the steps.
    optimizer : of optax; `named_optimizer` knows some.
    epochs : most passes through the data.
    data : tree of arrays that `loss` and `batches` need; what they close over becomes part of the program instead.
    seed : same seed, same result.
    evaluate : ``evaluate(parameters)``, lower is better; it must not keep the parameters. The best ones are returned.
    evaluate_every : epochs from one evaluation to the next.
    patience : evaluations without a better one after which training ends.
    checkpoint : file that keeps where training is. Starting again with the same one continues there, with the same
        result as without the interruption.
    settings : what the run depends on and arrays don't tell, such as the learning rate: JSON, kept in the checkpoint
        and compared with it.
    report : called after each epoch as ``report(epoch=…, loss=…, seconds=…)``, with ``evaluation`` where there is one.

    Returns
    -------
    Trained

    Raises
    ------
    MemoryError
        Where the device has too little memory; smaller batches need less.
    CheckpointError
        Where the checkpoint is damaged, cannot be written, or belongs to something else.

    Warns
    -----
    TrainingStopped
        Where a loss or a gradient is not finite. That batch changes nothing, and is the last one.

    Notes
    -----
    Data of the same shapes compile nothing anew with the same `loss` (a plain function that closes over nothing),
    `batches` and `optimizer`, which `shuffled` and `named_optimizer` return for the same arguments.

    A keyboard interrupt ends training after the epoch that is running, and the result says "interrupted". A second
    one interrupts that epoch, and nothing but the checkpoint is left.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 100)
    >>> def loss(slope, rows, key, data):
    ...     return jnp.mean((data["y"][rows] - slope * data["x"][rows]) ** 2)
    >>> adam = named_optimizer("adam", 0.1)
    >>> trained = train(loss, np.float32(0.0), shuffled(100, 10), adam, epochs=50, data={"x": x, "y": 3.0 * x})
    >>> round(float(trained.parameters), 3), trained.outcome
    (3.0, 'finished')
    """
    _check(epochs, evaluate, evaluate_every, patience)
    state = TrainingState(owned(parameters), owned(optimizer.init(owned(parameters))))
    data = jax.tree.map(jnp.asarray, data)
    identity: dict[str, Any] = {"settings": dict(settings or {}), "seed": int(seed), "evaluate_every": evaluate_every}
    if checkpoint is not None:
        identity |= {
            "optimizer": str(jax.tree.structure(state.optimizer_state)),
            "data": fingerprint(data, parameters),
        }
        state = resumed(checkpoint, state, identity)
    # a plain function is the same program every time; what closes over something may have changed, or be large
    kept = inspect.isfunction(loss) and loss.__closure__ is None
    run_epoch = (_kept_epoch if kept else _compiled_epoch)(loss, batches, optimizer)
    saved, within = -np.inf, False
    with interrupts_held_back() as interrupted:
        try:
            while state.epochs < epochs and state.outcome is None and not interrupted:
                within = True
                _one_epoch(state, run_epoch, jax.random.fold_in(jax.random.key(seed), state.epochs), data)
                if evaluate is not None and (state.epochs % evaluate_every == 0 or state.epochs == epochs):
                    state.judge(float(evaluate(state.parameters)), patience)
                within = False
                if checkpoint is not None and time.monotonic() - saved > _BETWEEN_CHECKPOINTS:
                    state.save(checkpoint, identity)
                    saved = time.monotonic()
                if report is not None:
                    report(**state.latest())
        except KeyboardInterrupt:
            if within:  # half an epoch is nothing to go on from
                raise
            interrupted.append(True)
        else:
            if interrupted and state.outcome is None:
                forget_interrupt()  # the result tells of it
        if checkpoint is not None:
            state.save(checkpoint, identity)
    return _trained(state, bool(interrupted))


@lru_cache(maxsize=32)
def named_optimizer(name: str, learning_rate: float, steps: int | None = None) -> optax.GradientTransformation:
    """One of `OPTIMIZERS`; with `steps` its learning rate falls to 0 over so many of them, along a cosine.

    >>> optimizer = named_optimizer("adam", 0.01, steps=1000)
    >>> named_optimizer("newton", 0.01)
    Traceback (most recent call last):
    ValueError: optimizer must be one of 'adagrad', 'adam', 'rmsprop', 'sgd', or an optimiser of optax; got 'newton'
    """
    if name not in OPTIMIZERS:
        names = ", ".join(map(repr, OPTIMIZERS))
        raise ValueError(f"optimizer must be one of {names}, or an optimiser of optax; got {name!r}")
    if not 0.0 < learning_rate < np.inf:
        raise ValueError(f"learning_rate must be a positive number, got {learning_rate!r}")
    return OPTIMIZERS[name](learning_rate if steps is None else optax.cosine_decay_schedule(learning_rate, steps))


@lru_cache(maxsize=32)
def shuffled(n: int, size: int) -> Batches:
    """Batches of `size` different rows of `n`, each a random choice; in an epoch every row occurs.

    Where `size` doesn't divide `n`, the last batch is filled up with rows of the first.

    >>> shuffled(10, 4)(jax.random.key(0), None).shape
    (3, 4)
    """
    if not 1 <= size <= n:
        raise ValueError(f"a batch must have between 1 and {n} rows, one for each in the data; got {size}")
    steps = -(-n // size)

    def batches(key: jax.Array, data: Any) -> jax.Array:
        order = jax.random.permutation(key, n)
        return jnp.concatenate([order, order])[: steps * size].reshape(steps, size)

    return batches


def _check(epochs: int, evaluate: Any, evaluate_every: int, patience: int | None) -> None:
    for name, value in (("epochs", epochs), ("evaluate_every", evaluate_every), ("patience", patience)):
        if value is not None and not (isinstance(value, int | np.integer) and value >= 1):
            raise ValueError(f"{name} must be a whole number from 1, got {value!r}")
    if patience is not None and evaluate is None:
        raise ValueError("patience counts evaluations: give evaluate as well, or leave patience out")


def _compiled_epoch(loss: Loss, batches: Batches, optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    """(parameters, optimiser state, key, data) → both after one epoch, all losses, and the first bad step or −1."""

    def step(data: Any, carried: Any, inputs: Any) -> tuple[Any, jax.Array]:
        (parameters, optimizer_state, bad), (number, batch, key) = carried, inputs
        value, gradient = jax.value_and_grad(loss)(parameters, batch, key, data)
        updates, new_state = optimizer.update(gradient, optimizer_state, parameters)
        new = optax.apply_updates(parameters, updates)
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient, new))]
        good = (bad < 0) & jnp.stack(finite).all()
        kept = jax.tree.map(partial(jnp.where, good), (new, new_state), (parameters, optimizer_state))
        return (*kept, jnp.where((bad < 0) & ~good, number, bad)), value

    @partial(jax.jit, donate_argnums=(0, 1))
    def epoch(parameters: Any, optimizer_state: Any, key: jax.Array, data: Any) -> Any:
        order, noise = jax.random.split(key)
        drawn = batches(order, data)
        steps = len(jax.tree.leaves(drawn)[0])
        inputs = (jnp.arange(steps, dtype=jnp.int32), drawn, jax.random.split(noise, steps))
        carried = (parameters, optimizer_state, jnp.int32(-1))
        (parameters, optimizer_state, bad), losses = jax.lax.scan(partial(step, data), carried, inputs)
        return parameters, optimizer_state, losses, bad

    return epoch


_kept_epoch = lru_cache(maxsize=8)(_compiled_epoch)


def _one_epoch(state: TrainingState, run_epoch: Callable[..., Any], key: jax.Array, data: Any) -> None:
    start = time.perf_counter()
    try:
        state.parameters, state.optimizer_state, losses, bad = run_epoch(
            state.parameters, state.optimizer_state, key, data
        )
        losses, bad = np.asarray(losses, dtype=np.float64), int(bad)  # this waits for the computation
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(f"training needs more memory than the device has: use smaller batches ({error})") from error
    before = state.history["seconds"][-1] if state.epochs else 0.0
    state.history["seconds"].append(before + time.perf_counter() - start)
    state.history["loss"].append(float(losses[: bad if bad >= 0 else None].mean()) if bad != 0 else float("nan"))
    if bad >= 0:
        state.outcome, state.stopped_at = _NOT_FINITE, (state.epochs, bad)
    state.epochs += 1


def _trained(state: TrainingState, interrupted: bool) -> Trained:
    outcome = state.outcome or ("interrupted" if interrupted else "finished")
    if state.stopped_at is not None:
        warnings.warn(
            f"training stopped in epoch {state.stopped_at[0]} at batch {state.stopped_at[1]}, where the loss or its "
            "gradient is not finite; the parameters before it were kept. Try a smaller learning rate",
            TrainingStopped,
            stacklevel=3,
        )
    parameters = state.parameters if state.best is None else state.best
    return Trained(parameters, state.history, state.epochs, outcome, state.best_epoch, state.stopped_at)


# -- where a training is, between two epochs: what it goes on from, in memory and in a checkpoint ---------------------


_STOPPED, _NOT_FINITE = "stopped early", "not finite"
#: what a checkpoint says in words and numbers; the rest of a state is arrays
_FIELDS = record(
    {
        "trees": items(text),
        "identity": each(anything),
        "epochs": whole(),
        "outcome": maybe(choice((_STOPPED, _NOT_FINITE))),
        "stopped_at": maybe(items(whole(), 2, 2)),
        "best_epoch": maybe(whole()),
        "waited": whole(),
        "history": record(
            {
                "loss": items(number(finite=False)),
                "seconds": items(number(0.0)),
                "evaluation": items(number(finite=False)),
                "evaluation_epoch": items(whole()),
            }
        ),
    }
)
_TOLD = ("epochs", "outcome", "stopped_at", "best_epoch", "waited", "history")


def _check_told(told: Any, name: str) -> None:
    """Raise ValueError unless what a checkpoint says is what it may be, and of one and the same training."""
    _FIELDS(told, name)
    epochs, history, evaluated = told["epochs"], told["history"], told["history"]["evaluation_epoch"]
    for of_epochs in ("loss", "seconds"):
        if len(history[of_epochs]) != epochs:
            raise ValueError(
                f"its history.{of_epochs} must have one number for each of its {epochs} epochs, got "
                f"{len(history[of_epochs])}"
            )
    if len(history["evaluation"]) != len(evaluated):
        raise ValueError(
            f"its history.evaluation must have one number for each of the {len(evaluated)} epochs of its "
            f"history.evaluation_epoch, got {len(history['evaluation'])}"
        )
    if any(now >= then for now, then in zip(evaluated, [*evaluated[1:], epochs])):
        raise ValueError(f"its history.evaluation_epoch must rise, and end before its {epochs} epochs")
    waited, count = told["waited"], len(evaluated)
    best_epoch = evaluated[count - 1 - waited] if waited < count else None
    if (told["best_epoch"], "best" in told["trees"]) != (best_epoch, count > 0) or waited > max(0, count - 1):
        raise ValueError(
            f"its best_epoch must be that of its best parameters, and its waited, {waited}, the number of the {count} "
            f"evaluations since then; got {told['best_epoch']}"
        )
    stopped = None if told["stopped_at"] is None else told["stopped_at"][0]
    if stopped != (epochs - 1 if told["outcome"] == _NOT_FINITE else None):
        raise ValueError(f"its stopped_at must be in the last epoch where its outcome is {_NOT_FINITE!r}, else null")


def _no_history() -> dict[str, list[float]]:
    return {"loss": [], "seconds": [], "evaluation": [], "evaluation_epoch": []}


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

    def judge(self, value: float, patience: int | None) -> None:
        """Take note of an evaluation, and end training after `patience` of them without a better one."""
        lowest = min((old for old in self.history["evaluation"] if not np.isnan(old)), default=np.inf)
        self.history["evaluation"].append(value)
        self.history["evaluation_epoch"].append(self.epochs - 1)
        self.waited += 1
        if self.best is None or value < lowest:
            self.best, self.best_epoch, self.waited = owned(self.parameters), self.epochs - 1, 0
        if patience is not None and self.waited >= patience and self.outcome is None:
            self.outcome = _STOPPED

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
    trees, told = read_checkpoint(path, examples, _check_told)
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
    history = {name: told["history"][name] for name in _no_history()}  # what else there is doesn't matter
    for name in ("loss", "seconds", "evaluation"):  # in JSON floats may be whole
        history[name] = [float(value) for value in history[name]]
    told["history"] = history
    stopped_at = told["stopped_at"]
    told["stopped_at"] = None if stopped_at is None else (stopped_at[0], stopped_at[1])
    return TrainingState(**{name: owned(tree) for name, tree in trees.items()}, **{name: told[name] for name in _TOLD})
