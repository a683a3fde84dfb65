"""Is f where its variance says, and the constant mean where its standard error says, once everything is learned?

    python -m benchmarks latent [--parts surface constant] [--seeds 0 1 …] [--jobs N]

Surface: yes and no at 2,000 places of the unit square, f of Matérn-3/2 with length scale 0.2, variance 1 or 2 and no
nugget, half of them positive or 5 %; E[(f − m)²/v] at 1,000 new places, 1 is right. Constant: the share of simulations
whose true constant is within 1.96 standard errors of `model.summary()`'s, 500 and 1,000 rows in turn, length scale 0.1
to 0.2; where another link than exp is chosen, by a second fit that holds exp, since the truth is on its scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, special

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser, spread
from benchmarks.common import show
from benchmarks.fields import dense_draw

_NOISES = ("poisson", "negative_binomial", "gamma", "bernoulli", "gaussian")
_HELD = {"poisson": npvi.likelihoods.Poisson, "negative_binomial": npvi.likelihoods.NegativeBinomial}
_CONSTANT = 0.5
_SURFACES = tuple((variance, share) for share in (0.5, 0.05) for variance in (1.0, 2.0))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=20)
    options.add_argument("--parts", nargs="+", default=["surface", "constant"], choices=["surface", "constant"])
    options.add_argument("--noises", nargs="+", default=list(_NOISES), choices=_NOISES, help="of the constant's part")
    options.add_argument("--rows", type=int, help="instead of 2,000, and of 500 and 1,000")
    chosen = options.parse_args(arguments)
    surfaces = [
        {"part": "surface", "noise": "bernoulli", "variance": variance, "share": share, "seed": seed}
        for variance, share in _SURFACES
        for seed in chosen.seeds
    ]
    constants = [
        {
            "part": "constant",
            "noise": noise,
            "variance": 2.0 if noise == "bernoulli" else 1.0,
            "share": None,
            "seed": seed,
        }
        for noise in chosen.noises
        for seed in chosen.seeds
    ]
    cases = [case | {"rows": chosen.rows} for case in surfaces + constants if case["part"] in chosen.parts]
    rows = fan_out(one, cases, chosen)
    _surfaces([row for row in rows if row["part"] == "surface"])
    _constants([row for row in rows if row["part"] == "constant"])


def one(part: str, noise: str, variance: float, share: float | None, seed: int, rows: int | None) -> list[Row]:
    rng = np.random.default_rng(seed)
    if part == "surface":
        assert share is not None
        return [_surface(variance, share, rows or 2000, rng)]
    return [_constant(noise, variance, rows or (500, 1000)[seed % 2], rng)]


def _surface(variance: float, share: float, n: int, rng: np.random.Generator) -> Row:
    X = rng.uniform(size=(n + 1000, 2))
    f = _constant_for(share, variance) + np.sqrt(variance) * dense_draw(X, 0.2, 1.5, rng)
    y = _respond("bernoulli", f, rng)
    model = npvi.GPRegressor("bernoulli").fit(X[:n], y[:n])
    dist = model.predict_dist(X[n:])
    off = f[n:] - dist.latent_mean
    return {
        "ratio": float(np.mean(off**2 / dist.latent_var)),
        "rmse": float(np.sqrt(np.mean(off**2))),
        "sd": float(np.sqrt(np.mean(dist.latent_var))),
        "nlpd": -float(dist.log_prob(y[n:]).mean()),
        **_learned(model),
    }


def _constant(noise: str, variance: float, n: int, rng: np.random.Generator) -> Row:
    X = rng.uniform(size=(n, 2))
    length_scale = rng.uniform(0.1, 0.2)
    f = _CONSTANT + np.sqrt(variance) * dense_draw(X, length_scale, 1.5, rng)
    y = _respond(noise, f, rng)
    model = npvi.GPRegressor(noise).fit(X, y)
    link = getattr(model.likelihood_, "link", None)
    if noise in _HELD and link != "exp":
        model = npvi.GPRegressor(_HELD[noise](link="exp")).fit(X, y)
    found = model.summary().loc["mean__constant"]
    off = (float(found["value"]) - _CONSTANT) / float(found["standard_error"])
    return {
        "off": off,
        "covered": abs(off) <= 1.96,
        "link": link,
        "standard_error": float(found["standard_error"]),
        **_learned(model),
    }


def _learned(model: Any) -> Row:
    return {
        "smoothness": model.kernel_.smoothness,
        "kernel_variance": float(model.kernel_.variance),
        "length_scale": float(np.mean(model.kernel_.length_scale)),
        "nugget": model.nugget_,
        "companion": model.companion_weight_,
    }


def _constant_for(share: float, variance: float) -> float:
    """The mean of f for which so many are positive: E σ(c + √variance z) = share."""
    z, weight = np.polynomial.hermite_e.hermegauss(41)
    weight = weight / weight.sum()
    return optimize.brentq(lambda c: weight @ special.expit(c + np.sqrt(variance) * z) - share, -20.0, 20.0)


def _respond(noise: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean = np.exp(f)
    if noise == "bernoulli":
        return (rng.uniform(size=len(f)) < special.expit(f)).astype(float)
    if noise == "gaussian":
        return f + 0.5 * rng.standard_normal(len(f))
    if noise == "gamma":
        return rng.gamma(2.0, mean / 2.0)
    return rng.poisson(rng.gamma(2.0, mean / 2.0) if noise == "negative_binomial" else mean).astype(float)


def _surfaces(rows: list[Row]) -> None:
    lines = []
    for key, part in groups(rows, "share", "variance"):
        named = [
            column(part, name) for name in ("rmse", "sd", "kernel_variance", "length_scale", "nugget", "companion")
        ]
        means = [float(np.mean(values)) for values in named]
        lines.append((*key, len(part), spread(column(part, "ratio")), *means, f"{np.mean(column(part, 'nlpd')):.4f}"))
    header = (
        "positive",
        "variance",
        "seeds",
        "(f − m)²/v (.9–1.15; rare .9–1.2)",
        "RMSE of f",
        "its sd",
        "variance learned",
    )
    if lines:
        show("Yes and no, learned: f at new places", (*header, "ℓ (.2)", "nugget (0)", "companion", "NLPD"), lines)


def _constants(rows: list[Row]) -> None:
    lines = []
    for (noise,), part in groups(rows, "noise"):
        off, error = column(part, "off"), column(part, "standard_error")
        others = sum(row["link"] == "softplus" for row in part)
        covered = float(np.mean(column(part, "covered")))
        lines.append((noise, len(part), covered, float(np.std(off)), float(np.mean(error)), others))
    if lines:
        pooled = column(rows, "covered")
        lines.append(("all", len(pooled), float(np.mean(pooled)), float(np.std(column(rows, "off"))), np.nan, ""))
        header = ("noise", "seeds", "covered (.90–.98)", "spread of off / s.e.", "mean s.e.", "other links")
        show("The constant mean, ± 1.96 s.e.", header, lines)


if __name__ == "__main__":
    main()
