"""Training a recognizer: on patches of data at hand, or on simulations of data that might be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from npvi.amortized.guess import FEATURES, FURTHEST, guess
from npvi.amortized.perceptron import Layers, apply, initial
from npvi.amortized.recognition import Whole
from npvi.amortized.recognizer import Recognizer, likelihood_settings
from npvi.components import Stack
from npvi.graph import build_tree
from npvi.inference import Data, Fit, SparseFactors, fit_posterior
from npvi.likelihoods import Likelihood
from npvi.runtime.training import shuffled, train

__all__ = ["BATCH", "Examples", "examples", "optimum", "patches", "train_recognizer"]

#: points of a patch, and of a batch
_PATCH, BATCH = 384, 256
#: residuals of an optimum to learn from: further digits cost more iterations than they teach
_NEAR_ENOUGH = 3e-3
#: share of the examples that choose among epochs
_HELD_OUT = 0.1


@dataclass(frozen=True)
class Examples:
    """Points with what a network sees of them and what it should have said.

    Attributes
    ----------
    features : (N, 12)
    targets : (N, 2), what the guess lacks to the optimum.
    importance : (N,), how much it matters: what the observation says, against what is known without it.
    """

    features: NDArray[np.float32]
    targets: NDArray[np.float32]
    importance: NDArray[np.float32]


def optimum(data: Data, stack: Stack) -> Fit:
    """What there is to learn from a data set, by the closed form."""
    prior, data = stack.prior, replace(data, coarse=True)
    found = fit_posterior(SparseFactors(prior), data, stack, tolerance=_NEAR_ENOUGH, max_iterations=60)
    return found.unless_interrupted()


def examples(data: Data, stack: Stack, rounds: int, best: Any = None) -> Examples:
    """All points of a data set; `best` is the posterior at their optimum, where it is known already."""
    best = optimum(data, stack).posterior if best is None else best
    guessed = guess(Whole(replace(data, coarse=True), stack), rounds)
    targets = np.column_stack(
        [(best.mean - guessed.mean) / np.sqrt(guessed.variance), np.log(best.variance / guessed.variance)]
    )
    known = best.site_precision * best.variance
    importance = np.sqrt(np.clip(known, 0.0, 1.0))
    # where the optimum is further away than a correction can reach, it has run away
    usable = np.isfinite(guessed.features).all(axis=1) & (np.abs(targets) < FURTHEST).all(axis=1)
    parts = (part[usable].astype(np.float32) for part in (guessed.features, targets, importance))
    return Examples(*parts)


def patches(coordinates: NDArray[np.float64], points: int, size: int = _PATCH) -> list[NDArray[np.int64]]:
    """Rows of a few compact patches, `points` in all; each is a small data set of its own, as dense as the large one.

    >>> [len(rows) for rows in patches(np.random.default_rng(0).uniform(size=(1000, 2)), points=100, size=50)]
    [50, 50]
    """
    rows = build_tree(coordinates).rows
    if len(rows) <= points:
        return [rows]
    number = max(1, points // size)
    size = points // number
    starts = (np.arange(number) + 0.5) / number * (len(rows) - size)
    return [rows[int(start) : int(start) + size] for start in starts]


def train_recognizer(
    likelihood: Likelihood,
    sets: Iterable[Examples],
    *,
    n_inputs: int | None,
    rounds: int,
    any_settings: bool = False,
    width: int = 32,
    epochs: int = 100,
    learning_rate: float = 5e-3,
    seed: int = 0,
    checkpoint: Any = None,
    report: Callable[..., None] | None = None,
) -> Recognizer:
    """A network that says what guesses lack, for all examples together."""
    chosen = list(sets)
    features, targets, importance = (
        np.concatenate([getattr(one, name) for one in chosen]) for name in ("features", "targets", "importance")
    )
    order = np.random.default_rng(seed).permutation(len(features))
    held = order[: max(1, int(_HELD_OUT * len(order)))] if len(order) > 1 else order
    kept = order[len(held) :] if len(order) > 1 else order
    centre, scale = features[kept].mean(axis=0), features[kept].std(axis=0) + 1e-3
    low, high = np.quantile(features[kept], [0.001, 0.999], axis=0)

    def table(rows: NDArray) -> dict[str, Any]:
        return {"x": (features[rows] - centre) / scale, "target": targets[rows], "importance": importance[rows]}

    size = min(BATCH, len(kept))
    steps = epochs * -(-len(kept) // size)
    unseen = jax.tree.map(jnp.asarray, table(held))

    def judge(layers: Layers) -> float:
        return float(_total_loss(layers, unseen))

    layers = initial(jax.random.key(seed), (len(FEATURES), width, width, 2))
    before = judge([(jnp.zeros_like(W), jnp.zeros_like(b)) for W, b in layers])
    trained = train(
        _loss,
        layers,
        shuffled(len(kept), size),
        _optimizer(learning_rate, steps),
        epochs=epochs,
        data=table(kept),
        seed=seed,
        evaluate=judge,
        evaluate_every=max(1, epochs // 5),
        checkpoint=checkpoint,
        report=report,
    )
    if trained.outcome == "interrupted":
        raise KeyboardInterrupt("training of the network interrupted")
    layers = [(np.asarray(W), np.asarray(b)) for W, b in trained.parameters]
    if min(trained.history["evaluation"], default=np.inf) > before:
        # on points held out the guess alone is better: the network had better say nothing
        layers[-1] = (np.zeros_like(layers[-1][0]), np.zeros_like(layers[-1][1]))
    name, settings = likelihood_settings(likelihood)
    history = {key: [float(value) for value in values] for key, values in trained.history.items()}
    return Recognizer(
        name,
        None if any_settings else settings,
        n_inputs,
        rounds,
        layers,
        centre.astype(np.float32),
        scale.astype(np.float32),
        low.astype(np.float32),
        high.astype(np.float32),
        history | {"evaluation_without_network": [before]},
    )


@lru_cache
def _optimizer(learning_rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adamw(optax.cosine_decay_schedule(learning_rate, steps), weight_decay=1e-3)


@jax.jit
def _total_loss(layers: Any, table: dict[str, jax.Array]) -> jax.Array:
    return _loss(layers, jnp.arange(len(table["x"])), None, table)


def _loss(layers: Any, points: jax.Array, key: Any, table: dict[str, jax.Array]) -> jax.Array:
    off = apply(layers, table["x"][points]) - table["target"][points]
    # squares for small errors, absolute values for large ones: points that no network can get right count once
    size = jnp.sum(jnp.sqrt(1.0 + off**2) - 1.0, axis=-1)
    return jnp.mean(table["importance"][points] * size)
