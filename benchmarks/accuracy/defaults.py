"""Test scores with everything at its default except the likelihood, beside the best of other software.

    NPVI_DATA=... python -m benchmarks defaults

The other software's figures are those of the data's own README; they were not measured here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

import npvi
from benchmarks.common import load, means_beside, show
from npvi.predictive.calibration import randomised_pit

_SETS = (
    ("bird_counts", "poisson", 1.451),
    ("bird_counts", "negative_binomial", 1.366),
    ("precipitation", "gamma", -1.534),
    ("precipitation", "lognormal", -1.514),
    ("nightlight", "lognormal", -2.220),
    ("flights50k", "lognormal", -0.953),
)


def main() -> None:
    rows = []
    for name, likelihood, figure in _SETS:
        data = load(name)
        if data is None:
            continue
        started = time.perf_counter()
        model = npvi.GPRegressor(likelihood).fit(data["X_train"], data["y_train"])
        fitted = time.perf_counter()
        dist = model.predict_dist(data["X_test"])
        nlpd = -float(dist.log_prob(data["y_test"]).mean())
        pit = randomised_pit(dist, data["y_test"], seed=0)
        covered = float(np.mean(np.abs(pit - 0.5) <= 0.45))
        smoothness = model.kernel_.smoothness
        evaluations = model.fit_info_["learning"]["evaluations"]
        scores = (f"{nlpd:.4f}", f"{figure:.3f}", *means_beside(dist.mean, data["y_test"]), covered)
        rows.append((name, likelihood, *scores, smoothness, evaluations, fitted - started))
    header = ("data", "likelihood", "NLPD", "others' best", "RMSE", "sum of means / seen", "90 % covers", "ν")
    header += ("evaluations", "fit s")
    show("Defaults: negative log predictive density per test row (compilation included in the time)", header, rows)
    _modis()


def _modis() -> None:
    path = Path(os.environ.get("NPVI_DATA", ""), "modis_lst", "modis_lst.parquet")
    if not path.exists():
        return
    table = pd.read_parquet(path)
    X, y, train = table[["lon", "lat"]].to_numpy(float), table["temp_c"].to_numpy(float), table["is_train"].to_numpy()
    started = time.perf_counter()
    model = npvi.GPRegressor().fit(X[train], y[train])
    fitted = time.perf_counter()
    dist = model.predict_dist(X[~train])
    mean, sd, truth = dist.mean, dist.std, y[~train]
    z = (truth - mean) / sd
    rmse = float(np.sqrt(np.mean((truth - mean) ** 2)))
    crps = float(np.mean(sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))))
    covered = float(np.mean(np.abs(z) <= norm.ppf(0.975)))
    rows = [
        ("npvi", f"{rmse:.4f}", f"{crps:.4f}", f"{covered:.3f}", fitted - started),
        ("GPBoost (from the README)", 1.603, 0.818, 0.951, np.nan),
    ]
    show("MODIS, its own split, Gaussian, defaults", ("", "RMSE", "CRPS", "95 % covers", "fit s"), rows)


if __name__ == "__main__":
    main()
