"""Fitted models in one file: save and load."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from npvi import model_file
from npvi.config import from_config, parameter_config, parameter_from_config, to_config
from npvi.estimators.linear_part import LinearPart
from npvi.graph import Graph
from npvi.inference import Data, Trend
from npvi.kernels import as_kernel
from npvi.likelihoods import as_likelihood
from npvi.likelihoods.softmax import Softmax
from npvi.model_file import FORMAT, ModelFileError
from npvi.parallel import threads
from npvi.parameters import Parameter, Parametrised
from npvi.posteriors import DrawsPosterior, FactorPosterior, Posterior
from npvi.posteriors.low_rank import LowRankPosterior
from npvi.priors import Prior
from npvi.priors.structure import LOW_RANK, InducingPoints, NearestNeighbors
from npvi.sparse import Triangular

__all__ = ["FORMAT", "ModelFileError", "describe", "load", "save"]

#: the key under which a network of the user's own is kept
_RECOGNIZER = "recognizer"
_ESTIMATORS = ("GPRegressor", "GPClassifier")
#: what stands before the names of a second model's arrays
_COMPANION = "companion_"
#: kinds of arrays that NumPy can only pickle: objects and its own strings
_PICKLED = "OT"
#: parameters that may be arrays
_ARRAYS = ("order", "inducing")
#: parameters that may be functions, and what those become
_FUNCTIONS: dict[str, Callable[[Any], Parametrised]] = {"kernel": as_kernel, "likelihood": as_likelihood}


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file; an older file of that name is replaced only once the new one is complete.

    Parameters
    ----------
    model : GPRegressor or GPClassifier, fitted
    path : str or path
    notes : mapping of JSON's own types, optional
        Kept in the file for `describe`, such as the names of the columns that the model was fitted from.

    Raises
    ------
    ModelFileError
        Where the model is not fitted, holds what cannot be saved, or the file cannot be written.

    Examples
    --------
    >>> import npvi, tempfile
    >>> model = npvi.GPRegressor(n_neighbors=2, learn=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> save(model, path, notes={"target": "count"})
    >>> describe(path)["notes"]
    {'target': 'count'}
    """
    model_file.write(path, *_pack(model, dict(notes or {})))


def load(path: str | os.PathLike[str], custom: Mapping[str, Callable] | None = None) -> Any:
    """Read a model that `save` wrote: it predicts as it did, and can be cloned, refitted and saved again.

    No code in the file is run, because there is none. Functions of your own are not in it either; they are asked for by
    name.

    Parameters
    ----------
    path : str or path
    custom : mapping from names to functions, optional
        Functions that the model was made with, for example ``{"cauchy": cauchy}``.

    Returns
    -------
    GPRegressor or GPClassifier

    Raises
    ------
    ModelFileError
        Where the file is not a model, is damaged, or was written in another format: by a newer or much older npvi.

    Examples
    --------
    >>> import npvi, tempfile
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = npvi.GPRegressor(kernel="rbf", learn=False, n_neighbors=5).fit(X, np.sin(X[:, 0]))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> model.save(path)
    >>> bool(load(path).predict([[1.5]])[0] == model.predict([[1.5]])[0])
    True
    """
    metadata, arrays = model_file.read(path)
    try:
        return _unpack(metadata, arrays, custom or {})
    except KeyError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: it has no {error}") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}") from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a file, in JSON's own types, without building the model.

    Examples
    --------
    >>> import npvi, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> model = npvi.GPRegressor(kernel="rbf", learn=False, n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> model.save(path)
    >>> describe(path)["n_rows"], describe(path)["kernel"]["type"]
    (3, 'RBF')
    """
    return model_file.read(path, with_arrays=False)[0]


# -- from a model to plain data ---------------------------------------------------------------------------------------


def _pack(model: Any, notes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from npvi import __version__

    name = type(model).__name__
    if name not in _ESTIMATORS or not type(model).__module__.startswith("npvi."):
        raise ModelFileError(f"only {' and '.join(_ESTIMATORS)} can be saved, not {name}")
    try:
        check_is_fitted(model)
    except ValueError:
        raise ModelFileError(f"this {name} is not fitted yet: call fit before save") from None
    graph, prior, part, data = model.graph_, model.prior_, model.linear_part_, model.data_
    kind, arrays = _function_arrays(model)
    arrays |= {
        "order": graph.order,
        "parents": graph.parents,
        "spatial": graph.spatial,
        "X": prior.X,
        "coords": part.coords,
        "covariates": part.covariates,
        "center": part.center,
        "scale": part.scale,
        "basis": model.basis_,
        "y": data.y,
        **{f"row_{name}": values for name, values in data.row.items()},
    }
    if data.weight is not None:
        arrays["weight"] = data.weight
    if isinstance(model.structure_, InducingPoints):
        arrays["inducing"] = model.structure_.points
    parameters = model.get_params(deep=False)
    for parameter in _ARRAYS:
        if not isinstance(parameters[parameter], str):
            arrays[f"parameter_{parameter}"] = np.asarray(parameters.pop(parameter))
    names = getattr(model, "feature_names_in_", None)
    metadata = {
        "npvi": __version__,
        "estimator": name,
        "parameters": {key: _plain_parameter(key, value) for key, value in parameters.items()},
        "kernel": _config(model.kernel_),
        "likelihood": _config(model.likelihood_),
        "nugget": prior.nugget,
        "prior": model.structure_.kind,
        "posterior": kind,
        "linear_part": {"constant": part.constant, "names": list(part.names)},
        "coefficients": {name: list(both) for name, both in model._coefficients().items()},
        "row": list(data.row),
        "n_rows": graph.n_points,
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else [str(column) for column in names],
        "elbo": float(model.elbo_),
        "n_iter": int(model.n_iter_),
        "fit_info": _plain(model.fit_info_),
        "notes": _plain(notes),
    }
    if hasattr(model, "classes_"):
        metadata["classes_are_objects"] = model.classes_.dtype.kind in _PICKLED
        arrays["classes"] = _plain_labels(model.classes_)
        metadata["labels"] = [str(label) for label in model.classes_]
    if model.companion_ is not None:
        other, more = _pack(model.companion_, {})
        metadata["companion"] = {"weight": model.companion_weight_, "model": other}
        arrays |= {_COMPANION + name: array for name, array in more.items()}
    return metadata, arrays


def _function_arrays(model: Any) -> tuple[str, dict[str, np.ndarray]]:
    """The kind of the posterior, and for each latent function its posterior and its mean's coefficients."""
    posteriors = getattr(model.posterior_, "parts", (model.posterior_,))
    trends = getattr(model.trend_, "parts", (model.trend_,))
    kind = ""
    arrays: dict[str, np.ndarray] = {}
    for prefix, posterior, trend in zip(_prefixes(model.likelihood_), posteriors, trends, strict=True):
        kind, own = _posterior_arrays(posterior)
        own |= {
            "coefficients": trend.coefficients,
            "coefficient_covariance": trend.covariance,
            "sensitivity": trend.sensitivity,
        }
        arrays |= {prefix + name: array for name, array in own.items()}
    return kind, arrays


def _prefixes(likelihood: Any) -> list[str]:
    """What stands before the names of the arrays of each latent function; there is one, or one per class."""
    return [f"class_{c}_" for c in range(likelihood.n_classes)] if isinstance(likelihood, Softmax) else [""]


def _posterior_arrays(posterior: Any) -> tuple[str, dict[str, np.ndarray]]:
    """Its kind and what it is made of."""
    arrays = {"mean": posterior.mean, "site_precision": posterior.site_precision}
    if isinstance(posterior, FactorPosterior):
        return "factor", {
            **arrays,
            "factor_diagonal": posterior.factor.diagonal,
            "factor_edges": posterior.factor.edges,
        }
    if isinstance(posterior, LowRankPosterior):  # the prior has the rest
        return "low_rank", arrays
    if isinstance(posterior, DrawsPosterior):
        return "draws", {**arrays, "variance": posterior.variance, "draws": posterior.draws}
    raise ModelFileError(f"a {type(posterior).__name__} cannot be saved")


def _config(obj: Parametrised) -> dict[str, Any]:
    try:
        return to_config(obj)
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error


def _plain_parameter(name: str, value: Any) -> Any:
    if isinstance(value, Parametrised):
        return _config(value)
    if isinstance(value, Parameter):
        return parameter_config(value)
    if name == "network" and hasattr(value, "to_text"):  # a recognizer
        return {_RECOGNIZER: value.to_text()}
    if name in _FUNCTIONS and callable(value):  # the user's own
        return _config(_FUNCTIONS[name](value))
    if name == "coords" and isinstance(value, list | tuple | np.ndarray):
        return [_plain_parameter(name, column) for column in value]
    if name == "random_state" and not isinstance(value, int | np.integer):
        return None  # a generator's state is no parameter
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"the parameter {name} cannot be saved: it is a {type(value).__name__}, {value!r}")


def _plain(value: Any) -> Any:
    """`value` in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in _PICKLED:
        return labels
    plain = np.array(labels.tolist())
    if plain.dtype.kind in _PICKLED or len({type(label) for label in labels.tolist()}) != 1:
        raise ModelFileError(
            f"the labels {labels.tolist()!r} cannot be saved: they must be all text, all numbers or all True/False"
        )
    return plain


# -- and back ---------------------------------------------------------------------------------------------------------


def _unpack(metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Any:
    from npvi import estimators  # which knows `save`

    name = metadata["estimator"]
    if name not in _ESTIMATORS:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    if metadata["parameters"].get("method") == "npvi-nn":
        import npvi.networks  # noqa: F401 - whose settings may be among the parameters
    kernel, likelihood = from_config(metadata["kernel"], custom), from_config(metadata["likelihood"], custom)
    likelihood.validate()
    _check_arrays(metadata, arrays, likelihood)
    parameters = {key: _restored_parameter(value, custom) for key, value in metadata["parameters"].items()}
    parameters |= {name: arrays[f"parameter_{name}"] for name in _ARRAYS if f"parameter_{name}" in arrays}
    model = getattr(estimators, name)(**parameters)
    kernel.validate(arrays["X"].shape[1])
    y = likelihood.check_response(arrays["y"])
    row = likelihood.check_row({name: arrays[f"row_{name}"] for name in metadata["row"]}, len(y), y)
    graph = Graph(arrays["order"], arrays["parents"], arrays["spatial"])
    model.kernel_, model.likelihood_, model.graph_ = kernel, likelihood, graph
    model.nugget_ = float(metadata["nugget"])
    with threads(model.n_jobs):
        kind = metadata.get("prior", NearestNeighbors.kind)  # older files have no other
        model.structure_ = InducingPoints(kind, arrays["inducing"]) if kind in LOW_RANK else NearestNeighbors()
        model.prior_ = model.structure_.prior(kernel, model.nugget_, arrays["X"], graph)
        model.posterior_, model.trend_ = _functions(metadata["posterior"], arrays, model.prior_, likelihood)
    part = metadata["linear_part"]
    columns = (arrays["coords"], arrays["covariates"])
    model.linear_part_ = LinearPart(
        *columns, bool(part["constant"]), arrays["center"], arrays["scale"], tuple(part["names"])
    )
    model.basis_ = arrays["basis"]
    model.data_ = Data(likelihood, y, row, arrays.get("weight"))
    model.companion_, model.companion_weight_ = None, 0.0
    if "companion" in metadata:
        own = {name.removeprefix(_COMPANION): array for name, array in arrays.items() if name.startswith(_COMPANION)}
        model.companion_ = _unpack(metadata["companion"]["model"], own, custom)
        model.companion_weight_ = float(metadata["companion"]["weight"])
    model.elbo_, model.n_iter_, model.fit_info_ = metadata["elbo"], metadata["n_iter"], metadata["fit_info"]
    model.n_features_in_ = int(metadata["n_features_in"])
    if metadata["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(metadata["feature_names_in"], dtype=object)
    if name == "GPClassifier":
        labels = arrays["classes"]
        model.classes_ = labels.astype(object) if metadata["classes_are_objects"] else labels
    model._said = model._parts(arrays["X"].shape[1])[-1]
    return model


def _restored_parameter(value: Any, custom: Mapping[str, Callable]) -> Any:
    if not isinstance(value, dict):
        return value
    if _RECOGNIZER in value:
        from npvi.networks import Recognizer  # rarely needed

        return Recognizer.from_text(value[_RECOGNIZER])
    return parameter_from_config(value) if "parameter" in value else from_config(value, custom)


def _functions(kind: str, arrays: dict[str, np.ndarray], prior: Prior, likelihood: Any) -> tuple[Any, Any]:
    """The posterior and the coefficients of the mean, of all latent functions."""
    posteriors, trends = [], []
    for prefix in _prefixes(likelihood):
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        posteriors.append(_posterior(kind, own, prior))
        trends.append(Trend(own["coefficients"], own["coefficient_covariance"], own["sensitivity"]))
    if not isinstance(likelihood, Softmax):
        return posteriors[0], trends[0]
    from npvi.inference.softmax import StackedTrend  # rarely needed
    from npvi.posteriors.stacked import StackedPosterior

    return StackedPosterior(posteriors), StackedTrend(trends)


def _posterior(kind: str, arrays: dict[str, np.ndarray], prior: Prior) -> Posterior:
    mean, site_precision = arrays["mean"], arrays["site_precision"]
    if kind == "low_rank":
        closed = prior.factor(site_precision, prior.routes[0])
        if not closed.finite:
            raise ValueError("its site_precision makes no posterior")
        return LowRankPosterior(mean, closed)
    if kind == "factor":
        factor = Triangular(prior.graph, arrays["factor_diagonal"], arrays["factor_edges"])
        return FactorPosterior(mean, factor, site_precision)
    return DrawsPosterior(mean, arrays["draws"], arrays["variance"], site_precision)


def _check_arrays(metadata: dict[str, Any], arrays: dict[str, np.ndarray], likelihood: Any) -> None:
    """Compiled loops trust what they are given: a wrong position in a stranger's file would read foreign memory."""
    prefixes = _prefixes(likelihood)
    for name, (dtypes, shape) in _expected(metadata, arrays, prefixes).items():
        array = arrays[name]
        if array.dtype not in dtypes or array.shape != shape or not np.isfinite(array).all():
            kinds = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
            raise ValueError(f"its {name} is not a finite {kinds} array of shape {shape}")
    n, k = arrays["parents"].shape
    everyone = np.arange(n)
    for name in ("order", "spatial"):
        if not np.array_equal(np.sort(arrays[name]), everyone):
            raise ValueError(f"its {name} does not name every point once")
    parents = arrays["parents"]
    used = np.arange(k) < np.minimum(everyone, k)[:, None]
    ascending = np.diff(parents, axis=1) > 0
    earlier = (parents >= 0) & (parents < everyone[:, None])
    if not (np.where(used, earlier, parents == -1).all() and (ascending | ~used[:, 1:]).all()):
        raise ValueError("its parents are not earlier points in ascending order")
    d = int(metadata["n_features_in"])
    for name in ("coords", "covariates"):
        columns = arrays[name]
        if len(np.unique(columns)) < len(columns) or not np.all((columns >= 0) & (columns < d)):
            raise ValueError(f"its {name} are not columns from 0 to {d - 1}, each once")
    for name in ("scale", *(prefix + name for prefix in prefixes for name in ("variance", "factor_diagonal"))):
        if name in arrays and not np.all(arrays[name] > 0.0):
            raise ValueError(f"its {name} is not positive")
    if "weight" in arrays and not np.all(arrays["weight"] >= 0.0):
        raise ValueError("its weight is negative somewhere")
    if "classes" in arrays:
        several = isinstance(likelihood, Softmax)
        allowed = (likelihood.n_classes,) if several else (1, 2)
        if arrays["classes"].ndim != 1 or len(arrays["classes"]) not in allowed:
            raise ValueError(f"its labels are not {likelihood.n_classes if several else 'one or two'}")


def _expected(
    metadata: dict[str, Any], arrays: dict[str, np.ndarray], prefixes: list[str]
) -> dict[str, tuple[tuple[type, ...], tuple[int, ...]]]:
    """What kinds of numbers each array may hold, and its shape."""
    n, k = arrays["parents"].shape
    (n_coords,), (n_covariates,) = arrays["coords"].shape, arrays["covariates"].shape
    p = int(bool(metadata["linear_part"]["constant"])) + n_covariates
    if len(metadata["linear_part"]["names"]) != p or n_coords < 1:
        raise ValueError("its linear part does not fit its columns")
    shapes: dict[str, tuple[int, ...]] = {
        "X": (n, n_coords),
        "y": (n,),
        "center": (n_covariates,),
        "scale": (n_covariates,),
        "basis": (n, p),
        **{f"row_{name}": (n,) for name in metadata["row"]},
    }
    kinds: dict[str, tuple[tuple[type, ...], tuple[int, ...]]] = {}
    if "weight" in arrays:
        shapes["weight"] = (n,)
    low_rank = metadata.get("prior") in LOW_RANK
    if low_rank:
        shapes["inducing"] = (max(1, len(arrays["inducing"])), n_coords)
    own: dict[str, tuple[int, ...]] = {"mean": (n,), "site_precision": (n,), "coefficients": (p,)}
    own |= {"coefficient_covariance": (p, p), "sensitivity": (n, p)}
    if metadata["posterior"] == "factor":
        own |= {"factor_diagonal": (n,), "factor_edges": (n, k)}
    elif metadata["posterior"] == "draws":
        own["variance"] = (n,)
        for prefix in prefixes:
            draws = arrays[prefix + "draws"]
            kinds[prefix + "draws"] = ((np.float32, np.float64), (n, max(1, draws.shape[-1] if draws.ndim else 1)))
    elif metadata["posterior"] != "low_rank" or not low_rank:
        raise ValueError(f"it holds a posterior {metadata['posterior']!r}, which this version does not know")
    shapes |= {prefix + name: shape for prefix in prefixes for name, shape in own.items()}
    kinds |= {"order": ((np.int64,), (n,)), "parents": ((np.int32,), (n, k)), "spatial": ((np.int32,), (n,))}
    kinds |= {"coords": ((np.int64,), (n_coords,)), "covariates": ((np.int64,), (n_covariates,))}
    return kinds | {name: ((np.float64,), shape) for name, shape in shapes.items()}
