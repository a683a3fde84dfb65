"""The coarse level of a round: what all tiles together say of a thin sample of the rows.

A tile knows little of a step that is long where data say little, and smooth over many tiles: it goes on beyond what it
sees. So first a step is found at some rows of each tile, the thin ones, for all tiles together: Z c, c being its values
there and Z what each other row expects of its parents. Z costs the prior least, so that ZᵀPZ is the precision of the
thin rows by themselves; ZᵀWZ is put on their diagonal, row by row added up. The tiles then begin with Z c.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision
from npvi.graph import Graph, build_graph, point_keys
from npvi.linalg import Triangular
from npvi.priors import NNGP
from npvi.tiled.domain import Domain
from npvi.tiled.job import Job, job_at

__all__ = ["Interpolation", "step_of_all"]

Vector = NDArray[np.float64]

_SOLVED = 1e-2


class Interpolation:
    """Z of what a tile sees.

    Parameters
    ----------
    domain : of the tile.
    """

    def __init__(self, domain: Domain) -> None:
        thin = domain.job.layout["thin"]
        self.domain = domain
        self.at = np.flatnonzero(domain.number < thin[domain.owner])
        self.index = (np.cumsum(thin) - thin)[domain.owner[self.at]] + domain.number[self.at]

    @cached_property
    def _root(self) -> Triangular:
        root = self.domain.prior.root
        diagonal, edges = root.diagonal.copy(), root.edges.copy()
        diagonal[self.at], edges[self.at] = 1.0, 0.0
        return Triangular(root.graph, diagonal, edges)

    def spread(self, values: Vector) -> Vector:
        """Z c at all rows that the tile sees, for values of the thin ones among them."""
        x = np.zeros(len(self.domain.rows))
        x[self.at] = values
        return self._root.solve(x)

    def collected(self, values: Vector) -> Vector:
        """Zᵀ v, for values of the tile's own rows."""
        x = np.zeros(len(self.domain.rows))
        x[self.domain.own] = values
        return self._root.transpose_solve(x)[self.at]

    def lumped(self, weight: Vector) -> Vector:
        """ZᵀWZ added up row by row, for weights of the tile's own rows."""
        return self.collected(weight * self.spread(np.ones(len(self.at)))[self.domain.own])


def step_of_all(folder: str, step: int) -> None:
    """The step at the thin rows, by what tiles have left."""
    job = job_at(folder)
    prior, order = _thin(job)
    weight, left = np.zeros((2, len(order)))
    for tile in np.flatnonzero(job.layout["rows"]).tolist():
        index = job.store.read(job.tile(tile, "thin"))["index"]
        for total, name in ((weight, "thin-weight"), (left, f"thin-{step - 1:02d}")):
            np.add.at(total, index, job.store.read_vectors(job.tile(tile, name), len(index))[:, 0])
    found = np.empty(len(order))
    weight = np.maximum(weight[order], 0.0)
    found[order] = ProcessPrecision(prior, weight, tolerance=_SOLVED).solve(left[order])
    job.store.write(f"rounds/thin-{step:02d}", found=found)


def _thin(job: Job) -> tuple[NNGP, NDArray[np.int64]]:
    """The prior of the thin rows by themselves, and which of them is where in its order."""
    settled = job.settled
    if not job.store.has("thin"):
        counts = job.layout["thin"]
        found = [(job.store.read(job.tile(t, "coarse")), counts[t]) for t in np.flatnonzero(counts).tolist()]
        rows, levels = (np.concatenate([one[name][:n] for one, n in found]) for name in ("rows", "levels"))
        X = rows[:, : len(job.source.inputs)]
        points = settled.points(X)
        order = np.lexsort((point_keys(rows), point_keys(points), levels))
        k = max(1, min(settled.neighbors, len(rows) - 1))
        graph = build_graph(points[order], k, order="given").packed()
        order = order[graph.order]
        places = np.ascontiguousarray(settled.part.places(X)[order])
        job.store.write("thin", order=order, places=places, parents=graph.parents, spatial=graph.spatial)
    found_ = job.store.read("thin")
    graph = Graph(np.arange(len(found_["order"])), found_["parents"], found_["spatial"])
    return NNGP(settled.kernel, settled.nugget, found_["places"], graph), found_["order"]
