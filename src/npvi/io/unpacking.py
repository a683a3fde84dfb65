"""From plain data back to a fitted model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from npvi.components import Trend
from npvi.config import from_config, parameter_from_config
from npvi.graph import Graph
from npvi.inference import Data, StackedTrend, dense_posterior
from npvi.io.checks import check_arrays, check_sense
from npvi.io.packing import ARRAYS, COMPANION, ESTIMATORS, HYPER, NOISE, RECOGNIZER, STEP, prefixes
from npvi.io.steps import check_steps, unpack_step
from npvi.io.summed import unpack_summed
from npvi.kernels import Kernel
from npvi.learning import Model
from npvi.likelihoods import Likelihood, Softmax
from npvi.linalg import Triangular, WoodburyFactor
from npvi.model import Fitted, Hyper, LinearPart
from npvi.parameters import check_kinds
from npvi.posteriors import (
    DrawsPosterior,
    FactorPosterior,
    LowRankPosterior,
    Posterior,
    PrecisionPosterior,
    StackedPosterior,
)
from npvi.priors import FACTORS, LOW_RANK, NNGP, InducingPoints, NearestNeighbors, Prior
from npvi.runtime.parallel import threads

__all__ = ["unpack"]


def unpack(metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Any:
    """The model that `npvi.io.packing.pack` took apart.

    Raises
    ------
    KeyError, TypeError, AttributeError, ValueError
        Where something is missing or is not what it should be.

    Examples
    --------
    >>> import npvi
    >>> from npvi.io.packing import pack
    >>> model = npvi.GPRegressor(n_neighbors=2, learn=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> unpack(*pack(model, {}), {}).elbo_ == model.elbo_
    True
    """
    if "pipeline" in metadata:
        return _unpack_pipeline(metadata, arrays, custom)
    if "noise" in metadata:
        return _unpack_both(metadata, arrays, custom)
    name = metadata["estimator"]
    if name not in ESTIMATORS:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    if "summed" in metadata:
        return _unpack_summed(metadata, arrays, custom)
    if metadata["parameters"].get("method") == "npvi-nn":
        import npvi.amortized  # noqa: F401 - whose settings may be among the parameters
    kernel, likelihood = _made(metadata, "kernel", Kernel, custom), _made(metadata, "likelihood", Likelihood, custom)
    check_kinds(likelihood)
    likelihood.validate()
    check_arrays(metadata, arrays, likelihood)
    parameters = {key: _restored_parameter(value, custom) for key, value in metadata["parameters"].items()}
    parameters |= {name: arrays[f"parameter_{name}"] for name in ARRAYS if f"parameter_{name}" in arrays}
    model = _class(name)(**parameters)
    check_kinds(kernel)
    kernel.validate(arrays["X"].shape[1])
    y = likelihood.check_response(arrays["y"])
    row = likelihood.check_row({name: arrays[f"row_{name}"] for name in metadata["row"]}, len(y), y)
    graph = Graph(arrays["order"], arrays["parents"], arrays["spatial"])
    own = replace(graph, order=arrays.get("canonical_order", graph.order))  # older files have the caller's
    kind = metadata.get("prior", NearestNeighbors.kind)  # older files have no other
    # older files have flat priors, or the scale alone
    precision = arrays.get("coefficient_precision", np.zeros(arrays["basis"].shape[1]))
    structure = InducingPoints(kind, arrays["inducing"]) if kind in LOW_RANK else NearestNeighbors()
    numbers = Model(kernel, float(metadata["nugget"]), likelihood, structure, precision)
    with threads(model.n_jobs):
        prior: Any = numbers.prior(arrays["X"], own)
        posterior, trend = _functions(metadata["posterior"], arrays, prior, likelihood)
    part = metadata["linear_part"]
    columns = (arrays["coords"], arrays["covariates"])
    model.n_features_in_ = int(metadata["n_features_in"])
    if metadata["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(metadata["feature_names_in"], dtype=object)
    if "crs" in metadata:
        model.crs_ = metadata["crs"]
    if name == "GPClassifier":
        labels = arrays["classes"]
        model.classes_ = labels.astype(object) if metadata["classes_are_objects"] else labels
    fitted = Fitted(
        spec=model._spec(model._likelihood(), model.n_features_in_),
        model=numbers,
        graph=graph,
        prior=prior,
        posterior=posterior,
        trend=trend,
        data=Data(likelihood, y, row, arrays.get("weight")),
        basis=arrays["basis"],
        linear_part=LinearPart(
            *columns, bool(part["constant"]), arrays["center"], arrays["scale"], tuple(part["names"])
        ),
        elbo=metadata["elbo"],
        n_iter=metadata["n_iter"],
        info=metadata["fit_info"],
    )
    if "hyper" in metadata:
        fitted = replace(fitted, hyper=_hyper(metadata["hyper"], arrays, custom))
    if "companion" in metadata:
        companion = unpack(metadata["companion"]["model"], _after(COMPANION, arrays), custom).fitted_
        weight = float(metadata["companion"]["weight"])
        fitted = replace(fitted, companion=companion, companion_weight=weight)
    model.fitted_ = fitted
    check_sense(fitted)
    return model


def _unpack_summed(metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Any:
    """A model made of terms."""
    parameters = {key: _restored_parameter(value, custom) for key, value in metadata["parameters"].items()}
    model = _class("GPRegressor")(**parameters)
    model.n_features_in_ = int(metadata["n_features_in"])
    model.feature_names_in_ = np.array(metadata["feature_names_in"], dtype=object)
    return unpack_summed(model, metadata, arrays, custom)


def _class(name: str) -> Any:
    """The estimator that a file names; they stand on files, and are looked up as it is read."""
    return getattr(importlib.import_module("npvi.estimators"), name)


def _unpack_pipeline(metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Any:
    """A model and the steps before it."""
    about = metadata["pipeline"]
    rest = {key: value for key, value in metadata.items() if key != "pipeline"} | {"estimator": about["estimator"]}
    prefixes_of_steps = [STEP.format(number) for number in range(len(about["steps"]))]
    steps: list[Any] = [unpack_step(step, _after(p, arrays)) for step, p in zip(about["steps"], prefixes_of_steps)]
    own = {key: array for key, array in arrays.items() if not key.startswith(tuple(prefixes_of_steps))}
    pipeline = _class("Pipeline")([*steps, (str(about["last"]), unpack(rest, own, custom))])
    check_steps(pipeline)
    return pipeline


def _hyper(about: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Hyper:
    """Models at other hyper-parameters, which have all but what differs in common with the one they are beside."""
    models, weights = about["models"], np.array(about["weights"], dtype=np.float64)
    if weights.shape != (len(models),) or not (np.all(weights >= 0.0) and np.isclose(weights.sum(), 1.0)):
        raise ValueError("its weights of hyper-parameters don't sum to 1")
    return Hyper(
        [unpack(one, {**arrays, **_after(HYPER.format(k), arrays)}, custom).fitted_ for k, one in enumerate(models)],
        weights,
        about["table"],
    )


def _unpack_both(metadata: dict[str, Any], arrays: dict[str, np.ndarray], custom: Mapping[str, Callable]) -> Any:
    """A model with one of its noise."""
    about = metadata["noise"]
    rest = {key: value for key, value in metadata.items() if key != "noise"} | {"estimator": "GPRegressor"}
    f = unpack(rest, {name: array for name, array in arrays.items() if not name.startswith(NOISE)}, custom)
    template = None
    if about["likelihood"] is not None:  # which the fitted one has with a variance that doesn't count
        template = clone(f).set_params(likelihood=_restored_parameter(about["likelihood"], custom))
    model = _class("VaryingNoiseRegressor")(
        template, _restored_parameter(about["kernel"], custom), int(about["max_rounds"])
    )
    model.model_, model.likelihood_, model.rounds_ = f, f.likelihood_, [dict(score) for score in about["rounds"]]
    model.noise_model_ = None if about["model"] is None else unpack(about["model"], _after(NOISE, arrays), custom)
    model.n_features_in_ = f.n_features_in_
    if hasattr(f, "feature_names_in_"):
        model.feature_names_in_ = f.feature_names_in_
    if hasattr(f, "crs_"):
        model.crs_ = f.crs_
    return model


def _made(metadata: dict[str, Any], name: str, kind: type, custom: Mapping[str, Callable]) -> Any:
    """The kernel or the likelihood that was fitted."""
    found = from_config(metadata[name], custom)
    if not isinstance(found, kind):
        raise ValueError(f"its {name} is a {type(found).__name__}, which is none")
    return found


def _after(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by what comes after."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _restored_parameter(value: Any, custom: Mapping[str, Callable]) -> Any:
    if not isinstance(value, dict):
        return value
    if RECOGNIZER in value:
        from npvi.amortized import Recognizer  # rarely needed

        return Recognizer.from_text(value[RECOGNIZER])
    return parameter_from_config(value) if "parameter" in value else from_config(value, custom)


def _functions(kind: str, arrays: dict[str, np.ndarray], prior: Prior, likelihood: Any) -> tuple[Any, Any]:
    """The posterior and the coefficients of the mean, of all latent functions."""
    posteriors, trends = [], []
    for prefix in prefixes(likelihood):
        own = _after(prefix, arrays)
        posteriors.append(_posterior(kind, own, prior))
        trends.append(Trend(own["coefficients"], own["coefficient_covariance"], own["sensitivity"]))
    if not isinstance(likelihood, Softmax):
        return posteriors[0], trends[0]
    return StackedPosterior(posteriors), StackedTrend(trends)


def _posterior(kind: str, arrays: dict[str, np.ndarray], prior: Prior) -> Posterior:
    mean, site_precision = arrays["mean"], arrays["site_precision"]
    if kind == "low_rank":
        closed = cast(WoodburyFactor, prior.factor(site_precision, prior.routes[0]))
        if not closed.finite:
            raise ValueError("its site_precision makes no posterior")
        return LowRankPosterior(mean, closed)
    if kind == "dense":
        return dense_posterior(prior, mean, site_precision)
    if kind == "factor":
        factor = Triangular(prior.graph, arrays["factor_diagonal"], arrays["factor_edges"])
        return FactorPosterior(mean, factor, site_precision)
    if kind == "precision":
        route, compensated = arrays["factor_kind"]
        made = (FACTORS[int(route)], bool(compensated))
        transpose = cast(NNGP, prior).factor(site_precision, *made).transpose
        more = (arrays["variance"], site_precision, arrays["modes"], arrays["gains"], made)
        return PrecisionPosterior(mean, transpose, *more)
    return DrawsPosterior(mean, arrays["draws"], arrays["variance"], site_precision)
