"""The network itself: a small multi-layer perceptron, the same for every point."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Layers", "apply", "initial"]

#: weights and biases, layer by layer
Layers = list[tuple[Any, Any]]


def initial(key: jax.Array, sizes: tuple[int, ...]) -> Layers:
    """Random weights; those of the last layer small, so that the network begins by saying next to nothing.

    >>> [W.shape for W, _ in initial(jax.random.key(0), (12, 32, 2))]
    [(12, 32), (32, 2)]
    """
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [np.sqrt(2.0 / n) for n in sizes[:-2]] + [0.01]
    return [
        (scale * jax.random.normal(k, (n, m), jnp.float32), jnp.zeros(m, jnp.float32))
        for k, scale, n, m in zip(keys, scales, sizes[:-1], sizes[1:])
    ]


def apply(layers: Layers, x: jax.Array) -> jax.Array:
    """What the network says about inputs x, shape (…, n)."""
    for W, b in layers[:-1]:
        x = jax.nn.gelu(x @ W + b)
    W, b = layers[-1]
    return x @ W + b
