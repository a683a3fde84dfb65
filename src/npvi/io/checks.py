"""Whether the arrays of a model file are what a model can be made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.io.packing import prefixes
from npvi.likelihoods.families.softmax import Softmax
from npvi.priors.nngp import FACTORS
from npvi.priors.structure import LOW_RANK

__all__ = ["check_arrays"]

DENSE = 4000
"""Most rows of a posterior that is held by an N × N matrix."""


def check_arrays(metadata: dict[str, Any], arrays: dict[str, np.ndarray], likelihood: Any) -> None:
    """Raise ValueError where one is not of the type, shape and range that it must have.

    Compiled loops trust what they are given: a wrong position in a stranger's file would read foreign memory.
    """
    functions = prefixes(likelihood)
    for name, (dtypes, shape) in _expected(metadata, arrays, functions).items():
        array = arrays[name]
        if array.dtype not in dtypes or array.shape != shape or not np.isfinite(array).all():
            kinds = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
            raise ValueError(f"its {name} is not a finite {kinds} array of shape {shape}")
    n, k = arrays["parents"].shape
    everyone = np.arange(n)
    for name in ("order", "spatial", "canonical_order"):
        if name in arrays and not np.array_equal(np.sort(arrays[name]), everyone):
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
    for name in ("scale", *(prefix + name for prefix in functions for name in ("variance", "factor_diagonal"))):
        if name in arrays and not np.all(arrays[name] > 0.0):
            raise ValueError(f"its {name} is not positive")
    for name in ("weight", "coefficient_precision"):
        if name in arrays and not np.all(arrays[name] >= 0.0):
            raise ValueError(f"its {name} is negative somewhere")
    if "classes" in arrays:
        several = isinstance(likelihood, Softmax)
        allowed = (likelihood.n_classes,) if several else (1, 2)
        if arrays["classes"].ndim != 1 or len(arrays["classes"]) not in allowed:
            raise ValueError(f"its labels are not {likelihood.n_classes if several else 'one or two'}")


def _expected(
    metadata: dict[str, Any], arrays: dict[str, np.ndarray], functions: list[str]
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
