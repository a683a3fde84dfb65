"""A fitted model as plain data: JSON's own types and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from npvi.config import parameter_config, to_config
from npvi.io.archive import ModelFileError
from npvi.io.steps import pack_step
from npvi.io.summed import pack_summed
from npvi.kernels import as_kernel
from npvi.likelihoods import Softmax, as_likelihood
from npvi.model import FittedTerms
from npvi.parameters import Parameter, Parametrised
from npvi.posteriors import DrawsPosterior, FactorPosterior, LowRankPosterior, PrecisionPosterior
from npvi.priors import FACTORS, InducingPoints

__all__ = ["ARRAYS", "COMPANION", "ESTIMATORS", "HYPER", "NOISE", "RECOGNIZER", "STEP", "pack", "prefixes"]

ESTIMATORS = ("GPRegressor", "GPClassifier", "VaryingNoiseRegressor")
"""What can be saved."""
STEP = "step_{}_"
"""What stands before the names of the arrays of a step of a pipeline."""
NOISE = "noise_model_"
"""What stands before the names of the arrays of a model of the noise."""
RECOGNIZER = "recognizer"
"""The key under which a network of the user's own is kept."""
COMPANION = "companion_"
"""What stands before the names of a second model's arrays."""
HYPER = "hyper_{}_"
"""What stands before the names of the arrays of a model at other hyper-parameters; it has those that differ."""
ARRAYS = ("order", "inducing")
"""Parameters that may be arrays."""
#: kinds of arrays that NumPy can only pickle: objects and its own strings
_PICKLED = "OT"
#: parameters that may be functions, and what those become
_FUNCTIONS: dict[str, Callable[[Any], Parametrised]] = {"kernel": as_kernel, "likelihood": as_likelihood}


def pack(model: Any, notes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a fitted model.

    Raises
    ------
    ModelFileError
        Where the model is not fitted, or holds what cannot be saved.

    Examples
    --------
    >>> import npvi
    >>> model = npvi.GPRegressor(n_neighbors=2, learn=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> metadata, arrays = pack(model, {})
    >>> metadata["posterior"], arrays["parents"].shape
    ('dense', (3, 2))
    """
    from npvi import __version__

    if isinstance(model, Pipeline):
        return _pack_pipeline(model, notes)
    name = type(model).__name__
    if name not in ESTIMATORS or not type(model).__module__.startswith("npvi."):
        raise ModelFileError(f"only {', '.join(ESTIMATORS[:-1])} and {ESTIMATORS[-1]} can be saved, not {name}")
    try:
        check_is_fitted(model)
    except ValueError:
        raise ModelFileError(f"this {name} is not fitted yet: call fit before save") from None
    if name == "VaryingNoiseRegressor":
        return _pack_both(model, notes)
    if isinstance(model.fitted_, FittedTerms):
        return pack_summed(model, _about(model, notes))
    graph, prior, part, data = model.graph_, model.prior_, model.linear_part_, model.data_
    kind, arrays = _function_arrays(model)
    arrays |= {
        "order": graph.order,
        "canonical_order": prior.graph.order,
        "parents": graph.parents,
        "spatial": graph.spatial,
        "X": prior.X,
        "coords": part.coords,
        "covariates": part.covariates,
        "center": part.center,
        "scale": part.scale,
        "basis": model.basis_,
        "coefficient_precision": model.coefficient_precision_,
        "y": data.y,
        **{f"row_{name}": values for name, values in data.row.items()},
    }
    if data.weight is not None:
        arrays["weight"] = data.weight
    if isinstance(model.structure_, InducingPoints):
        arrays["inducing"] = model.structure_.points
    parameters = model.get_params(deep=False)
    for parameter in ARRAYS:
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
        **({"crs": model.crs_} if hasattr(model, "crs_") else {}),
        "elbo": float(model.elbo_),
        "n_iter": int(model.n_iter_),
        "fit_info": _plain(model.fit_info_),
        "notes": _plain(notes),
    }
    if hasattr(model, "classes_"):
        metadata["classes_are_objects"] = model.classes_.dtype.kind in _PICKLED
        arrays["classes"] = _plain_labels(model.classes_)
        metadata["labels"] = [str(label) for label in model.classes_]
    own = dict(arrays)
    if model.hyper_ is not None:
        nodes = []
        for number, node in enumerate(model.hyper_.models):
            about, more = pack(node, {})
            nodes.append({**about, "fit_info": {}})
            differ = {name: array for name, array in more.items() if not _same(own.get(name), array)}
            arrays |= {HYPER.format(number) + name: array for name, array in differ.items()}
        metadata["hyper"] = {"models": nodes, "weights": model.hyper_.weights.tolist(), "table": model.hyper_.table}
    if model.companion_ is not None:
        other, more = pack(model.companion_, {})
        metadata["companion"] = {"weight": model.companion_weight_, "model": other}
        arrays |= {COMPANION + name: array for name, array in more.items()}
    return metadata, arrays


def _about(model: Any, notes: dict[str, Any]) -> dict[str, Any]:
    """What is said of a model made of terms as of any other."""
    from npvi import __version__

    parameters = {key: value for key, value in model.get_params(deep=False).items() if key != "terms"}
    return {
        "npvi": __version__,
        "estimator": type(model).__name__,
        "parameters": {key: _plain_parameter(key, value) for key, value in parameters.items()},
        "coefficients": {},
        "row": list(model.data_.row),
        "n_rows": len(model.data_.y),
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": [str(column) for column in model.feature_names_in_],
        "elbo": float(model.elbo_),
        "n_iter": int(model.n_iter_),
        "fit_info": _plain(model.fit_info_),
        "notes": _plain(notes),
    }


def _same(one: np.ndarray | None, other: np.ndarray) -> bool:
    return one is not None and one.dtype == other.dtype and np.array_equal(one, other)


def _pack_pipeline(pipeline: Pipeline, notes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The file of the model at its end, with the steps before it; as a "Pipeline", which older versions refuse."""
    last, model = pipeline.steps[-1]
    if isinstance(model, Pipeline):
        raise ModelFileError("a pipeline in a pipeline cannot be saved: make one of both")
    metadata, arrays = pack(model, notes)
    steps = []
    for number, (name, step) in enumerate(pipeline.steps[:-1]):
        about, more = pack_step(name, step)
        steps.append(about)
        arrays |= {STEP.format(number) + key: array for key, array in more.items()}
    whole = {"steps": steps, "last": last, "estimator": metadata["estimator"]}
    return {**metadata, "estimator": "Pipeline", "pipeline": whole}, arrays


def _pack_both(model: Any, notes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A model with one of its noise: the file of the former, with the latter in it."""
    metadata, arrays = pack(model.model_, notes)
    about: dict[str, Any] = {
        "kernel": _plain_parameter("kernel", model.kernel),
        "max_rounds": int(model.max_rounds),
        "rounds": _plain(model.rounds_),
        "likelihood": None if model.model is None else _plain_parameter("likelihood", model.model.likelihood),
        "model": None,
    }
    if model.noise_model_ is not None:
        about["model"], more = pack(model.noise_model_, {})
        arrays |= {NOISE + name: array for name, array in more.items()}
    return {**metadata, "estimator": "VaryingNoiseRegressor", "noise": about}, arrays


def _function_arrays(model: Any) -> tuple[str, dict[str, np.ndarray]]:
    """The kind of the posterior, and for each latent function its posterior and its mean's coefficients."""
    posteriors = getattr(model.posterior_, "parts", (model.posterior_,))
    trends = getattr(model.trend_, "parts", (model.trend_,))
    kind = ""
    arrays: dict[str, np.ndarray] = {}
    for prefix, posterior, trend in zip(prefixes(model.likelihood_), posteriors, trends, strict=True):
        kind, own = _posterior_arrays(posterior)
        own |= {
            "coefficients": trend.coefficients,
            "coefficient_covariance": trend.covariance,
            "sensitivity": trend.sensitivity,
        }
        arrays |= {prefix + name: array for name, array in own.items()}
    return kind, arrays


def prefixes(likelihood: Any) -> list[str]:
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
    if isinstance(posterior, PrecisionPosterior):  # the prior and the site precisions make the factor again
        kind = np.array([FACTORS.index(posterior.kind[0]), posterior.kind[1]], dtype=np.float64)
        more = {"variance": posterior.variance, "factor_kind": kind, "gains": posterior.gains}
        return "precision", {**arrays, **more, "modes": posterior.modes.reshape(len(posterior.mean), -1)}
    if isinstance(posterior, DrawsPosterior) and posterior.exact:  # the same
        return "dense", arrays
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
        return {RECOGNIZER: value.to_text()}
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
