"""Do predictions transform as the data do? Units of y and of places, labels swapped, columns or rows in another order.

    python -m benchmarks invariance [--kinds …] [--rows 300 2500] [--counts 20000] [--seeds 0 …] [--jobs N]

Everything is learned, at default settings, but for "counts, held". The difference of means is relative to |mean| + sd,
that of standard deviations to themselves; the largest of 500 new rows. 10⁻⁶ is asked for. Rows are shuffled three
times; counts are at places of a lattice, where most distances have ties and some places more than one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import show
from benchmarks.fields import dense_draw, on_grid
from npvi.kernels import Matern

_NOISES = {
    "y × 1000": ("gamma", "lognormal", "gaussian"),
    "places × 1000": ("gaussian", "poisson", "bernoulli", "gamma"),
    "labels swapped": ("bernoulli", "classifier"),
    "columns permuted": ("gaussian", "poisson", "bernoulli", "gamma"),
    "rows shuffled": ("gaussian", "poisson", "bernoulli", "gamma", "classifier", "counts", "counts, held"),
}
_FACTOR, _NEW, _ORDERS = 1000.0, 500, 3
#: points along a side of the lattice
_CELLS = 256
_ENOUGH = 1e-6


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=1)
    options.add_argument("--kinds", nargs="+", default=list(_NOISES), choices=list(_NOISES))
    options.add_argument("--rows", type=int, nargs="+", default=[300, 2500])
    options.add_argument("--counts", type=int, nargs="+", default=[20_000], help="rows of counts on a lattice")
    chosen = options.parse_args(arguments)
    cases = [
        {"kind": kind, "noise": noise, "rows": rows, "seed": seed}
        for kind in chosen.kinds
        for noise in _NOISES[kind]
        for rows in (chosen.counts if noise.startswith("counts") else chosen.rows)
        for seed in chosen.seeds
    ]
    rows = fan_out(one, cases, chosen)
    lines, by = [], ("kind", "noise", "rows")
    for key, part in groups(rows, *by):
        mean, sd = (float(np.max(column(part, name))) for name in ("mean", "sd"))
        lines.append((*key, f"{mean:.1e}", f"{sd:.1e}", "" if max(mean, sd) <= _ENOUGH else "*", part[0]["kernels"]))
    header = (*by, "mean off", "sd off", f"above {_ENOUGH:g}", "smoothness before, after")
    show("Largest relative difference after a transformation", header, lines)


def one(kind: str, noise: str, rows: int, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    X, y = _simulate(noise, rows + _NEW, rng)
    new, X, y = X[:_NEW], X[_NEW:], y[_NEW:]
    before = _fit(noise, X, y)
    mean, sd = _moments(before, new)
    if kind == "y × 1000":
        after = _fit(noise, X, _FACTOR * y)
        other = [moment / _FACTOR for moment in _moments(after, new)]
    elif kind == "places × 1000":
        after = _fit(noise, _FACTOR * X, y)
        other = _moments(after, _FACTOR * new)
    elif kind == "labels swapped":
        after = _fit(noise, X, 1.0 - y)
        swapped = _moments(after, new)
        other = [1.0 - swapped[0], swapped[1]]
    elif kind == "columns permuted":
        after = _fit(noise, X[:, [2, 0, 1]], y)
        other = _moments(after, new[:, [2, 0, 1]])
    else:
        found = []
        for _ in range(_ORDERS):
            order = rng.permutation(rows)
            after = _fit(noise, X[order], y[order])
            found.append(_moments(after, new))
        other = [max(values, key=lambda one: np.max(np.abs(one - was))) for values, was in zip(zip(*found), (mean, sd))]
    kernels = f"{before.kernel_.smoothness}, {after.kernel_.smoothness}"
    weights = f"{before.companion_weight_:.3f}, {after.companion_weight_:.3f}"
    return [
        {
            "mean": float(np.max(np.abs(other[0] - mean) / (np.abs(mean) + sd))),
            "sd": float(np.max(np.abs(other[1] / sd - 1.0))),
            "kernels": f"ν {kernels}; companion {weights}",
            "elbo": [before.elbo_, after.elbo_],
        }
    ]


def _simulate(noise: str, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if noise.startswith("counts"):
        f = on_grid(1.0, _CELLS, 0.1, 1.5, rng)
        cells = rng.integers(_CELLS, size=(rows, 2))
        return cells / _CELLS, rng.poisson(np.exp(f[cells[:, 0], cells[:, 1]])).astype(float)
    X = rng.uniform(size=(rows, 3))
    # inputs that differ in how much they matter
    return X, _respond(noise, dense_draw(X, np.array([0.3, 0.6, 2.0]), 1.5, rng), rng)


def _fit(noise: str, X: np.ndarray, y: np.ndarray) -> Any:
    if noise == "classifier":
        return npvi.GPClassifier().fit(X, np.where(y > 0.0, "yes", "no"))
    if noise == "counts, held":
        return npvi.GPRegressor("poisson", Matern(0.1, 1.0, 1.5), nugget=0.01, learn=False).fit(X, y)
    return npvi.GPRegressor("poisson" if noise == "counts" else noise).fit(X, y)


def _moments(model: Any, X: np.ndarray) -> list[np.ndarray]:
    dist = model.predict_dist(X)
    return [dist.mean, dist.std]


def _respond(noise: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if noise in ("bernoulli", "classifier"):
        return (rng.uniform(size=len(f)) < special.expit(2.0 * f)).astype(float)
    if noise == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    if noise == "gamma":
        return rng.gamma(5.0, np.exp(f) / 5.0)
    y = f + 0.3 * rng.standard_normal(len(f))
    return np.exp(y) if noise == "lognormal" else y


if __name__ == "__main__":
    main()
