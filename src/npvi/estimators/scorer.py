"""The log score as scikit-learn's model selection wants it."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from npvi.estimators.pipeline import transformed
from npvi.estimators.predicting import ROW, forgotten

__all__ = ["LogScoreScorer", "log_score_scorer"]


class LogScoreScorer:
    """A scikit-learn scorer: mean log predictive density, ``GridSearchCV(…, scoring=npvi.log_score_scorer)``.

    It looks through pipelines and searches to the estimator of npvi inside. Data per row (`exposure`, `trials`,
    `noise_variance`, `censored`) reach it, and `fit`, by scikit-learn's metadata routing, which has to be on:
    ``sklearn.set_config(enable_metadata_routing=True)``. Nothing else has to be asked for.

    Examples
    --------
    >>> import npvi, numpy as np, sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X, hours = rng.uniform(size=(90, 1)), rng.uniform(1.0, 100.0, 90)
    >>> y = rng.poisson(0.1 * hours)
    >>> model = npvi.GPRegressor("poisson", kernel="rbf", learn=False)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_val_score(model, X, y, scoring=npvi.log_score_scorer, params={"exposure": hours})
    >>> bool(scores.mean() > -3.0)
    True
    """

    def __init__(self) -> None:
        self._asked: dict[str, Any] = dict.fromkeys(ROW, True)

    def __call__(self, estimator: Any, X: Any, y: Any, **row: Any) -> float:
        """The score of a fitted estimator: higher is better."""
        given = estimator
        while not hasattr(estimator, "log_score"):
            if isinstance(estimator, Pipeline):
                X, estimator = transformed(estimator, X), estimator.steps[-1][1]
            elif hasattr(estimator, "best_estimator_"):
                estimator = estimator.best_estimator_
            else:
                inside = "" if given is estimator else f" of {type(estimator).__name__}"
                raise TypeError(
                    "log_score_scorer is for estimators of npvi, alone, at the end of a Pipeline or in a search; got "
                    f"{type(given).__name__}{inside}"
                )
        lacking = forgotten(estimator, row)
        if lacking:
            # scores of other responses than those that were seen: no number is better than a wrong one
            name = lacking[0]
            raise ValueError(
                f"the model was fitted with {name}, and log_score_scorer was given none. Call "
                "sklearn.set_config(enable_metadata_routing=True) and pass it by "
                f'params={{"{name}": …}} (GridSearchCV: fit(X, y, {name}=…)): fit and scorer then both get it'
            )
        return estimator.log_score(X, y, **row)

    def set_score_request(self, **asked: bool | str | None) -> LogScoreScorer:
        """A scorer that takes data per row under another name, or not: ``set_score_request(exposure="hours")``."""
        unknown = sorted(set(asked) - set(ROW))
        if unknown:
            raise TypeError(f"log_score_scorer takes {', '.join(ROW)}; got {unknown[0]}")
        other = copy.copy(self)
        other._asked = {**self._asked, **asked}
        return other

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn passes on."""
        request = MetadataRequest(owner=self)
        for name, asked in self._asked.items():
            request.score.add_request(param=name, alias=asked)
        return request

    def __repr__(self) -> str:
        return "log_score_scorer"


log_score_scorer = LogScoreScorer()
