"""Reports of pipelines: maps and effects are of what goes into the first step, where the steps can be undone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from npvi.estimators import Pipeline, transformed
from npvi.maps import training_inputs
from npvi.reporting.study import Study, Vector

__all__ = ["PipelineStudy", "as_the_last_sees", "can_be_undone", "steps_of"]


class PipelineStudy(Study):
    """Of a pipeline whose steps can be undone. Hyper-parameters are in the units that come out of them."""

    @property
    def last(self) -> Any:
        """The estimator at the end."""
        return self.model.steps[-1][1]

    @cached_property
    def inner(self) -> tuple[Vector, list[str]]:
        """Inputs of the training rows as the process sees them, and their names."""
        X, names = training_inputs(self.last), _names_after(self.model)
        if names is not None and list(names) != self.names:
            return X, list(names)
        return X, [f"{name} after {steps_of(self.model)}" for name in self.names]

    @property
    def unseen(self) -> tuple[Any, Any, dict[str, Any]] | None:
        """Test rows as the estimator at the end sees them."""
        if self.test is None:
            return None
        X, y, row = self.test
        return transformed(self.model, X), y, row

    @property
    def tested_places(self) -> Vector:
        """Where test rows are on the map."""
        assert self.test is not None
        assert self.places is not None
        return np.asarray(self.test[0], dtype=np.float64)[:, list(self.places.places)]


def steps_of(pipeline: Any) -> str:
    """What stands before the model.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> steps_of(make_pipeline(StandardScaler(), "passthrough", None))
    'StandardScaler'
    """
    steps = [step for _, step in pipeline.steps[:-1] if step is not None and not isinstance(step, str)]
    return ", ".join(type(step).__name__ for step in steps)


def can_be_undone(pipeline: Any) -> bool:
    """Whether it is known what went into a fitted pipeline."""
    try:
        training_inputs(pipeline)
    except ValueError:
        return False
    return True


def as_the_last_sees(pipeline: Any, test: Any) -> tuple[Any, Any, tuple[str, ...] | None]:
    """The estimator at the end, test rows (X, y, row) as it sees them, and what its inputs are called, if known."""
    if test is not None:
        X, y, row = test
        test = transformed(pipeline, X), y, row
    return pipeline.steps[-1][1], test, _names_after(pipeline)


def _names_after(pipeline: Any) -> tuple[str, ...] | None:
    """Names of the columns that the steps before the model make; None where they don't say."""
    if not steps_of(pipeline):
        return None
    try:
        return tuple(str(name) for name in Pipeline(pipeline.steps[:-1]).get_feature_names_out())
    except (AttributeError, ValueError):
        return None
