"""Do intervals of f and of hyper-parameters hold what they promise, once everything is learned from few rows?

    python -m benchmarks coverage [--noises …] [--rows 100 300 1000] [--seeds 0 1 …] [--jobs N]

Truths are drawn from the default priors: places in the unit square, two length scales and the standard deviation of f
(in units of its link), smoothness 1/2, 3/2 or 5/2, a nugget of counts. The noise has no prior of its own: Gaussian with
standard deviation 0.5, negative binomial with size 2. "f" is the share of 200 new places whose f is in its 90 %
interval, its mean over data sets with its standard error, the least of them and the share of sets below .7; "plug-in"
the same at the best hyper-parameters. "log ℓ, log σ²": the share of the true numbers that are in `summary()`'s
95 % intervals, which are symmetric on the log scale.
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
from benchmarks.fields import dense_draw
from npvi.model import predict_alone

__all__ = ["CONSTANT", "NEW", "SMOOTHNESS", "draw_truth", "main", "truth_of"]

_NOISES: dict[str, Any] = {
    "gaussian": "gaussian",
    "poisson": npvi.likelihoods.Poisson(),
    "bernoulli": npvi.likelihoods.Bernoulli(),
    "negative_binomial": npvi.likelihoods.NegativeBinomial(),
}
NEW, CONSTANT, SMOOTHNESS = 200, 0.5, (0.5, 1.5, 2.5)
#: of the unit square: where the prior of a length scale is highest
_MODE = 0.5 * np.sqrt(2.0 / 12.0)
_NAMES = ("kernel__length_scale[0]", "kernel__length_scale[1]", "kernel__variance")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=20)
    options.add_argument("--noises", nargs="+", default=list(_NOISES), choices=_NOISES)
    options.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    chosen = options.parse_args(arguments)
    cases = [
        {"noise": noise, "rows": rows, "seed": seed}
        for rows in sorted(chosen.rows, reverse=True)  # those that take longest come first
        for noise in chosen.noises
        for seed in chosen.seeds
    ]
    rows = fan_out(one, cases, chosen)
    lines = [_line(f"{noise}, {n}", part) for (noise, n), part in groups(rows, "noise", "rows")]
    lines.append(_line("all", rows))
    header = ("noise, rows", "sets", "f (.90)", "least", "below .7", "plug-in", "least", "below .7")
    show("90 % intervals of f, 95 % intervals of hyper-parameters", (*header, "log ℓ", "log σ²", "CPU s"), lines)


def one(noise: str, rows: int, seed: int) -> list[Row]:
    rng = np.random.default_rng([seed, rows, list(_NOISES).index(noise)])
    X = rng.uniform(size=(rows + NEW, 2))
    length, sd, smoothness = draw_truth(rng)
    f = CONSTANT + sd * dense_draw(X, length, smoothness, rng)
    y = _respond(noise, f, rng)
    new, f = X[rows:], f[rows:]
    if len(np.unique(y[:rows])) < 2:
        return []
    started = time.process_time()
    model = npvi.GPRegressor(_NOISES[noise]).fit(X[:rows], y[:rows])
    seconds = time.process_time() - started
    table = model.summary()
    inside = [
        bool(table.loc[name, "lower"] <= value <= table.loc[name, "upper"])
        for name, value in zip(_NAMES, (*length, sd**2))
    ]
    return [
        {
            "covered": _share(f, model.predict_dist(new)),
            "plug_in": _share(f, predict_alone(model.fitted_, new, {})),
            "lengths": float(np.mean(inside[:2])),
            "variance": float(inside[2]),
            "seconds": seconds,
            "smoothness": model.kernel_.smoothness,
            "models": model.fit_info_["hyper"].get("models", 1),
        }
    ]


def draw_truth(rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
    """Two length scales, the standard deviation of f and the smoothness, from the priors."""
    return truth_of(rng.exponential(size=3), rng.choice(SMOOTHNESS))


def truth_of(units: np.ndarray, smoothness: float) -> tuple[np.ndarray, float, float]:
    """The same from three numbers that are exponential under the priors."""
    return _MODE * units[:2] ** -2.0, float(units[2]), smoothness


def _share(f: np.ndarray, dist: Any) -> float:
    lower, upper = dist.latent_interval(0.9)
    return float(np.mean((lower <= f) & (f <= upper)))


def _respond(noise: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if noise == "gaussian":
        return f + 0.5 * rng.standard_normal(len(f))
    if noise == "bernoulli":
        return (rng.uniform(size=len(f)) < special.expit(f)).astype(float)
    mean = np.exp(f + rng.exponential() / 3.0 * rng.standard_normal(len(f)))  # with a nugget
    return rng.poisson(rng.gamma(2.0, mean / 2.0) if noise == "negative_binomial" else mean).astype(float)


def _line(name: str, rows: list[Row]) -> tuple:
    found: list[Any] = [name, len(rows)]
    for which in ("covered", "plug_in"):
        values = column(rows, which)
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        found += [f"{values.mean():.3f} ± {error:.3f}", f"{values.min():.2f}", f"{np.mean(values < 0.7):.3f}"]
    return (*found, *(f"{column(rows, k).mean():.3f}" for k in ("lengths", "variance")), column(rows, "seconds").mean())


if __name__ == "__main__":
    main()
