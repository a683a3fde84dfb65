"""What every task of a tiled fit finds in the folder: the tables, the model, the tiles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.config import from_config
from npvi.graph import Tiling
from npvi.likelihoods import Likelihood
from npvi.tiled.sense import blaming, check_layout, check_model, check_plan, check_settled, check_tiling
from npvi.tiled.settled import Settled
from npvi.tiled.source import Source
from npvi.tiled.store import Store

__all__ = ["PLAN", "SETTLED", "Job", "job_at"]

#: what is written first: tables and settings; then the model, and the tiles
PLAN, SETTLED = "plan.json", "model.json"


@dataclass(frozen=True)
class Job:
    """A store, and what its first files say; read once in each process.

    >>> Job.at("birds.npvi").tile(3, "fit")
    'tiles/00003/fit'
    """

    store: Store

    @classmethod
    def at(cls, folder: str) -> Job:
        """Of a folder."""
        return cls(Store(folder))

    @staticmethod
    def tile(number: int, name: str) -> str:
        """The name of a tile's file."""
        return f"tiles/{number:05d}/{name}"

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Tables and settings."""
        path, found = self.store.folder / PLAN, self.store.read_json(PLAN)
        with blaming(path):
            check_plan(found, "")
        return found

    @cached_property
    def source(self) -> Source:
        """The tables."""
        with blaming(self.store.folder / PLAN):
            return Source.from_dict(self.plan["source"])

    @cached_property
    def likelihood(self) -> Likelihood:
        """For checking responses; its numbers may not be known yet."""
        with blaming(self.store.folder / PLAN):
            found: Likelihood = from_config(self.plan["likelihood"])
        return found

    @cached_property
    def _model(self) -> dict[str, Any]:
        path, found = self.store.folder / SETTLED, self.store.read_json(SETTLED)
        with blaming(path):
            check_model(found, "")
        return found

    @cached_property
    def settled(self) -> Settled:
        """The model."""
        with blaming(self.store.folder / SETTLED):
            found = Settled.from_dict(self._model["model"])
            check_settled(found, len(self.source.inputs))
        return found

    @cached_property
    def tiling(self) -> Tiling:
        """The tiles."""
        with blaming(self.store.folder / SETTLED):
            found = Tiling.from_dict(self._model["tiling"])
            check_tiling(found, self._dimensions)
        return found

    @property
    def _dimensions(self) -> int:
        """Of points where distances are those of the kernel."""
        return self.settled.points(np.zeros((1, len(self.source.inputs)))).shape[1]

    @property
    def reach(self) -> float:
        """Of halos, in spacings."""
        return float(self.plan["halo"])

    @cached_property
    def layout(self) -> dict[str, NDArray[Any]]:
        """Of each tile the number of rows, the box of its points, and the level of its first row, and of the first
        that isn't among its coarse ones."""
        found = self.store.read("layout")
        with blaming(self.store.path("layout")):
            check_layout(found, self.tiling.count, self._dimensions)
        return found

    def own(self, tile: int, name: str) -> NDArray[np.float64]:
        """Vectors of this name, of all rows of a tile, shape (rows, columns)."""
        return self.store.read_vectors(self.tile(tile, name), int(self.layout["rows"][tile]))

    def gathered(self, name: str, owner: NDArray[np.integer], number: NDArray[np.integer]) -> NDArray[np.float64]:
        """Rows of the vectors of this name, each by the tile that has it and its number there; of tiles far away these
        are among the first."""
        order = np.argsort(owner, kind="stable")
        tiles, starts = np.unique(owner[order], return_index=True)
        pieces = []
        for tile, mine in zip(tiles.tolist(), np.split(number[order], starts[1:])):
            stop = int(mine.max()) + 1
            pieces.append(self.store.read_vectors(self.tile(tile, name), int(self.layout["rows"][tile]), 0, stop)[mine])
        found = np.empty((len(order), pieces[0].shape[1]))
        found[order] = np.concatenate(pieces)
        return found


def job_at(folder: str) -> Job:
    """The same, remembered by a process for its next task as long as the files are the same."""
    states = []
    for name in (PLAN, SETTLED, "layout.npvi"):
        path = os.path.join(folder, name)
        states.append(os.stat(path).st_mtime_ns if os.path.exists(path) else 0)
    return _remembered(folder, tuple(states))


@lru_cache(maxsize=4)
def _remembered(folder: str, states: tuple[int, ...]) -> Job:
    return Job.at(folder)
