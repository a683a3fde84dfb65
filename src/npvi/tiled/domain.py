"""A tile and its halo: the rows it sees, in the nested order, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from npvi.components import Stack
from npvi.graph import Graph, build_graph, halo, point_keys
from npvi.inference import Data
from npvi.priors import NNGP
from npvi.tiled.job import Job

__all__ = ["Domain", "build", "keep", "open_domain", "sparse_rows"]

#: what is written down of a domain, beside its graph
_KEPT = ("rows", "keys", "owner", "number", "inner")


@dataclass(frozen=True)
class Domain:
    """The rows that a tile sees, in its graph's order.

    Attributes
    ----------
    job, tile : the store, and which tile.
    rows : inputs, target and extras of each.
    keys : a number for each row, by what it holds: its random numbers are those, whoever sees it.
    owner, number : the tile that each row belongs to, and its number there.
    inner : those that a correction of the tile may move; the outermost ones stay.
    graph : with these positions.
    """

    job: Job
    tile: int
    rows: NDArray[np.float64]
    keys: NDArray[np.int64]
    owner: NDArray[np.int32]
    number: NDArray[np.int64]
    inner: NDArray[np.bool_]
    graph: Graph

    @cached_property
    def own(self) -> NDArray[np.int64]:
        """Positions of the tile's own rows, by their number."""
        found = np.flatnonzero(self.owner == self.tile)
        return found[np.argsort(self.number[found])]

    @cached_property
    def data(self) -> Data:
        """Responses, and what there is per row."""
        _, y, row = self.job.source.split(self.rows)
        likelihood = self.job.settled.likelihood
        return Data(likelihood, likelihood.check_response(y), likelihood.check_row(row, len(y), y))

    @cached_property
    def basis(self) -> NDArray[np.float64]:
        """H of the mean Hβ."""
        return self.job.settled.part.basis(self.rows[:, : len(self.job.source.inputs)])

    @cached_property
    def places(self) -> NDArray[np.float64]:
        """What the process sees."""
        return np.ascontiguousarray(self.job.settled.part.places(self.rows[:, : len(self.job.source.inputs)]))

    @cached_property
    def prior(self) -> NNGP:
        """Of all rows that the tile sees, each given those before it."""
        settled = self.job.settled
        return NNGP(settled.kernel, settled.nugget, self.places, self.graph)

    @cached_property
    def stack(self) -> Stack:
        """The prior and its mean."""
        return self.job.settled.model.stack(self.prior, self.basis)

    def own_edges(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The tile's own rows of T = D^{−½}(I − B), by their number: what they contribute to the precision TᵀT. Values
        and positions, the row's own last, shape (rows, K + 1); −1 where there are fewer parents."""
        root, own = self.prior.root, self.own
        positions = np.column_stack([self.graph.parents[own], own]).astype(np.int32)
        return np.column_stack([root.edges[own], root.diagonal[own]]), positions

    def gathered(self, name: str) -> NDArray[np.float64]:
        """Vectors of this name, of all rows."""
        return self.job.gathered(name, self.owner, self.number)


def sparse_rows(values: NDArray[np.float64], columns: NDArray[np.integer], width: int) -> csr_array:
    """A matrix from values and columns of each row, where −1 is none."""
    there = columns >= 0
    pointer = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return csr_array((values[there], columns[there], pointer), shape=(len(values), width))


def build(job: Job, tile: int) -> Domain | None:
    """The rows that a tile sees and their graph; None of one without rows."""
    layout, tiling, reach = job.layout, job.tiling, job.reach
    if not layout["rows"][tile]:
        return None
    cube, box = tiling.cube, layout["boxes"][tile]
    mine = job.store.read(job.tile(tile, "rows"))
    n = len(mine["rows"])
    parts = [(mine["rows"], mine["levels"], np.full(n, tile), np.arange(n), np.ones(n, dtype=bool))]
    d = len(job.source.inputs)
    gaps = np.maximum(np.maximum(layout["boxes"][:, 0] - box[1], box[0] - layout["boxes"][:, 1]), 0.0)
    distance = np.linalg.norm(gaps, axis=1)
    near = (layout["rows"] > 0) & (distance <= reach * cube.spacing(layout["first"]))
    for other in np.flatnonzero(near).tolist():
        if other == tile:
            continue
        far = distance[other] > reach * layout["coarse"][other]
        found = job.store.read(job.tile(other, "coarse" if far else "rows"))
        number = found["number"] if far else np.arange(len(found["rows"]))
        points = job.settled.points(found["rows"][:, :d])
        spacing = cube.spacing(found["places"])
        seen = halo(points, spacing, box, reach)
        inner = halo(points[seen], spacing[seen], box, 0.5 * reach)
        count = int(seen.sum())
        parts.append((found["rows"][seen], found["levels"][seen], np.full(count, other), number[seen], inner))
    rows, levels, owner, number, inner = (np.concatenate(column) for column in zip(*parts))
    del parts
    points = job.settled.points(rows[:, :d])
    keys = point_keys(rows)
    first = np.lexsort((keys, point_keys(points), levels))
    k = max(1, min(job.settled.neighbors, len(rows) - 1))
    graph = build_graph(points[first], k, order="given").packed()
    place = first[graph.order]
    about = (rows[place], keys[place].view(np.int64), owner[place].astype(np.int32), number[place], inner[place])
    return Domain(job, tile, *about, Graph(np.arange(len(rows)), graph.parents, graph.spatial))


def keep(domain: Domain) -> None:
    """Write down what a tile sees, so that it needn't be found again."""
    d, graph = domain, domain.graph
    arrays = {name: getattr(d, name) for name in _KEPT}
    d.job.store.write(d.job.tile(d.tile, "domain"), **arrays, parents=graph.parents, spatial=graph.spatial)


def open_domain(job: Job, tile: int) -> Domain | None:
    """What was written down of a tile; None of one without rows."""
    if not job.layout["rows"][tile]:
        return None
    found = job.store.read(job.tile(tile, "domain"))
    graph = Graph(np.arange(len(found["rows"])), found["parents"], found["spatial"])
    return Domain(job, tile, graph=graph, **{name: found[name] for name in _KEPT})
