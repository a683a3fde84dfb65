"""Whether the arrays of a model file are what a model can be made of."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from npvi.graph import check_parents
from npvi.io.packing import prefixes
from npvi.likelihoods import Softmax, conditional_moments
from npvi.model import Fitted, latent_at
from npvi.priors import FACTORS, LOW_RANK
from npvi.runtime.fields import LARGEST

__all__ = ["check_arrays", "check_sense"]

#: by how much a covariance may miss being one, relatively
_ROUNDING = 1e-6
#: spread of a covariate, relative to its mean, below which a fit takes it for constant and its scale for 1
_CONSTANT = 1e-15

DENSE = 1000
"""Most rows of a posterior that is held by an N × N matrix; fits have one up to 400, once 1,000."""


def check_arrays(metadata: dict[str, Any], arrays: dict[str, np.ndarray], likelihood: Any) -> None:
    """Raise ValueError where one is not of the type, shape and range that it must have.

    Compiled loops trust what they are given: a wrong position in a stranger's file would read foreign memory.
    """
    _check_classes(arrays, likelihood)
    functions = prefixes(likelihood)
    for name, (dtypes, shape) in _expected(metadata, arrays, functions).items():
        array = arrays[name]
        if array.dtype not in dtypes or array.shape != shape or not np.isfinite(array).all():
            kinds = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
            raise ValueError(f"its {name} is not a finite {kinds} array of shape {shape}")
        if float(np.abs(array).max(initial=0)) > LARGEST:
            raise ValueError(f"its {name} has numbers beyond {LARGEST:g}, which have no finite square")
    n = len(arrays["parents"])
    if n != metadata["n_rows"]:
        raise ValueError(f"it has {n} rows and says that there are {metadata['n_rows']}")
    everyone = np.arange(n)
    for name in ("order", "spatial", "canonical_order"):
        if name in arrays and not np.array_equal(np.sort(arrays[name]), everyone):
            raise ValueError(f"its {name} does not name every point once")
    check_parents(arrays["parents"])
    d = int(metadata["n_features_in"])
    if len({*arrays["coords"].tolist(), *arrays["covariates"].tolist()}) != d:
        raise ValueError(f"its coords and covariates are not all of its {d} columns")
    for name in ("coords", "covariates"):
        columns = arrays[name]
        if len(np.unique(columns)) < len(columns) or not np.all((columns >= 0) & (columns < d)):
            raise ValueError(f"its {name} are not columns from 0 to {d - 1}, each once")
    for name in ("scale", *(prefix + name for prefix in functions for name in ("variance", "factor_diagonal"))):
        if name in arrays and not np.all(arrays[name] > 0.0):
            raise ValueError(f"its {name} is not positive")
    if not np.all(arrays["scale"] > _CONSTANT * np.maximum(1.0, np.abs(arrays["center"]))):
        raise ValueError("its scale is that of columns that never change")
    for name in ("weight", "coefficient_precision"):
        if name in arrays and not np.all(arrays[name] >= 0.0):
            raise ValueError(f"its {name} is negative somewhere")
    for name in (prefix + "coefficient_covariance" for prefix in functions):
        covariance = arrays[name]
        size = np.abs(covariance).max(initial=0.0)
        if not np.allclose(covariance, covariance.T, rtol=0.0, atol=_ROUNDING * size) or (
            np.linalg.eigvalsh(covariance).min(initial=0.0) < -_ROUNDING * size
        ):
            raise ValueError(f"its {name} is no covariance")


def check_sense(model: Fitted) -> None:
    """Raise ValueError or FloatingPointError where a model, each of whose numbers is allowed, can't predict.

    At some of its own rows, among them those with the extremes of what it knows: in the graph's order.
    """
    part, n = model.linear_part, len(model.basis)
    X = np.zeros((n, len({*part.coords, *part.covariates})))
    X[:, part.covariates] = model.basis[:, int(part.constant) :] * part.scale + part.center
    X[:, part.coords] = model.prior.X
    mean, variance = np.reshape(model.posterior.mean, (n, -1)), np.reshape(model.marginal_variance, (n, -1))
    if not (np.isfinite(variance).all() and (variance > 0.0).all()):
        raise ValueError("its variances are not positive")
    rows = np.unique([0, n - 1, *mean.argmin(axis=0), *mean.argmax(axis=0)])
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        f = latent_at(model, X[rows])
        if not (np.isfinite(f.mean).all() and np.isfinite(f.variance).all()):
            raise ValueError("its predictions are not finite")
    if not model.several:
        of_all, of_some = mean[:, 0] + variance[:, 0], f.mean + f.variance + f.nugget  # E exp f is exp(m + v/2)
        extremes = [of_all.argmin(), of_all.argmax()]
        _check_moments(model, np.append(of_all[extremes], of_some), np.append(extremes, rows))


def _check_moments(model: Fitted, f: np.ndarray, rows: np.ndarray) -> None:
    """Raise ValueError where moments of responses are not finite that are so where f is 0: some never are."""
    row = {name: values[rows] for name, values in model.data.row.items()}
    with suppress(NotImplementedError), np.errstate(over="ignore"):  # a user's own may have no moments
        there, at_zero = (conditional_moments(model.model.likelihood, at, row) for at in (f, np.zeros(len(f))))
        if any((np.isfinite(usual) & ~np.isfinite(moment)).any() for moment, usual in zip(there, at_zero)):
            raise ValueError("its predictions are not finite")


def _check_classes(arrays: dict[str, np.ndarray], likelihood: Any) -> None:
    """First of all, because the likelihood's number of classes says how many arrays there are."""
    several = isinstance(likelihood, Softmax)
    if "classes" not in arrays:
        if several:
            raise ValueError(f"it has no labels of {likelihood.n_classes} classes")
        return
    allowed = (likelihood.n_classes,) if several else (1, 2)
    labels = arrays["classes"]
    if labels.ndim != 1 or len(labels) not in allowed:
        raise ValueError(f"its labels are not {likelihood.n_classes if several else 'one or two'}")
    if not np.array_equal(np.unique(labels), labels):  # so that nan isn't one
        raise ValueError("its labels are not in order, each once")


def _expected(
    metadata: dict[str, Any], arrays: dict[str, np.ndarray], functions: list[str]
) -> dict[str, tuple[tuple[type, ...], tuple[int, ...]]]:
    """What kinds of numbers each array may hold, and its shape."""
    n, k = arrays["parents"].shape
    if not n:
        raise ValueError("it has no rows")
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
    if "coefficient_precision" in arrays:
        shapes["coefficient_precision"] = (p,)
    low_rank = metadata.get("prior") in LOW_RANK
    if low_rank:
        shapes["inducing"] = (max(1, len(arrays["inducing"])), n_coords)
    own: dict[str, tuple[int, ...]] = {"mean": (n,), "site_precision": (n,), "coefficients": (p,)}
    own |= {"coefficient_covariance": (p, p), "sensitivity": (n, p)}
    if metadata["posterior"] == "factor":
        own |= {"factor_diagonal": (n,), "factor_edges": (n, k)}
    elif metadata["posterior"] == "draws":
        own["variance"] = (n,)
        for prefix in functions:
            draws = arrays[prefix + "draws"]
            kinds[prefix + "draws"] = ((np.float32, np.float64), (n, max(1, draws.shape[-1] if draws.ndim else 1)))
    elif metadata["posterior"] == "precision":
        own |= {"variance": (n,), "factor_kind": (2,)}
        for prefix in functions:
            n_modes = len(arrays[prefix + "gains"])
            kinds[prefix + "modes"] = ((np.float32,), (n, n_modes))
            shapes[prefix + "gains"] = (n_modes,)
            route = arrays[prefix + "factor_kind"]
            if not all(number in range(len(FACTORS)) for number in route):
                raise ValueError(f"its factor is of kind {route}, which this version does not know")
    elif metadata["posterior"] == "dense":
        if n > DENSE:
            raise ValueError(f"it holds a dense posterior of {n} rows, more than {DENSE}")
    elif metadata["posterior"] != "low_rank" or not low_rank:
        raise ValueError(f"it holds a posterior {metadata['posterior']!r}, which this version does not know")
    shapes |= {prefix + name: shape for prefix in functions for name, shape in own.items()}
    kinds |= {"order": ((np.int64,), (n,)), "parents": ((np.int32,), (n, k)), "spatial": ((np.int32,), (n,))}
    if "canonical_order" in arrays:
        kinds["canonical_order"] = ((np.int64,), (n,))
    kinds |= {"coords": ((np.int64,), (n_coords,)), "covariates": ((np.int64,), (n_covariates,))}
    return kinds | {name: ((np.float64,), shape) for name, shape in shapes.items()}
