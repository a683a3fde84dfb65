"""Data that defaults find hard: how much better are a fixed smoothness, other starts, more neighbours?

    python -m benchmarks hard [--kinds …] [--seeds 0 1 …] [--rivals …] [--jobs N]

* tracks: 6,000 rows dense along twelve lines, which are far apart; a tenth of the rows and a tenth in whole stretches
  are held out; gamma and Poisson; smoothness 1/2, 3/2 and 5/2 in turn.
* few: 80 to 200 rows and 6 to 10 covariates, in the mean beside a field in the plane, or as inputs of the process,
  three of which matter; Gaussian and Poisson in turn.
* rare: 3,000 rows, 1 to 3 % positive.
* twelve: 1,500 rows and twelve inputs, three of which matter; Gaussian and Poisson.

Figures are negative log densities of new rows, the default's less the best of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, special

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import show
from benchmarks.fields import dense_draw, on_grid

_SMOOTHNESS = (0.5, 1.5, 2.5)
_NEW = 1000


@dataclass(frozen=True)
class _Data:
    likelihood: str
    X: np.ndarray
    y: np.ndarray
    new: tuple[np.ndarray, np.ndarray]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> np.ndarray:
        """What the process sees."""
        return self.X[:, self.settings["coords"]] if "coords" in self.settings else self.X


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=10)
    options.add_argument("--kinds", nargs="+", default=list(_KINDS), choices=list(_KINDS))
    options.add_argument("--rivals", nargs="+", default=list(_RIVALS), choices=list(_RIVALS))
    chosen = options.parse_args(arguments)
    cases = [
        {"kind": kind, "seed": seed, "rivals": chosen.rivals}
        for kind in chosen.kinds  # those that take longest come first
        for seed in chosen.seeds
    ]
    rows = fan_out(one, cases, chosen)
    lines = []
    for (kind,), part in groups(rows, "kind"):
        seeds = [{row["model"]: row for row in same} for _, same in groups(part, "seed")]
        default = np.array([models["default"]["nlpd"] for models in seeds])
        others = np.array([[models[name]["nlpd"] for name in chosen.rivals] for models in seeds])
        behind = default - others.min(axis=1)
        wins = [chosen.rivals[k] for k in np.argmin(others, axis=1)]
        most = ", ".join(f"{wins.count(name)} × {name}" for name in chosen.rivals if name in wins)
        each = [float(gain) for gain in np.mean(default[:, None] - others, axis=0)]
        seconds = float(np.mean(column([models["default"] for models in seeds], "seconds")))
        lines.append(
            (kind, len(seeds), f"{default.mean():.4f}", float(behind.mean()), float(behind.max()), *each, seconds, most)
        )
    header = ("kind", "seeds", "default", "less best, mean", "worst", *(f"less {name}" for name in chosen.rivals))
    show(
        "NLPD of the default, and what it lacks (≤ .005 on average, < .02 at worst)", (*header, "fit s", "best"), lines
    )


def one(kind: str, seed: int, rivals: Sequence[str]) -> list[Row]:
    data = _KINDS[kind](np.random.default_rng(seed), seed)
    rows = []
    for name in ("default", *rivals):
        settings = {} if name == "default" else _RIVALS[name](data)
        started = time.perf_counter()
        model = npvi.GPRegressor(data.likelihood, **data.settings, **settings).fit(data.X, data.y)
        seconds = time.perf_counter() - started
        dist = model.predict_dist(data.new[0])
        figures = {
            "nlpd": -float(dist.log_prob(data.new[1]).mean()),
            "rmse": float(np.sqrt(np.mean((dist.mean - data.new[1]) ** 2))),
            "sum": float(dist.mean.sum() / data.new[1].sum()),
            "elbo": model.elbo_,
            "smoothness": getattr(model.kernel_, "smoothness", name),
            "companion": model.companion_weight_,
            "kernel_": repr(model.kernel_),
            "likelihood_": repr(model.likelihood_),
            "nugget": model.nugget_,
            "evaluations": model.fit_info_["learning"]["evaluations"],
            "seconds": seconds,
        }
        rows.append({"model": name, "likelihood": data.likelihood, "rows": len(data.y), **figures})
    return rows


def _start(factor: float) -> Callable[[_Data], dict[str, Any]]:
    """A kernel whose length scales start at a multiple of where they would."""

    def kernel(data: _Data) -> dict[str, Any]:
        sd = data.inputs.std(axis=0)
        lengths = factor * 0.5 * np.sqrt(len(sd)) * sd
        return {"kernel": npvi.kernels.Matern(lengths.tolist(), variance=1.0)}

    return kernel


_RIVALS: dict[str, Callable[[_Data], dict[str, Any]]] = {
    **{name: lambda data, name=name: {"kernel": name} for name in ("matern12", "matern32", "matern52")},  # type: ignore[misc]
    "start/4": _start(0.25),
    "start×4": _start(4.0),
    "K=40": lambda data: {"n_neighbors": 40},
}


# -- data --------------------------------------------------------------------------------------------------------------


def _tracks(likelihood: str) -> Callable[[np.random.Generator, int], _Data]:
    def simulate(rng: np.random.Generator, seed: int) -> _Data:
        n, lines, side = 6000, 12, 2048
        line, along = np.divmod(rng.permutation(lines * side)[:n], side)
        # a line crosses the square on a slant; places are cells of the grid that the field is drawn on
        across = ((line + 0.5) * (side / lines) + 0.03 * along).astype(int) % side
        smoothness = _SMOOTHNESS[seed % 3]
        surface = on_grid(1.0, side, rng.uniform(0.05, 0.2), smoothness, rng)
        X = np.column_stack([along, across]) / side
        f = surface[along, across]
        y = _respond(likelihood, f, rng)
        stretch = (along // (side // 40)) * lines + line
        held = np.isin(stretch, rng.choice(40 * lines, 4 * lines, replace=False)) | (rng.uniform(size=n) < 0.1)
        return _Data(likelihood, X[~held], y[~held], (X[held], y[held]))

    return simulate


def _few(as_inputs: bool) -> Callable[[np.random.Generator, int], _Data]:
    def simulate(rng: np.random.Generator, seed: int) -> _Data:
        n, p = int(rng.integers(80, 201)), int(rng.integers(6, 11))
        likelihood = ("gaussian", "poisson")[seed % 2]
        Z = rng.standard_normal((n + _NEW, p))
        if as_inputs:
            X = Z
            f = dense_draw(Z[:, :3], 2.0, _SMOOTHNESS[seed % 3], rng)
        else:
            places = rng.uniform(size=(n + _NEW, 2))
            X = np.column_stack([places, Z])
            f = Z @ rng.normal(0.0, 0.3, p) + np.sqrt(0.5) * dense_draw(places, 0.3, _SMOOTHNESS[seed % 3], rng)
        settings = {} if as_inputs else {"coords": [0, 1]}
        return _split(likelihood, X, _respond(likelihood, f, rng), n, settings)

    return simulate


def _rare(rng: np.random.Generator, seed: int) -> _Data:
    n = 3000
    X = rng.uniform(size=(n + 2 * _NEW, 2))
    f = np.sqrt(2.0) * dense_draw(X, 0.2, 1.5, rng)
    share = rng.uniform(0.01, 0.03)
    constant = optimize.brentq(lambda c: special.expit(c + f).mean() - share, -20.0, 0.0)
    y = (rng.uniform(size=len(f)) < special.expit(constant + f)).astype(float)
    return _split("bernoulli", X, y, n)


def _twelve(likelihood: str) -> Callable[[np.random.Generator, int], _Data]:
    def simulate(rng: np.random.Generator, seed: int) -> _Data:
        n = 1500
        X = rng.uniform(size=(n + _NEW, 12))
        f = dense_draw(X[:, :3], np.array([0.3, 0.5, 1.0]), _SMOOTHNESS[1 + seed % 2], rng)
        return _split(likelihood, X, _respond(likelihood, f, rng), n)

    return simulate


def _split(likelihood: str, X: np.ndarray, y: np.ndarray, n: int, settings: dict[str, Any] | None = None) -> _Data:
    return _Data(likelihood, X[:n], y[:n], (X[n:], y[n:]), settings or {})


def _respond(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if likelihood == "gaussian":
        return f + 0.3 * rng.standard_normal(len(f))
    if likelihood == "gamma":
        return rng.gamma(5.0, np.exp(f) / 5.0)
    return rng.poisson(np.exp(f)).astype(float)


_KINDS: dict[str, Callable[[np.random.Generator, int], _Data]] = {
    "tracks_gamma": _tracks("gamma"),
    "tracks_poisson": _tracks("poisson"),
    "twelve_poisson": _twelve("poisson"),
    "rare": _rare,
    "twelve_gaussian": _twelve("gaussian"),
    "few_mean": _few(as_inputs=False),
    "few_inputs": _few(as_inputs=True),
}


if __name__ == "__main__":
    main()
