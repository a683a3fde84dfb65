"""The steps of a pipeline before its model, as plain data: settings, and the numbers that were fitted."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from npvi.io.archive import ModelFileError
from npvi.runtime.fields import LARGEST

__all__ = ["STEPS", "check_steps", "pack_step", "unpack_step"]

STEPS = {
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "PolynomialFeatures": "sklearn.preprocessing",
    "QuantileTransformer": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "StandardScaler": "sklearn.preprocessing",
}
"""Transformers that can be saved, and where they are; no file can name another one."""
_PASS = "passthrough"
#: whole numbers that say how much there is to do, and how large they may be where the step has no larger array
_WORK = ("n_features_in_", "n_output_features_", "_n_out_full", "n_components_", "_max_degree")
_FEW = 100
#: what an object of Python is in JSON, where JSON has no such kind
_KINDS = {"tuple": tuple, "numpy": np.float64}


def pack_step(name: str, step: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted transformer as JSON and arrays.

    >>> from sklearn.preprocessing import StandardScaler
    >>> about, arrays = pack_step("scale", StandardScaler().fit([[0.0], [2.0]]))
    >>> about["type"], arrays["mean_"].tolist()
    ('StandardScaler', [1.0])
    """
    if step is None or step == _PASS:
        return {"name": name, "type": _PASS}, {}
    kind = type(step).__name__
    if STEPS.get(kind) is None or not type(step).__module__.startswith(STEPS[kind] + "."):
        raise ModelFileError(
            f"the step {name!r} cannot be saved: it is a {kind}, and files of models hold {', '.join(STEPS)}. "
            "Transform the inputs before the model, or save the last step alone, pipeline[-1].save(path)"
        )
    parameters = step.get_params(deep=False)
    fitted = {key: value for key, value in vars(step).items() if key not in parameters}
    output = fitted.pop("_sklearn_output_config", {}).get("transform")
    arrays = {key: value for key, value in fitted.items() if isinstance(value, np.ndarray) and value.dtype != object}
    names = fitted.get("feature_names_in_")
    rest = {key: value for key, value in fitted.items() if key not in arrays and key != "feature_names_in_"}
    about = {
        "name": name,
        "type": kind,
        "parameters": {key: _to_json(name, key, value) for key, value in parameters.items()},
        "fitted": {key: _to_json(name, key, value) for key, value in rest.items()},
        "output": output,
        "feature_names_in": None if names is None else [str(column) for column in names],
    }
    return about, arrays


def unpack_step(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[str, BaseEstimator | str]:
    """A transformer, and its name, from what `pack_step` made of it."""
    if about["type"] == _PASS:
        return str(about["name"]), _PASS
    if about["type"] not in STEPS:
        raise ValueError(f"it has a step of the type {about['type']!r}, which this version does not know")
    kind = getattr(importlib.import_module(STEPS[about["type"]]), about["type"])
    parameters = {key: _from_json(value) for key, value in about["parameters"].items()}
    unknown = sorted(set(parameters) - set(kind._get_param_names()))
    if unknown:
        raise ValueError(f"its step {about['name']!r} has the setting {unknown[0]!r}, which scikit-learn doesn't know")
    step = kind(**parameters)
    step._validate_params()
    if about.get("output") is not None:  # scikit-learn refuses what isn't a kind of table
        step.set_output(transform=str(about["output"]))
    fitted = {**{key: _from_json(value) for key, value in about["fitted"].items()}, **arrays}
    for key, value in fitted.items():
        if not key.isidentifier() or key.startswith("__") or hasattr(kind, key):
            raise ValueError(f"its step {about['name']!r} has the attribute {key!r}, which isn't one of numbers")
        setattr(step, key, value)
    if about["feature_names_in"] is not None:
        step.feature_names_in_ = np.array(about["feature_names_in"], dtype=object)
    return str(about["name"]), step


def check_steps(pipeline: Any) -> None:
    """Raise ValueError or FloatingPointError where the steps don't turn numbers into what the model takes.

    scikit-learn checks what is fitted, not what was: a few rows that go through all steps tell.
    """
    model = pipeline.steps[-1][1]
    steps = [step for _, step in pipeline.steps[:-1] if not isinstance(step, str)]
    if not steps:
        return
    for step in steps:
        names = getattr(step, "feature_names_in_", None)
        if names is not None and len(names) != step.n_features_in_:
            raise ValueError(f"its {type(step).__name__} has {len(names)} names of {step.n_features_in_} columns")
        sizes = [size for value in vars(step).values() if isinstance(value, np.ndarray) for size in value.shape]
        most = max(_FEW, model.n_features_in_, *sizes)
        for name in _WORK:
            if not 0 <= getattr(step, name, 0) <= most:
                raise ValueError(f"its {type(step).__name__} has {name} = {getattr(step, name)!r}")
    for rows in (1, 3):
        X: Any = np.outer(np.arange(rows), np.ones(steps[0].n_features_in_))
        with np.errstate(divide="raise", over="raise", invalid="raise"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that they saw names of columns in the fit
            for step in steps:
                X = np.asarray(step.transform(X), dtype=np.float64)
        if X.shape != (rows, model.n_features_in_) or not np.abs(X).max() <= LARGEST:
            raise ValueError(f"its steps don't make {model.n_features_in_} columns of numbers up to {LARGEST:g}")


def _to_json(step: str, name: str, value: Any) -> Any:
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, np.floating):
        return {"numpy": float(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_to_json(step, name, item) for item in value]}
    raise ModelFileError(f"the step {step!r} cannot be saved: its {name} is a {type(value).__name__}, {value!r}")


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if isinstance(inside, list):
        inside = [_from_json(item) for item in inside]
    return _KINDS[kind](inside)
