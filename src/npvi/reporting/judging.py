"""How well a model predicts: rows that it hasn't seen, or each of its own from all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.diagnostics import Correlogram, KernelRange, advice, correlogram, diagnose, range_of
from npvi.diagnostics.residuals import normal_scores
from npvi.diagnostics.scores import LEVELS
from npvi.diagnostics.skewness import skewness_of
from npvi.estimators.leaving_out import left_out, training_responses
from npvi.predictive.calibration import coverage, randomised_pit
from npvi.runtime.parallel import threads

__all__ = ["Judged", "by_leaving_out", "by_test_rows"]

#: most rows that are judged by leaving each out
_ROWS = 20_000

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judged:
    """Responses beside their predictive distributions.

    Attributes
    ----------
    tested : whether the rows are ones that the model hasn't seen; else each of its own was left out.
    rows : numbers of the rows, of the test table or of the training table.
    X, y, mean : inputs, responses and predicted means of these rows.
    pit : where each response falls in its own distribution.
    residuals : Φ⁻¹ of that, standard normal if predictions are right.
    coverage : share inside central intervals by their probability.
    log_density : mean log density.
    correlogram : of the residuals.
    range : of the kernel.
    warnings : sentences.
    """

    tested: bool
    rows: NDArray[np.int64]
    X: Vector
    y: Vector
    mean: Vector
    pit: Vector
    residuals: Vector
    coverage: dict[float, float]
    log_density: float
    correlogram: Correlogram
    range: KernelRange
    warnings: list[str]

    @property
    def rmse(self) -> float:
        """Of the predicted means."""
        return float(np.sqrt(np.mean((self.y - self.mean) ** 2)))


def by_test_rows(model: Any, X: Any, y: Any, seed: int, row: dict[str, Any]) -> Judged:
    """Judge by rows that the model hasn't seen."""
    found = diagnose(model, X, y, seed=seed, **row)
    dist = model.predict_dist(X, **row)
    core = getattr(model, "model_", model)
    seen = core._encode_new(np.asarray(y))
    inputs = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    return Judged(
        tested=True,
        rows=np.arange(len(seen)),
        X=np.asarray(inputs, dtype=np.float64),
        y=np.asarray(seen, dtype=np.float64),
        mean=dist.mean,
        pit=found.pit,
        residuals=normal_scores(found.pit),
        coverage=found.coverage,
        log_density=found.log_density,
        correlogram=found.correlogram,
        range=found.range,
        warnings=list(found.warnings),
    )


def by_leaving_out(model: Any, X: Vector, seed: int) -> Judged:
    """Judge by the training rows `X`, each predicted from all others; of many a random part."""
    core = getattr(model, "model_", model)
    rows = np.arange(len(X))
    if len(rows) > _ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), _ROWS, replace=False))
    with threads(core.n_jobs):
        dist = left_out(model, rows)
        y = training_responses(model)[rows]
        pit = randomised_pit(dist, y, seed)
        log_density = float(np.mean(dist.log_prob(y)))
        mean = dist.mean
        residuals = normal_scores(pit)
        places = core.kernel_.coordinates(core.linear_part_.places(X[rows]))
        found = correlogram(places, residuals, seed=seed)
        sizes = correlogram(places, np.abs(residuals), seed=seed)
        training = core.prior_.X
        far = range_of(core.kernel_, training, seed)
        skewed = skewness_of(core.fitted_)
    held = {level: coverage(pit, level) for level in LEVELS}
    varies = model is core and hasattr(core.likelihood_, "variance") and not core.data_.row
    sentences = [
        advice.about_convergence(core.fit_info_),
        advice.about_bounds(core.fit_info_),
        advice.about_shared_places(training, training, core.prior_.nugget),
        advice.about_range(far),
        advice.about_skewness(skewed),
        advice.about_coverage(held, len(y)),
        advice.about_bias(pit),
        advice.about_residuals(found),
        advice.about_spread(sizes, found, varies),
    ]
    warnings = [one for one in sentences if one]
    return Judged(False, rows, X[rows], y, mean, pit, residuals, held, log_density, found, far, warnings)
