"""Covariates that tell where nothing occurs: are expected sums what was seen?

    python -m benchmarks separation [--noises …] [--rates -5 -3] [--covariates …] [--scales …] [--methods …]

3,000 rows in the unit square, a fifth of them with c > 0, where nothing occurs; elsewhere log odds (log rates) are the
base rate and a Matérn-3/2 field of length scale 0.2 and variance 1/2. c enters the mean; elsewhere it is 0, where c > 0
it is 1 (`indicator`) or a half-normal number (`ramp`). `crossing` is negative elsewhere: no line in c separates that,
the best one without a field expects 2 to 65 where c > 0. Expected sums on the training rows should be within 15 % of
what was seen and, but for `crossing`, below 3 where c > 0. Just above 0 a ramp's rows are as likely to hold something
as the prior of the slope allows: "exact" is what quadrature over the constant and the slope, without a field, expects
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import say, show
from benchmarks.fields import on_grid

_NOISES, _COVARIATES, _METHODS = (
    ("bernoulli", "poisson", "binomial"),
    ("ramp", "indicator", "crossing"),
    ("full", "npvi"),
)
_SCALES = ("default", "None", "1", "10")
_TRIALS, _CELLS = 5, 512


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=2)
    options.add_argument("--noises", nargs="+", default=list(_NOISES), choices=_NOISES)
    options.add_argument("--rates", type=float, nargs="+", default=[-5.0, -3.0], help="logarithms of base rates")
    options.add_argument("--covariates", nargs="+", default=list(_COVARIATES), choices=_COVARIATES)
    options.add_argument("--scales", nargs="+", default=list(_SCALES), help="coefficient_scale; default: not given")
    options.add_argument("--methods", nargs="+", default=list(_METHODS), choices=_METHODS)
    options.add_argument("--rows", type=int, default=3000)
    chosen = options.parse_args(arguments)
    cases = [
        {"noise": noise, "covariate": covariate, "rate": rate, "scale": scale, "method": method, "seed": seed}
        | {"rows": chosen.rows}
        for noise in chosen.noises
        for method in chosen.methods
        for covariate in chosen.covariates
        for rate in chosen.rates
        for scale in chosen.scales
        for seed in chosen.seeds
    ]
    rows = fan_out(one, cases, chosen)
    lines, by = [], ("noise", "method", "covariate", "rate", "scale")
    for key, part in groups(rows, *by):
        off = column(part, "ratio") - 1.0
        worst = part[int(np.argmax(np.abs(off)))]
        above = float(np.max(column(part, "above")))
        exact = float(np.max(column(part, "exact")))
        test = column(part, "new") / np.maximum(column(part, "new_seen"), 1.0)
        latent = f"{worst['latent']:.3g} ± {worst['latent_sd']:.3g}"
        warned = sum("warnings" in row for row in part)
        fine = abs(off).max() <= 0.15 and (above < 3.0 or worst["covariate"] == "crossing")
        bad = "" if fine else "*"
        lines.append(
            (*key, int(worst["seen"]), float(worst["ratio"]), above, exact, float(np.mean(test)), latent, warned, bad)
        )
    header = (
        *by,
        "seen",
        "worst sum / seen",
        "most where c > 0",
        "exact",
        "new rows / seen",
        "f there",
        "warned",
        "bad",
    )
    show("Expected sums beside what was seen, worst of the seeds", header, lines)
    bad = sum(line[-1] == "*" for line in lines)
    say(f"  {bad} of {len(lines)} are off by more than 15 % in all, or expect 3 or more where c > 0 separates")


def one(noise: str, covariate: str, rate: float, scale: str, method: str, seed: int, rows: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    X, f = _simulate(covariate, rate, 2 * rows, rng)
    y = _responses(noise, f, rng)
    train, test = slice(0, rows), slice(rows, None)
    settings: dict[str, Any] = (
        {} if scale == "default" else {"coefficient_scale": None if scale == "None" else float(scale)}
    )
    extra = {"trials": np.full(rows, _TRIALS)} if noise == "binomial" else {}
    model = npvi.GPRegressor(noise, coords=[0, 1], method=method, **settings).fit(X[train], y[train], **extra)
    dist, new = model.predict_dist(X[train], **extra), model.predict_dist(X[test], **extra)
    above, new_above = X[train, 2] > 0.0, X[test, 2] > 0.0
    worst = int(np.argmax(np.where(above, dist.mean, -1.0)))
    seen = y[train].sum()
    coefficient = model.summary().loc["mean__x2"]
    precision: Any = model.coefficient_precision_
    sd = float(precision[1]) ** -0.5 / X[train, 2].std()
    return [
        {
            "exact": _exact(noise, X[train, 2], y[train], sd),
            "seen": seen,
            "ratio": dist.mean.sum() / seen,
            "above": dist.mean[above].sum(),
            "new": new.mean.sum(),
            "new_seen": y[test].sum(),
            "new_above": new.mean[new_above].sum(),
            "new_nlpd": -new.log_prob(y[test]).mean(),
            "latent": dist.latent_mean[worst],
            "latent_sd": np.sqrt(dist.latent_var[worst]),
            "coefficient": float(coefficient["value"]),
            "coefficient_error": float(coefficient["standard_error"]),
        }
    ]


def _exact(noise: str, c: np.ndarray, y: np.ndarray, sd: float) -> float | None:
    """What is expected where c > 0, where nothing was seen and c is 0 elsewhere, by quadrature over a constant with a
    flat prior and a slope with one of standard deviation `sd`; None where c is not 0 elsewhere."""
    above, seen = c > 0.0, y.sum()
    if np.any(c < 0.0):
        return None
    trials = _TRIALS if noise == "binomial" else 1
    # log-partition function and mean of one observation
    total, mean = (np.exp, np.exp) if noise == "poisson" else (lambda f: np.logaddexp(0.0, f), special.expit)
    share = seen / (trials * np.sum(~above))
    middle = np.log(share) if noise == "poisson" else special.logit(share)
    constant = middle + np.linspace(-6.0, 6.0, 61) / np.sqrt(seen)
    slope = np.linspace(-12.0 * sd, 0.0, 400)
    log_density, expected = (np.empty((len(constant), len(slope))) for _ in range(2))
    for i, a in enumerate(constant):
        f = a + slope[:, None] * c[above]
        log_density[i] = (
            seen * a - trials * (np.sum(~above) * total(a) + total(f).sum(axis=1)) - 0.5 * (slope / sd) ** 2
        )
        expected[i] = trials * mean(f).sum(axis=1)
    density = np.exp(log_density - log_density.max())
    return float(np.sum(density * expected) / density.sum())


def _simulate(covariate: str, rate: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and their covariate, and f, −∞ where nothing occurs."""
    cells = rng.permutation(_CELLS**2)[:n]
    X = np.column_stack(np.divmod(cells, _CELLS)) / _CELLS
    above = np.arange(n) % 5 == 0
    size = np.abs(rng.standard_normal(n))
    c = {"ramp": above * size, "indicator": above.astype(float), "crossing": np.where(above, size, -size)}[covariate]
    field = on_grid(1.0, _CELLS, 0.2, 1.5, rng).ravel()[cells]
    f = rate - 0.25 + np.sqrt(0.5) * field
    return np.column_stack([X, c]), np.where(above, -np.inf, f)


def _responses(noise: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if noise == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    return rng.binomial(1 if noise == "bernoulli" else _TRIALS, special.expit(f)).astype(float)


if __name__ == "__main__":
    main()
