"""Predictors made of terms: do stated intervals hold the truth, and what does a smooth cost?

    python -m benchmarks.accuracy.terms [simulations]

300 rows each, Poisson and Gaussian in turn: a constant, two linear effects, a smooth effect, 15 levels, and a surface
at 100 places. Intervals of 90 % for the standard deviation of levels (by default settings, integrated), for
coefficients and for the smooth at 50 values. Then effects that are straight, or curved, fitted by `Linear` and by
`Smooth`: error of the effect at 50 values, root mean square, and the log score of 300 more rows.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd

import npvi
from benchmarks.common import say, show
from npvi.kernels import Matern32, matrix

_ROWS, _PLACES, _LEVELS, _SD = 300, 100, 15, 0.5
_AT = np.linspace(0.02, 0.98, 50)
#: the smooth effect, centred by its mean over rows
_CURVES = {
    "curved": lambda x: np.sin(2.0 * np.pi * x),
    "straight": lambda x: 2.0 * x,
}


def simulate(
    likelihood: str, seed: int, curve: str = "curved", rows: int = _ROWS
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table, its responses, and the true effect at `_AT`."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(size=(_PLACES, 2))
    K = matrix(Matern32(0.2, 0.36), place) + 1e-8 * np.eye(_PLACES)
    at, level, x = rng.integers(_PLACES, size=rows), rng.integers(_LEVELS, size=rows), rng.uniform(size=rows)
    a, b = rng.standard_normal((2, rows))
    f = _CURVES[curve](x)
    eta = 1.0 + 0.3 * a - 0.2 * b + f - f.mean()
    eta += (_SD * rng.standard_normal(_LEVELS))[level] + (np.linalg.cholesky(K) @ rng.standard_normal(_PLACES))[at]
    y = rng.poisson(np.exp(eta)).astype(float) if likelihood == "poisson" else eta + 0.7 * rng.standard_normal(rows)
    table = pd.DataFrame({"east": place[at, 0], "north": place[at, 1], "level": level, "x": x, "a": a, "b": b})
    return table, y, _CURVES[curve](_AT) - f.mean()


def fitted(likelihood: str, table: pd.DataFrame, y: np.ndarray, effect: npvi.Smooth | npvi.Linear) -> npvi.GPRegressor:
    terms = [npvi.Field("east", "north"), npvi.Group("level"), npvi.Linear("a", "b"), effect]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return npvi.GPRegressor(likelihood, terms=terms).fit(table, y)


def _inside(lower: np.ndarray, upper: np.ndarray, truth: np.ndarray | float) -> np.ndarray:
    return np.atleast_1d((lower <= truth) & (truth <= upper)).astype(float)


def _covered(likelihood: str, seed: int) -> dict[str, np.ndarray]:
    table, y, truth = simulate(likelihood, seed)
    model = fitted(likelihood, table, y, npvi.Smooth("x"))
    summary = model.summary()
    of_levels = summary.loc["1|level__sd"]
    # the summary's intervals are of 95 %: on the scale of logarithms, of 90 %
    low, high = (
        of_levels["value"] * (of_levels[end] / of_levels["value"]) ** (1.645 / 1.96) for end in ("lower", "upper")
    )
    coefficients = summary.loc[["a", "b"]]
    half = 1.645 * coefficients["standard_error"].to_numpy()
    value = coefficients["value"].to_numpy()
    ends = model.predict_dist(pd.DataFrame({"x": _AT}), terms=["s(x)"]).latent_interval(0.9)
    # what is known of a smooth is known up to the constant, which is another part's
    return {
        "sd of levels": _inside(low, high, _SD),
        "coefficients": _inside(value - half, value + half, np.array([0.3, -0.2])),
        "smooth": _inside(*ends, truth),
    }


def _coverage(simulations: int) -> None:
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    started = time.process_time()
    for seed in range(simulations):
        likelihood = ("poisson", "gaussian")[seed % 2]
        for name, inside in _covered(likelihood, seed).items():
            found.setdefault((likelihood, name), []).append(inside)
            found.setdefault(("both", name), []).append(inside)
    rows = []
    for (likelihood, name), inside in sorted(found.items()):
        means = np.array([one.mean() for one in inside])
        rows.append((likelihood, name, len(means), means.mean(), means.std(ddof=1) / np.sqrt(len(means))))
    seconds = (time.process_time() - started) / simulations
    show(
        f"90 % intervals, {simulations} data sets of {_ROWS} rows, {seconds:.1f} CPU s each",
        ("noise", "of", "sets", "covered", "s.e."),
        rows,
    )


def _costs(simulations: int) -> None:
    rows = []
    for curve in _CURVES:
        errors: dict[str, list[float]] = {"Linear": [], "Smooth": []}
        scores: dict[str, list[float]] = {"Linear": [], "Smooth": []}
        for seed in range(simulations):
            every, counts, truth = simulate("poisson", seed, curve, 2 * _ROWS)
            table, y = every[:_ROWS], counts[:_ROWS]
            for name, effect in (("Linear", npvi.Linear("x")), ("Smooth", npvi.Smooth("x"))):
                model = fitted("poisson", table, y, effect)
                new = table.iloc[[0] * len(_AT)].assign(x=_AT)
                eta = model.predict_dist(new).latent_mean
                errors[name].append(float(np.sqrt(np.mean((eta - eta.mean() - truth + truth.mean()) ** 2))))
                scores[name].append(float(model.predict_dist(every[_ROWS:]).log_prob(counts[_ROWS:]).mean()))
        gain = np.subtract(scores["Smooth"], scores["Linear"])
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        rows.append((curve, *(float(np.mean(errors[name])) for name in errors), float(gain.mean()), float(error)))
    header = ("effect", "Linear", "Smooth", "log score of new rows gained by Smooth", "s.e.")
    show(f"Error of an effect, mean of {simulations} data sets", header, rows)


def main() -> None:
    simulations = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 200
    _coverage(simulations)
    _costs(max(2, simulations // 10))
    say("  (86 to 94 % are asked of 90 % intervals)")


if __name__ == "__main__":
    main()
