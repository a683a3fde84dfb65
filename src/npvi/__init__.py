"""Gaussian processes with any noise on large data: fast, with uncertainty that is true.

The usual way in is `GPRegressor` or `GPClassifier`; `kernels` and `likelihoods` hold what they are made of.
"""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any

from npvi import aliases

if TYPE_CHECKING:
    from npvi import amortized, datasets, graph, kernels, likelihoods, maps, plot, posteriors
    from npvi.amortized import Recognizer, fit_network, fit_network_on_simulations, stream_posterior
    from npvi.diagnostics import Diagnosis, diagnose
    from npvi.estimators import (
        GPClassifier,
        GPRegressor,
        Pipeline,
        VaryingNoiseRegressor,
        compare,
        fill,
        log_score_scorer,
    )
    from npvi.inference.stochastic import SGD
    from npvi.io import load
    from npvi.likelihoods import Likelihood
    from npvi.parameters import bounded, fixed, half_normal, pc, positive
    from npvi.reporting import report
    from npvi.selection import GridResult, LeaveLocationOut, SpatialBlockSplit, grid_search
    from npvi.suggesting import Suggestion, suggest
    from npvi.terms import AR1, Field, Group, Linear, Offset, RandomWalk, Smooth, Varying
    from npvi.tiled import TiledRegressor

__version__ = "0.1.0"

aliases.install()

__all__ = [
    "AR1",
    "SGD",
    "Diagnosis",
    "Field",
    "GPClassifier",
    "GPRegressor",
    "GridResult",
    "Group",
    "LeaveLocationOut",
    "Likelihood",
    "Linear",
    "Offset",
    "Pipeline",
    "RandomWalk",
    "Recognizer",
    "Smooth",
    "SpatialBlockSplit",
    "Suggestion",
    "TiledRegressor",
    "Varying",
    "VaryingNoiseRegressor",
    "amortized",
    "baselines",
    "bounded",
    "compare",
    "datasets",
    "diagnose",
    "fill",
    "fit_network",
    "fit_network_on_simulations",
    "fit_points",
    "fixed",
    "graph",
    "grid_search",
    "half_normal",
    "kernels",
    "likelihoods",
    "load",
    "log_score_scorer",
    "maps",
    "networks",
    "pc",
    "plot",
    "positive",
    "posteriors",
    "report",
    "stream_posterior",
    "suggest",
]

_HOMES = {
    "Diagnosis": "diagnostics",
    "GPClassifier": "estimators",
    "GPRegressor": "estimators",
    "GridResult": "selection",
    "LeaveLocationOut": "selection",
    "Likelihood": "likelihoods",
    "Recognizer": "amortized",
    "Pipeline": "estimators",
    "SGD": "inference.stochastic",
    "SpatialBlockSplit": "selection",
    "Suggestion": "suggesting",
    "TiledRegressor": "tiled",
    "VaryingNoiseRegressor": "estimators",
    "Varying": "terms",
    "Smooth": "terms",
    "RandomWalk": "terms",
    "Offset": "terms",
    "Linear": "terms",
    "Group": "terms",
    "Field": "terms",
    "AR1": "terms",
    "bounded": "parameters",
    "diagnose": "diagnostics",
    "fill": "estimators",
    "fit_network": "amortized",
    "fit_network_on_simulations": "amortized",
    "fit_points": "estimators",
    "fixed": "parameters",
    "half_normal": "parameters",
    "compare": "estimators",
    "pc": "parameters",
    "grid_search": "selection",
    "load": "io",
    "log_score_scorer": "estimators",
    "positive": "parameters",
    "report": "reporting",
    "stream_posterior": "amortized",
    "suggest": "suggesting",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are first used: JAX and numba take a second that `npvi --help` shouldn't.
    if name in _HOMES:
        value = getattr(_imported(_HOMES[name]), name)
    elif name in __all__ or f"npvi.{name}" in aliases.MOVED:
        value = _imported(name)
    else:
        raise AttributeError(f"module 'npvi' has no attribute {name!r}")
    globals()[name] = value
    return value


def _imported(name: str) -> Any:
    """A module. Python doesn't look for cyclic garbage meanwhile: a tenth of the time, and there is hardly any."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(f"npvi.{name}")
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    # what is for users; not what this file imports for itself, nor modules that others happen to have imported
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
