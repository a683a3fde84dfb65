"""scikit-learn's pipelines with an estimator of npvi at their end."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import pipeline as sklearn_pipeline
from sklearn.utils.metaestimators import available_if

from npvi.checks import LARGEST, check_finite, refuse_masked, refuse_not_real, refuse_repeated_names
from npvi.estimators.mapping import Maps

__all__ = ["Pipeline", "transformed"]


def transformed(pipeline: sklearn_pipeline.Pipeline, X: Any) -> Any:
    """X as the last step of a fitted pipeline sees it."""
    _check_table(X)
    for name, step in pipeline.steps[:-1]:
        if step is not None and not isinstance(step, str):  # "passthrough"
            try:
                X = step.transform(X)
            except (TypeError, ValueError) as error:
                raise type(error)(f"X doesn't go through the step {name!r}: {error}") from error
    return X


def _check_table(X: Any) -> None:
    """Raise unless steps may be handed it. Some take text and gaps, but none can tell what became of dates."""
    refuse_masked(X, "X")
    refuse_repeated_names(X, "X")
    if isinstance(X, type) or not (isinstance(X, list | tuple) or hasattr(X, "shape")):
        raise TypeError(f"X must be an array or a table, got {X!r}")
    if hasattr(X, "columns") or scipy.sparse.issparse(X):
        return
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError("X is no table: its rows differ in length") from None
    if array.dtype.kind in "cmM":
        refuse_not_real(array, "X")
    if array.dtype.kind == "f":
        check_finite(np.nan_to_num(array, posinf=0.0, neginf=0.0), "X", LARGEST)


def _check_steps(steps: Any, memory: Any) -> None:
    """Raise ValueError where the constructor's arguments are no steps, or nothing that keeps what was computed.

    >>> _check_steps([("gp", None)], 3)
    Traceback (most recent call last):
    ValueError: memory must be None, the name of a folder or a joblib.Memory, got 3
    """
    pairs = isinstance(steps, list | tuple) and all(isinstance(step, list | tuple) and len(step) == 2 for step in steps)
    if not pairs or not all(isinstance(name, str) for name, _ in steps):
        raise ValueError(f"steps must be pairs of a name and an estimator, got {steps!r}")
    # tables have a method called `cache` too
    if not (memory is None or isinstance(memory, str) or (hasattr(memory, "cache") and hasattr(memory, "reduce_size"))):
        raise ValueError(f"memory must be None, the name of a folder or a joblib.Memory, got {memory!r}")


def _last_has(name: str) -> Any:
    def check(pipeline: Pipeline) -> bool:
        getattr(pipeline.steps[-1][1], name)  # its own AttributeError says what is lacking
        return True

    return check


class Pipeline(Maps, sklearn_pipeline.Pipeline):
    """scikit-learn's `Pipeline`, with `predict_dist`, `predict_grid`, `log_score`, `save` of the estimator at its end.

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

    def _validate_params(self) -> None:
        super()._validate_params()  # which `fit` calls first
        _check_steps(self.steps, self.memory)

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
