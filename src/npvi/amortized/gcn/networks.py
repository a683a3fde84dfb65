"""The paper's inference networks: two graph convolutional networks that read μ_i and row L_i off a neighbourhood.

A neighbourhood is a point and its parents, here in the order of a row of L: parents first, the point itself last.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from npvi.amortized.gcn.layout import LAYOUTS
from npvi.inference.stochastic import GradientSettings, SparseGaussian, is_count
from npvi.kernels import Kernel, Stationary

__all__ = ["GCN", "Layer", "Networks", "adjacency", "forward", "initial_networks", "recognise"]

#: standard deviation of weights and biases to begin with, that of the authors' released code
_SPREAD = 0.1
#: where nothing is said of epochs: about so many steps in all, and at least so many epochs
_STEPS, _EPOCHS = 6000, 5
#: from here on down log(softplus(x)) is x to all digits
_FAR_LEFT = -36.0


class Layer(NamedTuple):
    """σ(Â H W + b)."""

    weights: jax.Array
    """W, shape (inputs, outputs)."""
    bias: jax.Array
    """b, shape (outputs,)."""


class Networks(NamedTuple):
    """The layers of both networks."""

    mean: tuple[Layer, ...]
    factor: tuple[Layer, ...]


def initial_networks(seed: int, sizes: Sequence[int]) -> Networks:
    """Both networks with random weights; `sizes` are the outputs of each layer, the last one 1.

    >>> networks = initial_networks(0, (20, 10, 1))
    >>> [layer.weights.shape for layer in networks.mean]
    [(1, 20), (20, 10), (10, 1)]
    """
    rng = np.random.default_rng(seed)
    shapes = list(zip((1, *sizes), sizes))

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(_SPREAD * rng.standard_normal(shape))

    mean, factor = (tuple(Layer(drawn(n, m), drawn(m)) for n, m in shapes) for _ in range(2))
    return Networks(mean, factor)


def adjacency(kernel: Kernel, nugget: jax.Array | float, places: jax.Array, there: jax.Array) -> jax.Array:
    """D^{−½} A D^{−½} with A = [Σ_αα, Σ_αi; 0, Σ_ii] and D its row sums: the point itself hears nobody.

    Σ is the kernel plus the nugget on the diagonal. Where a kernel has negative values the row sums are those of
    magnitudes, or there would be no root.

    Parameters
    ----------
    kernel, nugget : of the prior.
    places : inputs of the parents and, last, of the point itself, shape (B, K + 1, d).
    there : which of them there are, shape (B, K + 1); rows and columns of the others are 0.

    Returns
    -------
    array of shape (B, K + 1, K + 1)

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> adjacency(RBF(), 0.0, jnp.array([[[0.0], [0.0]]]), jnp.ones((1, 2), bool)).round(3).tolist()
    [[[0.5, 0.7070000171661377], [0.0, 1.0]]]
    """
    n = places.shape[1]
    heard = np.ones((n, n), dtype=bool)
    heard[-1, :-1] = False
    A = jnp.where(there[:, :, None] & there[:, None, :] & heard, _covariance(kernel, places), 0.0)
    A = A + nugget * jnp.where(there[:, :, None], jnp.eye(n), 0.0)
    scale = jax.lax.rsqrt(jnp.where(there, jnp.sum(jnp.abs(A), axis=2), 1.0))
    return A * scale[:, :, None] * scale[:, None, :]


def _covariance(kernel: Kernel, places: jax.Array) -> jax.Array:
    """The kernel at all pairs of each neighbourhood, shape (B, n, n)."""
    if isinstance(kernel, Stationary):
        # summing over the inputs one after the other is ten times as fast as over a short last axis
        scaled = jnp.moveaxis(places / jnp.asarray(kernel.length_scale), -1, 0)
        squared = sum((x[:, :, None] - x[:, None, :]) ** 2 for x in scaled)
        return kernel.variance * kernel.correlation(jnp.asarray(squared))
    of_pairs = jax.vmap(jax.vmap(kernel, in_axes=(None, 0)), in_axes=(0, None))
    return jax.vmap(of_pairs)(places, places)


def forward(layers: Sequence[Layer], A: jax.Array, values: jax.Array) -> jax.Array:
    """The last layer at every node: H ← σ(A H W + b), σ the positive part but for the last layer.

    Parameters
    ----------
    layers : of one network.
    A : adjacency, shape (B, n, n).
    values : at the nodes, shape (B, n).

    Returns
    -------
    array of shape (B, n)

    Examples
    --------
    >>> doubled = [Layer(jnp.array([[2.0]]), jnp.array([0.5]))]
    >>> forward(doubled, jnp.eye(2)[None], jnp.array([[1.0, 3.0]])).tolist()
    [[2.5, 6.5]]
    """
    H = values[:, :, None]
    for number, (W, b) in enumerate(layers):
        # (A H) W or A (H W), whichever has fewer columns for A to pass over
        H = (A @ H) @ W if W.shape[0] <= W.shape[1] else A @ (H @ W)
        H = H + b if number == len(layers) - 1 else jax.nn.relu(H + b)
    return H[:, :, 0]


def recognise(networks: Networks, A: jax.Array, values: jax.Array, there: jax.Array) -> SparseGaussian:
    """μ_i and row L_i of the point of each neighbourhood.

    μ_i is the mean over the nodes, L_ij the value at node j; for the point itself its softplus, which is positive.

    Parameters
    ----------
    networks : both of them.
    A : their adjacency matrices, shape (B, K + 1, K + 1).
    values : y at the nodes, shape (B, K + 1).
    there : which nodes there are, shape (B, K + 1).

    Examples
    --------
    >>> networks = initial_networks(0, (4, 1))
    >>> q = recognise(networks, jnp.eye(3)[None], jnp.ones((1, 3)), jnp.ones((1, 3), bool))
    >>> q.mean.shape, q.edges.shape
    ((1,), (1, 2))
    """
    values = jnp.where(there, values, 0.0)
    mean = jnp.sum(jnp.where(there, forward(networks.mean, A, values), 0.0), axis=1) / jnp.sum(there, axis=1)
    row = forward(networks.factor, A, values)
    return SparseGaussian(mean, jnp.where(there[:, :-1], row[:, :-1], 0.0), _log_softplus(row[:, -1]))


def _log_softplus(x: jax.Array) -> jax.Array:
    # the branch not taken is differentiated too: it stays where softplus is positive in single precision
    return jnp.where(x < _FAR_LEFT, x, jnp.log(jax.nn.softplus(jnp.maximum(x, _FAR_LEFT))))


class GCN(GradientSettings):
    """The paper's two graph convolutional networks, and how they are trained.

    Parameters
    ----------
    sizes : sequence of int
        Outputs of each layer; the last layer has one.
    layout : {"patches", "random"}
        What a batch is: a compact patch of points, which share the neighbourhoods that must be looked at, or as in the
        paper points anywhere, which need K + 1 of them each.
    batch_size : int or None
        Points in a batch. None: 64 in a patch, 50 anywhere.
    optimizer, samples, patience, checkpoint : as in `npvi.SGD`
    learning_rate : float
        The paper's is 0.1; the others want less. An optimiser of optax has its own.
    epochs : int or None
        Most passes through the data. None: as many as make about 6,000 steps, and at least 5.
    validation : float
        Share of the rows that the networks aren't trained on: the epoch that predicts them best wins. The posterior is
        of all rows in the end.

    Examples
    --------
    >>> GCN(sizes=(32, 32, 1), layout="random").batch(1000)
    50
    """

    static = ("sizes", "layout", *GradientSettings.static)
    optional = ("batch_size", "epochs", "samples", "patience")

    def __init__(
        self,
        sizes: Sequence[int] = (20, 10, 1),
        layout: str = "patches",
        batch_size: int | None = None,
        optimizer: Any = "adagrad",
        learning_rate: float = 0.1,
        epochs: int | None = None,
        samples: int | None = 1,
        validation: float = 0.0,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(optimizer, learning_rate, batch_size, epochs, samples, validation, patience, checkpoint)
        self.sizes, self.layout = sizes, layout

    def validate(self) -> None:
        """Raise ValueError where a setting is not allowed."""
        sizes = self.sizes
        if not (isinstance(sizes, list | tuple) and len(sizes) and all(map(is_count, sizes)) and sizes[-1] == 1):
            raise ValueError(f"sizes must be whole numbers from 1, one per layer and the last one 1; got {sizes!r}")
        if not (isinstance(self.layout, str) and self.layout in LAYOUTS):
            raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}; got {self.layout!r}")
        super().validate()

    def batch(self, n: int) -> int:
        """Points in a batch, of `n`."""
        return min(n, int(self.batch_size or LAYOUTS[self.layout]))

    def passes(self, steps: int) -> int:
        """Epochs, of so many `steps` each."""
        return int(self.epochs or max(_EPOCHS, -(-_STEPS // steps)))

    def identity(self, epochs: int) -> dict[str, Any]:
        """What the course of training over so many epochs depends on, for its checkpoint."""
        names = ("layout", "batch_size", "learning_rate", "samples", "validation")
        told = {name: getattr(self, name) for name in names}
        return {"network": "gcn", **self._course(epochs), "sizes": list(self.sizes), **told}
