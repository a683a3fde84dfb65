"""Recognised posteriors of many small patches at once: dense systems in JAX, for a GPU.

On a CPU XLA's threads can wait for each other forever where small factorisations meet products, and sparse systems are
faster anyway: see `local`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from npvi.amortized.guess import guess, sites
from npvi.amortized.patches import Patches, Pieces
from npvi.amortized.perceptron import apply
from npvi.amortized.recognizer import Recognizer
from npvi.components import Stack
from npvi.inference import Data
from npvi.likelihoods import has_closed_form, trapezoid
from npvi.runtime.precision import float64

__all__ = ["Recognised", "patch_posterior", "pieces_by_dense_solves"]

#: patches that go through the device together
_TOGETHER = 256
#: so many times that make a slice, after which memory is free again
_SLICE = 4
#: nodes of the quadrature
_NODES = 128


class Recognised(NamedTuple):
    """The posterior at the points of a patch, in the patch's order: μ, L, w, and what the network saw."""

    mean: Any
    diagonal: Any
    edges: Any
    precision: Any
    features: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Patch:
    """One patch as arrays, (n, …); `there` says which of its points there are."""

    X: Any
    y: Any
    start: Any
    row: dict[str, Any]
    weight: Any
    basis: Any
    parents: Any
    children: Any
    rank: Any
    there: Any


class _View:
    """A `View` of one patch."""

    xp = jnp

    def __init__(self, patch: _Patch, kernel: Any, nugget: Any, likelihood: Any, basis_precision: Any) -> None:
        self.patch, self.likelihood = patch, likelihood
        n = len(patch.y)
        every = jnp.arange(n)
        same = every[:, None] == every[None, :]
        covariance = jax.vmap(lambda x: jax.vmap(lambda z: kernel(x, z))(patch.X))(patch.X) + nugget * same
        b, d = _conditionals(covariance, patch.parents)
        self.marginal_variance = jnp.where(patch.there, jnp.diag(covariance), 1.0)
        self.conditional_variance = jnp.where(patch.there, d, 1.0)
        root = jnp.zeros((n, n + 1)).at[every[:, None], patch.parents].add(-b)[:, :n] + same  # −1 is the spare column
        root = root / jnp.sqrt(self.conditional_variance)[:, None]
        self.P = root.T @ root
        self.precision_diagonal = jnp.diag(self.P)
        self.start = patch.start
        self.start_variance = jnp.full_like(patch.start, likelihood.start_sd**2)
        PH = self.P @ patch.basis
        inner = patch.basis.T @ PH + jnp.diag(basis_precision)
        # a patch may leave a direction of the basis open
        inner = inner + 1e-9 * jnp.diag(jnp.diag(inner)) + 1e-30 * jnp.eye(len(basis_precision))
        self.P_profiled = self.P - PH @ jnp.linalg.solve(inner, PH.T) if patch.basis.shape[1] else self.P

    def pull(self, mean: Any) -> Any:
        return self.P_profiled @ mean

    def solve(self, precision: Any, slope: Any) -> Any:
        # where nothing is observed the constant is free; a little of the prior's own precision holds it
        held = precision + 1e-10 * self.precision_diagonal
        factor = jax.scipy.linalg.cho_factor(self.P_profiled + jnp.diag(held), lower=True)
        return jax.scipy.linalg.cho_solve(factor, slope)

    def factor(self, precision: Any) -> tuple[Any, Any]:
        """L: its diagonal, and its entries at the parents."""
        patch, n = self.patch, len(self.patch.y)
        A = self.P + jnp.diag(precision)
        columns = jnp.concatenate([patch.children, jnp.arange(n)[:, None]], axis=1)
        there = columns >= 0
        both = there[:, :, None] & there[:, None, :]
        blocks = jnp.where(both, A[columns[:, :, None], columns[:, None, :]], jnp.eye(columns.shape[1]))
        unit = jnp.zeros(columns.shape).at[:, -1].set(1.0)
        solved = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(blocks), True), unit[..., None])[..., 0]
        solved = solved / jnp.sqrt(solved[:, -1:])
        known = (patch.parents >= 0) & (patch.rank >= 0)
        edges = jnp.where(known, solved[patch.parents, patch.rank], 0.0)
        return solved[:, -1], edges

    def variance(self, precision: Any) -> Any:
        diagonal, edges = self.factor(precision)
        return diagonal**2 + jnp.sum(edges**2, axis=1)

    def expectations(self, mean: Any, variance: Any) -> tuple[Any, Any]:
        sd = jnp.sqrt(variance)
        slopes = jax.vmap(jax.grad(self._expected, argnums=(0, 1)))
        in_mean, in_sd = slopes(mean, sd, self.patch.y, self.patch.row)
        return self._seen(in_mean), self._seen(-in_sd / sd)

    def curvatures(self, mean: Any, sd: Any) -> tuple[Any, Any, Any, Any, Any]:
        slopes = jax.grad(self._expected, argnums=(0, 1))
        arguments = (mean, sd, self.patch.y, self.patch.row)
        in_mean, in_sd = jax.vmap(slopes)(*arguments)
        (mean_mean, mean_sd), (_, sd_sd) = jax.vmap(jax.jacfwd(slopes, argnums=(0, 1)))(*arguments)
        parts = (in_mean, in_sd, mean_mean, mean_sd, sd_sd)
        return tuple(self._seen(part) for part in parts)  # type: ignore[return-value]

    def _expected(self, mean: Any, sd: Any, y: Any, row: Any) -> Any:
        """E log p(y | f) for one observation."""
        leaves, structure = jax.tree.flatten(self.likelihood)
        if has_closed_form(structure, len(leaves)):
            return self.likelihood.expected_log_prob(y, mean, sd**2, **row)
        nodes, weights, count = trapezoid(_NODES)
        values = jax.vmap(lambda z: self.likelihood.log_prob(y, mean + sd * z, **row))(jnp.asarray(nodes[:count]))
        return jnp.asarray(weights[:count]) @ values

    def _seen(self, values: Any) -> Any:
        return jnp.where(self.patch.weight > 0.0, values, 0.0) * self.patch.weight


def _conditionals(covariance: Any, parents: Any) -> tuple[Any, Any]:
    """b and d of each point given its parents, from the covariance of all points of the patch."""
    there = parents >= 0
    both = there[:, :, None] & there[:, None, :]
    blocks = jnp.where(both, covariance[parents[:, :, None], parents[:, None, :]], jnp.eye(parents.shape[1]))
    own = jnp.where(there, jnp.take_along_axis(covariance, parents, axis=1), 0.0)
    b = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(blocks), True), own[..., None])[..., 0]
    return b, jnp.diag(covariance) - jnp.sum(b * own, axis=1)


def patch_posterior(model: dict[str, Any], patch: _Patch, rounds: int) -> Recognised:
    """The posterior of one patch and its halo; `model` has kernel, nugget, likelihood and the network's arrays."""
    view = _View(patch, model["kernel"], model["nugget"], model["likelihood"], model["basis_precision"])
    guessed = guess(view, rounds)
    correction = jnp.zeros((len(patch.y), 2))
    if model["network"] is not None:
        layers, centre, scale = model["network"]
        seen = ((guessed.features - centre) / scale).astype(jnp.float32)
        correction = apply(layers, seen).astype(guessed.mean.dtype)
    found = sites(view, guessed, correction)
    mean = found.mean + view.solve(found.precision, found.gradient - view.pull(found.mean))
    return Recognised(mean, *view.factor(found.precision), found.precision, guessed.features)


@partial(jax.jit, static_argnums=(2, 3))
def _all_patches(model: dict[str, Any], patches: _Patch, rounds: int, together: int) -> Recognised:
    return jax.lax.map(lambda patch: patch_posterior(model, patch, rounds), patches, batch_size=together)


def pieces_by_dense_solves(recognizer: Recognizer | None, data: Data, stack: Stack, layout: Patches) -> Pieces:
    """All patches, as many together as the device likes."""
    found = _recognised(recognizer, data, stack, layout)
    own = layout.core
    pieces = Pieces(stack.prior.graph, found.features.shape[-1])
    pieces.put(
        layout.members[own],
        mean=found.mean[own],
        diagonal=found.diagonal[own],
        edges=found.edges[own],
        site_precision=found.precision[own],
        features=found.features[own],
    )
    return pieces


def _recognised(recognizer: Recognizer | None, data: Data, stack: Stack, layout: Patches) -> Recognised:
    prior: Any = stack.prior
    at = np.maximum(layout.members, 0)
    there = layout.members >= 0
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    start = data.likelihood.initial_latent(data.y, **data.row)
    together = min(_TOGETHER, len(layout.members))
    with float64():
        patch = _Patch(
            prior.X[at],
            data.y[at],
            start[at],
            {name: values[at] for name, values in data.row.items()},
            np.where(there, weight[at], 0.0),
            np.where(there[..., None], stack.linear.basis[at], 0.0),
            layout.parents,
            layout.children,
            layout.rank,
            there,
        )
        network = None
        if recognizer is not None:
            network = (recognizer.layers, recognizer.centre, recognizer.scale)
        model = {
            "kernel": jax.tree.map(jnp.asarray, prior.kernel),
            "nugget": jnp.asarray(prior.nugget),
            "likelihood": jax.tree.map(jnp.asarray, data.likelihood),
            "basis_precision": jnp.asarray(stack.linear.precision),
            "network": jax.tree.map(jnp.asarray, network),
        }
        rounds = 1 if recognizer is None else recognizer.rounds
        while True:
            try:
                return _shared_out(model, patch, rounds, together)
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                together = _halved(together, min(_TOGETHER, len(layout.members)), error)


def _shared_out(model: dict[str, Any], patches: _Patch, rounds: int, together: int) -> Recognised:
    """All patches, a slice at a time."""
    number = len(patches.y)
    size = _SLICE * together
    padded = -(-number // size) * size
    at = np.minimum(np.arange(padded), number - 1)  # every slice has the same shape
    parts = []
    for rows in at.reshape(-1, size):
        piece = jax.tree.map(lambda values, rows=rows: values[rows], patches)
        parts.append(jax.tree.map(np.asarray, _all_patches(model, piece, rounds, together)))
    return jax.tree.map(lambda *values: np.concatenate(values)[:number], *parts)


def _halved(together: int, first: int, error: Exception) -> int:
    """Half as many patches together, once."""
    if together < first:
        raise MemoryError(
            f"the device has too little memory even for {together} patches together: use solve='cg', or run on the CPU "
            f"({error})"
        ) from error
    warnings.warn(f"the device has too little memory for {together} patches together: half as many", stacklevel=4)
    return max(1, together // 2)
