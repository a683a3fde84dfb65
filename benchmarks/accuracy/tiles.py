"""Fits in tiles beside one fit in memory: means, standard deviations, the bound, jumps at borders, CPU seconds.

python -m benchmarks tiles                          # 10⁶ counts in 8 and in 64 tiles
python -m benchmarks tiles --rows 100000 --tiles 9 --picture seams.png
python -m benchmarks tiles --rows 60000 --tiles 27 --length-scale 0.5 --share 0.05   # where counts say little
python -m benchmarks tiles --rows 300000 1000000 --tile-rows 50000                   # by themselves: what a row costs
python -m benchmarks tiles --rows 1000000 --tiles 64 --learn                          # what is learned, beside memory
python -m benchmarks tiles --rows 200000 --tiles 64 --update 0.02                     # more rows in one of 64 tiles
python -m benchmarks tiles --rows 10000000 --tile-rows 125000 --learn
python -m benchmarks tiles --rows 10000000 --tile-rows 125000 --learn --workers 2 --memory 2GB   # of Dask
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import npvi
from benchmarks.common import show
from benchmarks.fields import on_grid

SMOOTHNESS, NUGGET = 1.5, 1e-3
#: places where predictions are compared, and pairs of places on both sides of a border and of a line anywhere
_PLACES, _PAIRS, _APART = 20_000, 400, 1e-5
#: rows of a file, and places that a model by itself predicts
_FILE, _MANY = 1_000_000, 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tiles")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--tiles", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--tile-rows", type=int, help="rows of a tile: no fit in memory beside it")
    parser.add_argument("--length-scale", type=float, default=0.1)
    parser.add_argument("--share", type=float, default=1.0, help="of what there is to count, how much is seen")
    parser.add_argument("--update", type=float, help="new rows in one tile, for each that is there")
    parser.add_argument("--learn", action="store_true", help="the numbers, too, by tiles of --tile-rows")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--workers", type=int, help="of a cluster of Dask, with --memory each; none by default")
    parser.add_argument("--picture", type=Path, help="where to draw the last of them")
    options = parser.parse_args()
    _compiled()
    if options.update is not None:
        _update(options)
        return
    if options.tile_rows is None:
        for rows in options.rows:
            (_learned if options.learn else _compare)(rows, options)
        return
    table = [_by_itself(rows, options) for rows in options.rows]
    header = (
        "rows",
        "tiles",
        "rounds",
        "certified",
        "CPU s",
        "µs a row",
        "peak MB",
        "CPU s of 10⁶ predictions",
        "wall s",
    )
    show("Poisson counts in tiles", header, table)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    kernel: dict[str, Any] = {"kernel": npvi.kernels.Matern(options.length_scale, 1.0, smoothness=SMOOTHNESS)}
    if options.learn:
        kernel = {"kernel": npvi.kernels.Matern(smoothness=SMOOTHNESS)}
    return {**kernel, "nugget": None if options.learn else NUGGET, "learn": options.learn, "n_jobs": options.jobs}


def _compiled() -> None:
    """What a first fit compiles isn't timed."""
    table = _counts(2000, 0.1, 1.0)
    npvi.GPRegressor("poisson", order="nested", n_jobs=1).fit(table[["x", "y"]], table["count"])


def _compare(count: int, options: argparse.Namespace) -> None:
    settings = _settings(options)
    table = _counts(count, options.length_scale, options.share)
    started = time.process_time()
    memory = npvi.GPRegressor("poisson", order="nested", **settings).fit(table[["x", "y"]], table["count"])
    rows: list[tuple] = [("in memory", "", "", "", "", "", "", "", round(time.process_time() - started, 1))]
    with tempfile.TemporaryDirectory() as folder:
        table.to_parquet(f"{folder}/counts.parquet", row_group_size=2**17)
        for tiles in options.tiles:
            store = f"{folder}/{tiles}"
            size = -(-count // tiles)
            tiled = npvi.TiledRegressor("poisson", **settings, store=store, tile_rows=size, client=None)
            started = time.process_time()
            tiled.fit(f"{folder}/counts.parquet", target="count")
            spent = round(time.process_time() - started, 1)
            rows.append((f"{tiles} tiles", *_beside(tiled, memory), spent))
            if options.picture is not None:
                _draw(tiled, memory, options.picture)
    header = ("fit", "rounds", "mean rms", "mean max", "sd rms", "bound/row", "jump at border", "elsewhere", "CPU s")
    show(f"{count:,} Poisson counts, against the fit in memory; in its standard deviations", header, rows)


def _learned(count: int, options: argparse.Namespace) -> None:
    """What tiles learn from some of the rows, in standard errors of what memory learns from all."""
    settings = _settings(options)
    table = _counts(count, options.length_scale, options.share)
    memory = npvi.GPRegressor("poisson", order="nested", hyper="plug-in", **settings)
    summary = memory.fit(table[["x", "y"]], table["count"]).summary(standard_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        table.to_parquet(f"{folder}/counts.parquet", row_group_size=2**17)
        for tiles in options.tiles:
            size = -(-count // tiles)
            store = f"{folder}/{tiles}"
            tiled = npvi.TiledRegressor("poisson", **settings, store=store, tile_rows=size, client=None)
            tiled.fit(f"{folder}/counts.parquet", target="count")
            about = tiled.describe()
            found = {"nugget": tiled.nugget_}
            found |= {f"kernel__{name}": value for name, value in tiled.kernel_.get_params().items()}
            found |= {f"mean__{name}": value for name, (value, _) in tiled.mean_coefficients_.items()}
            errors = about["standard_errors"] | {f"mean__{k}": error for k, (_, error) in about["coefficients"].items()}
            known = summary["standard_error"].dropna()
            rows = [
                (name, value, error, found[name], errors[name], (found[name] - value) / error)
                for name, value, error in zip(known.index, summary["value"][known.index], known)
            ]
            header = ("parameter", "in memory", "s.e.", f"in {tiles} tiles", "s.e.", "off by (s.e. in memory)")
            show(f"{count:,} Poisson counts, learned from {about['learned_from']:,} of them", header, rows)
            held = _settings(options) | {"kernel": tiled.kernel_, "nugget": tiled.nugget_, "learn": False}
            same = npvi.GPRegressor("poisson", order="nested", **held).fit(table[["x", "y"]], table["count"])
            print(
                f"\nbound in memory at these numbers: {same.fitted_.elbo:,.1f}, at memory's: {memory.fitted_.elbo:,.1f}"
            )


def _update(options: argparse.Namespace) -> None:
    """New rows in one tile amid the others: an update beside fits of all rows, in tiles and in memory."""
    settings, rows = _settings(options), []
    for count in options.rows:
        table = _counts(count, options.length_scale, options.share)
        for tiles in options.tiles:
            with tempfile.TemporaryDirectory() as folder:
                rows.append((f"{count:,}", tiles, *_updated(table, tiles, options, settings, folder)))
    header = ("rows", "tiles", "new", "fitted", "touched", "rounds", "CPU s", "of a fit")
    show("An update with rows in one tile", (*header, "mean rms", "mean max", "sd rms", "bytes a row"), rows)


def _updated(
    table: pd.DataFrame, tiles: int, options: argparse.Namespace, settings: dict[str, Any], folder: str
) -> tuple:
    settings = {**settings, "tile_rows": -(-len(table) // tiles), "client": None}
    table.to_parquet(f"{folder}/counts.parquet", row_group_size=2**17)
    model = npvi.TiledRegressor("poisson", **settings, store=f"{folder}/store").fit(f"{folder}/counts.parquet", "count")
    tiling, X = model._job.tiling, model._job.settled.points(table[["x", "y"]].to_numpy())
    tile = tiling.tile_of(X)
    middle = tiling.tile_of(np.median(X, axis=0)[None])[0]
    inside = table.to_numpy()[tile == middle, :2]
    count = max(1, round(options.update * len(inside)))
    low, high = inside.min(axis=0), inside.max(axis=0)
    new = _counts(count, options.length_scale, options.share, 1, low, high)
    new.to_parquet(f"{folder}/new.parquet")
    started = time.process_time()
    model.update(f"{folder}/new.parquet")
    spent = time.process_time() - started
    started = time.process_time()
    whole = npvi.TiledRegressor("poisson", **settings, store=f"{folder}/whole").fit(f"{folder}/*.parquet", "count")
    fitted = time.process_time() - started
    together = pd.concat([table, new], ignore_index=True)
    del settings["tile_rows"], settings["client"]
    memory = npvi.GPRegressor("poisson", order="nested", **settings).fit(together[["x", "y"]], together["count"])
    rng = np.random.default_rng(1)  # anywhere, and where the new rows are
    Z = np.concatenate([rng.random((_PLACES, 2)), low + rng.random((_PLACES // 4, 2)) * (high - low)])
    a, b = model.predict_dist(Z), _of_memory(memory, Z)
    off = (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var)
    about = model.about_["updates"][-1]
    cost = (model.certificate_["rounds"], round(spent, 1), round(spent / fitted, 3))
    sd = np.sqrt(a.latent_var / b.latent_var) - 1.0
    size = round(sum(whole.about_["files"].values()) / len(together))
    return (count, about["fitted"], about["touched"], *cost, _rms(off), float(np.abs(off).max()), _rms(sd), size)


def _by_itself(count: int, options: argparse.Namespace) -> tuple:
    """What a fit and 10⁶ predictions take."""
    settings = _settings(options)
    with tempfile.TemporaryDirectory() as folder:
        for file, first in enumerate(range(0, count, _FILE)):
            some = _counts(min(_FILE, count - first), options.length_scale, options.share, file)
            some.to_parquet(f"{folder}/{file:03d}.parquet", row_group_size=2**17)
        with _cluster(options) as client:
            tiled = npvi.TiledRegressor(
                "poisson",
                **settings,
                store=f"{folder}/store",
                tile_rows=options.tile_rows,
                memory=options.memory,
                client=client,
                verbose=count > _FILE,
            )
            before, started = _spent(), time.perf_counter()
            tiled.fit(f"{folder}/*.parquet", target="count")
            wall = time.perf_counter() - started
        fitted = _spent() - before  # of workers too, now that they have ended
        tiled.predict(np.random.default_rng(1).random((_MANY, 2)), return_std=True)
        predicted = _spent() - before - fitted
    certificate = tiled.certificate_
    about = (tiled.about_["tiles"], certificate["rounds"], str(certificate["certified"]))
    per_row = round(1e6 * fitted / count, 1)
    return (f"{count:,}", *about, round(fitted, 1), per_row, _peak(options), round(predicted, 1), round(wall))


@contextmanager
def _cluster(options: argparse.Namespace) -> Iterator[Any]:
    """A client of workers with one thread and the memory each; None where none are asked for."""
    if options.workers is None:
        yield None
        return
    from distributed import Client, LocalCluster

    shape = {"n_workers": options.workers, "threads_per_worker": 1, "memory_limit": options.memory}
    with LocalCluster(**shape, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def _spent() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    found = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)


def _peak(options: argparse.Namespace) -> str:
    """Resident memory at most, in MB: of this process, and of the largest worker."""
    here = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,}"
    if options.workers is None:
        return here
    return f"{here}, a worker {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024:,}"


def _counts(n: int, length_scale: float, share: float, seed: int = 0, low: Any = 0.0, high: Any = 1.0) -> pd.DataFrame:
    """Of one field, whatever the seed of the places, in a box."""
    cells = 2000
    rng = np.random.default_rng(0)
    field = on_grid(1.0, cells, length_scale, SMOOTHNESS, rng)
    if seed:
        rng = np.random.default_rng([0, seed])
    X = low + rng.random((n, 2)) * (high - low)
    f = field[tuple((X * cells).astype(int).T)]
    return pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "count": rng.poisson(share * np.exp(f))})


def _beside(tiled: Any, memory: Any) -> tuple:
    Z = np.random.default_rng(1).random((_PLACES, 2))
    a, b = tiled.predict_dist(Z), _of_memory(memory, Z)
    off = (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var)
    bound = (tiled.elbo_ - memory.fitted_.elbo) / tiled.about_["rows"]
    sd = np.sqrt(a.latent_var / b.latent_var) - 1.0
    jumps = [_jump(tiled, memory, at_borders) for at_borders in (True, False)]
    return (tiled.certificate_["rounds"], _rms(off), float(np.abs(off).max()), _rms(sd), f"{bound:.1e}", *jumps)


def _jump(tiled: Any, memory: Any, at_borders: bool) -> float:
    """Root mean square of how much more the mean changes over a very short way than in memory."""
    tiling, kernel = tiled._job.tiling, tiled.kernel_
    unit = kernel.coordinates(np.ones((1, 2)))[0]
    rng, before, after = np.random.default_rng(2), [], []
    for axis, line in tiling.cuts.astype(np.int64).tolist():
        at = tiling.cube.low + rng.random((_PAIRS, 2)) * tiling.cube.side
        if at_borders:
            at[:, axis] = tiling.cube.low[axis] + line / 2.0**tiling.cube.bits * tiling.cube.side
        step = np.zeros(2)
        step[axis] = _APART * unit[axis]
        before.append(at - step)
        after.append(at + step)
    a, b = np.concatenate(before), np.concatenate(after)
    kept = (tiling.tile_of(a) != tiling.tile_of(b)) == at_borders
    a, b = a[kept] / unit, b[kept] / unit
    one, other = tiled.predict_dist(a), tiled.predict_dist(b)
    change = other.latent_mean - one.latent_mean
    change -= _of_memory(memory, b).latent_mean - _of_memory(memory, a).latent_mean
    return _rms(change / np.sqrt(one.latent_var))


def _of_memory(memory: Any, Z: np.ndarray) -> Any:
    return memory.predict_dist(pd.DataFrame(Z, columns=["x", "y"]))


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _draw(tiled: Any, memory: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    q = 300
    side = (np.arange(q) + 0.5) / q
    Z = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    a, b = tiled.predict_dist(Z), _of_memory(memory, Z)
    shown = {
        "mean of f, in tiles": a.latent_mean,
        "its standard deviation": np.sqrt(a.latent_var),
        "difference to the fit in memory, in sd": (a.latent_mean - b.latent_mean) / np.sqrt(b.latent_var),
    }
    figure, axes = plt.subplots(1, 3, figsize=(17, 5), layout="constrained")
    for ax, (title, values) in zip(axes, shown.items()):
        image = ax.imshow(values.reshape(q, q), origin="lower", extent=(0, 1, 0, 1))
        ax.set_title(title)
        figure.colorbar(image, ax=ax)
    figure.savefig(path, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main()
