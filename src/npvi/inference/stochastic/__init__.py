"""The paper's own optimiser: stochastic gradients of the bound from batches of points."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from npvi.inference.stochastic.settings import SGD, GradientSettings, is_count

if TYPE_CHECKING:
    from npvi.inference.stochastic.bound import (
        ConditionalPrior,
        LowRankPrior,
        Observed,
        StochasticBound,
        observed,
        stochastic_bound,
    )
    from npvi.inference.stochastic.certificate import bound_of, certify
    from npvi.inference.stochastic.fit import fit_stochastic
    from npvi.inference.stochastic.gaussian import Neighbourhoods, SparseGaussian, entropy, neighbourhoods

__all__ = [
    "SGD",
    "ConditionalPrior",
    "GradientSettings",
    "LowRankPrior",
    "Neighbourhoods",
    "Observed",
    "SparseGaussian",
    "StochasticBound",
    "bound_of",
    "certify",
    "entropy",
    "fit_stochastic",
    "is_count",
    "neighbourhoods",
    "observed",
    "stochastic_bound",
]

_HOMES = {
    "ConditionalPrior": "bound",
    "LowRankPrior": "bound",
    "Neighbourhoods": "gaussian",
    "Observed": "bound",
    "SparseGaussian": "gaussian",
    "StochasticBound": "bound",
    "bound_of": "certificate",
    "certify": "certificate",
    "entropy": "gaussian",
    "fit_stochastic": "fit",
    "neighbourhoods": "gaussian",
    "observed": "bound",
    "stochastic_bound": "bound",
}


def __getattr__(name: str) -> Any:
    # All but the settings need JAX and optax, which models that are fitted by closed forms don't.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
