"""Whether `npvi.suggest` names the family that a table was simulated from, and the places of the real data sets.

    NPVI_DATA=... python -m benchmarks suggest

Ten families, five tables of 2,000 rows each: a Matérn surface over the unit square, with a length scale, variance and
noise of its own in each. Real data: which columns are places, or none.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import npvi
from benchmarks.common import say, show, skip
from benchmarks.fields import dense_draw

__all__ = ["FAMILIES", "main", "simulate"]

_ROWS = 2000
Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _ordinal(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.searchsorted([-1.2, -0.2, 0.7, 1.6], f + rng.standard_normal(len(f))).astype(float)


def _beta(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean, precision = 1.0 / (1.0 + np.exp(-f)), rng.uniform(5.0, 20.0)
    return np.clip(rng.beta(mean * precision, (1.0 - mean) * precision), 1e-9, 1.0 - 1e-9)


def _negative_binomial(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean, size = np.exp(rng.uniform(0.5, 2.0) + 0.7 * f), rng.uniform(1.0, 4.0)
    return rng.negative_binomial(size, size / (size + mean)).astype(float)


def _zero_inflated(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kept = rng.uniform(size=len(f)) > rng.uniform(0.2, 0.5)
    return rng.poisson(np.exp(rng.uniform(0.7, 2.0) + 0.6 * f)).astype(float) * kept


def _gamma(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    shape = rng.uniform(1.5, 6.0)
    return np.exp(1.0 + 0.6 * f) * rng.gamma(shape, 1.0 / shape, len(f))


#: by the name of the likelihood: responses for a surface f of variance 1
_DRAWS: dict[str, Draw] = {
    "gaussian": lambda f, rng: 20.0 + 3.0 * f + rng.normal(0.0, rng.uniform(0.6, 3.0), len(f)),
    "student_t": lambda f, rng: 20.0 + 3.0 * f + rng.uniform(0.6, 2.0) * rng.standard_t(rng.uniform(2.5, 6.0), len(f)),
    "lognormal": lambda f, rng: np.exp(1.0 + 0.6 * f + rng.normal(0.0, rng.uniform(0.3, 0.8), len(f))),
    "gamma": _gamma,
    "poisson": lambda f, rng: rng.poisson(np.exp(rng.uniform(0.0, 2.0) + 0.7 * f)).astype(float),
    "negative_binomial": _negative_binomial,
    "zero_inflated_poisson": _zero_inflated,
    "beta": _beta,
    "ordinal": _ordinal,
}
FAMILIES = (*list(_DRAWS)[:-2], "binomial", *list(_DRAWS)[-2:])

#: folder and file of a data set, its response, and its places
_REAL = (
    ("bbs_savannah_sparrow", "savannah_sparrow", ["lon", "lat"]),
    ("noaa_precip_may", "prcp_may", ["lon", "lat"]),
    ("nightlight", "grey", ["lon", "lat"]),
    ("flight_delay", "arr_delay", []),
    ("modis_lst", "temp_c", ["lon", "lat"]),
)


def simulate(family: str, seed: int, rows: int = _ROWS) -> pd.DataFrame:
    """A table with places, a covariate without effect, and a response of that family; trials where it has them."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    X = rng.uniform(size=(rows, 2))
    f = dense_draw(X, rng.uniform(0.1, 0.4), float(rng.choice([0.5, 1.5, 2.5])), rng)
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "height": rng.normal(size=rows)})
    if family == "binomial":
        table["trials"] = rng.integers(5, 20, rows)
        table["observed"] = rng.binomial(table["trials"], stats.norm.cdf(0.8 * f)).astype(float)
    else:
        table["observed"] = _DRAWS[family](f, rng)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suggest", description=__doc__)
    parser.add_argument("--seeds", default="0,1,2,3,4", help="seeds of the tables; 100 and more are for development")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    rows, hits = [], 0
    for family in FAMILIES:
        named, started = [], time.process_time()
        for seed in seeds:
            found = npvi.suggest(simulate(family, seed))
            right = found.likelihood == family and found.places == ["x", "y"]
            named.append("yes" if right else f"{found.likelihood}, places {','.join(found.places) or 'none'}")
            hits += right
        rows.append((family, *named, f"{(time.process_time() - started) / len(seeds):.1f}"))
        print(rows[-1], flush=True)
    header = ("simulated", *(f"seed {seed}" for seed in seeds), "CPU s each")
    show(f"Named by npvi.suggest: tables of {_ROWS:,} rows", header, rows)
    say(f"  {hits} of {len(rows) * len(seeds)} families named")
    _real()


def _real() -> None:
    rows = []
    for name, target, places in _REAL:
        path = Path(os.environ.get("NPVI_DATA", ""), name, f"{name}.parquet")
        if not path.exists():
            skip(name, f"no {path.name} under the folder that NPVI_DATA names")
            continue
        found = npvi.suggest(pd.read_parquet(path), target)
        rows.append((name, ",".join(found.places) or "none", found.places == places, found.likelihood))
    show("Places of real data", ("data", "places", "right", "likelihood"), rows)


if __name__ == "__main__":
    main()
