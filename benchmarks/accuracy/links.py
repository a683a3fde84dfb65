"""Bird counts at routes that were held out, with the exp and the softplus link, beside 20 nearest neighbours.

    NPVI_DATA=... python -m benchmarks links

CPU seconds are those of a learned fit after one on a part of the rows, which compiles.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

import npvi
from benchmarks.common import show, skip

_SPECIES = ("savannah_sparrow", "vesper_sparrow", "western_meadowlark", "horned_lark", "northern_cardinal")
_LIKELIHOODS = {"Poisson": npvi.likelihoods.Poisson, "negative binomial": npvi.likelihoods.NegativeBinomial}
_WARM_UP = 4000


def main() -> None:
    folder = os.environ.get("NPVI_DATA", "")
    path = Path(folder, "bbs_savannah_sparrow", "bbs_savannah_sparrow.parquet")
    if not folder or not path.exists():
        skip("links", f"no {path.name} under the folder that NPVI_DATA names")
        return
    table = pd.read_parquet(path)
    X = table[["lon", "lat"]].to_numpy(float)
    places, place = np.unique(X, axis=0, return_inverse=True)
    kept = np.random.default_rng(0).permutation(len(places))[: len(places) * 4 // 5]
    train = np.isin(place.ravel(), kept)
    rows = []
    for species in _SPECIES:
        y = table[species].to_numpy(float)
        neighbours = KDTree(X[train]).query(X[~train], 20)[1]
        nearest = y[train][neighbours].mean(axis=1)
        for name, likelihood in _LIKELIHOODS.items():
            seconds = {}
            for link in ("exp", "softplus"):
                model = npvi.GPRegressor(likelihood(link=link))
                model.fit(X[train][:_WARM_UP], y[train][:_WARM_UP])
                started = time.process_time()
                model.fit(X[train], y[train])
                seconds[link] = time.process_time() - started
                dist = model.predict_dist(X[~train])
                nlpd = -float(dist.log_prob(y[~train]).mean())
                evaluations = model.fit_info_["learning"]["evaluations"]
                figures = (f"{nlpd:.3f}", *_errors(dist.mean, y[~train]), evaluations, f"{seconds[link]:.1f}")
                ratio = f"{seconds['softplus'] / seconds['exp']:.2f}" if link == "softplus" else ""
                rows.append((species, name, link, *figures, ratio))
        rows.append((species, "20 nearest neighbours", "", "", *_errors(nearest, y[~train]), "", "", ""))
    header = (
        "species",
        "model",
        "link",
        "NLPD",
        "sum of means / seen",
        "RMSE",
        "evaluations",
        "CPU s",
        "softplus / exp",
    )
    show("Links: counts at held-out routes, and the cost of learning", header, rows)


def _errors(mean: np.ndarray, y: np.ndarray) -> tuple[str, str]:
    return f"{mean.sum() / y.sum():.2f}", f"{np.sqrt(np.mean((mean - y) ** 2)):.1f}"


if __name__ == "__main__":
    main()
