"""Recognised posteriors piece by piece: no system of all points, so data of any size will do.

A piece is a compact set of points with a halo around it, and is treated as a data set of its own: its prior is the
nearest-neighbour process on its points, with the nearest ones inside in the place of parents outside, and its mean
function is its own. On a CPU pieces are large and their systems sparse; on a GPU they are small and dense (`dense`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from npvi.amortized.patches import Patches, Pieces, make_patches
from npvi.amortized.recognition import recognised, tell
from npvi.amortized.recognizer import Recognizer
from npvi.components import Coefficients, Process, ProcessPrecision, SolverLog, Stack
from npvi.graph import Graph, build_graph
from npvi.inference import Data, Fit, SparseFactors, Start, fit_posterior
from npvi.inference.stochastic import bound_of
from npvi.linalg import Triangular
from npvi.posteriors import FactorPosterior
from npvi.priors import NNGP
from npvi.runtime import progress
from npvi.runtime.compiling import compiled

__all__ = ["pieces_by_sparse_solves", "recognise_locally"]

Vector = NDArray[np.float64]

#: points of a piece, and of its halo: with sparse systems, with dense ones
_SPARSE, _DENSE = (2048, 1024), (64, 192)


def recognise_locally(
    recognizer: Recognizer | None,
    data: Data,
    stack: Stack,
    refine: int = 0,
    report: Callable[[dict[str, float]], None] | None = None,
    core: int | None = None,
    halo: int | None = None,
) -> Fit:
    """The posterior that a network recognises, piece by piece.

    Parameters
    ----------
    recognizer : None where sites are exact.
    data, stack : in the graph's order.
    refine : finishing sweeps of all points together.
    report : called with the numbers of each sweep.
    core, halo : points of a piece whose posterior it is for, and others around them.
    """
    prior: Any = stack.prior
    dense = jax.default_backend() != "cpu"
    started = time.perf_counter()
    sizes = _DENSE if dense else _SPARSE
    coordinates = prior.kernel.coordinates(prior.X)
    layout = make_patches(coordinates, prior.graph, core or sizes[0], sizes[1] if halo is None else halo)
    if dense:
        from npvi.amortized.dense import pieces_by_dense_solves  # for which a CPU is no place

        found = pieces_by_dense_solves(recognizer, data, stack, layout)
    else:
        found = pieces_by_sparse_solves(recognizer, data, stack, layout)
    seconds = time.perf_counter() - started
    fit = _fit(found, data, stack)
    if refine:
        start = Start(fit.posterior.mean, fit.posterior.variance, found.site_precision)
        family = SparseFactors(prior)
        fit = fit_posterior(family, data, stack, start, max_iterations=refine - 1, progress=report)
    device = jax.devices()[0].device_kind
    tell(fit, recognizer, data, found.features, seconds, refine, solves=0, pieces=len(layout.members), device=device)
    return fit


def pieces_by_sparse_solves(recognizer: Recognizer | None, data: Data, stack: Stack, layout: Patches) -> Pieces:
    """Each piece by conjugate gradients and a sweep of its own."""
    found: Pieces | None = None
    for number, members in enumerate(layout.members):
        members = members[members >= 0]
        own = layout.core[number, : len(members)]
        part = _piece(stack, members, layout.parents[number, : len(members)])
        some = recognised(recognizer, data.take(members), part.stack, SolverLog())
        swept = SparseFactors(part.stack.prior).covariance(some.site_precision)
        assert swept is not None  # P + W is positive definite for w ≥ 0
        edges = np.take_along_axis(swept.factor.edges, part.place, axis=1) * part.inside
        found = found or Pieces(stack.prior.graph, some.features.shape[1])
        found.put(
            members[own],
            mean=some.mean[own],
            diagonal=swept.factor.diagonal[own],
            edges=edges[own],
            site_precision=some.site_precision[own],
            features=some.features[own],
        )
        progress.report("pieces", done=number + 1, of=len(layout.members))
    assert found is not None
    return found


class _Piece:
    def __init__(self, stack: Stack, inside: NDArray[np.bool_], place: NDArray[np.int64]) -> None:
        self.stack, self.inside, self.place = stack, inside, place


def _piece(stack: Stack, members: NDArray[np.int32], parents: NDArray[np.int32]) -> _Piece:
    """Some of the points as a data set; where in its lists the parents of the large graph are, slot by slot."""
    prior: Any = stack.prior
    X = np.ascontiguousarray(prior.X[members])
    k = min(parents.shape[1], len(members) - 1)
    nearest = build_graph(prior.kernel.coordinates(X), max(1, k), order="given")
    filled, place = nearest.parents.copy(), np.zeros(parents.shape, np.int64)
    _fill_up(parents, nearest.parents, filled, place)
    graph = Graph(nearest.order, filled, nearest.spatial)
    basis = np.ascontiguousarray(stack.linear.basis[members])
    part = Stack(Process(NNGP(prior.kernel, prior.nugget, X, graph)), Coefficients(basis, stack.linear.precision))
    return _Piece(part, parents >= 0, place)


@compiled
def _fill_up(inside, nearest, parents, place):
    """The parents that lie inside, and the nearest earlier points for those that don't; where the former ended up."""
    n, k = parents.shape
    for i in range(n):
        wanted = min(k, i)
        count = 0
        for s in range(inside.shape[1]):
            if inside[i, s] >= 0 and count < wanted:
                parents[i, count] = inside[i, s]
                count += 1
        for s in range(wanted):
            if count == wanted:
                break
            known = False
            for t in range(count):
                known = known or parents[i, t] == nearest[i, s]
            if not known:
                parents[i, count] = nearest[i, s]
                count += 1
        parents[i, :count].sort()
        for s in range(inside.shape[1]):
            for t in range(count):
                if inside[i, s] == parents[i, t]:
                    place[i, s] = t


def _fit(found: Pieces, data: Data, stack: Stack) -> Fit:
    prior: Any = stack.prior
    factor = Triangular(prior.graph, found.diagonal, found.edges)
    elbo = bound_of(prior, data, stack, found.mean, factor)
    info = {
        "method": "npvi",
        "guarantee": "none: applicability says how far the full posterior is",
        "elbo": [elbo],
        "n_iter": 0,
        "converged": False,
        "interrupted": False,
    }
    posterior = FactorPosterior(found.mean, factor, found.site_precision)
    return Fit(posterior, elbo, info, stack, ProcessPrecision(prior, found.site_precision))
