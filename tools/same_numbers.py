"""Do two trees give the same numbers? Fits and predictions of many kinds, compared to the last bit.

    python tools/same_numbers.py main .                    # a revision and a checkout
    python tools/same_numbers.py HEAD~3 HEAD --kinds poisson npvi
    python tools/same_numbers.py v0.1.0 . --tolerance 1e-8

Each tree runs in a process of its own, with the interpreter that runs this file, on the CPU, with a fixed number of
threads and an environment without settings. It uses public names only, the ones that README and guide use, so that one
script serves trees that are divided differently. What takes time (``seconds``) is left out; all else is compared:
parameters learned, bounds, predictions, draws with a seed, diagnoses, what commands print, and models that the first
tree saved and the second loads.

Results of a revision are kept (``--cache``), so that the tree before is run once. The exit code is 1 where anything
differs by more than the tolerance, or fails.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "Difference", "Record", "compare", "main", "masked"]

#: what each kind does: it fits, and records
KINDS: dict[str, Callable[[Record, Path], None]] = {}
#: folder of the files that models are loaded from, within the results of a tree
_FILES = "files"
#: names of what went wrong: in a whole kind, and in a single question
_ERROR, _RAISES = "error", "raises"
_NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


# -- recording --------------------------------------------------------------------------------------------------------


class Record:
    """Numbers and texts by name, from whatever they are found in: arrays, tables, dictionaries, records.

    What is neither (an object, a function) is passed over, and so is all with ``second`` or ``seconds`` in its name.

    >>> record = Record()
    >>> record.add("fit", {"bound": -1.5, "rows_per_second": 9.1, "steps": [1, 2], "converged": True})
    >>> {name: value.tolist() for name, value in record.arrays.items()}
    {'fit/bound': -1.5, 'fit/steps': [1, 2], 'fit/converged': True}
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, name: str, value: Any) -> None:
        if {"second", "seconds"} & set(name.rpartition("/")[2].split("_")):
            return
        if isinstance(value, str):
            value = masked(value)
        elif hasattr(value, "to_dict") and hasattr(value, "index"):  # a table, or a column of one
            rows = [str(row) for row in value.index]
            value = dict(zip(rows, value.to_dict("records"))) if value.ndim == 2 else dict(zip(rows, value.tolist()))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.add(f"{name}/{key}", item)
            return
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
            for number, item in enumerate(value):
                self.add(f"{name}/{number}", item)
            return
        array = _array(value)
        if array is None:
            return
        if name in self.arrays:
            raise ValueError(f"{name} is recorded twice")
        self.arrays[name] = array


def _array(value: Any) -> np.ndarray | None:
    """Numbers or texts as an array that needs no pickle; None for anything else."""
    if value is None:
        return np.asarray("None")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    if array.dtype == object:
        flat = array.ravel().tolist()
        if not all(item is None or isinstance(item, str | bool | int | float) for item in flat):
            return None
        array = np.asarray([str(item) for item in flat]).reshape(array.shape)
    return array if array.dtype.kind in "biufcUS" else None


def masked(text: str) -> str:
    """A text without what differs from one run to the next: how long things took, and when.

    >>> print(masked("│ seconds   │ 2.1 (graph 0.1, fit 2.0) │\\n12 rows in 0.3 s, on 2024-01-31T10:11:12"))
    │ seconds │ … │
    12 rows in … s, on …
    """
    text = re.sub(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|\+\d{2}:\d{2})?", "…", text)
    text = re.sub(r'("seconds": )(?:\{[^}]*\}|[-\d.e]+)', r"\1…", text)
    text = re.sub(r"\d+(?:\.\d+)?(?= s\b| seconds\b)", "…", text)
    if not re.search(r"[│┃]\s*seconds\s*[│┃]", text):
        return text
    lines, column = [], None
    for line in text.split("\n"):  # boxes are as wide as what is in them, times too
        line = re.sub(r"([─━])+", r"\1", re.sub(r"\s+", " ", line)).strip()
        line = re.sub(r"^│ seconds │ .* │$", "│ seconds │ … │", line)
        if "seconds ┃" in line:  # the head of a table with a column of them
            column = [cell.strip() for cell in line.split("┃")].index("seconds")
        elif column is not None and line.startswith("│"):
            cells = line.split("│")
            line = "│".join([*cells[:column], " … ", *cells[column + 1 :]])
        elif line.startswith("└"):
            column = None
        lines.append(line)
    return "\n".join(lines)


def kind(name: str) -> Callable[[Callable[[Record, Path], None]], Callable[[Record, Path], None]]:
    """Enter a function among the kinds."""

    def enter(function: Callable[[Record, Path], None]) -> Callable[[Record, Path], None]:
        if name in KINDS:
            raise ValueError(f"there are two kinds {name!r}")
        KINDS[name] = function
        return function

    return enter


# -- data -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Data:
    """Places, a covariate, hours, a surface over them, and a generator for responses."""

    X: np.ndarray
    forest: np.ndarray
    hours: np.ndarray
    f: np.ndarray
    rng: np.random.Generator

    @property
    def table(self) -> Any:
        import pandas as pd

        return pd.DataFrame({"lon": self.X[:, 0], "lat": self.X[:, 1], "forest": self.forest})

    def counts(self) -> np.ndarray:
        return self.rng.poisson(self.hours * np.exp(self.f))

    def numbers(self, noise: float = 0.2) -> np.ndarray:
        return self.f + noise * self.rng.standard_normal(len(self.f))


def _data(n: int = 150, seed: int = 0) -> _Data:
    rng = np.random.default_rng(seed)
    X, forest, hours = rng.uniform(0.0, 6.0, size=(n, 2)), rng.uniform(size=n), rng.uniform(0.5, 3.0, size=n)
    return _Data(X, forest, hours, 0.3 + np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1]) + 0.6 * forest, rng)


# -- what is recorded of models and predictions -----------------------------------------------------------------------


def _model(record: Record, model: Any, name: str = "model", summary: bool = True) -> None:
    """All that was learned."""
    for attribute in ("elbo_", "nugget_", "companion_weight_", "fit_info_", "rounds_", "n_iter_", "classes_"):
        if hasattr(model, attribute):
            record.add(f"{name}/{attribute}", getattr(model, attribute))
    for part in ("kernel_", "likelihood_"):
        if hasattr(model, part):
            record.add(f"{name}/{part}", getattr(model, part).get_params())
    if hasattr(model, "mean_coefficients_"):
        record.add(f"{name}/mean_coefficients_", np.asarray(model.mean_coefficients_))
    if hasattr(model, "graph_"):
        record.add(f"{name}/order", model.graph_.order)
        record.add(f"{name}/posterior_mean", model.posterior_.mean)
        record.add(f"{name}/posterior_variance", model.posterior_.variance)
    if summary and hasattr(model, "summary"):
        record.add(f"{name}/summary", model.summary())


def _dist(record: Record, dist: Any, y: Any = None, name: str = "dist", joint: bool = True) -> None:
    """All that a predictive distribution of numbers can be asked; where a question fails, how it does."""
    questions: dict[str, Callable[[], Any]] = {
        **{key: lambda key=key: getattr(dist, key) for key in ("mean", "std", "latent_mean", "latent_var", "nugget")},
        "interval": lambda: np.array(dist.interval(0.9)),
        "quantile": lambda: dist.quantile([0.1, 0.5]),
        "latent_interval": lambda: np.array(dist.latent_interval(0.8)),
        "sample": lambda: dist.sample(7, seed=1),
    }
    if hasattr(dist, "noise_std"):
        questions["noise_std"] = lambda: dist.noise_std
    if y is not None:
        questions["log_prob"] = lambda: dist.log_prob(y)
    if joint:
        questions["joint_sample"] = lambda: dist.joint_sample(5, seed=2)
        questions["total_response"] = lambda: _total(dist.total(n=128, seed=3))
        questions["total_mean"] = lambda: _total(dist.total(n=128, seed=3, of="mean"))
        questions["latent_total"] = lambda: _total(dist.latent_total())
        questions["joint_covariance"] = lambda: dist.joint_covariance()
        questions["reach"] = lambda: {key: getattr(dist.reach, key) for key in ("distance", "prior_share", "beyond")}
    for question, ask in questions.items():
        try:
            answer = ask()
        except Exception as error:
            question, answer = f"{question}/{_RAISES}", f"{type(error).__name__}: {error}"
        record.add(f"{name}/{question}", answer)


def _total(total: Any) -> dict[str, Any]:
    return {"mean": total.mean, "std": total.std, "interval": np.array(total.interval(0.9))}


def _labels(record: Record, dist: Any, labels: Any, name: str = "dist") -> None:
    """All that a distribution of labels can be asked."""
    for attribute in ("probabilities", "mode", "latent_mean", "latent_var"):
        record.add(f"{name}/{attribute}", getattr(dist, attribute))
    record.add(f"{name}/log_prob", dist.log_prob(labels))
    record.add(f"{name}/sample", dist.sample(7, seed=1))
    record.add(f"{name}/joint_sample", dist.joint_sample(5, seed=2))


def _fit(record: Record, model: Any, X: Any, y: Any, test: int = 20, joint: bool = True, **row: Any) -> Any:
    """Fit all rows but the last `test`, record the model and what it says of these; return the model."""
    take = X.iloc if hasattr(X, "iloc") else X
    model.fit(take[:-test], y[:-test], **{name: values[:-test] for name, values in row.items()})
    _model(record, model)
    after = {name: values[-test:] for name, values in row.items() if name != "sample_weight"}
    _dist(record, model.predict_dist(take[-test:], **after), y[-test:], joint=joint)
    record.add("log_score", model.log_score(take[-test:], y[-test:], **after))
    return model


def _held(likelihood: Any = "poisson", **settings: Any) -> Any:
    """A model with all numbers as given."""
    import npvi

    kernel = settings.pop("kernel", None) or npvi.kernels.Matern32(2.0, 0.8)
    return npvi.GPRegressor(likelihood, kernel, **{"nugget": 0.05, "n_neighbors": 8, "learn": False, **settings})


# -- likelihoods ------------------------------------------------------------------------------------------------------


def _likelihood(name: str, respond: Callable[[_Data], tuple[np.ndarray, dict[str, np.ndarray]]], **more: Any) -> None:
    """A kind for one likelihood, with its numbers held."""

    def run(record: Record, folder: Path) -> None:
        data = _data(80, seed=len(name))
        y, row = respond(data)
        _fit(record, _held(name, **more), data.X, y, test=15, **row)

    kind(f"likelihood-{name}")(run)


def _censored(data: _Data, values: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    limit = np.quantile(values, 0.8)
    return np.minimum(values, limit), {"censored": (values > limit).astype(int)}


def _with_zeros(data: _Data) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    return data.counts() * (data.rng.uniform(size=len(data.f)) < 0.7), {"exposure": data.hours}


def _of_trials(data: _Data) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    trials = data.rng.integers(1, 9, size=len(data.f))
    return data.rng.binomial(trials, _logistic(data.f)), {"trials": trials}


def _logistic(f: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-f))


_likelihood("gaussian", lambda d: (d.numbers(), {"noise_variance": 0.02 + 0.1 * d.forest}))
_likelihood("student_t", lambda d: (d.f + 0.2 * d.rng.standard_t(3, len(d.f)), {}))
_likelihood("laplace", lambda d: (d.f + d.rng.laplace(0.0, 0.2, len(d.f)), {}))
_likelihood("censored_gaussian", lambda d: _censored(d, d.numbers()))
_likelihood("lognormal", lambda d: (np.exp(d.numbers()), {}))
_likelihood("censored_lognormal", lambda d: _censored(d, np.exp(d.numbers())))
_likelihood("gamma", lambda d: (d.rng.gamma(2.0, np.exp(d.f) / 2.0), {}))
_likelihood("exponential", lambda d: (d.rng.exponential(np.exp(d.f)), {}))
_likelihood("weibull", lambda d: (np.exp(d.f) * d.rng.weibull(1.5, len(d.f)), {}))
_likelihood("tweedie", lambda d: (d.counts() * d.rng.gamma(2.0, 0.5, len(d.f)), {"exposure": d.hours}))
_likelihood("poisson", lambda d: (d.counts(), {"exposure": d.hours}))
_likelihood("negative_binomial", lambda d: (d.counts() * d.rng.integers(1, 3, len(d.f)), {"exposure": d.hours}))
_likelihood("zero_inflated_poisson", _with_zeros)
_likelihood("zero_inflated_negative_binomial", _with_zeros)
_likelihood("hurdle_poisson", _with_zeros)
_likelihood("binomial", _of_trials)
_likelihood("beta_binomial", _of_trials)
_likelihood("bernoulli", lambda d: ((d.rng.uniform(size=len(d.f)) < _logistic(d.f)).astype(int), {}))
_likelihood("beta", lambda d: (d.rng.beta(4.0 * _logistic(d.f), 4.0 * _logistic(-d.f)), {}))
_likelihood("ordinal", lambda d: (np.digitize(d.numbers(0.5), [0.0, 1.0]), {}), mean="zero")


@kind("likelihood-custom")
def _custom(record: Record, folder: Path) -> None:
    import npvi

    data = _data(100)
    noise = npvi.likelihoods.Custom(_cauchy, {"scale": npvi.positive(0.5)})
    y = data.f + 0.1 * data.rng.standard_cauchy(len(data.f))
    _fit(record, npvi.GPRegressor(noise, "rbf", n_neighbors=8, hyper="plug-in"), data.X, y, test=15)


def _cauchy(y: Any, f: Any, scale: Any) -> Any:
    import jax.numpy as jnp

    return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)


# -- learning ---------------------------------------------------------------------------------------------------------


@kind("learned-poisson")
def _learned_poisson(record: Record, folder: Path) -> None:
    """The default way with counts, covariates and exposure, 600 rows: more than are computed exactly."""
    import npvi

    data = _data(620)
    model = npvi.GPRegressor("poisson", coords=["lon", "lat"], n_neighbors=10, hyper="plug-in")
    _fit(record, model, data.table, data.counts(), exposure=data.hours)


@kind("learned-integrated")
def _learned_integrated(record: Record, folder: Path) -> None:
    """Few rows: predictions mix models around the best one."""
    import npvi

    data = _data(80)
    _fit(record, npvi.GPRegressor("poisson", n_neighbors=8), data.X, data.counts(), exposure=data.hours)


@kind("learned-gaussian")
def _learned_gaussian(record: Record, folder: Path) -> None:
    """All defaults."""
    import npvi

    data = _data(200)
    _fit(record, npvi.GPRegressor(), data.X, data.numbers())


@kind("learned-negative-binomial")
def _learned_negative_binomial(record: Record, folder: Path) -> None:
    import npvi

    data = _data(200)
    y = data.rng.poisson(data.rng.gamma(2.0, 0.5, len(data.f)) * np.exp(data.f))
    _fit(record, npvi.GPRegressor("negative_binomial", hyper="plug-in", n_neighbors=8), data.X, y)


@kind("learned-gamma-no-priors")
def _learned_gamma(record: Record, folder: Path) -> None:
    """Maximum likelihood, with weights of the rows."""
    import npvi

    data = _data(150)
    y = data.rng.gamma(2.0, np.exp(data.f) / 2.0)
    model = npvi.GPRegressor("gamma", "matern32", hyperprior=None, hyper="plug-in", n_neighbors=8)
    _fit(record, model, data.X, y, sample_weight=data.hours)


@kind("learned-said")
def _learned_said(record: Record, folder: Path) -> None:
    """Numbers that are fixed, bounded, or have priors."""
    import npvi

    data = _data(150)
    kernel = npvi.kernels.Matern32(npvi.bounded(2.0, 0.5, 10.0), npvi.positive(1.0, prior=(0.0, 0.5)))
    model = npvi.GPRegressor("poisson", kernel, nugget=npvi.fixed(0.01), n_neighbors=8, hyper="plug-in")
    _fit(record, model, data.X, data.counts(), exposure=data.hours)


@kind("learned-pc-priors")
def _learned_pc(record: Record, folder: Path) -> None:
    import npvi

    data = _data(120)
    kernel = npvi.kernels.Matern52(npvi.pc(below=0.5), npvi.pc(above=2.0, probability=0.01))
    _fit(record, npvi.GPRegressor("student_t", kernel, n_neighbors=8, hyper="plug-in"), data.X, data.numbers())


@kind("learned-linear-mean")
def _learned_linear(record: Record, folder: Path) -> None:
    """All columns are places and covariates, with a prior of their coefficients."""
    import npvi

    data = _data(150)
    model = npvi.GPRegressor(
        "lognormal", "matern32", mean="linear", coefficient_scale=2.0, n_neighbors=8, hyper="plug-in"
    )
    _fit(record, model, data.table, np.exp(data.numbers()))


@kind("learned-grid")
def _learned_grid(record: Record, folder: Path) -> None:
    """The paper's way to hyper-parameters."""
    import npvi

    data = _data(120)
    y = data.counts()
    model = npvi.GPRegressor("poisson", npvi.kernels.Matern32(1.0), n_neighbors=8, learn="grid")
    _fit(record, model, data.X, y)
    found = npvi.grid_search(_held(), data.X, y, {"length_scale": [0.5, 2.0], "nugget": [0.01, 0.1]})
    record.add("grid", {"best": found.best_params, "table": found.table.drop(columns="seconds")})


@kind("standard-errors")
def _standard_errors(record: Record, folder: Path) -> None:
    import npvi

    data = _data(100)
    model = npvi.GPRegressor("poisson", "matern32", n_neighbors=8, hyper="plug-in").fit(data.X, data.counts())
    record.add("summary", model.summary(standard_errors=True))


# -- methods, priors, graphs, kernels ---------------------------------------------------------------------------------


@kind("method-full-large")
def _full_large(record: Record, folder: Path) -> None:
    """More rows than are computed exactly: variances come from a sparse factor."""
    data = _data(600)
    _fit(record, _held(), data.X, data.counts(), exposure=data.hours)


@kind("method-npvi")
def _npvi(record: Record, folder: Path) -> None:
    data = _data(300)
    _fit(record, _held(method="npvi"), data.X, data.counts(), exposure=data.hours)


@kind("method-npvi-learned")
def _npvi_learned(record: Record, folder: Path) -> None:
    import npvi

    data = _data(150)
    model = npvi.GPRegressor("poisson", "matern32", method="npvi", n_neighbors=8, hyper="plug-in")
    _fit(record, model, data.X, data.counts(), exposure=data.hours)


@kind("method-npvi-sgd")
def _sgd(record: Record, folder: Path) -> None:
    import npvi

    data = _data(120)
    _fit(record, _held(method="npvi", optimizer=npvi.SGD(epochs=20)), data.X, data.counts())


@kind("network-pretrained")
def _pretrained(record: Record, folder: Path) -> None:
    data = _data(200)
    model = _held(method="npvi-nn", network="pretrained", refine=1)
    _fit(record, model, data.X, data.counts())


@kind("network-trained")
def _trained(record: Record, folder: Path) -> None:
    """A network trained on some rows, saved, loaded, used on others, and beside the optimum."""
    import npvi

    data = _data(250)
    y = data.counts()
    recognizer = npvi.fit_network(_held(), data.X[:150], y[:150], steps=60)
    recognizer.save(folder / "network.npz")
    again = npvi.Recognizer.load(folder / "network.npz")
    model = _fit(record, _held(method="npvi-nn", network=again), data.X, y)
    record.add("optimum", npvi.networks.compare_with_optimum(model))


@kind("network-sites")
def _sites(record: Record, folder: Path) -> None:
    """Trained on patches of the data themselves, solved patch by patch."""
    import npvi

    data = _data(200)
    settings = npvi.networks.SiteNetwork(points=100, steps=30)
    _fit(record, _held(method="npvi-nn", network=settings, solve="local"), data.X, data.counts())


@kind("network-gcn")
def _gcn(record: Record, folder: Path) -> None:
    import npvi

    data = _data(120)
    _fit(record, _held(method="npvi-nn", network=npvi.networks.GCN(epochs=5)), data.X, data.counts())


@kind("network-simulations")
def _simulations(record: Record, folder: Path) -> None:
    import npvi

    recognizer = npvi.fit_network_on_simulations("Poisson", sets=2, points=100, epochs=3)
    data = _data(100)
    _fit(record, _held(method="npvi-nn", network=recognizer), data.X, data.counts())


@kind("network-stream")
def _stream(record: Record, folder: Path) -> None:
    """Tile by tile, from tables one after the other."""
    import pandas as pd

    import npvi

    data = _data(600)
    table = data.table.assign(count=data.counts(), hours=data.hours)
    settings = {"kernel": npvi.kernels.Matern32(2.0, 0.8), "nugget": 0.05, "likelihood": "poisson"}
    parts = npvi.stream_posterior(
        [table[:250], table[250:]],
        "count",
        ["lon", "lat"],
        **settings,
        exposure="hours",
        n_neighbors=8,
        tile=200,
    )
    whole = pd.concat(list(parts))
    record.add("stream", {str(name): whole[name].to_numpy() for name in whole.columns})


@kind("prior-fitc")
def _fitc(record: Record, folder: Path) -> None:
    import npvi

    data = _data(150)
    model = npvi.GPRegressor("poisson", "matern32", prior="fitc", n_inducing=20, hyper="plug-in")
    _fit(record, model, data.X, data.counts(), exposure=data.hours)


@kind("prior-nystrom")
def _nystrom(record: Record, folder: Path) -> None:
    data = _data(150)
    _fit(record, _held("gaussian", prior="nystrom", n_inducing=25, inducing="random"), data.X, data.numbers())


@kind("prior-fitc-npvi")
def _fitc_npvi(record: Record, folder: Path) -> None:
    """Inducing points of the user's, with the paper's posterior."""
    data = _data(150)
    _fit(record, _held(prior="fitc", inducing=data.X[::10], method="npvi"), data.X, data.counts())


@kind("graph-orders")
def _orders(record: Record, folder: Path) -> None:
    """Orders and rules other than the default's, with rows at one place."""
    data = _data(150)
    X, y = data.X.round(1), data.counts()
    for number, (order, rule) in enumerate([("grid", "nearest"), ("random", "paper"), ("given", "nearest")]):
        model = _held(order=order, rule=rule, random_state=number).fit(X[:130], y[:130])
        _model(record, model, order)
        _dist(record, model.predict_dist(X[130:]), y[130:], f"{order}/dist")


@kind("kernels")
def _kernels(record: Record, folder: Path) -> None:
    """Every kernel, sums, products, of some columns, on the sphere, and a function of the user's."""
    import npvi

    k = npvi.kernels
    data = _data(90)
    y = data.numbers()
    kernels = {
        "rbf": k.RBF([1.0, 2.0]),
        "matern12": k.Matern12(2.0),
        "matern52": k.Matern52(2.0),
        "rational_quadratic": k.RationalQuadratic(),
        "periodic": k.Subset(k.Periodic(), [0]) + k.Matern32(3.0),
        "linear": k.Linear() + k.Matern32(1.0) + k.Constant(0.5),
        "product": k.Subset(k.RBF(2.0), [0]) * k.Subset(k.Matern32(2.0), [1]),
        "sphere": k.Sphere(k.Matern32(300.0)),
        "custom": k.Custom(_own_kernel),
    }
    for name, kernel in kernels.items():
        model = _held("gaussian", kernel=kernel).fit(data.X[:80], y[:80])
        _model(record, model, name)
        _dist(record, model.predict_dist(data.X[80:]), y[80:], f"{name}/dist")


def _own_kernel(x: Any, z: Any) -> Any:
    import jax.numpy as jnp

    return jnp.exp(-0.5 * jnp.sum(jnp.abs(x - z)))


@kind("kernels-learned")
def _kernels_learned(record: Record, folder: Path) -> None:
    import npvi

    k = npvi.kernels
    data = _data(120)
    kernel = k.Subset(k.RBF(2.0), [0]) * k.Subset(k.Matern32(2.0), [1]) + k.Constant(npvi.fixed(0.5))
    _fit(record, npvi.GPRegressor("gaussian", kernel, n_neighbors=8, hyper="plug-in"), data.X, data.numbers())


# -- classes, varying noise, rivals -----------------------------------------------------------------------------------


@kind("classes-two")
def _two(record: Record, folder: Path) -> None:
    import npvi

    data = _data(150)
    y = np.where(data.numbers(0.5) > 0.6, "yes", "no")
    model = npvi.GPClassifier(n_neighbors=8, hyper="plug-in").fit(data.X[:130], y[:130])
    _model(record, model)
    record.add("predict", model.predict(data.X[130:]))
    record.add("predict_proba", model.predict_proba(data.X[130:]))
    _dist(record, model.predict_dist(data.X[130:]), None)
    record.add("log_score", model.log_score(data.X[130:], y[130:]))


@kind("classes-three")
def _three(record: Record, folder: Path) -> None:
    import npvi

    data = _data(150)
    y = np.array(["field", "forest", "marsh"])[np.digitize(data.numbers(0.3), [0.2, 1.1])]
    model = npvi.GPClassifier("softmax", "matern32", n_neighbors=8).fit(data.table[:130], y[:130])
    _model(record, model)
    record.add("predict", model.predict(data.table[130:]))
    record.add("predict_proba", model.predict_proba(data.table[130:]))
    _labels(record, model.predict_dist(data.table[130:]), y[130:])
    model.update(data.table[130:140], y[130:140])
    _labels(record, model.predict_dist(data.table[140:]), y[140:], "updated")


@kind("varying-noise-gaussian")
def _varying(record: Record, folder: Path) -> None:
    import npvi

    data = _data(160)
    y = data.f + np.where(data.X[:, 0] < 3.0, 0.03, 0.6) * data.rng.standard_normal(len(data.f))
    base = npvi.GPRegressor("gaussian", "matern32", n_neighbors=8)
    _varying_noise(record, npvi.VaryingNoiseRegressor(base, kernel="matern32", max_rounds=2), data.X, y)


@kind("varying-noise-lognormal")
def _varying_lognormal(record: Record, folder: Path) -> None:
    import npvi

    data = _data(160)
    y = np.exp(data.f + np.where(data.X[:, 0] < 3.0, 0.03, 0.6) * data.rng.standard_normal(len(data.f)))
    base = npvi.GPRegressor("lognormal", "matern32", n_neighbors=8)
    _varying_noise(record, npvi.VaryingNoiseRegressor(base, kernel="matern32", max_rounds=1), data.X, y)


def _varying_noise(record: Record, model: Any, X: np.ndarray, y: np.ndarray) -> None:
    model.fit(X[:-20], y[:-20])
    record.add("rounds", model.rounds_)
    _model(record, model.model_, "f")
    if model.noise_model_ is not None:
        _model(record, model.noise_model_, "g")
    _dist(record, model.predict_dist(X[-20:]), y[-20:])


def _rival(name: str, **settings: Any) -> None:
    def run(record: Record, folder: Path) -> None:
        import npvi

        data = _data(100)
        y = data.counts()
        make = getattr(npvi.baselines, name)
        model = make("poisson", npvi.kernels.RBF(2.0), n_inducing=15, batch_size=40, epochs=8, **settings)
        model.fit(data.X[:80], y[:80])
        _model(record, model, summary=False)
        _dist(record, model.predict_dist(data.X[80:]), y[80:], joint=False)

    kind(f"rival-{name.lower()}")(run)


_rival("SVGP", learn=True)
_rival("SAVIGP", components=2, samples=20)
_rival("DGP", n_covariance=8)


# -- updates, splits, diagnoses ---------------------------------------------------------------------------------------


@kind("update")
def _update(record: Record, folder: Path) -> None:
    """New rows join a posterior: learned with covariates, with a mixture, and by the paper's method."""
    import npvi

    data = _data(160)
    y, table = data.counts(), data.table
    models = {
        "covariates": npvi.GPRegressor("poisson", "matern32", coords=["lon", "lat"], n_neighbors=8, hyper="plug-in"),
        "full": _held(),
        "npvi": _held(method="npvi"),
        "fitc": _held(prior="fitc", n_inducing=20),
    }
    for name, model in models.items():
        model.fit(table[:100], y[:100], exposure=data.hours[:100])
        model.update(table[100:130], y[100:130], exposure=data.hours[100:130])
        model.partial_fit(table[130:140], y[130:140], exposure=data.hours[130:140])
        _model(record, model, name)
        _dist(record, model.predict_dist(table[140:], exposure=data.hours[140:]), y[140:], f"{name}/dist")


@kind("update-integrated")
def _update_integrated(record: Record, folder: Path) -> None:
    import npvi

    data = _data(100)
    y = data.numbers()
    model = npvi.GPRegressor("gaussian", n_neighbors=8).fit(data.X[:70], y[:70])
    model.update(data.X[70:80], y[70:80])
    _model(record, model)
    _dist(record, model.predict_dist(data.X[80:]), y[80:])


@kind("splits")
def _splits(record: Record, folder: Path) -> None:
    """Folds that keep neighbours together, and scores over them."""
    from sklearn.model_selection import cross_val_score

    import npvi

    data = _data(90)
    y = data.counts()
    for name, X, split in [
        ("blocks", data.X, npvi.SpatialBlockSplit(3)),
        ("places", data.X.round(), npvi.LeaveLocationOut(3)),
    ]:
        for number, (train, test) in enumerate(split.split(X, y)):
            record.add(f"{name}/{number}", {"train": train, "test": test})
        scores = cross_val_score(_held(), X, y, cv=split, scoring=npvi.log_score_scorer)
        record.add(f"{name}/scores", scores)


@kind("diagnose")
def _diagnose(record: Record, folder: Path) -> None:
    """Numbers and words about a model of counts, of numbers, of two labels, and with twice the neighbours."""
    import npvi

    data = _data(220)
    train, test = slice(0, 150), slice(150, 220)
    y, row = data.counts(), data.hours
    model = _held().fit(data.X[train], y[train], exposure=row[train])
    again = (data.X[train], y[train], {"exposure": row[train]})
    found = {"counts": npvi.diagnose(model, data.X[test], y[test], exposure=row[test], refit=again)}
    y = data.numbers()
    found["numbers"] = npvi.diagnose(_held("gaussian").fit(data.X[train], y[train]), data.X[test], y[test])
    labels = np.where(y > 0.6, "yes", "no")
    settings = {"kernel": npvi.kernels.Matern32(2.0), "n_neighbors": 8, "learn": False}
    model = npvi.GPClassifier(**settings).fit(data.X[train], labels[train])
    found["labels"] = npvi.diagnose(model, data.X[test], labels[test])
    for name, diagnosis in found.items():
        record.add(f"{name}/numbers", diagnosis)
        record.add(f"{name}/text", str(diagnosis))


# -- files and commands -----------------------------------------------------------------------------------------------


@kind("files-saved")
def _saved(record: Record, folder: Path) -> None:
    """Models of all kinds, saved; the tree after loads the ones of the tree before."""
    import npvi

    files = folder / _FILES
    files.mkdir(exist_ok=True)
    data = _data(120)
    counts, numbers = data.counts(), data.numbers()
    noisy = data.f + np.where(data.X[:, 0] < 3.0, 0.03, 0.6) * data.rng.standard_normal(len(data.f))
    two, three = np.where(numbers > 0.6, "yes", "no"), np.array(["a", "b", "c"])[np.digitize(numbers, [0.2, 1.1])]
    learning = {"kernel": "matern32", "n_neighbors": 8}
    held = {"kernel": npvi.kernels.Matern32(2.0), "n_neighbors": 8, "learn": False}
    custom = npvi.likelihoods.Custom(_cauchy, {"scale": npvi.positive(0.5)})
    varying = npvi.VaryingNoiseRegressor(npvi.GPRegressor(**learning), kernel="matern32", max_rounds=1)
    cases = {
        "full": (_held(), counts),
        "learned": (npvi.GPRegressor("poisson", coords=["lon", "lat"], n_neighbors=8, hyper="plug-in"), counts),
        "integrated": (npvi.GPRegressor("gaussian", n_neighbors=8), numbers),
        "npvi": (_held(method="npvi"), counts),
        "network": (_held(method="npvi-nn", network="pretrained"), counts),
        "fitc": (_held(prior="fitc", n_inducing=20), counts),
        "custom": (_held(custom), numbers),
        "varying": (varying, noisy),
        "two": (npvi.GPClassifier(**held), two),
        "three": (npvi.GPClassifier(**held), three),
        "svgp": (npvi.baselines.SVGP("poisson", npvi.kernels.RBF(2.0), n_inducing=15, epochs=5), counts),
    }
    for name, (model, y) in cases.items():
        model.fit(data.table, y)
        if hasattr(model, "save"):
            model.save(files / f"{name}.npvi")
            _of_file(record, name, model)


@kind("files-loaded")
def _loaded(record: Record, folder: Path) -> None:
    """What the tree before saved, as this tree reads it; it can be updated, and saved again."""
    import npvi

    for path in sorted((folder / _FILES).glob("*.npvi")):
        model = npvi.load(path, custom={"_cauchy": _cauchy})
        _of_file(record, path.stem, model)
        model.save(folder / "again.npvi")
        _of_file(record, f"{path.stem}-again", npvi.load(folder / "again.npvi", custom={"_cauchy": _cauchy}))
        if path.stem in ("full", "learned", "npvi"):
            new = _data(10, seed=1)
            model.update(new.table, new.counts())
            _of_file(record, f"{path.stem}-updated", model)


def _of_file(record: Record, name: str, model: Any) -> None:
    new = _data(20, seed=5)
    _model(record, model, name, summary=hasattr(model, "summary"))
    dist = model.predict_dist(new.table)
    if hasattr(dist, "probabilities"):
        _labels(record, dist, ["a"] * 20, f"{name}/dist")
    else:
        _dist(record, dist, None, f"{name}/dist", joint=name != "svgp")


@kind("cli-counts")
def _cli_counts(record: Record, folder: Path) -> None:
    """Fit, predict, score, diagnose and info, from the learned model of a survey."""
    with _survey(folder):
        fit = "fit survey.csv --target count --inputs lon,lat,forest --coords lon,lat --likelihood poisson"
        _command(record, "fit", f"{fit} --exposure hours --hyper plug-in --neighbors 8 --save birds.npvi")
        _after_fit(record, "birds.npvi")
        _command(record, "info-json", "info birds.npvi --json")
        _command(record, "score-json", "score birds.npvi test.csv --json")
        done = subprocess.run(
            [sys.executable, "-m", "npvi.cli", "info", "birds.npvi"], capture_output=True, text=True, check=False
        )
        record.add("module/info", done.stdout + done.stderr)


@kind("cli-others")
def _cli_others(record: Record, folder: Path) -> None:
    """Grids, labels, varying noise, trials, and inputs that are refused."""
    place = "--inputs lon,lat --neighbors 8"
    with _survey(folder):
        grid = f"fit survey.csv --target count {place} --likelihood poisson --exposure hours --kernel matern32"
        _command(record, "grid/fit", f"{grid} --grid length_scale=0.5,2 --grid nugget=0.01,0.1 --save grid.npvi")
        _after_fit(record, "grid.npvi", "grid/")
        held = f"{place} --length-scale 2 --no-learn"
        for name, options in {
            "present": f"--target present --classify {held}",
            "habitat": f"--target habitat --classify {held}",
            "network": f"--target count --likelihood poisson --method npvi-nn --network pretrained {held}",
            "height": f"--target height --kernel matern32 --varying-noise {place}",
        }.items():
            _command(record, f"{name}/fit", f"fit survey.csv {options} --save {name}.npvi")
            _after_fit(record, f"{name}.npvi", f"{name}/", diagnose=name != "habitat")
        _command(record, "refused/column", f"fit survey.csv --target nothing {place}")
        _command(record, "refused/file", "predict missing.npvi test.csv --output out.csv")
        _command(record, "refused/likelihood", f"fit survey.csv --target count {place} --likelihood poissson")


@kind("cli-help")
def _cli_help(record: Record, folder: Path) -> None:
    for name in ("", "fit", "predict", "score", "diagnose", "info", "data", "demo", "reproduce"):
        _command(record, name or "npvi", f"{name} --help")
    _command(record, "data-list", "data")


@contextlib.contextmanager
def _survey(folder: Path) -> Iterator[None]:
    """Inside of a folder with survey.csv and test.csv."""
    work = Path(tempfile.mkdtemp(dir=folder))
    data = _data(200)
    numbers = data.f + np.where(data.X[:, 0] < 3.0, 0.03, 0.6) * data.rng.standard_normal(len(data.f))
    table = data.table.assign(hours=data.hours, count=data.counts(), height=numbers)
    table["present"] = np.where(table["count"] > 1, "yes", "no")
    table["habitat"] = np.array(["field", "forest", "marsh"])[np.digitize(data.f, [0.2, 1.1])]
    here = Path.cwd()
    os.chdir(work)
    try:
        table[:150].to_csv("survey.csv", index=False)
        table[150:].to_csv("test.csv", index=False)
        yield
    finally:
        os.chdir(here)


def _after_fit(record: Record, model: str, prefix: str = "", diagnose: bool = True) -> None:
    _command(record, f"{prefix}info", f"info {model}")
    _command(record, f"{prefix}predict", f"predict {model} test.csv --output out.csv")
    record.add(f"{prefix}predict/table", Path("out.csv").read_text())
    if diagnose:
        _command(record, f"{prefix}score", f"score {model} test.csv")
        _command(record, f"{prefix}diagnose", f"diagnose {model} test.csv")


def _command(record: Record, name: str, arguments: str) -> None:
    """Run a command in this process, as the shell's `npvi` does; record what it prints and its exit code."""
    from npvi.cli import main as command_line

    printed, said, code, before = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["npvi", *arguments.split()]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            command_line()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
    record.add(name, {"printed": printed.getvalue(), "said": said.getvalue(), "code": code})


# -- comparing --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far two sets of arrays are apart.

    Attributes
    ----------
    arrays : number of names in either.
    absolute, relative : the largest difference of two numbers, and the largest in proportion to the larger of the two.
    differing : a line for each array that differs by more than the tolerance.
    """

    arrays: int
    absolute: float
    relative: float
    differing: list[str]

    @property
    def equal(self) -> bool:
        return not self.differing


def compare(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], tolerance: float = 0.0) -> Difference:
    """Compare arrays by name: with tolerance 0 to the last bit, else numbers by the smaller of both differences.

    An array that only one side has differs, as does another shape or type. Of texts the words must be equal; the
    numbers in them are numbers.

    >>> found = compare({"a": np.array([1.0, 2.0])}, {"a": np.array([1.0, 2.5])}, tolerance=0.1)
    >>> found.absolute, found.relative, found.differing
    (0.5, 0.2, ['a: differs by 0.5, relative 0.2'])
    """
    largest, share, differing = 0.0, 0.0, []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            differing.append(f"{name}: only {'before' if name in before else 'after'}")
            continue
        a, b = np.asarray(before[name]), np.asarray(after[name])
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind or (a.dtype.kind not in "US" and a.dtype != b.dtype):
            differing.append(f"{name}: {a.dtype} {a.shape} became {b.dtype} {b.shape}")
            continue
        if _same_bits(a, b):
            continue
        numbers = (a, b) if a.dtype.kind in "biufc" else _numbers(a, b)
        if numbers is None:
            differing.append(f"{name}: {_first_difference(a, b)}")
            continue
        absolute, relative, within = _distance(*numbers, tolerance)
        largest, share = max(largest, absolute), max(share, relative)
        if not within:
            more = f" ({_first_difference(a, b)})" if a.dtype.kind == "U" else ""
            differing.append(f"{name}: differs by {absolute:.3g}, relative {relative:.3g}{more}")
    return Difference(len({*before, *after}), largest, share, differing)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Not the same where 0 became −0; all NaN are one."""
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    signs = a.dtype.kind == "c" or np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
    return bool(np.array_equal(a, b, equal_nan=True) and signs)


def _distance(a: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[float, float, bool]:
    """Largest absolute and relative difference; infinite where only one of the two is finite."""
    a, b = (np.atleast_1d(part).astype(complex if part.dtype.kind == "c" else float) for part in (a, b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        absolute = np.where(same, 0.0, np.abs(a - b))
        absolute[np.isnan(absolute)] = np.inf
        relative = np.where(same, 0.0, absolute / np.maximum(np.abs(a), np.abs(b)))
        relative[np.isnan(relative)] = np.inf
    within = tolerance > 0.0 and bool((np.minimum(absolute, relative) <= tolerance).all())
    return float(absolute.max(initial=0.0)), float(relative.max(initial=0.0)), within


def _numbers(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The numbers in texts whose words are equal; None where they aren't."""
    texts = ["\n".join(map(str, part.ravel())) for part in (a, b)]
    if a.dtype.kind != "U" or len({" ".join(_NUMBER.sub("#", text).split()) for text in texts}) > 1:
        return None
    found = [[float(n.replace("−", "-").replace(",", "") or 0) for n in _NUMBER.findall(text)] for text in texts]
    return np.array(found[0]), np.array(found[1])


def _first_difference(a: np.ndarray, b: np.ndarray) -> str:
    """The first line of two texts that isn't the same."""
    lines = ["\n".join(map(str, part.ravel())).split("\n") for part in (a, b)]
    for one, other in zip(*lines):
        if one != other:
            return f"{one.strip()[:100]!r} became {other.strip()[:100]!r}"
    return f"{len(lines[0])} lines became {len(lines[1])}"


# -- running trees ----------------------------------------------------------------------------------------------------


def _record_kinds(kinds: Sequence[str], folder: Path, files: Path | None, threads: int) -> None:
    """In the process of a tree: run the kinds, and write what each recorded into its own file."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import npvi

    home, tree = Path(npvi.__file__).resolve(), Path(os.environ["PYTHONPATH"]).resolve()
    if tree not in home.parents:
        raise RuntimeError(f"npvi was imported from {home}, not from {tree}")
    for name in kinds:
        record, started = Record(), time.perf_counter()
        # what is loaded was saved by the tree before
        place = files if files is not None and name == "files-loaded" else folder
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                KINDS[name](record, place)
            except Exception:
                record.arrays = {_ERROR: np.asarray(traceback.format_exc())}
        told = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
        record.add("warnings", "\n".join(text for text in told if "compilation cache" not in text))
        np.savez(folder / f"{name}.part.npz", **record.arrays)
        (folder / f"{name}.part.npz").replace(folder / f"{name}.npz")  # a file that is there is whole
        print(f"  {name}: {len(record.arrays)} arrays, {time.perf_counter() - started:.1f} s", flush=True)


def _run(tree: Path, kinds: Sequence[str], folder: Path, files: Path | None, threads: int, cache: Path) -> None:
    """Run the kinds of a tree that `folder` doesn't have yet, in a new process."""
    missing = [name for name in kinds if not (folder / f"{name}.npz").exists()]
    if not missing:
        print("  known")
        return
    if "files-loaded" in missing and files is None and not (folder / "files-saved.npz").exists():
        missing = ["files-saved", *(name for name in missing if name != "files-saved")]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {
        **kept,
        **single,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "MPLBACKEND": "Agg",
        "JAX_PLATFORMS": "cpu",
        # what is compiled is named by what it computes: the same for both trees where they compute the same
        "JAX_COMPILATION_CACHE_DIR": str(cache / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
    command = [sys.executable, __file__, "--record", str(folder), "--threads", str(threads), "--kinds", *missing]
    if files is not None:
        command += ["--files", str(files)]
    subprocess.run(command, env=environment, check=True)


@contextlib.contextmanager
def _tree(name: str, cache: Path, key: str) -> Iterator[tuple[Path, Path]]:
    """The checkout that is meant, and a folder for its results; a revision's results are kept."""
    if (Path(name) / "src" / "npvi").is_dir():
        with tempfile.TemporaryDirectory(prefix="npvi-numbers-") as results:
            yield Path(name).resolve(), Path(results)
        return
    here = Path(__file__).resolve().parents[1]
    found = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise SystemExit(f"{name!r} is neither a folder with src/npvi in it nor a revision of {here}")
    commit = found.stdout.strip()
    results = cache / f"{commit[:12]}-{key}"
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="npvi-tree-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(here), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree, results
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _key(threads: int) -> str:
    """What results depend on besides the tree: this script, the interpreter, the packages, the threads."""
    versions = [
        importlib.metadata.version(name) for name in ("numpy", "scipy", "jax", "numba", "scikit-learn", "pandas")
    ]
    text = "\n".join([Path(__file__).read_text(), sys.version, *versions, str(threads)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def _report(kinds: Sequence[str], before: Path, after: Path, tolerance: float, lines: int) -> bool:
    """Print the table; True where all is equal."""
    width = max(map(len, kinds))
    print(f"\n{'kind':<{width}}  arrays   absolute   relative")
    details, good = [], True
    for name in kinds:
        a, b = (_load(folder / f"{name}.npz") for folder in (before, after))
        failed = {side: arrays[_ERROR] for side, arrays in (("before", a), ("after", b)) if _ERROR in arrays}
        found = compare(a, b, tolerance)
        raising = sorted(array for array in a if array.endswith(f"/{_RAISES}"))
        if failed:
            verdict = f"failed {' and '.join(failed)}"
            details += [f"\n{name}, {side}:\n{str(text).strip()[-600:]}" for side, text in failed.items()]
        else:
            verdict = "equal" if found.equal else f"{len(found.differing)} differ"
            verdict += f", {len(raising)} raise before" if raising else ""
            shown = [*found.differing[:lines], *(f"{array}: {a[array]}" for array in raising[:lines])]
            more = len(found.differing) + len(raising) - len(shown)
            details += [f"\n{name}:", *(f"  {line}" for line in shown)] if shown else []
            details += [f"  … and {more} more"] if more else []
        good &= found.equal and not failed
        print(f"{name:<{width}}  {found.arrays:6d}  {found.absolute:9.3g}  {found.relative:9.3g}  {verdict}")
    print("\n".join(details))
    within = "to the last bit" if tolerance == 0.0 else f"within {tolerance:g}"
    print(f"{len(kinds)} kinds: {'all equal' if good else 'NOT all equal'}, {within}")
    return good


def _chosen(wanted: Sequence[str] | None) -> list[str]:
    """Kinds by their names or by how these begin."""
    if not wanted:
        return list(KINDS)
    chosen = [name for name in KINDS if any(name.startswith(beginning) for beginning in wanted)]
    unknown = [text for text in wanted if not any(name.startswith(text) for name in KINDS)]
    if unknown:
        raise SystemExit(f"no kind is called {unknown[0]!r}; there are {', '.join(KINDS)}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both trees and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="kinds: " + ", ".join(KINDS),
    )
    parser.add_argument("before", nargs="?", help="checkout (a folder with src/npvi) or git revision")
    parser.add_argument("after", nargs="?", help="the one that is compared with it")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="some kinds only, by how their names begin")
    parser.add_argument("--tolerance", type=float, default=0.0, help="absolute or relative; 0 (default): the same bits")
    parser.add_argument("--threads", type=int, default=1, help="cores that a tree may use (1)")
    parser.add_argument("--lines", type=int, default=8, help="differing arrays to name per kind (8)")
    parser.add_argument("--fresh", action="store_true", help="run revisions again whose results are known")
    cache = Path(tempfile.gettempdir()) / f"npvi-same-numbers-{os.getuid() if hasattr(os, 'getuid') else ''}"
    parser.add_argument("--cache", type=Path, default=cache, help="where results of revisions are kept (%(default)s)")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    kinds = _chosen(options.kinds)
    if options.record is not None:
        _record_kinds(options.kinds, options.record, options.files, options.threads)
        return 0
    if options.before is None or options.after is None:
        parser.error("two trees are needed, BEFORE and AFTER")
    key = _key(options.threads)
    with _tree(options.before, options.cache, key) as (tree, before):
        _announce("before", options.before, before, kinds, options.fresh)
        _run(tree, kinds, before, None, options.threads, options.cache)
        # the tree after reads files of the tree before: what it found isn't its own, and isn't kept
        with _tree(options.after, options.cache, key) as (other, kept), tempfile.TemporaryDirectory() as own:
            _announce("after", options.after, kept, kinds, options.fresh)
            alone = [name for name in kinds if name != "files-loaded"]
            _run(other, alone, kept, None, options.threads, options.cache)
            after = Path(own)
            for name in alone:
                (after / f"{name}.npz").write_bytes((kept / f"{name}.npz").read_bytes())
            if "files-loaded" in kinds:
                _run(other, ["files-loaded"], after, before, options.threads, options.cache)
            return 0 if _report(kinds, before, after, options.tolerance, options.lines) else 1


def _announce(side: str, name: str, folder: Path, kinds: Sequence[str], fresh: bool) -> None:
    print(f"{side}: {name}", flush=True)
    for path in (folder / f"{kind}.npz" for kind in kinds) if fresh else ():
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
