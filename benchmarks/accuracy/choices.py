"""What one choice at a time costs and gives on real data: neighbours, kernel, method, noise, hyper-parameters.

    NPVI_DATA=... python -m benchmarks choices

Bird counts and precipitation with the split of the data folder, everything learned, one thing changed. CPU seconds of
a fit and of the predictions of all test rows, compilation left out (the second of two fits in a process). Scores are
negative log densities per test row.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import npvi
from benchmarks.common import load, show
from npvi.predictive.calibration import coverage, randomised_pit

_BIRDS: dict[str, dict[str, Any]] = {
    "default (K = 20)": {},
    "K = 5": {"n_neighbors": 5},
    "K = 10": {"n_neighbors": 10},
    "K = 40": {"n_neighbors": 40},
    "kernel matern12": {"kernel": "matern12"},
    "kernel matern32": {"kernel": "matern32"},
    "kernel matern52": {"kernel": "matern52"},
    "kernel rbf": {"kernel": "rbf"},
    "method npvi": {"method": "npvi"},
    "method npvi-nn": {"method": "npvi-nn", "network": "pretrained"},
    "prior fitc, 200 inducing points": {"prior": "fitc"},
    "hyper integrate": {"hyper": "integrate"},
    "exp link": {"likelihood": npvi.likelihoods.Poisson(link="exp")},
    "negative binomial": {"likelihood": "negative_binomial"},
    "zero-inflated Poisson": {"likelihood": "zero_inflated_poisson"},
}
_RAIN: dict[str, dict[str, Any]] = {
    "default (K = 20)": {},
    "K = 10": {"n_neighbors": 10},
    "K = 40": {"n_neighbors": 40},
    "kernel matern12": {"kernel": "matern12"},
    "kernel matern32": {"kernel": "matern32"},
    "kernel rbf": {"kernel": "rbf"},
    "hyper plug-in": {"hyper": "plug-in"},
    "method npvi": {"method": "npvi"},
    "gamma": {"likelihood": "gamma"},
    "gaussian": {"likelihood": "gaussian"},
    "noise a surface too": {"varying": True},
}


def main() -> None:
    for name, likelihood, choices in (("bird_counts", "poisson", _BIRDS), ("precipitation", "lognormal", _RAIN)):
        data = load(name)
        if data is not None:
            rows = [
                (words, *_figures(data, {"likelihood": likelihood} | settings)) for words, settings in choices.items()
            ]
            title = f"{name}, {likelihood}: {len(data['X_train']):,} rows, {len(data['X_test']):,} to test"
            show(title, ("one thing changed", "fit, CPU s", "predict, CPU s", "NLPD", "90 % covers", "RMSE"), rows)


def _figures(data: dict[str, np.ndarray], settings: dict[str, Any]) -> tuple[object, ...]:
    seconds, before = [], time.process_time()
    for _ in range(2):
        before = time.process_time()
        model = _model(**settings).fit(data["X_train"], data["y_train"])
        seconds.append(time.process_time() - before)
    before = time.process_time()
    dist = model.predict_dist(data["X_test"])
    mean, _ = dist.mean, dist.std
    predict = time.process_time() - before
    y = data["y_test"]
    covers = coverage(randomised_pit(dist, y, 0), 0.9)
    nlpd, rmse = -float(np.mean(dist.log_prob(y))), float(np.sqrt(np.mean((mean - y) ** 2)))
    return seconds[-1], predict, f"{nlpd:.4f}", covers, rmse


def _model(likelihood: Any, varying: bool = False, **settings: Any) -> Any:
    model = npvi.GPRegressor(likelihood, **settings)
    return npvi.VaryingNoiseRegressor(model) if varying else model


if __name__ == "__main__":
    main()
