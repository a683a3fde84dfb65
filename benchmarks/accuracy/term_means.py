"""Means of counts by terms, at routes that were never visited: sums, squared errors, log scores and coverage by link.

    NPVI_DATA=... python -m benchmarks term_means [--species NAME …] [--likelihoods NAME …] [--jobs N]

Six warblers on 95 routes by 59 observers, a formula with a smooth, observers and a field. The routes of a region, or a
third of them, are left out; or all but eleven are. The constant is the mean of the rows that were fitted.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import show, skip

_SPECIES = ("AMRE", "BLBW", "BTBW", "BTNW", "HOWA", "MAWA")
_FORMULA = "{} ~ forest + s(bio2) + (1|obs) + gp(X, Y)"
_LINKS = {"exp": "exp", "default": None, "softplus": "softplus"}
_LEFT_OUT = ("east", "north", "south", "a third", "all but eleven")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=1)
    options.add_argument("--species", nargs="+", default=list(_SPECIES), help="columns of the table")
    options.add_argument("--likelihoods", nargs="+", default=["poisson"], help="by name")
    chosen = options.parse_args(arguments)
    if _table() is None:
        skip("term_means", "no models/bbs.csv under the folder that NPVI_DATA names")
        return
    cases = [
        {"likelihood": likelihood, "species": species, "left_out": left_out, "seed": seed}
        for likelihood in chosen.likelihoods
        for species in chosen.species
        for left_out in _LEFT_OUT
        for seed in chosen.seeds
    ]
    _show(fan_out(one, cases, chosen))


def one(likelihood: str, species: str, left_out: str, seed: int) -> list[Row]:
    """What each link says of the routes that were left out."""
    table = _table()
    assert table is not None
    out = _rows(table, left_out, seed)
    fitted, new = table[~out], table[out]
    y = new[species].to_numpy(dtype=float)
    beside = {"constant": _rmse(fitted[species].mean(), y), "seen": y.sum(), "largest_seen": table[species].max()}
    rows = []
    for name, link in _LINKS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            started = time.process_time()
            model = npvi.GPRegressor(likelihood, formula=_FORMULA.format(species), link=link).fit(fitted)
            seconds = time.process_time() - started
            dist = model.predict_dist(new)
        low, high = dist.interval(0.9)
        rows.append(
            {
                "link": name,
                **beside,
                "sum": dist.mean.sum() / max(y.sum(), 1.0),
                "rmse": _rmse(dist.mean, y),
                "largest": dist.mean.max(),
                "nlpd": -dist.log_prob(y).mean(),
                "covered": np.mean((low <= y) & (y <= high)),
                "cpu": seconds,
            }
        )
    return rows


def _rows(table: pd.DataFrame, left_out: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x, y = table["X"].to_numpy(), table["Y"].to_numpy()
    if left_out == "a third":
        return np.asarray(rng.random(len(table)) < 1.0 / 3.0)
    if left_out == "all but eleven":
        out = np.ones(len(table), dtype=bool)
        out[rng.permutation(len(table))[:11]] = False
        return out
    return {"east": x > np.quantile(x, 0.7), "north": y > np.quantile(y, 0.7), "south": y < np.quantile(y, 0.3)}[
        left_out
    ]


def _show(rows: list[Row]) -> None:
    table = []
    for (likelihood, link), some in groups(rows, "likelihood", "link"):
        worst = {name: column(some, name) for name in ("sum", "rmse", "constant", "largest", "largest_seen", "seen")}
        seen = worst["seen"] >= 20.0  # a ratio to less than that says nothing
        relative = worst["rmse"] / worst["constant"]
        table.append(
            [
                likelihood,
                link,
                f"{np.median(worst['sum'][seen]):.2f} ({worst['sum'][seen].max():.3g})",
                f"{np.median(relative):.2f} ({relative.max():.3g})",
                f"{(worst['largest'] / worst['largest_seen']).max():.3g}",
                f"{column(some, 'nlpd').mean():.3f}",
                f"{column(some, 'covered').mean():.3f}",
                f"{column(some, 'cpu').sum():.0f}",
            ]
        )
    columns = ("", "link", "sum / seen", "RMSE / constant's", "largest mean / count", "NLPD", "in 90 %", "CPU s")
    show(f"{len(rows) // len(_LINKS)} cases; medians, and the largest in brackets", columns, table)


def _rmse(mean: np.ndarray | float, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - y) ** 2)))


def _table() -> pd.DataFrame | None:
    path = Path(os.environ.get("NPVI_DATA", ""), "models", "bbs.csv")
    return pd.read_csv(path) if path.exists() else None


if __name__ == "__main__":
    main()
