"""What every task of a tiled fit finds in the folder: the tables, the model, the tiles."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.config import from_config
from npvi.graph import Tiling
from npvi.likelihoods import Likelihood
from npvi.tiled.sense import blaming, check_layout, check_model, check_plan, check_settled, check_tiling
from npvi.tiled.settled import Settled
from npvi.tiled.source import Source
from npvi.tiled.store import MANIFEST, VECTORS, Store, checksum_of

__all__ = ["KEPT", "OF_ROWS", "PLAN", "SETTLED", "Job", "job_at"]

#: what is written first: tables and settings; then the model, and the tiles
PLAN, SETTLED = "plan.json", "model.json"
#: what a finished model keeps of each tile: its rows, what predictions ask for, and what ties it to others
OF_ROWS = ("rows", "coarse", "border")
_ARCHIVES, _NUMBERS = (
    (*OF_ROWS, "posterior", "ties"),
    ("mean", "variance", "weight", "basis", "along", "lent", "thin-weight"),
)
KEPT = (*_ARCHIVES, *(f"{name}{VECTORS}" for name in _NUMBERS))
#: folders of updates
_UPDATE = re.compile(r"update-\d{3,}")
#: what tiles that stay have of a round
_STILL = ("step-", "residual-")


@dataclass(frozen=True, eq=False)
class Job:
    """A store, and what its first files say; read once in each process.

    An update has a folder of its own in the store. What it makes is there; all else is that of the finished model.

    Attributes
    ----------
    store : the folder.
    update : name of the update's folder, or nothing.

    Examples
    --------
    >>> Job.at("birds.npvi").tile(3, "fit")
    'tiles/00003/fit'
    """

    store: Store
    update: str = ""

    @classmethod
    def at(cls, folder: str) -> Job:
        """Of a store, or of an update in one."""
        path = Path(folder)
        if _UPDATE.fullmatch(path.name) and (path.parent / MANIFEST).exists():
            return cls(Store(path.parent), path.name)
        return cls(Store(path))

    @property
    def folder(self) -> str:
        """What `at` takes, wherever the process is."""
        return str((self.store.folder / self.update).absolute())

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Of the finished model."""
        return self.store.manifest()

    @cached_property
    def _finished(self) -> dict[str, str]:
        """Where the finished model has what the first fit would have under a name."""
        files = self.manifest["files"] if self.store.has_json(MANIFEST) else {}
        return {name.split("/", 1)[1] if _UPDATE.match(name) else name: name for name in files}

    def kept(self, name: str) -> str:
        """The name of a file of the finished model."""
        if f"{name}{VECTORS}" in self._finished:
            return self._finished[f"{name}{VECTORS}"].removesuffix(VECTORS)
        return self._finished.get(name, name)

    def kept_tile(self, number: int, name: str) -> str:
        """The same for a tile's file."""
        return self.kept(f"tiles/{number:05d}/{name}")

    def file(self, name: str) -> str:
        """The name of a file that all tiles share."""
        return f"{self.update}/{name}" if self.update else self.kept(name)

    def tile(self, number: int, name: str) -> str:
        """The name of a tile's file."""
        if self.update:
            of_model = name in KEPT or f"{name}{VECTORS}" in KEPT
            if not of_model or bool((self.changed if name in OF_ROWS else self.active)[number]):
                return f"{self.update}/tiles/{number:05d}/{name}"
        return self.kept_tile(number, name)

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """Of an update: the tiles that have new rows, or rows in another place of the order."""
        found = np.zeros(self.tiling.count, dtype=bool)
        if self.store.has(self.file("levels")):
            found[self.store.read(self.file("levels"))["changed"]] = True
        return found

    @cached_property
    def active(self) -> NDArray[np.bool_]:
        """The tiles that are fitted: all, or those of an update."""
        if not self.update:
            return np.ones(self.tiling.count, dtype=bool)
        found = np.zeros(self.tiling.count, dtype=bool)
        if self.store.has(self.file("active")):
            found[self.store.read(self.file("active"))["tiles"]] = True
        return found

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Tables and settings."""
        path, found = self.store.folder / PLAN, self.store.read_json(PLAN)
        with blaming(path):
            check_plan(found)
        return found

    @cached_property
    def source(self) -> Source:
        """The tables: of an update, those with the new rows."""
        plan = self.store.read_json(f"{self.update}/{PLAN}") if self.update else self.plan
        with blaming(self.store.folder / self.update / PLAN):
            return Source.from_dict(plan["source"])

    @property
    def parts(self) -> str:
        """Where parts of the tables are put. Those of other tables are elsewhere: a straggler may still write them."""
        return self.file(f"parts-{checksum_of(self.source.as_dict())[:8]}")

    @cached_property
    def likelihood(self) -> Likelihood:
        """For checking responses; its numbers may not be known yet."""
        with blaming(self.store.folder / PLAN):
            found = from_config(self.plan["likelihood"])
            if not isinstance(found, Likelihood):
                raise ValueError(f"its likelihood is a {type(found).__name__}, which is none")
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

    @cached_property
    def box(self) -> NDArray[np.float64]:
        """The lowest and the highest of each input, shape (2, d), of the rows of the fit."""
        with blaming(self.store.folder / SETTLED):
            found = np.array(self._model["box"], np.float64)
            if found.shape != (2, len(self.source.inputs)) or np.any(found[0] > found[1]):
                raise ValueError("its box isn't one of its inputs: the lowest of each, and the highest")
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
        return self._layout(self.file("layout"))

    @cached_property
    def kept_layout(self) -> dict[str, NDArray[Any]]:
        """That of the finished model."""
        return self._layout(self.kept("layout"))

    def _layout(self, name: str) -> dict[str, NDArray[Any]]:
        found = self.store.read(name)
        with blaming(self.store.path(name)):
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
            first = self._first if self.active[tile] else self.first_kept
            pieces.append(first(tile, name, int(mine.max()) + 1)[mine])
        found = np.empty((len(order), pieces[0].shape[1]))
        found[order] = np.concatenate(pieces)
        return found

    def _first(self, tile: int, name: str, stop: int) -> NDArray[np.float64]:
        return self.store.read_vectors(self.tile(tile, name), int(self.layout["rows"][tile]), 0, stop)

    def first_kept(self, tile: int, name: str, stop: int) -> NDArray[np.float64]:
        """The first rows of vectors of a tile as the finished model has them; means move with the mean's coefficients,
        and with nothing else."""

        def read(vectors: str) -> NDArray[np.float64]:
            rows = int(self.kept_layout["rows"][tile])
            return self.store.read_vectors(self.kept_tile(tile, vectors), rows, 0, stop)

        if name.startswith(_STILL):
            return np.zeros((stop, 1))
        if not name.startswith("mean"):
            return read(name.removesuffix("-alone"))
        now = self.began if name == "mean" else self.store.about(self.file("rounds/ended"))["coefficients"]
        return read("mean") + (read("along") @ (np.array(now) - self.of_tile(tile)))[:, None]

    @cached_property
    def began(self) -> NDArray[np.float64]:
        """The mean's coefficients of the finished model."""
        return np.array(self.manifest["trend"]["coefficients"], np.float64)

    def of_tile(self, tile: int) -> NDArray[np.float64]:
        """Those that the finished model had when a tile of it was made."""
        made = self.store.about(self.kept_tile(tile, "posterior"))["coefficients"]
        return np.array(made, np.float64) if made else self.began


def job_at(folder: str) -> Job:
    """The same, remembered by a process for its next task as long as the files are the same."""
    states = []
    parent = os.path.dirname(folder)
    names = (PLAN, SETTLED, MANIFEST, "layout.npvi", "levels.npvi", "active.npvi", os.path.join(parent, MANIFEST))
    for name in names:
        path = os.path.join(folder, name)
        states.append(os.stat(path).st_mtime_ns if os.path.exists(path) else 0)
    return _remembered(folder, tuple(states))


@lru_cache(maxsize=4)
def _remembered(folder: str, states: tuple[int, ...]) -> Job:
    return Job.at(folder)
