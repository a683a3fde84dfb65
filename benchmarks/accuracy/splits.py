"""Defaults on other splits of the benchmark sets: five seeds, and bird counts split by place.

    NPVI_DATA=... python -m benchmarks splits

The rows are those of the exact arrays, split anew 70/10/20; only the first and the last part are used, as there.
"""

from __future__ import annotations

import numpy as np

import npvi
from benchmarks.common import load, means_beside, show
from npvi.predictive.calibration import randomised_pit

_SETS = (
    ("bird_counts", "poisson"),
    ("bird_counts", "negative_binomial"),
    ("precipitation", "gamma"),
    ("precipitation", "lognormal"),
    ("nightlight", "lognormal"),
    ("flights50k", "lognormal"),
)
_SEEDS = range(1, 6)


def main() -> None:
    rows = []
    for name, likelihood in _SETS:
        data = load(name)
        if data is None:
            continue
        X, y = (np.concatenate([data[f"{part}_{which}"] for which in ("train", "val", "test")]) for part in "Xy")
        splits = {"rows": [_by_rows(len(y), seed) for seed in _SEEDS]}
        if name == "bird_counts":
            splits["places"] = [_by_places(X, seed) for seed in _SEEDS]
        for kind, chosen in splits.items():
            scores = np.array([_score(likelihood, X, y, *one) for one in chosen])
            mean, spread = scores.mean(axis=0), scores.std(axis=0, ddof=1)
            rows.append((name, likelihood, kind, *(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean, spread))))
    header = ("data", "likelihood", "split by", "NLPD", "90 % covers", "RMSE", "sum of means / seen")
    show("Defaults, mean ± spread over 5 seeds", header, rows)


def _by_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(0.7 * n)], order[int(0.8 * n) :]


def _by_places(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All years of a route on one side."""
    _, place = np.unique(X, axis=0, return_inverse=True)
    train, test = _by_rows(place.max() + 1, seed)
    return np.flatnonzero(np.isin(place, train)), np.flatnonzero(np.isin(place, test))


def _score(likelihood: str, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[float, ...]:
    dist = npvi.GPRegressor(likelihood).fit(X[train], y[train]).predict_dist(X[test])
    pit = randomised_pit(dist, y[test], seed=0)
    covered = float(np.mean(np.abs(pit - 0.5) <= 0.45))
    return -float(dist.log_prob(y[test]).mean()), covered, *means_beside(dist.mean, y[test])


if __name__ == "__main__":
    main()
