"""Bird counts at routes that were never visited: sums, squared errors and log scores of means, and maps of them.

    NPVI_DATA=... python -m benchmarks places [--species NAME …] [--seeds 0 1 …] [--likelihoods NAME …] [--jobs N]

Longitude and latitude only, a fifth of the routes held out, a seed for each split; defaults, with the likelihood by
name and with its exp link held. `neighbours` is the mean of the 20 nearest training rows, in degrees. The map is a grid
of 0.25° over the lower 48 states. Seconds are of the processor, compilation left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser, spread
from benchmarks.common import say, show, skip
from npvi.predictive.calibration import coverage, randomised_pit

_SPECIES = ("savannah_sparrow", "vesper_sparrow", "western_meadowlark", "horned_lark", "northern_cardinal")
_HELD = {
    "poisson": npvi.likelihoods.Poisson(link="exp"),
    "negative_binomial": npvi.likelihoods.NegativeBinomial(link="exp"),
}
_NEIGHBOURS = 20
#: of the grid: west, east, south, north, and how far from the next route it goes
_BOX, _STEP, _FURTHEST = (-125.0, -66.5, 24.5, 49.5), 0.25, 3.0


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=5)
    options.add_argument("--species", nargs="+", default=list(_SPECIES), help="columns of the table")
    options.add_argument("--likelihoods", nargs="+", default=list(_HELD), choices=list(_HELD))
    options.add_argument("--variants", nargs="+", default=["by name", "exp"], choices=["by name", "exp"])
    chosen = options.parse_args(arguments)
    if _table() is None:
        skip("places", "no bbs_savannah_sparrow under the folder that NPVI_DATA names")
        return
    cases = [
        {"species": species, "likelihood": likelihood, "seed": seed, "variants": chosen.variants}
        for likelihood in chosen.likelihoods  # together, so that a process compiles few of them
        for seed in chosen.seeds
        for species in chosen.species
    ]
    rows = fan_out(one, cases, chosen)
    _scores(rows)
    _maps(rows)


def one(species: str, likelihood: str, seed: int, variants: Sequence[str]) -> list[Row]:
    """Scores of the means at held-out routes, by the model with its link by name and with exp."""
    table = _table()
    assert table is not None
    X, y = table[["lon", "lat"]].to_numpy(float), table[species].to_numpy(float)
    test = _held_out(table, seed)
    past, new = (X[~test], y[~test]), (X[test], y[test])
    nearest = past[1][cKDTree(past[0]).query(new[0], _NEIGHBOURS)[1]].mean(axis=1)
    beside = {"neighbours": _rmse(nearest, new[1]), "constant": _rmse(past[1].mean(), new[1]), "seen": new[1].sum()}
    beside["neighbours_sum"] = nearest.sum() / new[1].sum()
    rows = []
    for variant in variants:
        noise = likelihood if variant == "by name" else _HELD[likelihood]
        _compile(noise, *past)
        started, processor = time.perf_counter(), time.process_time()
        model = npvi.GPRegressor(noise).fit(*past)
        seconds = {"cpu": time.process_time() - processor, "wall": time.perf_counter() - started}
        rows.append({"variant": variant, **beside, **seconds, **_scored(model, *new), **_mapped(model, X, y)})
    return rows


def _scored(model: Any, X: np.ndarray, y: np.ndarray) -> Row:
    dist = model.predict_dist(X)
    companion = model.companion_
    return {
        "sum": dist.mean.sum() / y.sum(),
        "rmse": _rmse(dist.mean, y),
        "median": _rmse(dist.quantile(0.5), y),
        "nlpd": -dist.log_prob(y).mean(),
        "covered": coverage(randomised_pit(dist, y, seed=0), 0.9),
        "variance": float(model.kernel_.variance),
        "nugget": model.nugget_,
        "smoothness": model.kernel_.smoothness,
        "link": model.likelihood_.link,
        "companion": model.companion_weight_,
        "companion_link": None if companion is None else companion.likelihood_.link,
        "companion_smoothness": None if companion is None else companion.kernel_.smoothness,
        "likelihood_": repr(model.likelihood_),
        "evaluations": model.fit_info_["learning"]["evaluations"],
    }


def _mapped(model: Any, X: np.ndarray, y: np.ndarray) -> Row:
    """The largest mean on the grid, and what is said of how far it is from the data."""
    grid = _grid(X)
    dist = model.predict_dist(grid)
    largest = int(np.argmax(dist.mean))
    high = dist.mean > 10.0 * y.max()
    found = {"largest_count": y.max(), "largest_mean": dist.mean[largest], "high_cells": int(high.sum())}
    found |= {"largest_at": grid[largest].tolist()}
    for name, values in _reach(dist).items():
        found[f"reach_{name}"] = float(values[largest])
        if high.any():  # the cell that is least said to be far away
            found[f"reach_{name}_least"], found[f"reach_{name}_most"] = (
                float(values[high].min()),
                float(values[high].max()),
            )
    return found


def _reach(dist: Any) -> dict[str, np.ndarray]:
    """All numbers per row that ``dist.reach`` has, by name; none where there is no such thing."""
    reach = getattr(dist, "reach", None)
    if reach is None:
        return {}
    if isinstance(reach, np.ndarray):
        return {"distance": reach}
    named = reach if isinstance(reach, dict) else {name: getattr(reach, name) for name in dir(reach) if name[0] != "_"}
    return {name: v for name, v in named.items() if isinstance(v, np.ndarray) and v.shape == (len(dist),)}


def _table() -> pd.DataFrame | None:
    path = Path(os.environ.get("NPVI_DATA", ""), "bbs_savannah_sparrow", "bbs_savannah_sparrow.parquet")
    return pd.read_parquet(path) if path.exists() else None


def _held_out(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Which rows are of a fifth of the routes."""
    routes, route = np.unique(table[["state_num", "route"]].to_numpy(), axis=0, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(routes))
    return np.isin(route.ravel(), order[: len(routes) // 5])


def _grid(X: np.ndarray) -> np.ndarray:
    west, east, south, north = _BOX
    lon, lat = np.meshgrid(np.arange(west, east, _STEP), np.arange(south, north, _STEP))
    cells = np.column_stack([lon.ravel(), lat.ravel()])
    return cells[cKDTree(X).query(cells)[0] <= _FURTHEST]


_compiled: set[str] = set()


def _compile(noise: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Fit once without looking at the clock, the first time that a process sees a likelihood."""
    if repr(noise) not in _compiled:
        npvi.GPRegressor(noise).fit(X, y)
        _compiled.add(repr(noise))


def _rmse(mean: Any, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - y) ** 2)))


def _scores(rows: list[Row]) -> None:
    lines, by = [], ("likelihood", "species", "variant")
    for key, part in groups(rows, *by):
        figures = [spread(column(part, name), digits) for name, digits in (("sum", 2), ("rmse", 2))]
        worst = np.max(column(part, "rmse") / column(part, "neighbours"))
        others = [float(np.mean(column(part, name))) for name in ("neighbours", "constant", "median")]
        nlpd = spread(column(part, "nlpd"), 4)
        rest = [float(np.mean(column(part, name))) for name in ("covered", "cpu", "variance", "companion")]
        lines.append((*key, *figures, *others, float(worst), nlpd, *rest, _links(part)))
    header = (*by, "sum of means / seen", "RMSE", "neighbours", "constant", "of median", "worst / neighbours", "NLPD")
    header += ("90 % covers", "CPU s", "variance", "companion", "link, ν")
    show("Routes held out, mean ± spread over the splits", header, lines)
    for (likelihood, variant), part in groups(rows, "likelihood", "variant"):
        ratio = np.mean(column(part, "rmse")) / np.mean(column(part, "neighbours"))
        say(
            f"  {likelihood}, {variant}: sum / seen {np.mean(column(part, 'sum')):.3f}, RMSE / neighbours {ratio:.3f}, "
            f"NLPD {np.mean(column(part, 'nlpd')):.4f}, CPU {np.mean(column(part, 'cpu')):.1f} s"
        )


def _links(part: list[Row]) -> str:
    """How often each link and smoothness was taken."""
    kinds: dict[str, int] = {}
    for row in part:
        kind = f"{row['link']} {row['smoothness']}"
        if row["companion_link"] is not None:
            kind += f" + {row['companion_link']} {row['companion_smoothness']}"
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} × {kind}" for kind, count in kinds.items())


def _maps(rows: list[Row]) -> None:
    lines, by = [], ("likelihood", "species", "variant")
    said = sorted({name for row in rows for name in row if name.startswith("reach_")})
    for key, part in groups(rows, *by):
        worst = max(part, key=lambda row: row["largest_mean"])
        high = int(np.sum(column(part, "high_cells")))
        reach = (float(worst[name]) if name in worst else "" for name in said)
        lines.append((*key, worst["largest_count"], worst["largest_mean"], high, *reach))
    header = (*by, "largest count", "largest mean", "cells above 10 ×", *said)
    show("Map of 0.25°: the worst split, and cells of all splits", header, lines)


if __name__ == "__main__":
    main()
