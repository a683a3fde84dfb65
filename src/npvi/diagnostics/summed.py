"""A model that is a sum of terms, judged: by rows that it hasn't seen, or by leaving out its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from npvi.diagnostics import advice
from npvi.diagnostics.residuals import Correlogram, correlogram, normal_scores
from npvi.diagnostics.scores import Scores, score
from npvi.estimators import check_column, left_out, training_responses
from npvi.runtime.parallel import threads
from npvi.terms import Field, as_frame

__all__ = ["OfTerms", "judge_terms", "places_of_terms"]


@dataclass(frozen=True)
class OfTerms:
    """What is found of a sum of terms: scores, residuals by distance in its first field, warnings, and the rows."""

    scores: Scores
    correlogram: Correlogram
    warnings: list[str]
    y: NDArray[np.float64]
    places: NDArray[np.float64] | None
    axes: tuple[str, str] | None


def judge_terms(
    model: Any,
    X: Any,
    y: Any,
    numbers: NDArray[np.int64] | None,
    extras: dict[str, Any],
    draws: int,
    n_bins: int,
    seed: int,
) -> OfTerms:
    """Judge by the rows X, or by leaving out those with these `numbers` in the model's own table."""
    if numbers is None:
        table = as_frame(X)
        labels = check_column(y, "y")
        check_consistent_length(table, labels)
        response = model.likelihood_.check_response(model._encode_new(labels))
        model.likelihood_.check_row(extras, len(response), response)
        given = None
    else:
        table, response = model.fitted_.table.iloc[numbers], training_responses(model)[numbers]

        def given(rows: NDArray[np.int64]) -> Any:
            return left_out(model, numbers[rows])

    with threads(model.n_jobs):
        scores = score(model, table, response, extras, draws, seed, given)
    where = places_of_terms(model)
    residuals = normal_scores(scores.pit)
    points = np.zeros((len(response), 1)) if where is None else table[list(where)].to_numpy(dtype=np.float64)
    found = correlogram(points, residuals, n_bins=n_bins, seed=seed)
    sentences = [
        advice.about_convergence(model.fit_info_),
        advice.about_bounds(model.fit_info_),
        advice.about_coverage(scores.coverage, len(response)),
        advice.about_bias(scores.pit),
        advice.about_means(scores.means, model.likelihood_, model.hyperprior is not None),
        advice.about_residuals(found),
        advice.about_spread(correlogram(points, np.abs(residuals), n_bins=n_bins, seed=seed), found, False),
    ]
    on_map = where is not None and len(where) == 2
    return OfTerms(
        scores,
        found,
        [one for one in sentences if one],
        np.asarray(response, dtype=np.float64),
        points if on_map else None,
        (where[0], where[1]) if on_map and where is not None else None,
    )


def places_of_terms(model: Any) -> tuple[str, ...] | None:
    """The columns of the first field of a sum of terms; None where it has none.

    >>> import npvi
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": np.arange(20.0), "year": np.arange(20.0) % 4})
    >>> model = npvi.GPRegressor(terms=[npvi.Linear("year"), npvi.Field("x")], learn=False).fit(table, table["x"])
    >>> places_of_terms(model)
    ('x',)
    """
    return next((term.columns for term in model.fitted_.spec.terms if isinstance(term, Field)), None)
