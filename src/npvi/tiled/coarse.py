"""The coarse level: what all tiles together say of a thin sample of the rows.

A tile knows little of what is long and smooth where data say little: that goes on beyond what it sees. So each round
begins with a step at some rows of each tile, the thin ones, for all tiles together: Z c, c being its values there and Z
what each other row expects of its parents. Z costs the prior least, so that ZᵀPZ is the precision of the thin rows by
themselves; ZᵀWZ is put on their diagonal, row by row added up. The tiles then begin with Z c.

And by what is on that diagonal a tile knows how much is known of the thin rows far away, by rows that it doesn't see:
its standard deviations would be too large otherwise.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision
from npvi.graph import Graph, build_graph, point_keys
from npvi.linalg import Noise, Triangular
from npvi.priors import NNGP
from npvi.tiled.domain import Domain
from npvi.tiled.job import Job, job_at

__all__ = ["HELD", "Interpolation", "Thin", "known_from_afar", "step_of_all", "thin_sample"]

Vector = NDArray[np.float64]

HELD = 1e6
"""How much more a row is held that stays than its own equation holds it."""
_SOLVED = 1e-2
#: draws of what rows are, given thin ones: what is asked for are means over many rows
_DRAWS = 8
#: share of what is said of a thin row up to which there are rows near it that a tile doesn't see
_MOST = 0.9


class Interpolation:
    """Z: values at some rows of a graph, and what all others expect of their parents, given these.

    Parameters
    ----------
    root : T of the prior P = TᵀT.
    at : the rows whose values are given.

    Examples
    --------
    >>> graph = build_graph([[0.0], [1.0], [2.0]], 1, order="given")
    >>> z = Interpolation(Triangular(graph, np.ones(3), np.array([[0.0], [-0.5], [-0.5]])), np.array([0]))
    >>> z.spread(np.array([4.0])), z.collected(np.array([0.0, 0.0, 4.0]))
    (array([4., 2., 1.]), array([1.]))
    """

    def __init__(self, root: Triangular, at: NDArray[np.int64]) -> None:
        diagonal, edges = root.diagonal.copy(), root.edges.copy()
        diagonal[at], edges[at] = 1.0, 0.0
        self._root, self._at = Triangular(root.graph, diagonal, edges), at

    def spread(self, values: Vector) -> Vector:
        """Z c at all rows."""
        x = np.zeros(len(self._root.diagonal))
        x[self._at] = values
        return self._root.solve(x)

    def collected(self, values: Vector) -> Vector:
        """Zᵀ v, for values of all rows."""
        return self._root.transpose_solve(values)[self._at]

    def lumped(self, weight: Vector, noise: Noise) -> NDArray[np.float64]:
        """ZᵀWZ added up row by row, for weights of all rows; and the same with weights times the variance that rows
        have when those at `at` are known, by draws: shape (2, rows)."""
        whitened = noise.columns(0, _DRAWS)
        whitened[self._at] = 0.0
        variance = (self._root.solve(whitened) ** 2).mean(axis=1)
        weight = weight * self.spread(np.ones(len(self._at)))
        return np.stack([self.collected(weight), self.collected(weight * variance)])


class Thin:
    """The thin rows that a tile sees.

    Attributes
    ----------
    at, index : where they are among the rows that the tile sees, and among all thin ones.
    """

    def __init__(self, domain: Domain) -> None:
        thin = domain.job.layout["thin"]
        self.domain = domain
        self.at = np.flatnonzero(domain.number < thin[domain.owner])
        self.index = (np.cumsum(thin) - thin)[domain.owner[self.at]] + domain.number[self.at]

    @cached_property
    def interpolation(self) -> Interpolation:
        """From them to all rows that the tile sees."""
        return Interpolation(self.domain.prior.root, self.at)


def thin_sample(folder: str) -> None:
    """The thin rows by themselves: their prior, and what all rows say of them."""
    job = job_at(folder)
    counts, settled = job.layout["thin"], job.settled
    tiles = np.flatnonzero(counts).tolist()
    found = [(job.store.read(job.tile(t, "coarse")), counts[t]) for t in tiles]
    rows, levels = (np.concatenate([one[name][:n] for one, n in found]) for name in ("rows", "levels"))
    X = rows[:, : len(job.source.inputs)]
    points = settled.points(X)
    order = np.lexsort((point_keys(rows), point_keys(points), levels))
    graph = build_graph(points[order], max(1, min(settled.neighbors, len(rows) - 1)), order="given").packed()
    order = order[graph.order]
    places = np.ascontiguousarray(settled.part.places(X)[order])
    weight = _added(job, len(order), "thin-weight", np.flatnonzero(job.layout["rows"]))[order]
    moving = job.active[np.repeat(tiles, counts[tiles])][order]
    arrays = {"places": places, "parents": graph.parents, "spatial": graph.spatial, "weight": weight, "moving": moving}
    name = job.file("thin")
    job.store.write(name, order=order, keys=point_keys(rows)[order].view(np.int64), **arrays)


def _added(job: Job, size: int, name: str, tiles: NDArray[np.int64]) -> NDArray[np.float64]:
    """What tiles say of the thin rows, in the order of the tiles."""
    pieces, index = [], []
    for tile in tiles.tolist():
        index.append(job.store.read(job.tile(tile, "ties"))["index"])
        pieces.append(job.store.read_vectors(job.tile(tile, name), len(index[-1])))
    total = np.zeros((size, pieces[0].shape[1]))
    np.add.at(total, np.concatenate(index), np.concatenate(pieces))
    return total


class _Sample:
    """What `thin_sample` has found."""

    def __init__(self, job: Job) -> None:
        found = job.store.read(job.file("thin"))
        graph = Graph(np.arange(len(found["order"])), found["parents"], found["spatial"])
        self.prior = NNGP(job.settled.kernel, job.settled.nugget, found["places"], graph)
        self.weight, self.order, self.noise = found["weight"], found["order"], Noise(found["keys"])
        self.moving = found["moving"]


def step_of_all(folder: str, step: int) -> None:
    """The step at the thin rows, by what tiles have left; those of tiles that stay are held."""
    job = job_at(folder)
    sample = _Sample(job)
    order, weight = sample.order, np.maximum(sample.weight[:, 0], 0.0)
    moved = np.flatnonzero(job.active & (job.layout["rows"] > 0))
    left = np.where(sample.moving, _added(job, len(order), f"thin-{step - 1:02d}", moved)[order, 0], 0.0)
    held = np.flatnonzero(~sample.moving)
    if len(held):
        weight[held] = HELD * (weight[held] + sample.prior.precision_diagonal[held])
    found = np.empty(len(order))
    found[order] = ProcessPrecision(sample.prior, weight, tolerance=_SOLVED).solve(left)
    job.store.write(job.file(f"rounds/thin-{step:02d}"), found=found)


def known_from_afar(domain: Domain, weight: Vector) -> Vector:
    """Precisions that rows which a tile doesn't see add to thin rows that it sees; `weight` is that of those it sees.

    What many rows say of a thin one nearby is 1/(1/g + c), where g is the sum of their weights, and c the variance that
    they have where the thin one is known, as if it were the same for all of them."""
    sample, thin = _Sample(domain.job), Thin(domain)
    place = np.empty(len(sample.order), np.int64)
    place[sample.order] = np.arange(len(place))
    at = place[thin.index]
    seen = thin.interpolation.lumped(weight, Noise(domain.keys)).T
    # where most is seen, what is not is far away
    amid = seen[:, 0] < _MOST * sample.weight[at, 0]
    sample.weight[at] -= seen
    found = np.zeros(len(weight))
    of_sample = Interpolation(sample.prior.root, at)
    found[thin.at] = np.where(amid, _said(*of_sample.lumped(_said(*sample.weight.T), sample.noise)), 0.0)
    return found


def _said(weight: Vector, variance: Vector) -> Vector:
    """1/(1/g + c), for g and gc."""
    return np.maximum(weight, 0.0) / (1.0 + np.maximum(variance, 0.0))
