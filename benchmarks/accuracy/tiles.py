"""Fits in tiles beside one fit in memory: means, standard deviations, the bound, jumps at borders, CPU seconds.

python -m benchmarks tiles                          # 10⁶ counts in 8 and in 64 tiles
python -m benchmarks tiles --rows 100000 --tiles 9 --picture seams.png
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import npvi
from benchmarks.common import show
from benchmarks.fields import on_grid

LENGTH_SCALE, SMOOTHNESS, NUGGET = 0.1, 1.5, 1e-3
#: places where predictions are compared, and pairs of places on both sides of a border and of a line anywhere
_PLACES, _PAIRS, _APART = 20_000, 400, 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tiles")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tiles", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where to draw the last of them")
    options = parser.parse_args()
    settings = {
        "kernel": npvi.kernels.Matern(LENGTH_SCALE, 1.0, smoothness=SMOOTHNESS),
        "nugget": NUGGET,
        "learn": False,
        "n_jobs": options.jobs,
    }
    table = _counts(options.rows)
    started = time.process_time()
    memory = npvi.GPRegressor("poisson", order="nested", **settings).fit(table[["x", "y"]], table["count"])
    rows: list[tuple] = [("in memory", "", "", "", "", "", "", "", round(time.process_time() - started))]
    with tempfile.TemporaryDirectory() as folder:
        table.to_parquet(f"{folder}/counts.parquet", row_group_size=2**17)
        for count in options.tiles:
            store = f"{folder}/{count}"
            size = -(-options.rows // count)
            tiled = npvi.TiledRegressor("poisson", **settings, store=store, tile_rows=size, client=None)
            started = time.process_time()
            tiled.fit(f"{folder}/counts.parquet", target="count")
            rows.append((f"{count} tiles", *_beside(tiled, memory), round(time.process_time() - started)))
            if options.picture is not None:
                _draw(tiled, memory, options.picture)
    header = ("fit", "rounds", "mean rms", "mean max", "sd rms", "bound/row", "jump at border", "elsewhere", "CPU s")
    show(f"{options.rows:,} Poisson counts, against the fit in memory; in its standard deviations", header, rows)


def _counts(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cells = 2000
    field = on_grid(1.0, cells, LENGTH_SCALE, SMOOTHNESS, rng)
    X = rng.random((n, 2))
    f = field[tuple((X * cells).astype(int).T)]
    return pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "count": rng.poisson(np.exp(f))})


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
