"""Does learning stay right as rows grow? Known surfaces on 1000 × 1000, from 20,000 to a million rows.

    python -m benchmarks sizes [--truths smooth 0.5 1.5] [--noises poisson bernoulli] [--rows 20000 …] [--kernels …]

Smooth: f = 0.5 + sin(x/20) + cos(y/30). Others: Gaussian fields of that smoothness, length scale 30, for Poisson counts
of variance 1 and mean −1/2 (so that counts have mean 1), for yes and no of variance 2 and mean 0. The same seed gives
the smaller data as the first rows of the larger. The error is that of f at 5,000 new points.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import show
from benchmarks.fields import on_grid

_WIDTH, _LENGTH, _NEW = 1000.0, 30.0, 5000
_VARIANCE, _MEAN = {"poisson": 1.0, "bernoulli": 2.0}, {"poisson": -0.5, "bernoulli": 0.0}
#: points of the grid that fields are drawn on, per side: four for each distance between a million rows
_CELLS = 4096


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=1)
    options.add_argument(
        "--truths", nargs="+", default=["smooth", "0.5", "1.5"], choices=["smooth", "0.5", "1.5", "2.5"]
    )
    options.add_argument("--noises", nargs="+", default=["poisson", "bernoulli"], choices=["poisson", "bernoulli"])
    options.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    options.add_argument("--kernels", nargs="+", default=["matern"], help="by name; matern learns the smoothness")
    chosen = options.parse_args(arguments)
    cases = [
        {"truth": truth, "noise": noise, "kernel": kernel, "seed": seed, "rows": rows}
        for rows in sorted(chosen.rows, reverse=True)  # the longest first
        for truth in chosen.truths
        for noise in (chosen.noises if truth != "smooth" else ["poisson"])
        for kernel in chosen.kernels
        for seed in chosen.seeds
    ]
    rows = fan_out(one, cases, chosen)
    lines, by = [], ("truth", "noise", "kernel", "seed")
    for key, part in groups(rows, *by):
        part = sorted(part, key=lambda row: row["rows"])
        falls = np.append(np.nan, np.diff(column(part, "rmse")))
        for row, fall in zip(part, falls):
            figures = [row[name] for name in ("rows", "smoothness", "companion", "length_scale", "variance", "nugget")]
            error = f"{row['rmse']:.4f}" + (" (grows)" if fall > 0.0 else "")
            times = [row[name] for name in ("evaluations", "learning", "fit")]
            lines.append((*key, *figures, error, f"{row['nlpd']:.4f}", *times))
    header = (
        *by,
        "rows",
        "ν",
        "companion",
        "ℓ",
        "variance",
        "nugget",
        "RMSE of f",
        "NLPD",
        "evaluations",
        "learning s",
    )
    show("Learned from known surfaces (times without compilation)", (*header, "fit s"), lines)


def one(truth: str, noise: str, kernel: str, seed: int, rows: int) -> list[Row]:
    X, f = _surface(truth, noise, seed, rows + _NEW)
    y = _responses(noise, f, seed)
    new, X, y_new, y, f = X[:_NEW], X[_NEW:], y[:_NEW], y[_NEW:], f[:_NEW]
    few = min(rows, 20_000)
    npvi.GPRegressor(noise, kernel).fit(X[:few], y[:few])  # compiles
    started = time.perf_counter()
    model = npvi.GPRegressor(noise, kernel).fit(X, y)
    fitted = time.perf_counter() - started
    dist = model.predict_dist(new)
    learning = model.fit_info_["learning"]
    return [
        {
            "smoothness": getattr(model.kernel_, "smoothness", kernel),
            "companion": model.companion_weight_,
            "length_scale": float(np.mean(model.kernel_.length_scale)),
            "variance": float(model.kernel_.variance),
            "nugget": model.nugget_,
            "likelihood_": repr(model.likelihood_),
            "elbo": model.elbo_,
            "rmse": float(np.sqrt(np.mean((_canonical(dist) - f) ** 2))),
            "nlpd": -float(dist.log_prob(y_new).mean()),
            "evaluations": learning["evaluations"],
            "learning": learning["seconds"],
            "fit": fitted,
        }
    ]


def _surface(truth: str, noise: str, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in random order and f at them; fewer rows are the first ones of more."""
    points = np.random.default_rng([seed, 0])
    if truth == "smooth":
        X = points.uniform(0.0, _WIDTH, size=(rows, 2))
        return X, 0.5 + np.sin(X[:, 0] / 20.0) + np.cos(X[:, 1] / 30.0)
    field = on_grid(_WIDTH, _CELLS, _LENGTH, float(truth), np.random.default_rng([seed, 1])).ravel()
    cells = points.permutation(len(field))[:rows]
    X = np.column_stack(np.divmod(cells, _CELLS)) * (_WIDTH / _CELLS)
    return X, _MEAN[noise] + np.sqrt(_VARIANCE[noise]) * field[cells]


def _responses(noise: str, f: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 2])
    if noise == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    return (rng.uniform(size=len(f)) < special.expit(f)).astype(float)


def _canonical(dist: Any) -> np.ndarray:
    """The mean of f; where f is behind another link than exp, the logarithm of the rate at its mean."""
    if hasattr(dist, "parts"):
        return np.average([_canonical(part) for part in dist.parts], axis=0, weights=dist.weights)
    if getattr(dist.likelihood, "link", None) == "softplus":
        return np.log(np.logaddexp(0.0, dist.latent_mean))
    return dist.latent_mean


if __name__ == "__main__":
    main()
