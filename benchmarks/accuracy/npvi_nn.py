"""NPVI-NN against the optimum it should recognise: gaps, scores, reuse, networks that come with the package, flights.

    NPVI_DATA=... python -m benchmarks.accuracy.npvi_nn [gaps] [reuse] [species] [flights]

Gap: ELBO per training point below the closed-form optimum under the same prior, graph and order (random, K = 10, RBF,
zero mean). Bird counts have the softplus link unless said. Times are of a second run: compilation is not in them.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import npvi
from benchmarks.common import best, load, show, skip
from npvi.amortized.fitting import patches
from npvi.amortized.inference import train_on
from npvi.amortized.local import recognise_locally
from npvi.amortized.recognition import recognise
from npvi.amortized.recognizer import exact_sites, pretrained
from npvi.amortized.settings import SiteNetwork
from npvi.components import Coefficients, Process, Stack
from npvi.inference import Data
from npvi.kernels import RBF
from npvi.likelihoods import Bernoulli, LogNormal, Poisson
from npvi.runtime.parallel import threads

_SEEDS = (0, 1, 2)
_CASES = {
    "precipitation": ("precipitation", LogNormal(0.01), RBF(0.5, 1.0), 0.01),
    "night light": ("nightlight", LogNormal(0.01), RBF(0.5, 1.0), 0.1),
    "bird counts": ("bird_counts", Poisson(link="softplus"), RBF(0.5, 50.0), 5.0),
    "bird counts, exp link": ("bird_counts", Poisson(), RBF(0.5, 50.0), 5.0),
}


def estimator(likelihood: Any, kernel: Any, nugget: float, seed: int, **more: Any) -> npvi.GPRegressor:
    settings = {"learn": False, "mean": "zero", "order": "random", "n_neighbors": 10, "random_state": seed}
    return npvi.GPRegressor(likelihood, kernel=kernel, nugget=nugget, **settings, **more)


def optimum(model: npvi.GPRegressor, X: np.ndarray, y: np.ndarray) -> tuple[Any, Data, Stack]:
    """The model fitted by the closed form, and its data and prior for networks."""
    fitted = model.set_params(method="npvi").fit(X, y)
    return fitted, fitted.data_, Stack(Process(fitted.prior_), Coefficients(fitted.basis_))


def gaps() -> None:
    rows = []
    for name, (source, likelihood, kernel, nugget) in _CASES.items():
        arrays = load(source)
        if arrays is None:
            return
        X, y, n = arrays["X_train"], arrays["y_train"], len(arrays["y_train"])
        for rounds in (None,) if exact_sites(likelihood) else (None, 3):
            found = []
            for seed in _SEEDS:
                fitted, data, stack = optimum(estimator(likelihood, kernel, nugget, seed), X, y)
                with threads(None):
                    sweep = best(partial(stack.prior.lower_half.sweep, fitted.posterior_.site_precision), 10)
                    recognizer, seconds = None, 0.0
                    if not exact_sites(likelihood):
                        settings = SiteNetwork(rounds)
                        recognizer = train_on(data, stack, settings, seed)
                        seconds = best(partial(train_on, data, stack, settings, seed), 10)
                    fits = {
                        "cg": recognise(recognizer, data, stack),
                        "local": recognise_locally(recognizer, data, stack),
                        "refined": recognise(recognizer, data, stack, refine=1),
                    }
                    started = time.perf_counter()
                    recognise(recognizer, data, stack)
                    apply = time.perf_counter() - started
                score = -fitted.log_score(arrays["X_test"], arrays["y_test"])
                fitted.fitted_ = replace(fitted.fitted_, posterior=fits["cg"].posterior)
                off = -fitted.log_score(arrays["X_test"], arrays["y_test"]) - score
                numbers = [(fitted.elbo_ - fit.elbo) / n for fit in fits.values()]
                found.append([*numbers, off, seconds / sweep, seconds, apply, n / apply])
            mean = np.mean(found, axis=0)
            solves = 1 if recognizer is None else 1 + recognizer.rounds
            rows.append((name, solves, *(f"{v:.5f}" for v in mean[:4]), f"{mean[4]:.0f}", *mean[5:7], f"{mean[7]:.0f}"))
    header = (
        "data",
        "solves",
        "gap",
        "streaming",
        "after a sweep",
        "NLPD off",
        "training in sweeps",
        "train s",
        "apply s",
    )
    show(
        "Networks, mean over 3 seeds; the default first, one solve where that is near enough",
        (*header, "points/s"),
        rows,
    )


def reuse() -> None:
    arrays = load("bird_counts")
    if arrays is None:
        return
    X, y = arrays["X_train"], arrays["y_train"]
    _, likelihood, kernel, nugget = _CASES["bird counts"]
    rows = []
    for rounds in (0, 3):
        table = []
        for seed in _SEEDS:
            fitted, data, stack = optimum(estimator(likelihood, kernel, nugget, seed), X, y)
            west = X[:, 0] < np.median(X[:, 0])
            tree = patches(X, 10**9)[0]
            tenth = np.concatenate([tree[k : k + 256] for k in range(0, len(tree), 2560)])
            line = []
            for part in (slice(None), west, tenth):
                model = estimator(likelihood, kernel, nugget, seed)
                recognizer = npvi.fit_network(model, X[part], y[part], rounds=rounds)
                with threads(None):
                    fit = recognise(recognizer, data, stack)
                line.append((fitted.elbo_ - fit.elbo) / len(y))
            table.append(line)
        mean = np.mean(table, axis=0)
        ratios = [f"{value / mean[0]:.2f}" for value in mean[1:]]
        rows.append((rounds + 1, *(f"{value:.5f}" for value in mean), *ratios))
    show(
        "Reuse, bird counts, gap on all rows (3 seeds): trained on …",
        ("solves", "all", "west half", "10 % of patches", "west / all", "10 % / all"),
        rows,
    )


def species() -> None:
    import os
    from pathlib import Path

    path = Path(os.environ.get("NPVI_DATA", ""), "bbs_savannah_sparrow", "bbs_savannah_sparrow.parquet")
    if not path.exists():
        skip("species", f"no {path.name} under the folder that NPVI_DATA names")
        return
    table = pd.read_parquet(path)
    X = np.column_stack([table["lon"] * np.cos(np.radians(39.0)), table["lat"]]) * 69.17 / 200.0
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: int(0.7 * len(X))], order[int(0.8 * len(X)) :]
    names = [name for name in table.columns if table[name].dtype.kind in "iu" and name not in _NOT_SPECIES]
    kernel, nugget = RBF(0.5, 50.0), 5.0
    savannah = npvi.fit_network(
        estimator(Poisson(link="softplus"), kernel, nugget, 0),
        X[train],
        table["savannah_sparrow"].to_numpy(float)[train],
        rounds=0,
    )
    rows = []
    for name in names:
        counts = table[name].to_numpy(float)
        cases = [
            ("counts", Poisson(link="softplus"), counts, kernel, nugget),
            ("presence", Bernoulli(), (counts > 0).astype(float), RBF(0.5, 5.0), 0.5),
        ]
        for kind, likelihood, y, prior, own_nugget in cases:
            fitted, data, stack = optimum(estimator(likelihood, prior, own_nugget, 0), X[train], y[train])
            score = -fitted.log_score(X[test], y[test])
            cells: list[Any] = []
            with threads(None):
                for network in (savannah if kind == "counts" else None, pretrained(likelihood)):
                    if network is None:
                        cells += ["", ""]
                        continue
                    plain, swept = (recognise(network, data, stack, refine=k) for k in (0, 1))
                    cells.append(f"{(fitted.elbo_ - plain.elbo) / len(train):.4f}")
                    fitted.fitted_ = replace(fitted.fitted_, posterior=swept.posterior)
                    off = -fitted.log_score(X[test], y[test]) - score
                    cells.append(f"{(fitted.elbo_ - swept.elbo) / len(train):.5f} ({off:+.4f})")
            rows.append((name, kind, *cells, plain.info["applicability"]["verdict"]))
    show(
        "Ten species: gap before and after a sweep (NLPD off), Savannah's network (one solve) and the shipped one",
        ("species", "", "Savannah's", "swept", "shipped", "swept", "verdict"),
        rows,
    )


_NOT_SPECIES = ("state_num", "route", "year", "day_of_year", "start_hour", "bcr")


def flights() -> None:
    from npvi.datasets import load as load_set

    try:
        data_set = load_set("flights")
    except (OSError, ValueError) as error:
        skip("flights", str(error))
        return
    split = data_set.split(seed=0)
    X, y = np.asarray(split.X_train), np.asarray(split.y_train)
    # gamma noise, because log-normal noise needs no network
    model = estimator(npvi.likelihoods.Gamma(20.0), RBF(0.5, 1.0), 0.1, 0)
    started = time.perf_counter()
    fitted, data, stack = optimum(model, X, y)
    laps = fitted.fit_info_["seconds"]
    part = np.random.default_rng(0).permutation(len(y))[: len(y) // 10]
    with threads(None):
        rows = [("closed form, inference alone", laps["inference"], "")]
        tenth = np.sort(part)
        trained_on = estimator(npvi.likelihoods.Gamma(20.0), RBF(0.5, 1.0), 0.1, 0)
        started = time.perf_counter()
        recognizer = npvi.fit_network(trained_on, X[tenth], y[tenth], points=2048)
        training = time.perf_counter() - started
        started = time.perf_counter()
        fit = recognise(recognizer, data, stack)
        applying = time.perf_counter() - started
    rows.append(("trained on 10 %", training, ""))
    rows.append(("applied to all", applying, f"gap {(fitted.elbo_ - fit.elbo) / len(y):.5f}"))
    show(
        f"Flights, {len(y)} rows in 8-d, K = 10, gamma noise: seconds (graph and prior not counted)",
        ("", "s", ""),
        rows,
    )


def main() -> None:
    parts = {"gaps": gaps, "reuse": reuse, "species": species, "flights": flights}
    chosen = [name for name in sys.argv[1:] if name in parts] or list(parts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the recognised posterior")
        for name in chosen:
            parts[name]()


if __name__ == "__main__":
    main()
