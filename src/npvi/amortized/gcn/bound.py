"""The bound from a batch of points as a function of the paper's two networks, and what they say about all points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.amortized.gcn.layout import Layout, patch_layout, random_layout
from npvi.amortized.gcn.networks import GCN, Networks, adjacency, recognise
from npvi.components import Stack
from npvi.inference import Data
from npvi.inference.stochastic import ConditionalPrior, Neighbourhoods, Observed, SparseGaussian, observed
from npvi.kernels import Kernel
from npvi.linalg import Triangular
from npvi.priors import NNGP

__all__ = ["NetworkBound", "Parameters", "Seen", "apply_networks", "loss", "network_bound"]

Vector = NDArray[np.float64]

#: entries of adjacency matrices held at a time where the networks are applied to all points
_ENTRIES = 2**20
#: the smallest log L_ii
_NARROWEST = -300.0


class Parameters(NamedTuple):
    """What is trained: the networks, which say what q of f − Hβ is, and β."""

    networks: Networks
    coefficients: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Seen:
    """What the networks see: y at each point and its parents, and the prior's covariances between them.

    Attributes
    ----------
    parents : of the graph, shape (N, K).
    places, values : X and y, shapes (N, d) and (N,).
    kernel, nugget : of the prior.
    """

    parents: jax.Array
    places: jax.Array
    values: jax.Array
    kernel: Kernel
    nugget: jax.Array

    def posterior(self, networks: Networks, points: jax.Array) -> SparseGaussian:
        """μ and rows of L for some of the points; their adjacency matrices are built on the way and forgotten."""
        members = jnp.concatenate([self.parents[points], points[:, None]], axis=1)
        there, members = members >= 0, jnp.maximum(members, 0)
        A = adjacency(self.kernel, self.nugget, self.places[members], there)
        return recognise(networks, A, self.values[members], there)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NetworkBound:
    """The bound from a batch of groups of points, as a function of the networks.

    Attributes
    ----------
    seen, layout : what the networks see, and of which points at a time.
    observed : the observations.
    weights, variance : b and d of the prior's conditionals, shapes (N, K) and (N,).
    basis, coefficient_precision : H, shape (N, p), and the precision of β's prior.
    steps : batches in an epoch.
    """

    seen: Seen
    layout: Layout
    observed: Observed
    weights: jax.Array
    variance: jax.Array
    basis: jax.Array
    coefficient_precision: jax.Array
    steps: int = field(metadata={"static": True})

    def shares(self, parameters: Parameters, groups: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The points of a batch, shape (G, P), and the share of each in the bound, but for the prior of β.

        E log p(y_i|f_i) − ½ [(Q Qᵀ + (μ_i − b_iᵀμ_α)²)/d_i + log d_i] + log L_ii + ½: what the three terms have of it.
        """
        layout = self.layout.take(groups)
        count, size, _ = layout.parents.shape
        # what isn't there passes for the first point, and is left out of all sums
        nodes, points = jnp.maximum(layout.nodes, 0), jnp.maximum(layout.nodes[:, :size], 0)
        q = self.seen.posterior(parameters.networks, nodes.ravel())
        q = SparseGaussian(*(part.reshape(*nodes.shape, *part.shape[1:]) for part in q))
        quadratic = jax.vmap(self._quadratic)(q, layout, points)
        own = SparseGaussian(*(part[:, :size] for part in q))
        mean = own.mean + self.basis[points] @ parameters.coefficients
        variance = jnp.sum(own.edges**2, axis=2) + jnp.exp(2.0 * own.log_diagonal)
        expected = self.observed.expectations(mean.ravel(), variance.ravel(), points.ravel(), key)
        prior = quadratic + jnp.log(self.variance[points])
        return layout.nodes[:, :size], expected.reshape(count, size) - 0.5 * prior + own.log_diagonal + 0.5

    def _quadratic(self, q: SparseGaussian, group: Layout, points: jax.Array) -> jax.Array:
        """(Q Qᵀ + (μ_i − b_iᵀμ_α)²)/d_i for the points of one group, from its own nodes alone."""
        size = len(points)
        members = jnp.concatenate([group.parents, jnp.arange(size)[:, None]], axis=1)
        slots = jnp.where(members[:, :, None] >= 0, group.columns[members], -1)
        # edges that aren't there are 0 already, whatever is said of nodes that are no points
        parents = jnp.zeros_like(group.parents, shape=q.edges.shape).at[:size].set(group.parents)
        near = Neighbourhoods(parents, slots, group.width)
        nothing = jnp.zeros(())
        local = ConditionalPrior(near, self.weights[points], self.variance[points], nothing)
        return local.quadratic(q, jnp.arange(size))


def loss(parameters: Parameters, groups: jax.Array, key: jax.Array, estimate: NetworkBound) -> jax.Array:
    """Minus the bound per point, from a batch; the mean over the batches of an epoch is the bound itself."""
    points, shares = estimate.shares(parameters, groups, key)
    shrinkage = 0.5 * jnp.sum(estimate.coefficient_precision * parameters.coefficients**2)
    return (shrinkage - estimate.steps * jnp.sum(jnp.where(points >= 0, shares, 0.0))) / len(estimate.variance)


def network_bound(prior: NNGP, data: Data, stack: Stack, settings: GCN) -> NetworkBound:
    """The estimate for a nearest-neighbour prior and data in the graph's order.

    Parameters
    ----------
    prior, data : in the graph's order.
    stack : the process and its mean Hβ.
    settings : layout, batches and draws are what counts here.

    Examples
    --------
    >>> from npvi.components import Process
    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> from npvi.amortized.gcn.networks import initial_networks
    >>> X = np.linspace(0.0, 1.0, 100)[:, None]
    >>> prior = NNGP(RBF(), 0.1, X, build_graph(X, 5, order="given"))
    >>> data, stack = Data(Gaussian(), X[:, 0]), Stack(Process(prior))
    >>> estimate = network_bound(prior, data, stack, GCN(samples=None))
    >>> estimate.steps, estimate.layout.parents.shape
    (2, (2, 50, 5))
    >>> parameters = Parameters(initial_networks(0, (20, 10, 1)), jnp.zeros(0))
    >>> jax.jit(loss)(parameters, jnp.array([1]), jax.random.key(0), estimate).shape
    ()
    """
    n = len(data.y)
    layout, steps = _layout(prior, settings)
    return NetworkBound(
        _seen(prior, data),
        layout,
        observed(data, float(np.sqrt(prior.marginal_variance.max())), settings.samples),
        jnp.asarray(prior.conditional_mean_weights),
        jnp.asarray(prior.conditional_variance),
        jnp.asarray(stack.linear.basis).reshape(n, -1),
        jnp.asarray(stack.linear.precision),
        steps,
    )


def _layout(prior: NNGP, settings: GCN) -> tuple[Layout, int]:
    """The groups, and how many batches they make."""
    n, size = prior.graph.n_points, settings.batch(prior.graph.n_points)
    if settings.layout == "random":
        return random_layout(prior.graph), -(-n // size)
    layout = patch_layout(prior.graph, prior.kernel.coordinates(prior.X), size)
    return layout, len(layout.nodes)


def _seen(prior: NNGP, data: Data) -> Seen:
    kernel = jax.tree.map(jnp.asarray, prior.kernel)
    nugget = jnp.asarray(prior.nugget)
    return Seen(jnp.asarray(prior.graph.parents), jnp.asarray(prior.X), jnp.asarray(data.y), kernel, nugget)


def apply_networks(networks: Networks, prior: NNGP, data: Data) -> tuple[Vector, Triangular]:
    """μ, without the prior's mean Hβ, and L at all points, as the networks see them.

    They need not be those that the networks were trained on.

    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> from npvi.amortized.gcn.networks import initial_networks
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = NNGP(RBF(), 0.1, X, build_graph(X, 2, order="given"))
    >>> networks = initial_networks(0, (20, 10, 1))
    >>> mean, factor = apply_networks(networks, prior, Data(Gaussian(), np.zeros(3)))
    >>> mean.shape, factor.edges.shape
    ((3,), (3, 2))
    """
    q = _everywhere(networks, _seen(prior, data))
    mean, edges, log_diagonal = (np.asarray(part, dtype=np.float64) for part in q)
    # a training that went astray may have asked for less than there are numbers
    return mean, Triangular(prior.graph, np.exp(np.maximum(log_diagonal, _NARROWEST)), edges)


@jax.jit
def _everywhere(networks: Networks, seen: Seen) -> SparseGaussian:
    """q at all points, so many at a time that their adjacency matrices take little memory."""
    n, k = seen.parents.shape
    size = min(n, max(1, _ENTRIES // (k + 1) ** 2))
    steps = -(-n // size)
    points = jnp.minimum(jnp.arange(steps * size), n - 1).reshape(steps, size)
    q = jax.lax.map(lambda some: seen.posterior(networks, some), points)
    return SparseGaussian(*(part.reshape(steps * size, *part.shape[2:])[:n] for part in q))
