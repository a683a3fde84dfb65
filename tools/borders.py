"""Make `src/npvi/maps/borders.npz` again: borders of countries and coasts, from Natural Earth (public domain).

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python tools/borders.py package

Each border is there once, however many countries it has on its sides. Numbers are steps of 180/32767 of a degree of
longitude and of half as much of latitude (600 m at the equator), each as the difference to the one before, which
is what compresses well; a line starts where `starts` says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TARGET", "lines_of", "main", "packed"]

TARGET = Path(__file__).parent.parent / "src" / "npvi" / "maps" / "borders.npz"
#: what the file calls them, and of which file of world-atlas they are
_SCALES = {"coarse": "countries-110m.json", "fine": "countries-50m.json"}
#: degrees from where a map of the world is cut, which is no border
_CUT = 0.02


def lines_of(topology: dict[str, Any]) -> list[np.ndarray]:
    """The lines of a TopoJSON file, longitudes and latitudes, without the cuts at 180° and at the south pole.

    >>> square = {"transform": {"scale": [1, 1], "translate": [0, 0]}, "arcs": [[[0, 0], [0, 2], [3, 0]]]}
    >>> lines_of(square)[0].tolist()
    [[0.0, 0.0], [0.0, 2.0], [3.0, 2.0]]
    """
    scale, translate = (np.array(topology["transform"][name], dtype=float) for name in ("scale", "translate"))
    found = []
    for arc in topology["arcs"]:
        line = np.cumsum(np.array(arc, dtype=float), axis=0) * scale + translate
        edge = (np.abs(line[:, 0]) > 180.0 - _CUT) | (line[:, 1] < -90.0 + _CUT)
        cut = (edge[1:] & edge[:-1]) | (np.abs(np.diff(line[:, 0])) > 180.0)
        breaks = np.flatnonzero(cut) + 1
        found += [piece for piece in np.split(line, breaks) if len(piece) > 1]
    return found


def packed(lines: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the points of all lines, int16, and where lines start."""
    steps = [np.rint(line * [32767 / 180.0, 32767 / 90.0]).astype(np.int64) for line in lines]
    # int16 that flow over come back when they are summed up: differences are modulo 65536
    points = np.concatenate(steps)
    differences = np.diff(points, axis=0, prepend=np.zeros((1, 2), dtype=np.int64))
    starts = np.cumsum([0, *(len(line) for line in steps[:-1])])
    return differences.astype(np.int16), np.diff(starts, prepend=0).astype(np.int16)


def main(folder: Path, target: Path = TARGET) -> None:
    """Write the file from an unpacked world-atlas."""
    arrays = {}
    for name, file in _SCALES.items():
        topology = json.loads((folder / file).read_text(encoding="utf-8"))
        arrays[name], arrays[f"{name}_starts"] = packed(lines_of(topology))
    np.savez_compressed(target, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
