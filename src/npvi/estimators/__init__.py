"""The models as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

from npvi.estimators.base import BaseGP
from npvi.estimators.classifier import GPClassifier
from npvi.estimators.regressor import GPRegressor

__all__ = ["BaseGP", "GPClassifier", "GPRegressor", "log_score_scorer"]


def log_score_scorer(estimator: BaseGP, X: Any, y: Any) -> float:
    """A scikit-learn scorer: mean log predictive density, for ``GridSearchCV(..., scoring=npvi.log_score_scorer)``."""
    return estimator.log_score(X, y)
