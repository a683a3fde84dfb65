"""What every task of a tiled fit finds in the folder: the tables, the model, the tiles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from numpy.typing import NDArray

from npvi.config import from_config
from npvi.graph import Tiling
from npvi.likelihoods import Likelihood
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
        return self.store.read_json(PLAN)

    @cached_property
    def source(self) -> Source:
        """The tables."""
        return Source.from_dict(self.plan["source"])

    @cached_property
    def likelihood(self) -> Likelihood:
        """For checking responses; its numbers may not be known yet."""
        found: Likelihood = from_config(self.plan["likelihood"])
        return found

    @cached_property
    def _model(self) -> dict[str, Any]:
        return self.store.read_json(SETTLED)

    @cached_property
    def settled(self) -> Settled:
        """The model."""
        return Settled.from_dict(self._model["model"])

    @cached_property
    def tiling(self) -> Tiling:
        """The tiles."""
        return Tiling.from_dict(self._model["tiling"])

    @property
    def reach(self) -> float:
        """Of halos, in spacings."""
        return float(self.plan["halo"])

    @cached_property
    def layout(self) -> dict[str, NDArray[Any]]:
        """Of each tile the number of rows, the box of its points, and the level of its first row, and of the first
        that isn't among its coarse ones."""
        return self.store.read("layout")


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
