"""A model made of terms as plain data, and back.

A file has the table's columns, what was learned, and the posterior's mean and site precisions: from these the parts,
their graphs and the posterior are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from npvi.config import from_config, to_config
from npvi.inference import Data
from npvi.io.archive import ModelFileError
from npvi.model import FittedTerms, Hyper, TermsSpec, restored
from npvi.parameters import check_kinds
from npvi.runtime.fields import LARGEST
from npvi.runtime.parallel import threads
from npvi.terms import Setting, ordered_levels, parse, term_config, term_from_config

__all__ = ["pack_summed", "unpack_summed"]

#: what stands before the names of arrays: of columns, and of models at other hyper-parameters
_COLUMN, _NODE = "column_{}", "node_{}_"


def pack_summed(model: Any, about: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a fitted model; `about` is what all models have."""
    fitted: FittedTerms = model.fitted_
    arrays: dict[str, np.ndarray] = {"y": fitted.data.y, **_posterior(fitted, "")}
    arrays |= {f"row_{name}": values for name, values in fitted.data.row.items()}
    if fitted.data.weight is not None:
        arrays["weight"] = fitted.data.weight
    columns = []
    for number, name in enumerate(fitted.table.columns):
        values = fitted.table[name]
        one: dict[str, Any] = {"name": str(name), "labels": None}
        if values.dtype.kind in "biuf":
            one["boolean"] = values.dtype.kind == "b"
            arrays[_COLUMN.format(number)] = values.to_numpy(dtype=np.float64)
        elif isinstance(values.dtype, pd.CategoricalDtype):  # whose order says which level others are compared with
            levels = ordered_levels(values)
            one["labels"], one["ordered"] = [str(level) for level in levels], True
            arrays[_COLUMN.format(number)] = pd.Categorical(values, levels).codes.astype(np.float64)
        else:
            codes, labels = pd.factorize(values)
            one["labels"] = [str(label) for label in labels]
            arrays[_COLUMN.format(number)] = codes.astype(np.float64)
        columns.append(one)
    setting = fitted.design.setting
    summed: dict[str, Any] = {
        "terms": [term_config(term) for term in fitted.spec.terms],
        "values": fitted.values,
        "names": list(fitted.names),
        "columns": columns,
        "rows": setting.rows,
        "unit": float(setting.unit),
        "constant_precision": fitted.design.constant_precision,
        "response": model.response_,
    }
    try:
        summed["likelihood"] = to_config(fitted.spec.likelihood)
        likelihood = to_config(fitted.likelihood)
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error
    if fitted.hyper is not None:
        nodes = []
        for number, node in enumerate(fitted.hyper.models):
            nodes.append({"values": node.values, "elbo": float(node.elbo)})
            arrays |= _posterior(node, _NODE.format(number))
        summed["hyper"] = {
            "models": nodes,
            "weights": fitted.hyper.weights.tolist(),
            "table": fitted.hyper.table,
        }
    return {**about, "likelihood": likelihood, "summed": summed}, arrays


def _posterior(fitted: FittedTerms, prefix: str) -> dict[str, np.ndarray]:
    posterior = fitted.posterior
    return {f"{prefix}mean": posterior.mean, f"{prefix}site_precision": posterior.site_precision}


def unpack_summed(
    model: Any, metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]
) -> Any:
    """Give an estimator, made of its parameters, what was fitted."""
    about = metadata["summed"]
    table = _table(about["columns"], arrays)
    likelihood, said = (from_config(one, custom) for one in (metadata["likelihood"], about["likelihood"]))
    for one in (likelihood, said):
        check_kinds(one)
    likelihood.validate()
    n = len(table) if len(table.columns) else metadata["n_rows"]
    if n != metadata["n_rows"] or not 1 <= about["rows"] <= n:
        raise ValueError(f"it has {n} rows and says that there are {metadata['n_rows']}")
    missing = [name for name in table.columns if name not in metadata["feature_names_in"]]
    if missing:
        raise ValueError(f"its column {missing[0]!r} is none of its inputs")
    table.index = pd.RangeIndex(n)
    y = likelihood.check_response(_numbers(arrays, "y", (n,)))
    given = {name: _numbers(arrays, f"row_{name}", (n,)) for name in metadata["row"]}
    row = likelihood.check_row(given, n, y)
    weight = _numbers(arrays, "weight", (n,)) if "weight" in arrays else None
    if weight is not None and weight.min() < 0.0:
        raise ValueError("its weight is negative somewhere")
    terms = parse(model.formula).terms if model.formula is not None else None
    made = tuple(term_from_config(config) for config in about["terms"])
    if terms is not None and terms != made:
        raise ValueError("its formula and its terms are not the same")
    model.terms = model.terms if terms is not None else list(made)
    spec = TermsSpec(made, said, model.learn is not False, model.coefficient_scale, model.hyperprior, model.hyper)
    setting = Setting(about["rows"], about["unit"], model.hyperprior == "weak", model.coefficient_scale)
    data = Data(likelihood, y, row, weight)
    with threads(model.n_jobs), np.errstate(divide="raise", over="raise", invalid="raise"):
        fitted = restored(
            spec,
            table,
            setting,
            about["constant_precision"],
            data,
            about["values"],
            tuple(about["names"]),
            mean=_numbers(arrays, "mean", None),
            site_precision=_numbers(arrays, "site_precision", None),
            elbo=metadata["elbo"],
            n_iter=metadata["n_iter"],
        )
        fitted = replace(fitted, info=metadata["fit_info"])
        if "hyper" in about:
            fitted = replace(fitted, hyper=_hyper(fitted, about["hyper"], arrays))
    model.fitted_ = fitted
    model.response_ = about["response"]
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        dist = model.predict_dist(table[:2], **{name: values[:2] for name, values in row.items()})
        if not (np.isfinite(dist.latent_mean).all() and np.isfinite(dist.latent_var).all()):
            raise ValueError("its predictions are not finite")
    return model


def _table(columns: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> pd.DataFrame:
    found: dict[str, Any] = {}
    for number, one in enumerate(columns):
        values = _numbers(arrays, _COLUMN.format(number), None)
        if one["labels"] is not None:
            codes = values.astype(np.int64)
            labels = np.array(one["labels"], dtype=object)
            if not (np.all(codes == values) and np.all((codes >= 0) & (codes < len(labels)))):
                raise ValueError(f"its column {one['name']!r} has levels that it doesn't name")
            found[one["name"]] = labels[codes]
            if one.get("ordered"):
                found[one["name"]] = pd.Categorical.from_codes(codes, one["labels"], ordered=True)
        else:
            found[one["name"]] = values == 1.0 if one.get("boolean") else values
    if len({len(values) for values in found.values()}) > 1 or len(found) < len(columns):
        raise ValueError("its columns are not of one table")
    return pd.DataFrame(found)


def _numbers(arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...] | None) -> np.ndarray:
    """An array of numbers that are finite."""
    found = arrays[name]
    if found.dtype != np.float64 or found.ndim != 1 or (shape is not None and found.shape != shape):
        raise ValueError(f"its {name} is of {found.dtype} and shape {found.shape}")
    if not np.all(np.abs(found) <= LARGEST):
        raise ValueError(f"its {name} has numbers that are not finite, or beyond {LARGEST:g}")
    return found


def _hyper(fitted: FittedTerms, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Hyper:
    weights = np.array(about["weights"], dtype=np.float64)
    if weights.shape != (len(about["models"]),) or not (np.all(weights >= 0.0) and np.isclose(weights.sum(), 1.0)):
        raise ValueError("its weights of hyper-parameters don't sum to 1")
    nodes = []
    for number, node in enumerate(about["models"]):
        prefix = _NODE.format(number)
        posterior = {name: _numbers(arrays, prefix + name, None) for name in ("mean", "site_precision")}
        nodes.append(fitted.at(node["values"], **posterior, elbo=node["elbo"]))
        check_kinds(nodes[-1].likelihood)
        nodes[-1].likelihood.validate()
    return Hyper(nodes, weights, about["table"])
