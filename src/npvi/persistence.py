"""Fitted models in one file: save and load."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from npvi import model_file
from npvi.config import from_config, to_config
from npvi.graph import Graph
from npvi.kernels import as_kernel
from npvi.model_file import FORMAT, ModelFileError
from npvi.parallel import threads
from npvi.parameters import Parametrised
from npvi.posteriors import FactorPosterior
from npvi.priors import NNGP
from npvi.sparse import Triangular

__all__ = ["FORMAT", "ModelFileError", "describe", "load", "save"]

_ESTIMATORS = ("GPRegressor", "GPClassifier")
#: kinds of arrays that NumPy can only pickle: objects and its own strings
_PICKLED = "OT"


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
    >>> model = npvi.GPRegressor(n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
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
        Where the file is not a model, is damaged, or was written by a newer version of npvi.

    Examples
    --------
    >>> import npvi, tempfile
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = npvi.GPRegressor(n_neighbors=5).fit(X, np.sin(X[:, 0]))
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
    >>> npvi.GPRegressor(n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]).save(path)
    >>> describe(path)["n_rows"], describe(path)["kernel"]["type"]
    (3, 'Matern32')
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
    graph, prior, posterior = model.graph_, model.prior_, model.posterior_
    if not (isinstance(prior, NNGP) and isinstance(posterior, FactorPosterior)):
        raise ModelFileError(f"{type(prior).__name__} with {type(posterior).__name__} cannot be saved")
    arrays = {
        "order": graph.order,
        "parents": graph.parents,
        "spatial": graph.spatial,
        "X": prior.X,
        "mean": posterior.mean,
        "factor_diagonal": posterior.factor.diagonal,
        "factor_edges": posterior.factor.edges,
        "site_precision": posterior.site_precision,
        "mean_coefficients": np.asarray(model.mean_coefficients_, dtype=np.float64),
    }
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["order"], str):
        arrays["parameter_order"] = np.asarray(parameters.pop("order"))
    names = getattr(model, "feature_names_in_", None)
    metadata = {
        "npvi": __version__,
        "estimator": name,
        "parameters": {key: _plain_parameter(key, value) for key, value in parameters.items()},
        "kernel": _config(model.kernel_),
        "likelihood": _config(model.likelihood_),
        "nugget": prior.nugget,
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
    return metadata, arrays


def _config(obj: Parametrised) -> dict[str, Any]:
    try:
        return to_config(obj)
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error


def _plain_parameter(name: str, value: Any) -> Any:
    if isinstance(value, Parametrised):
        return _config(value)
    if name == "kernel" and callable(value):  # the user's own function
        return _config(as_kernel(value))
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
    _check_arrays(arrays, int(metadata["n_features_in"]))
    parameters = {
        key: from_config(value, custom) if isinstance(value, dict) else value
        for key, value in metadata["parameters"].items()
    }
    if "parameter_order" in arrays:
        parameters["order"] = arrays["parameter_order"]
    model = getattr(estimators, name)(**parameters)
    kernel, likelihood = from_config(metadata["kernel"], custom), from_config(metadata["likelihood"], custom)
    kernel.validate(arrays["X"].shape[1])
    likelihood.validate()
    graph = Graph(arrays["order"], arrays["parents"], arrays["spatial"])
    model.kernel_, model.likelihood_, model.graph_ = kernel, likelihood, graph
    with threads(model.n_jobs):
        model.prior_ = NNGP(kernel, float(metadata["nugget"]), arrays["X"], graph)
    factor = Triangular(graph, arrays["factor_diagonal"], arrays["factor_edges"])
    model.posterior_ = FactorPosterior(arrays["mean"], factor, arrays["site_precision"])
    model.mean_coefficients_ = arrays["mean_coefficients"]
    model.elbo_, model.n_iter_, model.fit_info_ = metadata["elbo"], metadata["n_iter"], metadata["fit_info"]
    model.n_features_in_ = arrays["X"].shape[1]
    if metadata["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(metadata["feature_names_in"], dtype=object)
    if name == "GPClassifier":
        labels = arrays["classes"]
        model.classes_ = labels.astype(object) if metadata["classes_are_objects"] else labels
    return model


def _check_arrays(arrays: dict[str, np.ndarray], d: int) -> None:
    """Compiled loops trust what they are given: a wrong position in a stranger's file would read foreign memory."""
    n, k = arrays["parents"].shape
    expected: dict[str, tuple[type, tuple[int, ...]]] = {
        "order": (np.int64, (n,)),
        "parents": (np.int32, (n, k)),
        "spatial": (np.int32, (n,)),
        "X": (np.float64, (n, d)),
        "mean": (np.float64, (n,)),
        "factor_diagonal": (np.float64, (n,)),
        "factor_edges": (np.float64, (n, k)),
        "site_precision": (np.float64, (n,)),
        "mean_coefficients": (np.float64, arrays["mean_coefficients"].shape[:1]),
    }
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if array.dtype != dtype or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"its {name} is not a finite {np.dtype(dtype)} array of shape {shape}")
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
    if "classes" in arrays and (arrays["classes"].ndim != 1 or not 1 <= len(arrays["classes"]) <= 2):
        raise ValueError("its labels are not one or two")
