"""A fit, stage by stage: what each asks of the tasks, and what this process does in between.

Every stage is a number of tasks, each with a file that it leaves; those whose file is there are done. What this process
decides in between follows from these files alone, and is written down too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import LARGEST
from npvi.graph import Cube, Tiling, point_keys
from npvi.learning import SearchSpace
from npvi.runtime import progress
from npvi.runtime.parallel import threads
from npvi.runtime.warn import warn
from npvi.tiled import fitting, partition
from npvi.tiled.coarse import step_of_all, thin_sample
from npvi.tiled.job import KEPT, OF_ROWS, PLAN, SETTLED, Job, job_at
from npvi.tiled.learning import climbed
from npvi.tiled.running import Runner, Watch
from npvi.tiled.sense import (
    blaming,
    check_along,
    check_lent,
    check_numbers,
    check_posterior,
    check_rows,
    check_said,
    check_ties,
)
from npvi.tiled.settled import Settled
from npvi.tiled.source import Source, SourceError
from npvi.tiled.store import MANIFEST, VECTORS, Store, StoreError

__all__ = ["build", "checked_rows", "plan_of", "update"]

#: rows of the sample that tells where rows lie; those that learning looks at are to one half near each other, in blocks
#: of so many, and anywhere to the other
_SAMPLE, _BLOCK = 2**17, 4096
#: rows of the sample in a block, at least
_SEEN = 16
_GOLDEN = 0.6180339887498949
#: the last step, in standard deviations: root mean square and largest
_CERTIFIED = (0.002, 0.02)

#: how far an update may move a tile that keeps its files, in standard deviations: means, root mean square and largest,
#: and standard deviations
_STAYS = (0.01, 0.05, 0.01)

#: what a tile writes down of each round
_STATE = ("state", "residual", "mean", "thin")
#: what a tile of an update has before it is seen with others
_ALONE = (
    *(name.removesuffix(VECTORS) for name in KEPT),
    "fit",
    "domain",
    "edges",
    "variance-alone",
    "weight-alone",
    "outline",
)
#: what a store has while it is made, and after
_MADE = ("tiles", "rounds", "look", "learn", "climb", "parts-*")

Learn = Callable[[NDArray[np.float64], dict[str, Any]], Settled]
Space = Callable[[NDArray[np.float64], dict[str, Any], Settled], SearchSpace]


def plan_of(
    settings: Mapping[str, Any], source: Mapping[str, Any], tile_rows: int, learn_rows: int, **more: Any
) -> dict[str, Any]:
    """What is written down before anything else, and may not change when a fit goes on."""
    rows = sum(part["rows"] for part in source["parts"])
    tiles = max(1, -(-rows // tile_rows))
    sample = rows if rows <= learn_rows else max(_SAMPLE, learn_rows // 2)
    about = {"settings": dict(settings), "source": dict(source), "tiles": tiles, "sample": sample}
    return about | {"learn_rows": learn_rows, **more}


def build(job: Job, plan: Mapping[str, Any], learn: Learn, space: Space, runner: Runner) -> None:
    """Make whatever of a store isn't there yet.

    Parameters
    ----------
    plan : `plan_of`.
    learn : from rows, and what is said of them, to a model.
    space : what may be learned of that model from all rows.
    runner : of the tasks.
    """
    store = job.store
    with store.locked(), threads(None):
        _agree_on(job, plan)
        if store.has_json(MANIFEST):
            job = job_at(str(store.folder.absolute()))
            _clean(job)  # where the last run was stopped just then
            return
        _forget_updates(store)
        if not store.has("rounds/ended"):  # what tiles have is of rounds that are gone
            for path in store.folder.glob("tiles/*/posterior.npvi"):
                path.unlink()
        job = job_at(str(store.folder.absolute()))
        stages = _Stages(job, runner)
        if not store.has_json(SETTLED):
            _settle(stages, learn)
        stages.again()
        if store.has("layout"):
            for t in _tiles(stages.job):
                checked_rows(stages.job, t)
        else:
            _sort(stages)
        stages.again()
        job = stages.job
        if _asks_all_rows(job.plan) and job.settled.info["learned"] and not job.settled.info.get("climbed"):
            settled = climbed(stages, space(store.read("sample")["rows"], job.plan, job.settled))
            store.write_json(SETTLED, {**store.read_json(SETTLED), "model": settled.as_dict()})
        stages.again()
        _fit(stages, int(stages.job.plan["rounds"]))
        _finish(stages)


def _forget_updates(store: Store) -> None:
    """Remove what updates have left of a model that isn't there any more."""
    gone = sorted(store.folder.glob("update-*"))
    for folder in gone:
        shutil.rmtree(folder)
    if gone:
        warn(
            f"{store.folder} is made anew from the tables of its fit, without the rows that {len(gone)} "
            f"update{'s' if len(gone) > 1 else ''} had added: update it again with theirs"
        )


def _asks_all_rows(plan: Mapping[str, Any]) -> bool:
    """Whether some of the rows have told where learning begins, and all of them go on."""
    rows = sum(part["rows"] for part in plan["source"]["parts"])
    return bool(plan["settings"]["learn"]) and rows > plan["learn_rows"]


def _agree_on(job: Job, plan: Mapping[str, Any]) -> None:
    """Write the plan, or see that it is the one that was begun with."""
    if not job.store.has_json(PLAN):
        job.store.write_json(PLAN, plan)
        return
    before, now = job.plan, json.loads(json.dumps(plan))
    for name in ("inputs", "target", "extras"):
        old, new = before["source"][name], now["source"][name]
        if old != new:
            raise StoreError(
                f"{job.store.folder} was begun with {name} {_words(old)}, and not {_words(new)}: give another folder, "
                "or remove this one"
            )
    if before["source"] != now["source"]:
        raise StoreError(
            f"{job.store.folder} was begun with other tables, or they have changed since: a model is of one state of "
            "the data. Give another folder, or remove this one"
        )
    for name, value in now["settings"].items():
        if before["settings"].get(name) != value:
            raise StoreError(
                f"{job.store.folder} was begun with {name}={before['settings'].get(name)!r}, and not {value!r}: give "
                "another folder, or remove this one"
            )
    for name in ("halo", "rounds", "max_iter", "learn_rows"):  # but not tiles: other machines may go on with them
        if before[name] != now[name]:
            raise StoreError(
                f"{job.store.folder} was begun with {name}={before[name]:g}, and not {now[name]:g}: give another "
                "folder, or remove this one"
            )


def _words(columns: Any) -> str:
    """Columns as an error names them.

    >>> _words(["lon", "lat"]), _words("count"), _words({"exposure": "hours"}), _words({})
    ('lon, lat', 'count', 'exposure=hours', 'none')
    """
    if isinstance(columns, Mapping):
        columns = [f"{name}={column}" for name, column in columns.items()]
    return str(columns) if isinstance(columns, str) else ", ".join(map(str, columns)) or "none"


def update(store: Store, tables: Source, runner: Runner, rounds: int) -> None:
    """Let new rows join a finished model, whose numbers stay; the model is the old one until this is done.

    Parameters
    ----------
    tables : with the new rows; files that the model knows are left out.
    runner : of the tasks.
    rounds : at most, in which tiles are brought to agree.
    """
    with store.locked(), threads(None):
        job = job_at(str(store.folder.absolute()))
        done = job.manifest.get("updates", [])
        _clean(job)
        name = f"update-{len(done) + 1:03d}"
        source = _unknown(job, tables)
        if not source.parts:
            return
        _check_kept(job)
        plan = f"{name}/{PLAN}"
        if not store.has_json(plan):
            store.write_json(plan, {"source": source.as_dict()})
        elif store.read_json(plan).get("source") != json.loads(json.dumps(source.as_dict())):
            raise StoreError(
                f"{store.folder} has an update that was begun with other tables, or they have changed since. Finish it "
                f"with those, or remove {store.folder / name} to give it up: the model is what it was before"
            )
        stages = _Stages(job_at(str((store.folder / name).absolute())), runner)
        if not store.has(stages.job.file("layout")):
            try:
                _sort(stages)
            except SourceError:  # they are to be mended: nothing was begun with them
                (store.folder / plan).unlink(missing_ok=True)
                raise
        stages.again()
        while True:
            _widen(stages)
            _fit(stages, rounds)
            if not _moved_on(stages):
                break
        _finish(stages)


def _unknown(job: Job, tables: Source) -> Source:
    """The tables without the files that a model has the rows of.

    Raises
    ------
    SourceError
        Where one of these isn't what it was.
    """
    sources = [job.plan["source"], *(one["source"] for one in job.manifest.get("updates", []))]
    known = {part["path"]: (part["size"], part["modified"]) for source in sources for part in source["parts"]}
    for part in tables.parts:
        if known.get(part.path, (part.size, part.modified)) != (part.size, part.modified):
            raise SourceError(
                f"{part.path} has changed since the model took its rows. Give new rows in a file of their own, or fit "
                "all tables into another folder"
            )
    parts = tuple(part for part in tables.parts if part.rows and part.path not in known)
    return Source(parts, tables.inputs, tables.target, tables.extras)


def _once(task: Callable[..., None], folder: str, *call: Any) -> None:
    """Run a task unless its file, the last of `call`, is there: by a worker that goes on when its client is gone."""
    *about, name = call
    store = job_at(folder).store
    with store.working(name):
        if not store.has(name):
            task(folder, *about)


class _Stages:
    """Tasks of a store, and who runs them."""

    def __init__(self, job: Job, runner: Runner) -> None:
        self.job, self.runner = job, runner

    def run(self, stage: str, task: Callable[..., None], calls: Sequence[tuple], file: Callable, rows: Any) -> None:
        """Those of the tasks, `calls` without the folder, whose file isn't there; `rows` are those of each part or
        tile, or of the one task."""
        folder = self.job.folder
        left = [call for call in calls if not self.job.store.has(file(*call))]

        def size(call: tuple) -> int:
            return int(rows) if np.ndim(rows) == 0 else int(rows[call[0]])

        watch = Watch(stage, [size(call) for call in left], len(calls) - len(left))
        named = [(folder, *call, file(*call)) for call in left]
        self.runner.run(stage, partial(_once, task), named, lambda call: watch.done(size(call[1:-1])))

    def parts(self, stage: str, task: Callable[..., None], file: Callable) -> None:
        """One for each part of the tables."""
        parts = self.job.source.parts
        self.run(stage, task, [(p,) for p in range(len(parts))], file, [part.rows for part in parts])

    def tiles(self, stage: str, task: Callable[..., None], name: str, *more: int) -> None:
        """One for each tile that is fitted."""
        self.some(stage, task, name, self.active, *more)

    def some(self, stage: str, task: Callable[..., None], name: str, tiles: Sequence[int], *more: int) -> None:
        """One for each of these tiles."""
        count = self.job.tiling.count
        if self.job.store.has(self.job.file("layout")):
            rows = self.job.layout["rows"]
        else:  # about as many in each
            rows = np.full(count, max(1, sum(part.rows for part in self.job.source.parts) // count))
        self.run(stage, task, [(t, *more) for t in tiles], lambda t, *_: self.job.tile(t, name), rows)

    @property
    def active(self) -> list[int]:
        """The tiles that are fitted."""
        found: list[int] = np.flatnonzero(self.job.active).tolist()
        return found

    def sums(self, name: str) -> list[dict[str, Any]]:
        """What these say beside their arrays."""
        return [self.job.store.about(self.job.tile(t, name)) for t in self.active]

    def again(self) -> None:
        """Read what is known of the tiles again, of which there is more."""
        self.job = job_at(self.job.folder)


# -- from tables to tiles ------------------------------------------------------------------------------------------


def _settle(stages: _Stages, learn: Learn) -> None:
    """Look at the rows, and learn the model from some of them; then cut tiles."""
    job, store = stages.job, stages.job.store
    stages.parts("look", partition.look, lambda p: f"look/{p:05d}")
    looked = [store.read_all(f"look/{p:05d}") for p in range(len(job.source.parts))]
    counted = sum(about["rows"] for about, _ in looked)
    if counted != job.source.rows:
        raise StoreError(f"the tables have {counted:,} rows, and say of themselves that they have {job.source.rows:,}")
    box = np.stack(
        [
            np.min([arrays["low"] for _, arrays in looked], axis=0),
            np.max([arrays["high"] for _, arrays in looked], axis=0),
        ]
    )
    sample = _canonical(np.concatenate([arrays["sample"] for _, arrays in looked]))
    if not len(sample):
        raise StoreError("the sample of the rows is empty: are all rows equal?")
    rows = _to_learn_from(stages, box, sample)
    progress.report("learning", rows=len(rows))
    settled = learn(rows, job.plan)
    if _asks_all_rows(job.plan):
        store.write("sample", rows=rows)
    d = len(job.source.inputs)
    cube = settled.cube(box, sample[:, :d])
    tiling = Tiling.cut(settled.points(sample[:, :d]), cube, int(job.plan["tiles"]))
    store.write_json(SETTLED, {"model": settled.as_dict(), "tiling": tiling.as_dict(), "box": box.tolist()})
    for name in ("look", "learn", "blocks"):
        store.remove(name)


def _to_learn_from(stages: _Stages, box: NDArray[np.float64], sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """All rows where there are few; else some blocks, where near neighbours are, and as many rows from everywhere."""
    job, store = stages.job, stages.job.store
    n, wanted_rows = job.source.rows, int(job.plan["learn_rows"])
    if n <= wanted_rows or not job.plan["settings"]["learn"]:
        return sample[:: max(1, len(sample) // wanted_rows)]
    coords = np.array(job.plan["coords"], np.int64)
    cube = Cube(box[0, coords], float(np.ptp(box[:, coords], axis=0).max()) or 1.0)
    tiling = Tiling.cut(sample[:, coords], cube, max(1, min(n // _BLOCK, len(sample) // _SEEN)))
    wanted = max(1, round(0.5 * wanted_rows * tiling.count / n))
    chosen = np.unique([int((k * _GOLDEN % 1.0) * tiling.count) for k in range(wanted)])
    if not store.has("blocks"):
        arrays = {"low": cube.low, "side": np.array([cube.side]), "cuts": tiling.cuts, "children": tiling.children}
        store.write("blocks", **arrays, wanted=chosen, coords=coords)
    stages.parts("collect", partition.collect, lambda p: f"learn/{p:05d}")
    near = np.concatenate([store.read(f"learn/{p:05d}")["rows"] for p in range(len(job.source.parts))])
    far = sample[~np.isin(tiling.tile_of(sample[:, coords]), chosen)][: wanted_rows // 2]
    return _canonical(np.concatenate([near, far]))


def _canonical(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows in an order that follows from what they hold, and from nothing else."""
    return rows[np.lexsort((*rows.T, point_keys(rows)))]


def _sort(stages: _Stages) -> None:
    """Put every row with its tile, and in its place there."""
    job, store = stages.job, stages.job.store
    if not store.has(job.file("levels")):
        stages.parts("partition", partition.scatter, lambda p: f"{job.parts}/{p:05d}")
        tiles = _tiles(job)
        if job.update:  # those with new rows
            starts = [store.read(f"{job.parts}/{p:05d}")["starts"] for p in range(len(job.source.parts))]
            tiles = np.flatnonzero(np.diff(starts, axis=1).sum(axis=0)).tolist()
        stages.some("gather", partition.gather, "gathered", tiles)
        partition.agree(job.folder)
    store.remove(job.parts)
    stages.again()
    job = stages.job
    tiles = np.flatnonzero(job.changed).tolist() if job.update else _tiles(job)
    stages.some("order", partition.order, "outline", tiles)
    partition.lay_out(job.folder)
    for t in tiles:
        store.remove(job.tile(t, "gathered"))
        store.remove(job.tile(t, "open"))


def _tiles(job: Job) -> Sequence[int]:
    return range(job.tiling.count)


# -- the posterior ------------------------------------------------------------------------------------------


def _fit(stages: _Stages, rounds: int) -> None:
    """Fit all tiles, then go round until they agree."""
    job, store = stages.job, stages.job.store
    stages.tiles("fit", fitting.fit_tile, "fit")
    if not store.has(job.file("lenders")):
        lent = [store.read(job.tile(t, "ties")).get("lent", np.zeros((0, 3), np.int64)) for t in _tiles(job)]
        of = np.repeat(np.arange(len(lent)), [len(one) for one in lent])
        to, start, stop = np.concatenate(lent).T
        rows = np.array([one[-1, 2] if len(one) else 0 for one in lent], np.int64)[of]
        store.write(job.file("lenders"), of=of, to=to, start=start, stop=stop, rows=rows)
    stages.run("thin out", thin_sample, [()], lambda: job.file("thin"), int(job.layout["thin"].sum()))
    ended = store.has(job.file("rounds/ended"))
    if job.update or not ended:  # tiles of a fit that are complete have nothing to link any more
        stages.tiles("link", fitting.link, "links")
    if not ended:
        _rounds(stages, rounds)


def _rounds(stages: _Stages, rounds: int) -> None:
    job, store = stages.job, stages.job.store
    stages.tiles("multiply", fitting.multiply, "product-00", 0)
    staying = _of_others(job)
    begun = [one for one in (*stages.sums("product-00"), *staying) if one]
    size = len(job.settled.part.names)
    HPH, information = (_added([one[name] for one in begun], (size, size)) for name in ("HPH", "information"))
    HPf = _added([one["HPf"] for one in begun], (size,))
    precision = np.diag(job.settled.coefficient_precision)
    mean_of = _inverse(HPH + precision)
    spread = _inverse(precision + 0.5 * (information + information.T))
    coefficients = mean_of @ HPf
    if staying:  # with them rows of tiles that stay move, and so they themselves
        with_them = _added([one["taken"] for one in begun], (size, size))
        HPf -= _added([one["taken"] for one in begun[: -len(staying)]], (size, size)) @ job.began
        coefficients = _inverse(HPH + precision - with_them) @ HPf
    if not store.has(job.file("rounds/begun")):
        store.write(job.file("rounds/begun"), {"coefficients": coefficients.tolist()})
    stages.tiles("check", fitting.start, "state-00")
    if store.has(job.file("rounds/at")):
        at = store.about(job.file("rounds/at"))
    else:
        at = {"step": 0, "coefficients": coefficients.tolist(), "before": [], "history": [_left(stages, 0)]}
    certified = job.tiling.count == 1 or _certified(at["history"][-1])
    while not certified and at["step"] < rounds:
        at = _round(stages, at, spread, mean_of, HPH - information)
        certified = _certified(at["history"][-1])
        store.write(job.file("rounds/at"), at)
        _forget(stages, at["step"])
    ended = {"coefficients": at["coefficients"], "covariance": spread.tolist(), "step": at["step"]}
    store.write(job.file("rounds/ended"), {**ended, "certified": certified, "history": at["history"]})


def _round(
    stages: _Stages,
    at: Mapping[str, Any],
    spread: NDArray[np.float64],
    mean_of: NDArray[np.float64],
    taken: NDArray[np.float64],
) -> dict[str, Any]:
    """One step for all tiles."""
    job, store, step, size = stages.job, stages.job.store, at["step"] + 1, len(spread)
    thin = int(job.layout["thin"].sum())
    stages.run("agree", step_of_all, [(step,)], lambda step: job.file(f"rounds/thin-{step:02d}"), thin)
    stages.tiles("solve", fitting.solve, f"step-{step:02d}", step)
    HPd = _added([one["HPd"] for one in stages.sums(f"step-{step:02d}") if one["HPd"]], (size,))
    moved = spread @ HPd
    now = mean_of @ (HPd + taken @ moved)
    if not store.has(job.file(f"rounds/solved-{step:02d}")):
        store.write(job.file(f"rounds/solved-{step:02d}"), {"moved": moved.tolist(), "coefficients": now.tolist()})
    stages.tiles("multiply", fitting.multiply, f"product-{step:02d}", step)
    sums = [one for one in stages.sums(f"product-{step:02d}") if one]
    qq, qr = (sum(one[name] for one in sums) for name in ("qq", "qr"))
    qp, pp, pr = (_added([one[name] for one in sums], (step - 1,)) for name in ("qp", "pp", "pr"))
    shares = np.divide(qp, pp, out=np.zeros(step - 1), where=pp > 0.0)
    square = qq - float(shares @ qp)
    length = (qr - float(shares @ pr)) / square if square > 0.0 else 0.0
    if not store.has(job.file(f"rounds/taken-{step:02d}")):
        store.write(job.file(f"rounds/taken-{step:02d}"), {"length": length, "shares": shares.tolist()})
    stages.tiles("move", fitting.move, f"state-{step:02d}", step)
    before = now - shares @ np.reshape(at["before"], (step - 1, size))
    last = _left(stages, step)
    progress.report("round", number=step, **last)
    return {
        "step": step,
        "coefficients": (np.array(at["coefficients"]) + length * before).tolist(),
        "before": [*at["before"], before.tolist()],
        "history": [*at["history"], last],
    }


def _certified(left: Mapping[str, float]) -> bool:
    return "step" in left and left["step"] <= _CERTIFIED[0] and left["farthest"] <= _CERTIFIED[1]


def _left(stages: _Stages, step: int) -> dict[str, float]:
    """Of all rows, in standard deviations: what is left of the equations, and how long the last step was."""
    found, n = stages.sums(f"state-{step:02d}"), int(stages.job.layout["rows"][stages.job.active].sum())
    left = {"residual": float(np.sqrt(sum(one["squares"] for one in found) / n))}
    left["largest"] = max(one["largest"] for one in found)
    if step:
        left["step"] = float(np.sqrt(sum(one["moved"] for one in found) / n))
        left["farthest"] = max(one["farthest"] for one in found)
    return left


def _added(values: list[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The sum, in their order."""
    total = np.zeros(shape)
    for value in values:
        total += np.reshape(value, shape)
    return total


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a matrix, which may have no rows."""
    return np.asarray(np.linalg.inv(matrix), np.float64) if len(matrix) else matrix


def _forget(stages: _Stages, step: int) -> None:
    """Remove what rounds before this one have left."""
    store = stages.job.store
    for t in stages.active:
        for name in (f"step-{step:02d}", f"product-{step:02d}", *(f"{one}-{step - 1:02d}" for one in _STATE)):
            store.remove(stages.job.tile(t, name))


def _of_others(job: Job) -> list[dict[str, Any]]:
    """What tiles that stay add to the sums about β, if it were 0, and by how much HᵀPf rises with it."""
    found = []
    for t in np.flatnonzero(~job.active & (job.layout["rows"] > 0)).tolist():
        about = job.store.about(job.tile(t, "posterior"))
        taken = np.array(about["HPH"]) - about["information"]
        HPf = np.array(about["HPf"]) - taken @ about["coefficients"]
        found.append({"HPf": HPf, "HPH": about["HPH"], "information": about["information"], "taken": taken})
    return found


# -- updates ---------------------------------------------------------------------------------------------------------


def _around(job: Job, tiles: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These tiles and those around them, across such that have no rows."""
    found = job.tiling.touching(tiles)
    while True:
        wider = found | (job.tiling.touching(found & (job.layout["rows"] == 0)))
        if np.array_equal(wider, found):
            return found
        found = wider


def _widen(stages: _Stages) -> None:
    """Fit more tiles: first those with new rows and all around them; what tiles have found together begins again."""
    job, store = stages.job, stages.job.store
    if not store.has(job.file("active")):
        store.write(job.file("active"), tiles=np.flatnonzero(_around(job, job.changed)))
    elif store.has(job.file("wider")):
        for t in stages.active:
            for path in (store.folder / job.tile(t, "fit")).parent.glob("*"):  # there may be none yet
                if path.stem not in _ALONE:
                    path.unlink()
        for name in ("rounds", "lenders", "thin"):
            store.remove(job.file(name))
        store.write(job.file("active"), **store.read(job.file("wider")))
        store.remove(job.file("wider"))
    stages.again()


def _check_kept(job: Job) -> None:
    """Raise StoreError where the finished model is not what it was, or none that may go on: all of its files are read.
    What of them a fit makes anew, if there is no manifest, it doesn't ask for."""
    with blaming(job.store.folder / MANIFEST):
        if job.manifest["rows_of_tiles"] != job.kept_layout["rows"].tolist():
            raise ValueError("its rows_of_tiles are not those of its layout")
    for t in range(job.tiling.count):
        rows = checked_rows(job, t)
        if len(rows):
            _check_tile(job, t, rows)


def checked_rows(job: Job, tile: int) -> NDArray[np.float64]:
    """Of a tile, as they were kept; StoreError where they can't be a tile's."""
    store, layout = job.store, job.kept_layout
    rows, coarse, border = (store.read(job.kept_tile(tile, name)) for name in OF_ROWS)
    with blaming(store.path(job.kept_tile(tile, "rows")).parent):
        check_rows(rows, coarse, border, layout, tile, len(job.source.columns), job.tiling.cube)
        _, y, row = job.source.split(rows["rows"])
        if len(y):
            job.settled.likelihood.check_row(row, len(y), job.settled.likelihood.check_response(y))
    return rows["rows"]


def _check_tile(job: Job, tile: int, of_tile: NDArray[np.float64]) -> None:
    """What a tile is for others."""
    store, layout, settled = job.store, job.kept_layout, job.settled
    count, p, thin = int(layout["rows"][tile]), len(settled.part.names), int(layout["thin"].sum())
    path = store.path(job.kept_tile(tile, "posterior"))
    about, arrays = store.read_all(job.kept_tile(tile, "posterior"))
    vectors = {name for name in KEPT if name.endswith(VECTORS)}
    with blaming(path):
        check_posterior(arrays, about, len(settled.part.coords), p)
        check_said(about, p, vectors)
    ties = store.read(job.kept_tile(tile, "ties"))
    with blaming(store.path(job.kept_tile(tile, "ties"))):
        check_ties(ties, job.tiling.count, thin)
    for file, checksum in about["sums"].items():
        name = job.kept_tile(tile, file)
        if store.checksum(name) != checksum:
            raise StoreError(
                f"{store.path(name)} was altered since it was written: its checksum is wrong. The model still "
                "predicts, but can't be updated: fit all tables into another folder"
            )
    rows = {"lent": int(ties["lent"][-1, 2]) if len(ties["lent"]) else 0, "thin-weight": len(ties["index"])}
    width, low = {"thin-weight": 2}, {"variance": 1e-300, "weight": 0.0}
    basis = settled.part.basis(job.source.split(of_tile)[0])
    for name in (file.removesuffix(VECTORS) for file in about["sums"]):
        kept = job.kept_tile(tile, name)
        values = store.read_vectors(kept, rows.get(name, count))
        with blaming(store.folder / f"{kept}{VECTORS}"):
            if name == "lent":
                check_lent(values, layout["rows"])
            elif name == "along":
                check_along(values, about["basis"])
            elif name == "basis":
                if not np.allclose(values, basis):
                    raise ValueError("it isn't that of the tile's rows")
            else:
                check_numbers(values, width.get(name, 1), low.get(name, -LARGEST))


def _moved_on(stages: _Stages) -> bool:
    """Whether tiles next to some that stay have moved there, so that these are to be fitted, too."""
    job, store = stages.job, stages.job.store
    stages.tiles("compare", fitting.compare, "moved", store.about(job.file("rounds/ended"))["step"])
    beyond = np.zeros(job.tiling.count, dtype=bool)
    for one in stages.sums("moved"):
        for other, far in one["next"].items():
            beyond[int(other)] |= not _stays(far)
    if beyond.any():
        wider = job.active | _around(job, beyond)
        store.write(job.file("wider"), tiles=np.flatnonzero(wider))
    return bool(beyond.any())


def _stays(far: Sequence[float]) -> bool:
    return all(value <= most for value, most in zip(far, _STAYS))


def _touched(stages: _Stages) -> NDArray[np.bool_]:
    """The tiles that get new files."""
    job = stages.job
    found = job.active.copy()
    if job.update:
        for t, one in zip(stages.active, stages.sums("moved")):
            found[t] = job.changed[t] or not _stays(one["all"])
    return found


# -- the end ---------------------------------------------------------------------------------------------------------


def _finish(stages: _Stages) -> None:
    """What predictions ask for, and updates; all else is removed."""
    job, store = stages.job, stages.job.store
    ended, touched = store.about(job.file("rounds/ended")), _touched(stages)
    stages.some("complete", fitting.complete, "posterior", np.flatnonzero(touched).tolist(), ended["step"])

    def name_of(tile: int, name: str) -> str:
        return job.tile(tile, name) if touched[tile] else job.kept_tile(tile, name)

    full = [store.about(name_of(t, "posterior")) for t in np.flatnonzero(job.layout["rows"]).tolist()]
    bound = sum(one["bound"] for one in full) + _of_coefficients(job, ended)
    coefficients, covariance = job.settled.part.in_units(np.array(ended["coefficients"]), np.array(ended["covariance"]))
    certificate = {"certified": ended["certified"], "rounds": ended["step"], "history": ended["history"]}
    unconverged = [one for one in full if not one["converged"]]
    if unconverged:
        warn(f"the fits of {len(unconverged)} of {len(full)} tiles did not converge: raise max_iter")
    if not ended["certified"]:
        last = ended["history"][-1]
        warn(
            f"after {ended['step']} rounds tiles don't quite agree: the last step would move means by "
            f"{last.get('step', np.nan):.2g} standard deviations (root mean square; at most "
            f"{last.get('farthest', np.nan):.2g}). "
            + ("Fit all tables into another folder, with " if job.update else "Take another folder and ")
            + "more rounds, a larger halo or nugget, or larger tiles"
        )
    about = {
        "npvi": _version(),
        "rows": int(job.layout["rows"].sum()),
        "tiles": int(np.sum(job.layout["rows"] > 0)),
        "rows_of_tiles": job.layout["rows"].tolist(),
        "seen": [one["seen"] for one in full],
        "elbo": float(bound),
        "coefficients": {
            name: [float(value), float(np.sqrt(max(variance, 0.0)))]
            for name, value, variance in zip(job.settled.part.names, coefficients, np.diag(covariance))
        },
        "trend": {"coefficients": ended["coefficients"], "covariance": ended["covariance"]},
        "certificate": certificate,
        "updates": _with_this(stages, touched),
    }
    files = [job.file("layout")]
    for t in _tiles(job):
        names = [name_of(t, name) for name in KEPT]
        files += [name for name in names if job.layout["rows"][t] or store.has(name)]
    store.finish(about, files)
    _clean(job_at(str(store.folder.absolute())))


def _with_this(stages: _Stages, touched: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """What is said of updates."""
    job = stages.job
    if not job.update:
        return []
    moved = [one["all"] for t, one in zip(stages.active, stages.sums("moved")) if not touched[t]]
    farthest = np.max(moved, axis=0, initial=0.0).tolist() if moved else [0.0, 0.0, 0.0]
    this = {"source": job.source.as_dict(), "rows": int(job.layout["rows"].sum() - job.kept_layout["rows"].sum())}
    this |= {"touched": int(touched.sum()), "fitted": int(job.active.sum()), "stays": farthest}
    return [*job.manifest.get("updates", []), this]


def _clean(job: Job) -> None:
    """Remove what a finished model doesn't need; an update that was begun may go on."""
    store, manifest = job.store, job.manifest
    wanted = {store.path(name) for name in manifest["files"]}
    begun = f"update-{len(manifest.get('updates', [])) + 1:03d}"
    made = [path for name in _MADE for path in store.folder.glob(name)]
    made += [path for path in store.folder.glob("update-*") if path.name != begun]
    for folder in made:
        _prune(folder, wanted)
    for name in ("lenders", "levels", "thin", "layout", "blocks", "sample"):
        if store.path(name) not in wanted:
            store.path(name).unlink(missing_ok=True)


def _prune(folder: Path, wanted: set[Path]) -> None:
    """Remove all files of a folder but those that are wanted, and folders that are empty then."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir():
            _prune(path, wanted)
        elif path not in wanted:
            path.unlink()
    if not any(folder.iterdir()):
        shutil.rmtree(folder)


def _of_coefficients(job: Job, ended: Mapping[str, Any]) -> float:
    """What the mean's coefficients add to the bound: −½ bᵀΛb + ½ log |S Λ|, with a density of 1 for flat directions."""
    b, S, precision = np.array(ended["coefficients"]), np.array(ended["covariance"]), job.settled.coefficient_precision
    if not len(b):
        return 0.0
    flat = precision == 0.0
    log_prior = -float(np.log(precision[~flat]).sum() + np.log(2.0 * np.pi) * flat.sum())
    return float(-0.5 * (precision @ b**2) + 0.5 * (np.linalg.slogdet(S)[1] - log_prior))


def _version() -> str:
    from npvi import __version__

    return __version__
