"""All that a user can call, found by looking: public names, methods of fitted models and of what these return.

A new function, class, method or argument is a subject as soon as it is public. Where a valid call cannot be made from
the names of the arguments (`_BY_NAME`), `_GIVEN` has it: a case gives the valid values too.
"""

from __future__ import annotations

import copy
import functools
import inspect
import shutil
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import npvi
from npvi import kernels, likelihoods

__all__ = ["Argument", "arguments", "public"]

ROWS = 40
_ROW = ("exposure", "trials", "noise_variance", "censored")

#: public names that users don't call, each with the reason
LEFT_OUT = {
    # inner functions, which trust their arguments (docs/architecture.md); estimators have checked them
    "kernels": ("diagonal", "evaluate", "evaluate_distances", "matrix"),
    "likelihoods": (
        *("conditional_moments", "curvatures", "expectations", "predictive_cdf", "predictive_log_prob"),
        *("predictive_moments", "predictive_quantile"),
    ),
    "posteriors": ("match_covariance",),
    # records that the library makes and users read
    "records": (
        *("Children", "Curvatures", "Dataset", "Diagnosis", "DrawsPosterior", "Expectations", "FactorPosterior"),
        *("Graph", "GridResult", "Link", "Part", "Parts", "PrecisionPosterior", "Recognizer", "Split", "Suggestion"),
        "Support",
    ),
    # bases of classes, and errors
    "bases": ("BrokenFileError", "Kernel", "Likelihood", "Posterior", "RecognizerError", "Stationary"),
    # what maps are made of, for estimators and the command line
    "maps": (
        *(
            "Grid",
            "bands_of",
            "figure_size",
            "check_levels",
            "check_thresholds",
            "described",
            "exceed_name",
            "geometry_columns",
        ),
        *("is_geo_frame", "is_geographic", "is_xarray", "label_names", "place_names", "read_raster", "surfaces"),
        *("Inputs", "are_degrees", "as_label", "axis_unit", "borders", "inputs_of", "training_inputs", "with_medians"),
    ),
    # originals of data sets, of gigabytes that nobody has twice
    "originals": (
        "read_bbs",
        "read_ebird",
        "read_flights",
        "read_nightlight",
        "read_nycflights13",
        "read_precipitation",
    ),
    # needs the simulated sets of a quarter of an hour; its arguments go to the same training as those of fit_network
    "slow": ("fit_network_on_simulations", "training_curve"),
}
#: methods that take nothing per row of `ROWS` rows
_WITHOUT_ROWS = ("save", "summary", "predict_grid", "predict_polygons")
#: arguments that are there because scikit-learn's are
_UNUSED = {"self", "groups", "deep"}
#: the same of some methods, which say that they don't look at them: anything is right there
_NOT_LOOKED_AT = {"split": ("y",), "get_n_splits": ("X", "y")}
#: methods of other libraries that do the work of ours
_THEIRS = {"split"}
#: methods of models with terms alone, and those that they don't have; single ones besides: errors say so
_OF_TERMS: tuple[str, ...] = ("effects",)
_NOT_OF_TERMS: tuple[str, ...] = ("to_arviz",)
_NOT_OF = {("labels", "to_arviz")}
#: methods whose arguments are those of the constructor
_AS_CONSTRUCTORS = {"set_params"}


@dataclass(frozen=True)
class Argument:
    """One argument of one call that is otherwise valid."""

    call: str
    name: str
    valid: Callable[[], Any]
    """Its valid value; None where it is optional and not given."""
    run: Callable[[Any], Any]
    """The call with another value for this argument, and what a user would do with the result."""

    def __str__(self) -> str:
        return f"{self.call}({self.name}=…)"


def public() -> Iterator[tuple[str, Any]]:
    """All public functions and classes: those of the package and of the modules that it names."""
    seen: set[int] = set()

    def walk(module: types.ModuleType, path: str) -> Iterator[tuple[str, Any]]:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                yield from walk(value, f"{path}{name}.")
            elif callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield path + name, value

    yield from walk(npvi, "")


@functools.cache
def arguments() -> tuple[Argument, ...]:
    """Every argument of every call."""
    found: list[Argument] = []
    left_out = {name for names in LEFT_OUT.values() for name in names}
    for path, value in public():
        if path.rpartition(".")[2] not in left_out:
            found.extend(_of_callable(path, value))
    for name in _MODELS:
        found.extend(_of_methods(name, functools.partial(model_named, name), type(_MODELS[name]())))
    for name, (make, kind) in _objects().items():
        found.extend(_of_methods(name, make, kind))
    return tuple(found)


def _of_callable(path: str, value: Any) -> Iterator[Argument]:
    given = _GIVEN.get(path) or _GIVEN.get(path.rpartition(".")[2], {})
    for name, default in _parameters(value):
        changed = {**given, **_BESIDE.get((path.rpartition(".")[2], name), {})}
        function = functools.partial(value, *_POSITIONAL[path]) if path in _POSITIONAL else value
        yield _argument(path, function, name, default, changed, _use_of(path, value))


def _of_methods(name: str, make: Callable[[], Any], kind: type) -> Iterator[Argument]:
    for method, function in inspect.getmembers(kind, callable):
        own = (getattr(function, "__module__", None) or "").startswith(("npvi.", __name__)) or method in _THEIRS
        if method.startswith("_") or method in _AS_CONSTRUCTORS or not own or inspect.isclass(function):
            continue
        if name in _MODELS and (method in _OF_TERMS) != (name == "terms") and method in (*_OF_TERMS, *_NOT_OF_TERMS):
            continue
        if (name, method) in _NOT_OF:
            continue
        # a folder is a model's own that is fitted into it, or changed
        owner = {"in tiles.fit": _not_begun, "in tiles.update": _copied}.get(f"{name}.{method}", make)
        given = _GIVEN.get(f"{name}.{method}", _GIVEN_METHODS.get(method, {}))
        given = {**given, **(_row(name.rpartition(" of ")[2]) if method not in _WITHOUT_ROWS else {})}
        known = dict(_parameters(function))

        def bound(_method: str = method, _owner: Callable[[], Any] = owner, **values: Any) -> Any:
            return getattr(_owner(), _method)(**values)

        for argument, default in known.items():
            if argument not in _UNUSED and argument not in _NOT_LOOKED_AT.get(method, ()):
                beside = {key: value for key, value in given.items() if key in known}
                yield _argument(f"{name}.{method}", bound, argument, default, beside, _same, known)


def _argument(
    path: str,
    function: Callable[..., Any],
    name: str,
    default: Any,
    given: dict[str, Any],
    use: Callable[[Any], Any],
    known: dict[str, Any] | None = None,
) -> Argument:
    parameters = dict(_parameters(function)) if known is None else known
    needed = [key for key, first in parameters.items() if first is inspect.Parameter.empty and key not in _UNUSED]
    if unknown := set(needed) - set(given) - set(_BY_NAME):
        raise LookupError(f"{path} needs {', '.join(sorted(unknown))}: say in _GIVEN what is valid")

    def valid(which: str) -> Any:
        if which in given:
            return given[which]() if isinstance(given[which], types.LambdaType) else given[which]
        if parameters[which] is inspect.Parameter.empty or which == name:
            made = _BY_NAME.get(which)
            if made is not None and (parameters[which] is inspect.Parameter.empty or which in ("X", "y")):
                return made()
        return None if parameters[which] is inspect.Parameter.empty else parameters[which]

    def run(value: Any) -> Any:
        needed = [key for key, first in parameters.items() if first is inspect.Parameter.empty or key in given]
        values = {key: valid(key) for key in needed if key not in (name, "self")}
        return use(function(**values, **{name: value}))

    return Argument(path, name, lambda: valid(name), run)


def _parameters(function: Any) -> list[tuple[str, Any]]:
    """Arguments and their defaults; what a call takes as ``**row`` are the data per row."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            if name != "settings":  # those of an estimator, which it tries itself
                found += [(row, None) for row in _ROW]
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            found.append((name, parameter.default))
    return found


# -- what a valid call is made of -------------------------------------------------------------------------------------


@functools.cache
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 2))
    f = np.sin(6.0 * X[:, 0]) + X[:, 1]
    return {
        "X": X,
        "y": f + 0.1 * rng.standard_normal(ROWS),
        "counts": rng.poisson(np.exp(f)).astype(float),
        "trials": rng.integers(5, 9, ROWS).astype(float),
        "successes": rng.integers(0, 5, ROWS).astype(float),
        "labels": np.digitize(f, [0.5, 1.2]),
        "positive": np.exp(0.3 * f),
        "ones": np.ones(ROWS),
        "unit": rng.uniform(0.1, 0.9, ROWS),
    }


def _take(name: str) -> Callable[[], Any]:
    return lambda: data()[name].copy()


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="npvi-campaign-"))


def _saved() -> str:
    path = folder() / "model.npvi"
    if not path.exists():
        model_named("gaussian").save(path)
    return str(path)


_BY_NAME: dict[str, Callable[[], Any]] = {
    "X": _take("X"),
    "y": _take("y"),
    "Z": _take("X"),
    "model": lambda: model_named("gaussian"),
    "estimator": lambda: model_named("gaussian"),
    "kernel": lambda: kernels.Matern32(0.3),
    "likelihood": lambda: likelihoods.Poisson(),
    "function": lambda: _squared_exponential,
    "log_prob": lambda: _poisson,
    "obj": lambda: "poisson",
    "path": lambda: str(folder() / "written"),
    "value": lambda: 0.5,
    "lower": lambda: 0.1,
    "upper": lambda: 2.0,
    "n_neighbors": lambda: 5,
    "q": lambda: 0.3,
    "weights": lambda: np.ones(ROWS),
    "k": lambda: 3,
    "labels": _take("labels"),
    "values": _take("y"),
    "deep": lambda: True,
    "columns": lambda: [0],
    "k1": lambda: kernels.RBF(0.5),
    "k2": lambda: kernels.Linear(),
    "steps": lambda: [("gp", small())],
}


def _squared_exponential(x: Any, z: Any) -> Any:
    import jax.numpy as jnp

    return jnp.exp(-0.5 * jnp.sum((x - z) ** 2))


def _poisson(y: Any, f: Any) -> Any:
    import jax.numpy as jnp

    return y * f - jnp.exp(f)


def small(likelihood: Any = "gaussian", **settings: Any) -> Any:
    return npvi.GPRegressor(likelihood, **{**_CHEAP, **settings})


def _learning() -> Any:
    return small(learn=True, hyper="plug-in", max_iter=30)


_CHEAP: dict[str, Any] = {"kernel": kernels.Matern32(0.3), "nugget": 0.1, "learn": False, "n_neighbors": 8}

_TILED: dict[str, Any] = {
    **_CHEAP,
    "tile_rows": 100,
    "learn_rows": 1000,
    "rounds": 2,
    "client": None,
    "n_jobs": 1,
}

#: what is fitted, by the noise that it has: the estimator, its responses, and what goes with them
_MODELS: dict[str, Callable[[], Any]] = {
    "gaussian": small,
    "poisson": lambda: small("poisson"),
    "binomial": lambda: small("binomial"),
    "censored": lambda: small("censored_gaussian"),
    "paper": lambda: small("poisson", method="npvi"),
    "fitc": lambda: small(prior="fitc", n_inducing=8),
    "labels": lambda: npvi.GPClassifier(**_CHEAP),
    "yes_no": lambda: npvi.GPClassifier(**_CHEAP),
    "varying_noise": lambda: npvi.VaryingNoiseRegressor(_learning(), kernel=kernels.RBF(0.5), max_rounds=1),
    "pipeline": lambda: _pipeline(),
    "terms": lambda: npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5), npvi.Group("x1")]),
}
_RESPONSES = {"poisson": "counts", "paper": "counts", "binomial": "successes", "labels": "labels"}


def _pipeline() -> Any:
    from sklearn.preprocessing import StandardScaler

    return npvi.Pipeline([("scale", StandardScaler()), ("gp", small())])


def _response(name: str) -> np.ndarray:
    if name == "yes_no":
        return (data()["labels"] > 0).astype(int)
    return data()[_RESPONSES.get(name, "y")].copy()


def _row(name: str) -> dict[str, Any]:
    """y and the data per row of a model, as arguments."""
    row: dict[str, Any] = {"y": lambda: _response(name), "labels": lambda: _response(name)}
    if name == "poisson":
        row["exposure"] = lambda: np.linspace(0.5, 2.0, ROWS)
    if name == "binomial":
        row["trials"] = lambda: data()["trials"].copy()
    if name == "censored":
        row["censored"] = lambda: np.resize([0.0, 0.0, 1.0, -1.0], ROWS)
    if name == "gaussian":
        row["noise_variance"] = lambda: np.full(ROWS, 0.1)
    return row


@functools.cache
def _fitted(name: str) -> Any:
    import warnings

    row = {key: make() for key, make in _row(name).items() if key not in ("y", "labels")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _MODELS[name]().fit(data()["X"], _response(name), **row)


def model_named(name: str) -> Any:
    """A fitted model of its own for each case."""
    return copy.deepcopy(_fitted(name))


def _dist(name: str) -> Any:
    row = {key: make() for key, make in _row(name).items() if key not in ("y", "labels")}
    return model_named(name).predict_dist(data()["X"], **row)


def _mixture() -> Any:
    from npvi.predictive import MixturePredictive

    return MixturePredictive([_dist("gaussian"), _dist("gaussian")], [0.5, 0.5])


def _objects() -> dict[str, tuple[Callable[[], Any], type]]:
    """What models return, and its class."""
    from npvi import predictive as p

    one = {name: (functools.partial(_dist, name), p.Predictive) for name in ("gaussian", "poisson", "binomial")}
    return {f"predict_dist of {name}": found for name, found in one.items()} | {
        "predict_dist of labels": (lambda: _dist("labels"), p.CategoricalPredictive),
        "predict_dist of varying_noise": (lambda: _dist("varying_noise"), p.VaryingNoisePredictive),
        "a mixture": (_mixture, p.MixturePredictive),
        "latent_total": (lambda: _dist("gaussian").latent_total(), p.NormalTotal),
        "total of poisson": (lambda: _dist("poisson").total(n=16, seed=0), p.Total),
        "reach": (lambda: _dist("gaussian").reach, p.Reach),
        "NeighborIndex": (lambda: npvi.graph.NeighborIndex(data()["X"]), npvi.graph.NeighborIndex),
        "SpatialBlockSplit": (lambda: npvi.SpatialBlockSplit(2), npvi.SpatialBlockSplit),
        "LeaveLocationOut": (lambda: npvi.LeaveLocationOut(2), npvi.LeaveLocationOut),
        "Diagnosis": (_diagnosis, npvi.Diagnosis),
        "in tiles": (lambda: npvi.load(tiled()), npvi.TiledRegressor),
        "pretrained": (lambda: npvi.amortized.pretrained(likelihoods.Poisson()), _Recognizer),
    }


class _Recognizer:
    """The methods of a `Recognizer` that users call."""

    load = staticmethod(npvi.Recognizer.load)
    from_text = staticmethod(npvi.Recognizer.from_text)
    save = npvi.Recognizer.save


def tables(name: str = "tables") -> str:
    """A folder with a table in Parquet."""
    path = folder() / name
    if not path.exists():
        path.mkdir()
        table = pd.DataFrame(data()["X"], columns=["x0", "x1"])
        table.assign(y=data()["y"]).to_parquet(path / "part.parquet")
    return str(path)


def tiled() -> str:
    """A model of it in tiles."""
    path = folder() / "tiles"
    if not path.exists():
        npvi.TiledRegressor(store=path, **_TILED).fit(tables(), "y")
    return str(path)


def _not_begun() -> npvi.TiledRegressor:
    return npvi.TiledRegressor(store=_new_folder(), **_TILED)


def _copied() -> npvi.TiledRegressor:
    return npvi.TiledRegressor.load(shutil.copytree(tiled(), _new_folder(), dirs_exist_ok=True))


def _new_folder() -> str:
    return tempfile.mkdtemp(dir=folder())


@functools.cache
def _recognised() -> Any:
    return small("poisson", method="npvi-nn", network="pretrained").fit(data()["X"], data()["counts"])


@functools.cache
def _with_terms() -> Any:
    table = pd.DataFrame(data()["X"], columns=["x0", "x1"])
    model = npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5), npvi.Linear("x1")], learn=False, hyper="plug-in")
    return model.fit(table, data()["y"])


@functools.cache
def _map() -> Any:
    return model_named("gaussian").predict_grid(0.3)


@functools.cache
def _diagnosis() -> Any:
    return npvi.diagnose(model_named("gaussian"), data()["X"], data()["y"], draws=20)


def _table(*columns: str) -> pd.DataFrame:
    return pd.DataFrame({"a": data()["X"][:, 0], "b": data()["X"][:, 1], "n": data()["counts"]})


#: valid arguments of a call, where their names alone don't say
_GIVEN: dict[str, dict[str, Any]] = {
    "load": {"path": _saved},
    "pretrained.load": {"path": lambda: recognizer_file()},
    "pretrained.from_text": {"text": lambda: npvi.amortized.pretrained(likelihoods.Poisson()).to_text()},
    "kernels.as_kernel": {"obj": "rbf"},
    "kernels.Sphere": {"kernel": lambda: kernels.RBF(1000.0)},
    "graph.extend_graph": {
        "graph": lambda: npvi.graph.build_graph(data()["X"], 5, order="given"),
        "points": _take("X"),
        "new": lambda: data()["X"][:3] + 0.01,
    },
    "fit_network": {
        "estimator": lambda: small("poisson", method="npvi-nn"),
        "y": _take("counts"),
        "rounds": 1,
        "steps": 3,
    },
    "stream_posterior": {
        "source": lambda: [_table()],
        "target": "n",
        "inputs": lambda: ["a", "b"],
        "nugget": 0.1,
        "likelihood": "poisson",
    },
    "amortized.compare_with_optimum": {"model": lambda: _recognised()},
    "datasets.load": {"name": "precipitation"},
    "datasets.read_modis": {"table": lambda: _modis()},
    "grid_search": {"model": small, "grid": lambda: {"length_scale": [0.1, 0.5]}},
    "diagnose": {"X": _take("X"), "y": _take("y"), "draws": 20},
    "compare": {"first": lambda: model_named("gaussian"), "second": lambda: model_named("fitc")},
    "fit_points": {"points": lambda: data()["X"], "cell": 0.2, **_CHEAP},
    "half_normal": {"scale": 1.0},
    "Offset": {"expression": "x1"},
    "Varying": {"column": "x0", "over": lambda: npvi.Field("x0", "x1")},
    "AR1": {"column": "x0"},
    "RandomWalk": {"column": "x0"},
    "plot.terms": {"model": lambda: _with_terms(), "parts": lambda: ["s(x0)"]},
    "plot.calibration": {"found": lambda: _diagnosis()},
    "plot.residuals": {"found": lambda: _diagnosis()},
    "report": {"X": _take("X"), "y": _take("y")},
    "suggest": {"table": lambda: _table(), "target": "n"},
    "pc": {"below": 2.0},
    "maps.predict_grid": {"grid": 0.3},
    "maps.predict_polygons": {"polygons": lambda: _squares(), "cell": 0.3, "crs": "EPSG:32633", "seed": 0},
    "maps.write_map": {"found": lambda: _map(), "path": lambda: str(folder() / "map.csv")},
    "plot.map": {"found": lambda: _map()},
    "fill": {"raster": lambda: _raster(), "model": lambda: small()},
    "TiledRegressor": {"store": lambda: _new_folder(), **_TILED},
    "in tiles.fit": {"source": lambda: tables(), "target": "y"},
    "in tiles.update": {"source": lambda: tables("more tables")},
    "in tiles.load": {"folder": lambda: tiled()},
    "in tiles.predict_dist": {"X": _take("X")},
    "in tiles.predict": {"X": _take("X")},
    "GPRegressor": _CHEAP,
    "GPClassifier": _CHEAP,
    "VaryingNoiseRegressor": {"model": lambda: _learning(), "kernel": lambda: kernels.RBF(0.5), "max_rounds": 1},
    "SGD": {"epochs": 2},
    "amortized.GCN": {"epochs": 2, "sizes": (3, 1)},
    "amortized.SiteNetwork": {"steps": 3, "rounds": 1},
    **{
        f"baselines.{name}": {"n_inducing": 5, "epochs": 2, "kernel": lambda: kernels.RBF(0.3)}
        for name in ("SVGP", "SAVIGP")
    },
    "baselines.DGP": {"n_inducing": 5, "n_covariance": 5, "epochs": 2, "kernel": lambda: kernels.RBF(0.3)},
}
#: columns of terms, which have no names of their own
_POSITIONAL: dict[str, tuple[str, ...]] = {
    "Smooth": ("x0",),
    "Group": ("x0",),
    "Field": ("x0", "x1"),
    "Linear": ("x0",),
}
_GIVEN_METHODS: dict[str, dict[str, Any]] = {
    "set_params": {},
    "total": {"n": 16},
    "joint_covariance": {"weights": lambda: np.ones((ROWS, 1))},
    "mask": {"values": _take("y")},
    "exceed": {"threshold": 1.0},
    "predict_grid": {"grid": 0.3, "bbox": (0.0, 0.0, 1.0, 1.0)},
    "predict_polygons": {"polygons": lambda: _squares(), "cell": 0.3, "crs": "EPSG:32633", "seed": 0},
}
#: what else must be given for an argument to matter
_BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    **{
        ("GPRegressor", name): {"method": "npvi-nn", "network": "pretrained", "likelihood": "poisson"}
        for name in ("solve", "refine")
    },
    ("GPRegressor", "network"): {"method": "npvi-nn", "likelihood": "poisson", "network": "pretrained"},
    ("GPRegressor", "optimizer"): {"method": "npvi", "likelihood": "poisson"},
    ("GPRegressor", "inducing"): {"prior": "fitc", "n_inducing": 8},
    ("GPRegressor", "n_inducing"): {"prior": "fitc"},
    ("GPRegressor", "coefficient_scale"): {"mean": "linear"},
    **{("GPRegressor", name): {"learn": True, "max_iter": 20} for name in ("hyper", "hyperprior")},
    ("SpatialBlockSplit", "columns"): {"n_splits": 2},
}


def _squares() -> Any:
    import geopandas
    from shapely.geometry import box

    return geopandas.GeoDataFrame(geometry=[box(0.1, 0.1, 0.9, 0.9)], crs="EPSG:32633")


def _raster() -> Any:
    import xarray

    axes = {"y": np.arange(5.0), "x": np.arange(6.0)}
    return xarray.DataArray(np.arange(30.0).reshape(5, 6) % 7.0, axes, ("y", "x")).where(lambda a: a != 3.0)


def recognizer_file() -> str:
    path = folder() / "recognizer.npvi"
    if not path.exists():
        npvi.amortized.pretrained(likelihoods.Poisson()).save(path)
    return str(path)


def _modis() -> str:
    path = folder() / "modis.csv"
    path.write_text('"Lon","Lat","MaskTemp","TrueTemp"\n-95.9,37.1,35.0,35.0\n-95.8,37.1,NA,34.0\n')
    return str(path)


# -- what a user does with the result ---------------------------------------------------------------------------------


def _same(result: Any) -> Any:
    if inspect.isgenerator(result):
        return list(result)
    if hasattr(result, "figure"):  # which whoever looks at it closes
        import matplotlib.pyplot as plt

        plt.close(result.figure)
        return None
    if isinstance(result, list) and result and hasattr(result[0], "figure"):
        return _same(result[0])
    return result.predict(data()["X"]) if hasattr(result, "posterior_") else result


def _use_of(path: str, value: Any) -> Callable[[Any], Any]:
    """A parameter may only be stored at first: then it is what follows that has to work or refuse."""
    name = path.rpartition(".")[2]
    if name in ("fixed", "bounded", "positive", "pc", "half_normal"):
        return lambda parameter: _fit_estimator(small(kernel=kernels.RBF(parameter)))
    if name == "TiledRegressor":
        return lambda model: model.fit(tables(), "y").predict(data()["X"])
    if name == "fit_points":
        return lambda model: model.predict(pd.DataFrame(data()["X"], columns=["x", "y"]))
    if not isinstance(value, type):
        return _same
    if issubclass(value, kernels.Kernel):
        return lambda kernel: small(kernel=kernel).fit(data()["X"], data()["y"]).predict(data()["X"])
    if issubclass(value, likelihoods.Likelihood):
        return _fit_likelihood
    if hasattr(value, "fit"):
        return _fit_estimator
    if issubclass(value, npvi.terms.Term):
        return lambda term: npvi.GPRegressor(terms=[term], learn=False).fit(data()["X"], data()["y"])
    uses: dict[str, Callable[[Any], Any]] = {
        "SGD": lambda sgd: _fit_estimator(small("poisson", method="npvi", optimizer=sgd)),
        "SiteNetwork": lambda network: _fit_estimator(small("poisson", method="npvi-nn", network=network)),
        "GCN": lambda network: _fit_estimator(small("poisson", method="npvi-nn", network=network)),
        "SpatialBlockSplit": lambda folds: list(folds.split(data()["X"])),
        "LeaveLocationOut": lambda folds: list(folds.split(data()["X"])),
        "NeighborIndex": lambda index: index.query(data()["X"][:3], 2),
    }
    return uses.get(name, _same)


def _fit_estimator(model: Any) -> Any:
    likelihood, method = getattr(model, "likelihood", None), getattr(model, "method", "full")
    # tables and arrays don't compare with a word
    counts = (isinstance(likelihood, str) and likelihood == "poisson") or not (
        isinstance(method, str) and method == "full"
    )
    y = "labels" if hasattr(model, "predict_proba") else "counts" if counts else "y"
    return model.fit(data()["X"], data()[y]).predict(data()["X"])


def _fit_likelihood(likelihood: Any) -> Any:
    support, row = likelihood.support, {}
    y = "y"
    if support.discrete:
        y = "labels" if support.upper == 2 or type(likelihood).__name__ == "Ordinal" else "counts"
    elif support.upper == 1.0:
        y = "unit"
    elif support.lower == 0.0:
        y = "positive"
    if "trials" in likelihood.extras:
        y, row = "successes", {"trials": data()["trials"]}
    values = data()[y]
    values = np.minimum(values, support.upper)
    return small(likelihood).fit(data()["X"], values, **row).predict(data()["X"], **row)
