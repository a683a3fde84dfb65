"""How well predictions agree with responses, computed some rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils import _safe_indexing

from npvi.diagnostics.means import Means, MeansTally
from npvi.likelihoods import Gaussian
from npvi.predictive import Predictive, coverage, crps_of_draws, numbers_of_our_own, randomised_pit

__all__ = ["INTERVAL", "LEVELS", "Scores", "crps", "crps_of_draws", "score", "take"]

#: probabilities of the intervals whose coverage is counted
LEVELS = (0.5, 0.8, 0.9, 0.95)
#: probability of the interval that the interval score judges
INTERVAL = 0.9
#: rows handled at a time, which bounds the memory of draws
_ROWS = 2**14


@dataclass(frozen=True)
class Scores:
    """Scores of predictions; all means are over the rows (of CRPS and interval score over those not censored).

    Attributes
    ----------
    log_density : mean log density (log probability, for whole numbers) of the responses; higher is better.
    crps : mean continuous ranked probability score, in the units of the response; lower is better.
    interval_score : mean score of the 90 % intervals: their width, and 20 times how far outside responses are; lower is
        better.
    coverage : share of the responses inside central intervals, by their probability.
    mean : (rows,) predicted means.
    pit : (rows,) where each response falls in its own predictive distribution; uniform if the predictions are right.
    pit_distance : largest distance between the distribution function of `pit` and that of uniform numbers.
    pit_pvalue : p-value of the Kolmogorov-Smirnov test that `pit` is uniform.
    means : sum and error of the predicted means, beside what was seen and simpler means.
    """

    log_density: float
    crps: float
    interval_score: float
    coverage: dict[float, float]
    mean: NDArray[np.float64]
    pit: NDArray[np.float64]
    pit_distance: float
    pit_pvalue: float
    means: Means


def score(
    model: Any,
    X: Any,
    y: NDArray[np.float64],
    extras: dict[str, Any],
    draws: int,
    seed: int,
    given: Callable[[NDArray[np.int64]], Predictive] | None = None,
) -> Scores:
    """Score the predictions of `model` at X against the responses `y`, in bounded memory.

    `given` has the predictions for some of the rows, by their numbers, where these aren't the model's own; they are
    taken as independent of each other then.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> model = npvi.GPRegressor(kernel=npvi.kernels.RBF(0.2)).fit(X, np.sin(6.0 * X[:, 0]))
    >>> score(model, [[0.33], [0.52]], np.sin([1.98, 3.12]), {}, draws=10, seed=0).coverage[0.95]
    1.0
    """
    import scoringrules  # a slow import

    rng = numbers_of_our_own(seed)
    pit, mean = np.empty((2, len(y)))
    sums, counts = np.zeros(3), np.zeros(3)
    tally = MeansTally(model, together=given is None)
    for start in range(0, len(y), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(y)))
        chunk = {name: take(values, rows) for name, values in extras.items()}
        inputs = _safe_indexing(X, rows)
        prediction = model.predict_dist(inputs, **chunk) if given is None else given(rows)
        tally.add(inputs, y[rows], prediction)
        pit[rows], mean[rows] = randomised_pit(prediction, y[rows], rng), prediction.mean
        lower, upper = prediction.interval(INTERVAL)
        width = np.atleast_1d(scoringrules.interval_score(y[rows], lower, upper, 1.0 - INTERVAL, backend="numpy"))
        # of a censored response only the log density is known
        seen = np.equal(prediction.row.get("censored", np.zeros(len(rows))), 0.0)
        parts = (prediction.log_prob(y[rows]), crps(prediction, y[rows], draws, rng)[seen], width[seen])
        sums += [part.sum() for part in parts]
        counts += [len(part) for part in parts]
    uniform = stats.kstest(pit, "uniform")
    log_density, mean_crps, interval_score = (sums / np.maximum(counts, 1.0)).tolist()
    return Scores(
        log_density=log_density,
        crps=mean_crps,
        interval_score=interval_score,
        coverage={level: coverage(pit, level) for level in LEVELS},
        mean=mean,
        pit=pit,
        pit_distance=float(uniform.statistic),
        pit_pvalue=float(uniform.pvalue),
        means=tally.result(),
    )


def crps(prediction: Predictive, y: NDArray[np.float64], draws: int, seed: Any = 0) -> NDArray[np.float64]:
    """The continuous ranked probability score of each row: in closed form for Gaussian noise, else from draws.

    Examples
    --------
    >>> crps(Predictive(Gaussian(0.5), [0.0], [0.5]), np.array([0.0]), draws=100).round(3)
    array([0.234])
    """
    import scoringrules

    if type(prediction) is Predictive and isinstance(prediction.likelihood, Gaussian):
        # of one row it returns a number
        return np.atleast_1d(scoringrules.crps_normal(y, prediction.mean, prediction.std, backend="numpy"))
    return crps_of_draws(prediction, y, draws, seed)


def take(values: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of an array; None and single numbers hold for every row."""
    return values if values is None or np.ndim(values) == 0 else _safe_indexing(values, rows)
