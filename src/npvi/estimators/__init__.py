"""The models as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

from npvi.estimators.base import BaseGP
from npvi.estimators.classifier import GPClassifier
from npvi.estimators.regressor import GPRegressor
from npvi.estimators.varying_noise import VaryingNoiseRegressor

__all__ = ["BaseGP", "GPClassifier", "GPRegressor", "VaryingNoiseRegressor", "log_score_scorer"]


def log_score_scorer(estimator: BaseGP, X: Any, y: Any) -> float:
    """A scikit-learn scorer: mean log predictive density, for ``GridSearchCV(..., scoring=npvi.log_score_scorer)``."""
    return estimator.log_score(X, y)
