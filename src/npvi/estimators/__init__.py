"""The models as scikit-learn estimators."""

from __future__ import annotations

from npvi.estimators.base import BaseGP
from npvi.estimators.classifier import GPClassifier
from npvi.estimators.filling import fill
from npvi.estimators.leaving_out import Comparison, compare, left_out, training_responses
from npvi.estimators.mapping import Maps
from npvi.estimators.named import NamedParts
from npvi.estimators.pipeline import Pipeline, transformed
from npvi.estimators.points import fit_points
from npvi.estimators.predicting import PredictsNumbers, per_row
from npvi.estimators.regressor import GPRegressor
from npvi.estimators.scorer import log_score_scorer
from npvi.estimators.validation import check_column, check_inputs, check_response
from npvi.estimators.varying_noise import VaryingNoiseRegressor

__all__ = [
    "BaseGP",
    "Comparison",
    "GPClassifier",
    "GPRegressor",
    "Maps",
    "NamedParts",
    "Pipeline",
    "PredictsNumbers",
    "VaryingNoiseRegressor",
    "check_column",
    "check_inputs",
    "check_response",
    "compare",
    "fill",
    "fit_points",
    "left_out",
    "log_score_scorer",
    "per_row",
    "training_responses",
    "transformed",
]
