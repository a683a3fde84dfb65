"""The models as scikit-learn estimators."""

from __future__ import annotations

from npvi.estimators.base import BaseGP
from npvi.estimators.classifier import GPClassifier
from npvi.estimators.filling import fill
from npvi.estimators.leaving_out import Comparison, compare
from npvi.estimators.pipeline import Pipeline
from npvi.estimators.points import fit_points
from npvi.estimators.regressor import GPRegressor
from npvi.estimators.scorer import log_score_scorer
from npvi.estimators.varying_noise import VaryingNoiseRegressor

__all__ = [
    "BaseGP",
    "Comparison",
    "GPClassifier",
    "GPRegressor",
    "Pipeline",
    "VaryingNoiseRegressor",
    "compare",
    "fill",
    "fit_points",
    "log_score_scorer",
]
