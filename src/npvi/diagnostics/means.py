"""Can predicted means be used? Their sum beside what was seen, and their error beside that of simpler means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators import check_inputs
from npvi.graph import NeighborIndex, number_places
from npvi.inference import Data
from npvi.predictive import Predictive

__all__ = ["NEIGHBORS", "Means", "MeansTally", "SimpleMeans"]

Vector = NDArray[np.float64]

#: training rows whose mean a prediction is compared with
NEIGHBORS = 20
#: probability of the interval of the sum, and draws that it takes where rows are taken together
_LEVEL, _DRAWS = 0.9, 200
#: most rows, of the fit and new ones, for which joint draws are cheap
_TOGETHER = 20_000


@dataclass(frozen=True)
class Means:
    """Predicted means beside responses; rows with censored responses are left out.

    Attributes
    ----------
    rows : how many.
    sum_seen : sum of the responses.
    sum_predicted : sum of the predicted means.
    sum_interval : between which the sum of the responses should fall, with probability 0.9.
    together : whether that takes the rows together, by joint draws; else as independent, so that it is too narrow.
    rmse : root mean squared error of the predicted means.
    rmse_constant : that of a constant, the mean of the training rows.
    rmse_neighbors : that of the mean of the 20 nearest training rows at other places, as the kernel measures distance;
        NaN for a sum of terms.
        With exposure or trials, constants and neighbours have a mean per unit of it.

    Examples
    --------
    >>> means = Means(500, 8968.0, 28170.0, (21000.0, 40000.0), True, 38.8, 9.6, 7.2)
    >>> means.sum_off, means.worse_than_neighbors
    (True, True)
    """

    rows: int
    sum_seen: float
    sum_predicted: float
    sum_interval: tuple[float, float]
    together: bool
    rmse: float
    rmse_constant: float
    rmse_neighbors: float

    @property
    def sum_off(self) -> bool:
        """Whether the sum of the means is off by more than 20 %, and what was seen is outside of its interval."""
        lower, upper = self.sum_interval
        far = not abs(self.sum_predicted - self.sum_seen) <= 0.2 * abs(self.sum_seen)
        return self.rows > 0 and far and not lower <= self.sum_seen <= upper

    @property
    def worse_than_neighbors(self) -> bool:
        """Whether the error is more than 10 % larger than that of nearest neighbours; of few rows nobody knows."""
        return self.rows >= NEIGHBORS and not self.rmse <= 1.1 * self.rmse_neighbors and self.rmse_neighbors > 0.0


class MeansTally:
    """Sums over the rows seen so far, some at a time.

    Parameters
    ----------
    model : fitted GPRegressor, VaryingNoiseRegressor, or GPClassifier for two labels.
    together : whether predictions have joint draws, which few rows are summed with.

    Examples
    --------
    >>> import npvi
    >>> X, y = np.arange(60.0)[:, None], np.arange(60) % 3
    >>> tally = MeansTally(npvi.GPRegressor("poisson", learn=False).fit(X[::2], y[::2]))
    >>> tally.add(X[1::2], y[1::2], tally.model.predict_dist(X[1::2]))
    >>> means = tally.result()
    >>> means.rows, means.sum_seen, round(means.rmse_constant, 2)
    (30, 30.0, 0.82)
    """

    def __init__(self, model: Any, together: bool = True) -> None:
        self._together = together
        self.model = getattr(model, "model_", model)
        surface = hasattr(self.model.fitted_, "prior")  # of a sum of terms it isn't known which rows are near
        X = (
            self.model.kernel_.coordinates(self.model.prior_.X)
            if surface
            else np.arange(float(len(self.model.data_.y)))[:, None]
        )
        self._simple, self._surface = SimpleMeans(X, self.model.data_), surface
        self._sums = np.zeros(7)
        self._only: tuple[Predictive, Vector] | None = None
        self._pieces = 0

    def add(self, X: Any, y: Vector, prediction: Predictive) -> None:
        """Rows, their responses (0 and 1 for labels), and what was predicted."""
        row, mean = prediction.row, prediction.mean
        seen = np.equal(row.get("censored", np.zeros(len(y))), 0.0)
        units = units_of(row, len(y))
        simple = (self._simple.constant(units), self._neighbors(X, units))
        with np.errstate(over="ignore"):
            errors = [((guess - y)[seen] ** 2).sum() for guess in (mean, *simple)]
            parts = [y[seen].sum(), mean[seen].sum(), prediction.var[seen].sum()]
        self._sums += [seen.sum(), *parts, *errors]
        self._pieces += 1
        few = self._together and len(y) + len(self.model.data_.y) <= _TOGETHER
        self._only = (prediction, seen.astype(np.float64)) if few and self._pieces == 1 else None

    def _neighbors(self, X: Any, units: Vector) -> Vector:
        if not self._surface:
            return np.full(len(units), np.nan)
        places = self.model.linear_part_.places(check_inputs(self.model, X, reset=False))
        return self._simple.neighbors(self.model.kernel_.coordinates(places), units)

    def result(self) -> Means:
        """Of all rows that were added."""
        rows, seen, predicted, variance, *errors = self._sums.tolist()
        if self._only is not None and rows:
            prediction, weights = self._only
            interval = prediction.total(weights, _LEVEL, _DRAWS, seed=0).interval()
        else:
            half = 1.6448536269514722 * np.sqrt(variance)
            interval = (predicted - half, predicted + half)
        rmse, constant, neighbors = np.sqrt(np.array(errors) / max(rows, 1.0)).tolist()
        return Means(int(rows), seen, predicted, interval, self._only is not None, rmse, constant, neighbors)


class SimpleMeans:
    """What a constant and nearest neighbours would predict, from the training rows.

    Rows at one place count as that many neighbours with the mean of all of them. A row's own place is left out, so that
    it makes no difference whether the row, or others of its place, were in the fit.

    Parameters
    ----------
    coordinates : (N, p) of the training rows, as the kernel measures distance.
    data : their responses, weights, exposure or trials; censored ones are left out.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> data = Data(Poisson(), np.array([0.0, 2.0, 4.0, 90.0]))
    >>> simple = SimpleMeans(np.array([[0.0], [1.0], [1.0], [9.0]]), data, k=2)
    >>> simple.constant(np.ones(1)), simple.neighbors(np.array([[0.0], [0.4], [1.0]]), np.ones(3))
    (array([24.]), array([ 3. ,  1.5, 45. ]))
    """

    def __init__(self, coordinates: Vector, data: Data, k: int = NEIGHBORS) -> None:
        n = len(data.y)
        weight = np.ones(n) if data.weight is None else data.weight
        kept = (weight > 0.0) & np.equal(data.row.get("censored", np.zeros(n)), 0.0)
        weight, y, units = weight[kept], data.y[kept], units_of(data.row, n)[kept]
        self._rate = float(weight @ y / (weight @ units)) if len(y) else np.nan
        place = number_places(coordinates[kept]) if len(y) else np.zeros(0, np.int64)
        _, first = np.unique(place, return_index=True)
        self._places, self._k = coordinates[kept][first], k
        self._rows = np.bincount(place)
        self._y, self._units = (np.bincount(place, weight * values) for values in (y, units))
        self._index = NeighborIndex(self._places) if len(y) else None

    def constant(self, units: Vector) -> Vector:
        """The mean of the training rows, times the exposure or the trials of new rows."""
        return self._rate * units

    def neighbors(self, coordinates: Vector, units: Vector) -> Vector:
        """The mean of the k nearest rows at other places; with a constant where there are none."""
        if self._index is None:
            return self._rate * units
        near = self._index.query(coordinates, min(self._k + 1, len(self._places)))
        others = np.any(self._places[near] != coordinates[:, None], axis=2)
        rows = np.where(others, self._rows[near], 0)
        before = np.cumsum(rows, axis=1) - rows
        taken = np.clip(self._k - before, 0, rows) / np.maximum(self._rows[near], 1)
        y, size = (taken * self._y[near]).sum(axis=1), (taken * self._units[near]).sum(axis=1)
        return np.where(size > 0.0, y / np.where(size > 0.0, size, 1.0), self._rate) * units


def units_of(row: dict[str, Any], n: int) -> Vector:
    """What the mean of a response is in proportion to: exposure, trials, or nothing."""
    return np.asarray(row.get("exposure", row.get("trials", np.ones(n))), dtype=np.float64)
