"""Gaussian processes with any noise on large data: fast, with uncertainty that is true."""

from npvi import graph, kernels, likelihoods, posteriors
from npvi.estimators import GPClassifier, GPRegressor, log_score_scorer
from npvi.model_selection import GridResult, grid_search
from npvi.persistence import load

__version__ = "0.1.0"

__all__ = [
    "GPClassifier",
    "GPRegressor",
    "GridResult",
    "graph",
    "grid_search",
    "kernels",
    "likelihoods",
    "load",
    "log_score_scorer",
    "posteriors",
]
