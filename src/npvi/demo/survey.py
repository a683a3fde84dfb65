"""A survey whose truth is known: simulate it, fit it, and see how far the answer is right."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from npvi.estimators import GPRegressor
from npvi.likelihoods import Poisson
from npvi.predictive import Predictive, coverage, randomised_pit

__all__ = ["DemoResult", "Surface", "Survey", "run_demo", "simulate_survey"]

SIZE = 100.0
"""Side of the map in kilometres."""
LENGTH_SCALE, VARIANCE, LEVEL, SMOOTHNESS = 12.0, 0.8, 0.3, 2.5
"""Of the true log-rate, a draw from (nearly) the process that the model assumes; its level is in log birds per hour."""

Vector = NDArray[np.float64]


class Surface:
    """A smooth random surface that can be evaluated anywhere: a sum of waves with a Matérn-5/2 spectrum.

    Parameters
    ----------
    rng : numpy Generator
    n_waves : int
        More waves come closer to a Gaussian process; any number gives a surface that is known exactly.

    Examples
    --------
    >>> surface = Surface(np.random.default_rng(0))
    >>> surface(np.array([[10.0, 20.0], [10.0, 20.1]])).shape
    (2,)
    """

    def __init__(self, rng: np.random.Generator, n_waves: int = 3000) -> None:
        # the spectral density of a Matérn kernel with smoothness ν is Student's t with 2ν degrees of freedom
        tail = np.sqrt(rng.chisquare(2.0 * SMOOTHNESS, size=n_waves) / (2.0 * SMOOTHNESS))
        self._frequency = rng.standard_normal((2, n_waves)) / (LENGTH_SCALE * tail)
        self._phase = rng.uniform(0.0, 2.0 * np.pi, size=n_waves)
        self._amplitude = np.sqrt(2.0 * VARIANCE / n_waves)

    def __call__(self, places: Vector) -> Vector:
        values = np.empty(len(places))
        for start in range(0, len(places), 2048):  # a matrix of all places and all waves need not fit in memory
            rows = slice(start, start + 2048)
            values[rows] = np.cos(places[rows] @ self._frequency + self._phase).sum(axis=1)
        return LEVEL + self._amplitude * values


@dataclass(frozen=True)
class Survey:
    """Visits by observers who crowd around towns and roads.

    Attributes
    ----------
    places : (N, 2), kilometres east and north
    hours : (N,), how long each visit lasted
    counts : (N,), birds seen
    surface : the true log of birds per hour
    """

    places: Vector
    hours: Vector
    counts: Vector
    surface: Surface


def simulate_survey(rows: int = 20_000, seed: int = 0) -> Survey:
    """Counts ~ Poisson(hours · exp(surface(place))).

    Examples
    --------
    >>> survey = simulate_survey(rows=100)
    >>> survey.places.shape, bool((survey.counts >= 0).all())
    ((100, 2), True)
    """
    rng = np.random.default_rng(seed)
    surface = Surface(rng)
    towns = rng.uniform(0.1 * SIZE, 0.9 * SIZE, size=(9, 2))
    kind = rng.uniform(size=rows)
    town = rng.integers(len(towns), size=rows)
    # a third of the visits in town, half along the straight roads from each town to the next, the rest anywhere
    around = towns[town] + rng.normal(0.0, 4.0, size=(rows, 2))
    share = rng.uniform(size=(rows, 1))
    along = towns[town] * share + towns[(town + 1) % len(towns)] * (1 - share) + rng.normal(0.0, 1.5, size=(rows, 2))
    anywhere = rng.uniform(0.0, SIZE, size=(rows, 2))
    places = np.where((kind < 0.35)[:, None], around, np.where((kind < 0.85)[:, None], along, anywhere))
    outside = np.any((places < 0.0) | (places > SIZE), axis=1)
    places = np.where(outside[:, None], anywhere, places)
    hours: Vector = np.clip(rng.lognormal(0.0, 0.7, size=rows), 0.1, 8.0)
    counts = rng.poisson(hours * np.exp(surface(places))).astype(np.float64)
    return Survey(places, hours, counts, surface)


@dataclass(frozen=True)
class DemoResult:
    """What came out: what was learned, scores on the visits held out, and maps.

    Attributes
    ----------
    survey : Survey
    learned : dict from names to (learned, true)
    scores : dict of numbers
    seconds : dict, per stage
    truth, rate : (side, side), birds per hour on a grid of the map: as it is, and as predicted
    uncertainty : (side, side), standard deviation of the predicted rate relative to the rate, without the nugget
    beyond : (side, side), where the prediction is nearly the prior; the picture leaves that blank
    model : fitted to the visits that aren't held out
    held_out : (N,), which of the visits are
    """

    survey: Survey
    learned: dict[str, tuple[list[float], float]]
    scores: dict[str, float]
    seconds: dict[str, float]
    truth: Vector
    rate: Vector
    uncertainty: Vector
    beyond: NDArray[np.bool_]
    model: GPRegressor
    held_out: NDArray[np.bool_]


def run_demo(rows: int = 20_000, seed: int = 0, side: int = 150) -> DemoResult:
    """Simulate a survey, learn from four fifths of it, score the rest and map the rate.

    The model has nothing but defaults: it is told that these are counts, and for how long each visit lasted.

    Parameters
    ----------
    rows : int
        Visits in all.
    seed : int
    side : int
        Cells along each side of the maps.

    Examples
    --------
    >>> result = run_demo(rows=200, side=8)
    >>> result.rate.shape, result.scores["log_density"] > result.scores["baseline_log_density"]
    ((8, 8), True)
    """
    clock = time.perf_counter()
    survey = simulate_survey(rows, seed)
    held_out = np.zeros(rows, dtype=bool)
    held_out[np.random.default_rng([seed, 1]).permutation(rows)[: rows // 5]] = True
    seconds = {"simulate": time.perf_counter() - clock}
    model = GPRegressor("poisson", n_neighbors=min(20, max(1, rows // 5)), random_state=seed)
    model.fit(survey.places[~held_out], survey.counts[~held_out], exposure=survey.hours[~held_out])
    seconds |= model.fit_info_["seconds"]
    clock = time.perf_counter()
    scores = _score(model, survey, held_out)
    seconds["score"] = time.perf_counter() - clock
    clock = time.perf_counter()
    grid = _grid(side)
    on_map = model.predict_dist(grid, exposure=1.0)
    truth = survey.surface(grid)
    scores["correlation_on_map"] = float(np.corrcoef(on_map.latent_mean, truth)[0, 1])
    seconds["map"] = time.perf_counter() - clock
    clock = time.perf_counter()
    scores["npvi_squared_error_over_variance"] = _calibration_of_npvi(model, survey, held_out)
    seconds["npvi"] = time.perf_counter() - clock
    info = model.fit_info_
    return DemoResult(
        survey,
        _learned(model),
        {**scores, "converged": float(info["converged"]), "evaluations": float(info["learning"]["evaluations"])},
        seconds,
        np.exp(truth).reshape(side, side),
        on_map.mean.reshape(side, side),
        np.sqrt(np.expm1(on_map.latent_var)).reshape(side, side),
        on_map.reach.beyond.reshape(side, side),
        model,
        held_out,
    )


def _score(model: GPRegressor, survey: Survey, held_out: NDArray[np.bool_]) -> dict[str, float]:
    places, hours, counts = survey.places[held_out], survey.hours[held_out], survey.counts[held_out]
    prediction = model.predict_dist(places, exposure=hours)
    constant = survey.counts[~held_out].sum() / survey.hours[~held_out].sum()
    baseline = Predictive(Poisson(), np.full(len(counts), np.log(constant)), np.zeros(len(counts)), {"exposure": hours})
    pit = randomised_pit(prediction, counts, seed=0)
    truth = survey.surface(places)
    return {
        "fitted": float((~held_out).sum()),
        "held_out": float(held_out.sum()),
        "log_density": float(prediction.log_prob(counts).mean()),
        "baseline_log_density": float(baseline.log_prob(counts).mean()),
        "coverage_50": coverage(pit, 0.5),
        "coverage_90": coverage(pit, 0.9),
        "correlation": float(np.corrcoef(prediction.latent_mean, truth)[0, 1]),
        "squared_error_over_variance": _calibration(prediction, truth),
    }


def _calibration(prediction: Predictive, truth: Vector) -> float:
    """Squared error of the surface over its stated variance, on average."""
    return float(np.mean((truth - prediction.latent_mean) ** 2 / prediction.latent_var))


def _calibration_of_npvi(model: GPRegressor, survey: Survey, held_out: NDArray[np.bool_]) -> float:
    """The same for the paper's posterior, with what was learned."""
    settings = {"kernel": model.kernel_, "nugget": model.nugget_, "method": "npvi", "learn": False}
    sparse = clone(model).set_params(**settings)
    sparse.fit(survey.places[~held_out], survey.counts[~held_out], exposure=survey.hours[~held_out])
    places = survey.places[held_out]
    return _calibration(sparse.predict_dist(places, exposure=1.0), survey.surface(places))


def _learned(model: GPRegressor) -> dict[str, tuple[list[float], float]]:
    kernel = model.kernel_
    return {
        "length scale": (np.atleast_1d(kernel.length_scale).tolist(), LENGTH_SCALE),
        "smoothness": ([float(kernel.smoothness)], SMOOTHNESS),
        "variance": ([float(kernel.variance)], VARIANCE),
        "nugget": ([model.nugget_], 0.0),
        "level": (model.mean_coefficients_.tolist(), LEVEL),
    }


def _grid(side: int) -> Vector:
    """Centres of the map's cells, west to east and then south to north."""
    middle = (np.arange(side) + 0.5) * SIZE / side
    east, north = np.meshgrid(middle, middle)
    return np.column_stack([east.ravel(), north.ravel()])
