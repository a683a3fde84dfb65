"""Finished cells of tables and figures, one file each, so that a run that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from npvi.runtime.files import replacing

__all__ = ["Cell", "Store", "StoreError", "provenance"]

_FORMAT = 1


class StoreError(ValueError):
    """A file among the results is broken, or something else altogether."""


@dataclass(frozen=True)
class Cell:
    """One number of a table, or one part of a figure.

    Attributes
    ----------
    experiment : "paper" and "tuned" are the two tables; "speed", "ordering" and "surface" the figures.
    data : name of the data set, as in `npvi.datasets.load`.
    method : one of `npvi.paper.experiments.methods.METHODS`, or "npvi-sgd".
    size : M, the number of inducing points, or K, that of neighbours.
    seed : of the split and of the method.
    settings : pairs of a name and a value: whatever else the result depends on, the time that it may take excepted.

    Examples
    --------
    >>> Cell("paper", "bird_counts", "svgp", 200, 0, (("rows", None),)).file
    'paper-bird_counts-svgp-200-0-8e119e49.json'
    """

    experiment: str
    data: str
    method: str
    size: int
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def file(self) -> str:
        """What its file is called."""
        digest = hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:8]
        return f"{self.experiment}-{self.data}-{self.method}-{self.size}-{self.seed}-{digest}.json"


@dataclass(frozen=True)
class Store:
    """A folder with results.

    Parameters
    ----------
    folder : where they are; it is made when the first one comes.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> cell = Cell("paper", "bird_counts", "svgp", 200, 0)
    >>> store.get(cell) is None
    True
    >>> store.put(cell, {"test": 2.29})
    >>> store.get(cell)
    {'test': 2.29}
    """

    folder: Path

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """The result of a cell, or None where there is none yet.

        Raises
        ------
        StoreError
            Where its file is broken or holds another cell.
        """
        path = Path(self.folder) / cell.file
        if not path.exists():
            return None
        found, result = _read(path)
        if found != cell:
            raise StoreError(f"{path} holds the result of another cell, {found}: delete it, and it is computed again")
        return result

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a result; a kill at any moment leaves the whole file or none."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        content = {"format": _FORMAT, "cell": asdict(cell), "result": result}
        with replacing(Path(self.folder) / cell.file) as file:
            file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def all(self, experiment: str | None = None) -> list[tuple[Cell, dict[str, Any]]]:
        """Every cell that is there, of one experiment or of all, with its result."""
        every = (_read(path) for path in sorted(Path(self.folder).glob("*.json")))
        return [(cell, result) for cell, result in every if experiment in (None, cell.experiment)]


def provenance() -> dict[str, Any]:
    """With what, when and on which machine a result is made."""
    from npvi import __version__

    device = jax.devices()[0]
    return {
        "npvi": __version__,
        "jax": jax.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "device": "cpu" if device.platform == "cpu" else device.device_kind,
        "cores": os.cpu_count(),
    }


def _read(path: Path) -> tuple[Cell, dict[str, Any]]:
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}, and this version reads {_FORMAT}")
        cell = Cell(**{**content["cell"], "settings": _tuples(content["cell"]["settings"])})
        return cell, dict(content["result"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path} is not a result that this version wrote ({type(error).__name__}: {error}): delete it, and it is "
            "computed again"
        ) from error


def _tuples(value: Any) -> Any:
    """JSON has lists where there were tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
