"""scikit-learn's pipelines with an estimator of npvi at their end."""

from __future__ import annotations

import os
from typing import Any

from sklearn import pipeline as sklearn_pipeline
from sklearn.utils.metaestimators import available_if

__all__ = ["Pipeline", "transformed"]


def transformed(pipeline: sklearn_pipeline.Pipeline, X: Any) -> Any:
    """X as the last step of a fitted pipeline sees it."""
    if not hasattr(X, "__len__") and not hasattr(X, "shape"):
        raise TypeError(f"X must be an array or a table, got {X!r}")
    for _, step in pipeline.steps[:-1]:
        if step is not None and not isinstance(step, str):  # "passthrough"
            X = step.transform(X)
    return X


def _last_has(name: str) -> Any:
    def check(pipeline: Pipeline) -> bool:
        getattr(pipeline.steps[-1][1], name)  # its own AttributeError says what is lacking
        return True

    return check


class Pipeline(sklearn_pipeline.Pipeline):
    """scikit-learn's `Pipeline`, with `predict_dist`, `log_score` and `save` of the estimator of npvi at its end.

    Everything else, parameters included, is scikit-learn's.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.random.default_rng(0).uniform(0, [10, 1000], size=(60, 2))
    >>> gp = npvi.GPRegressor(kernel="rbf", learn=False)
    >>> model = npvi.Pipeline([("scale", StandardScaler()), ("gp", gp)]).fit(X, np.sin(X[:, 0]))
    >>> model.predict_dist(X[:3]).interval(0.9)[0].shape
    (3,)
    """

    @property
    def _row_of_fit(self) -> tuple[str, ...]:
        return self.steps[-1][1]._row_of_fit

    @available_if(_last_has("predict_dist"))
    def predict_dist(self, X: Any, **row: Any) -> Any:
        """The predictive distribution of the response at each row of X; `row` is `exposure` and the like."""
        return self.steps[-1][1].predict_dist(transformed(self, X), **row)

    @available_if(_last_has("log_score"))
    def log_score(self, X: Any, y: Any, **row: Any) -> float:
        """Mean log predictive density of the responses `y` at `X`: higher is better."""
        return self.steps[-1][1].log_score(transformed(self, X), y, **row)

    @available_if(_last_has("save"))
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline to one file; `npvi.load` reads it back.

        Of the steps before the last one, those whose fitted state is numbers can be saved (`npvi.io.steps.STEPS`);
        an error names any other.
        """
        from npvi.io import save  # rarely needed

        save(self, path)
