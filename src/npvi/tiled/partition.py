"""From tables to tiles: a look at all rows, one pass that puts each with its tile, the order of those in a tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Cube, Tiling, nested_levels, place_levels, point_keys, straddling
from npvi.runtime.files import replacing
from npvi.tiled.job import Job, job_at

__all__ = ["agree", "collect", "gather", "lay_out", "look", "order", "scatter", "spool"]

#: of a tile's side, the spacing from which on rows are coarse: others that are far away read no more than these
_COARSE = 32.0
#: of these, how many at most are in the thin sample that tiles agree on first: of a tile, of its rows, of all tiles
_THIN, _ONE_IN, _ALL = 1024, 16, 2**17


def look(folder: str, part: int) -> None:
    """Count the rows of a part and check them, see where they lie, and keep a sample, by what the rows hold."""
    job = job_at(folder)
    d, share = len(job.source.inputs), float(job.plan["sample"]) / job.source.rows
    low, high, rows, kept = np.full(d, np.inf), np.full(d, -np.inf), 0, []
    for some in job.source.read(part, job.likelihood):
        low, high = np.minimum(low, some[:, :d].min(axis=0)), np.maximum(high, some[:, :d].max(axis=0))
        rows += len(some)
        kept.append(some[_drawn(some, share)])
    sample = np.concatenate(kept) if kept else np.empty((0, len(job.source.columns)))
    job.store.write(f"look/{part:05d}", {"rows": rows}, low=low, high=high, sample=sample)


def _drawn(rows: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """About a share of the rows, by a hash of them: the same ones in whatever order, and however often, they come."""
    return (point_keys(rows) >> np.uint64(11)) * 2.0**-53 < share


def collect(folder: str, part: int) -> None:
    """The rows of a part that lie in some compact blocks, for learning."""
    job = job_at(folder)
    blocks = job.store.read("blocks")
    cube = Cube(blocks["low"], float(blocks["side"][0]))
    tiling, wanted = Tiling(cube, blocks["cuts"], blocks["children"]), blocks["wanted"]
    kept = [np.empty((0, len(job.source.columns)))]
    for some in job.source.read(part, job.likelihood):
        kept.append(some[np.isin(tiling.tile_of(some[:, blocks["coords"]]), wanted)])
    job.store.write(f"learn/{part:05d}", rows=np.concatenate(kept))


def spool(job: Job, part: int) -> str:
    """The file with the rows of a part, tile by tile."""
    return str(job.store.folder / f"{job.parts}/{part:05d}.rows")


def scatter(folder: str, part: int) -> None:
    """Put the rows of a part in the order of their tiles, into a file of which tiles read what is theirs."""
    job = job_at(folder)
    pieces = [np.empty((0, len(job.source.columns)))]
    pieces += list(job.source.read(part, job.likelihood))
    rows = np.concatenate(pieces)
    del pieces
    tile = job.tiling.tile_of(job.settled.points(rows[:, : len(job.source.inputs)]))
    starts = np.concatenate([[0], np.cumsum(np.bincount(tile, minlength=job.tiling.count))])
    rows = rows[np.argsort(tile, kind="stable")]
    name = f"{job.parts}/{part:05d}"
    job.store.path(name).parent.mkdir(parents=True, exist_ok=True)
    with replacing(spool(job, part)) as file:
        file.write(np.ascontiguousarray(rows).data)
    job.store.write(name, starts=starts)  # last: the rows are there


def gather(folder: str, tile: int) -> None:
    """All rows of a tile, from all parts, with their levels as far as the tile knows; those that an update brings come
    after those that are there."""
    job = job_at(folder)
    pieces = [np.empty((0, len(job.source.columns)))]
    for part in range(len(job.source.parts)):
        start, stop = job.store.read(f"{job.parts}/{part:05d}")["starts"][tile : tile + 2]
        if stop > start:
            width = len(job.source.columns)
            pieces.append(np.fromfile(spool(job, part), count=(stop - start) * width, offset=8 * width * start))
            pieces[-1] = pieces[-1].reshape(-1, width)
    rows = np.concatenate(pieces)
    del pieces
    rows = rows[np.lexsort((*rows.T[::-1], point_keys(rows)))]  # in whatever order they came
    if job.update:
        rows = np.concatenate([job.store.read(job.kept_tile(tile, "rows"))["rows"], rows])
    points = job.settled.points(rows[:, : len(job.source.inputs)])
    numbers, keys, bits = job.tiling.cube.numbers(points), point_keys(points), job.tiling.cube.bits
    levels = nested_levels(numbers, keys, bits)
    open_ = straddling(numbers, levels, job.tiling.boxes[tile], bits)
    job.store.write(job.tile(tile, "open"), numbers=numbers[open_], keys=keys[open_])
    job.store.write(job.tile(tile, "gathered"), rows=rows, levels=levels, open=open_)


def agree(folder: str) -> None:
    """The levels of rows that are first in cells of several tiles, from what all of these say.

    In an update tiles without new rows say what they are first in now, which is all that others can have a say in."""
    job = job_at(folder)
    count = job.tiling.count
    gathered = [job.store.has(job.tile(tile, "open")) for tile in range(count)]
    found = [
        job.store.read(job.tile(tile, "open") if mine else job.kept_tile(tile, "border"))
        for tile, mine in enumerate(gathered)
    ]
    starts = np.concatenate([[0], np.cumsum([len(one["keys"]) for one in found])])
    numbers, keys = (np.concatenate([one[name] for one in found]) for name in ("numbers", "keys"))
    levels = nested_levels(numbers, keys, job.tiling.cube.bits)
    changed = [
        tile
        for tile in range(count)
        if gathered[tile] or not np.array_equal(levels[starts[tile] : starts[tile + 1]], found[tile]["levels"])
    ]
    job.store.write(job.file("levels"), starts=starts, levels=levels, changed=np.array(changed, np.int64))


def order(folder: str, tile: int) -> None:
    """The rows of a tile in the nested order; and once more those that tiles far away want to see.

    In an update rows keep their numbers, and new ones come after them: other tiles know rows by these."""
    job = job_at(folder)
    agreed, there = job.store.read(job.file("levels")), 0
    levels_agreed = agreed["levels"][agreed["starts"][tile] : agreed["starts"][tile + 1]]
    if job.store.has(job.tile(tile, "gathered")):
        found = job.store.read(job.tile(tile, "gathered"))
        open_ = found["open"]
    else:
        found, open_ = (
            job.store.read(job.kept_tile(tile, "rows")),
            job.store.read(job.kept_tile(tile, "border"))["number"],
        )
    rows, levels = found["rows"], found["levels"]
    levels[open_] = levels_agreed
    if job.update:
        there = int(job.kept_layout["rows"][tile])
    points = job.settled.points(rows[:, : len(job.source.inputs)])
    cube = job.tiling.cube
    places = place_levels(cube.numbers(points), levels)
    sorted_ = there + np.lexsort((point_keys(rows[there:]), point_keys(points[there:]), levels[there:]))
    sorted_ = np.concatenate([np.arange(there), sorted_])
    rows, levels, places, points = rows[sorted_], levels[sorted_], places[sorted_], points[sorted_]
    box = np.stack([points.min(axis=0), points.max(axis=0)]) if len(rows) else np.zeros((2, len(cube.low)))
    wide = float(np.ptp(box, axis=0).max())
    if job.update:
        thin = int(job.kept_layout["thin"][tile])
    else:
        most = min(_THIN, -(-len(rows) // _ONE_IN), max(1, _ALL // job.tiling.count))
        thin = min(most, int((_COARSE * cube.spacing(levels) >= wide).sum()))
    # halos ask for the level of a place, which is no larger than that of a row
    coarse = np.flatnonzero((_COARSE * cube.spacing(places) >= wide) | (np.arange(len(rows)) < thin))
    job.store.write(
        job.tile(tile, "coarse"), rows=rows[coarse], levels=levels[coarse], places=places[coarse], number=coarse
    )
    numbers = cube.numbers(points)
    border = np.flatnonzero(straddling(numbers, levels, job.tiling.boxes[tile], cube.bits))
    of_border = {"numbers": numbers[border], "keys": point_keys(points)[border], "levels": levels[border]}
    job.store.write(job.tile(tile, "border"), **of_border, number=border)
    job.store.write(job.tile(tile, "rows"), rows=rows, levels=levels, places=places)
    first = np.array([places.min(initial=np.iinfo(np.int16).max)])
    about = {"rows": np.array([len(rows)]), "thin": np.array([thin]), "first": first}
    job.store.write(job.tile(tile, "outline"), **about, boxes=box[None])


def lay_out(folder: str) -> None:
    """How many rows each tile has and where they are, for all to know."""
    job = job_at(folder)
    names = ("rows", "thin", "first", "boxes")
    kept = job.kept_layout if job.update else {}
    found = []
    for tile in range(job.tiling.count):
        if job.store.has(job.tile(tile, "outline")):
            found.append(job.store.read(job.tile(tile, "outline")))
        else:
            found.append({name: kept[name][tile : tile + 1] for name in names})
    rows, thin, first, boxes = (np.concatenate([one[name] for one in found]) for name in names)
    # rows with this spacing or more are among the coarse ones
    coarse = np.ptp(boxes, axis=1).max(axis=1) / _COARSE
    job.store.write(job.file("layout"), rows=rows, thin=thin, first=first, boxes=boxes, coarse=coarse)
