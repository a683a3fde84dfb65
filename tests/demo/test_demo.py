"""The demonstration's survey, scores and picture."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pytest

from npvi.demo.picture import draw
from npvi.demo.survey import LENGTH_SCALE, LEVEL, SIZE, VARIANCE, Surface, run_demo, simulate_survey


@pytest.fixture(scope="module")
def result():
    return run_demo(rows=500, seed=0, side=12)


def test_survey_is_what_it_says():
    survey = simulate_survey(4000, seed=2)
    assert survey.places.min() >= 0.0
    assert survey.places.max() <= SIZE
    assert survey.hours.min() > 0.0
    rate = survey.hours * np.exp(survey.surface(survey.places))
    z = (survey.counts - rate) / np.sqrt(rate)
    assert abs(z.mean()) < 0.06
    assert abs(z.var() - 1.0) < 0.15


def test_seed_decides():
    first, again, other = (simulate_survey(50, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.counts, again.counts)
    assert not np.array_equal(first.places, other.places)


def test_surface_has_the_covariance_that_the_model_assumes():
    places = np.array([[0.0, 0.0], [LENGTH_SCALE, 0.0]])
    rng = np.random.default_rng(0)
    values = np.array([Surface(rng, n_waves=50)(places) for _ in range(4000)]) - LEVEL
    covariance = values.T @ values / len(values)
    root = np.sqrt(5.0)
    expected = VARIANCE * np.array([1.0, (1 + root + 5 / 3) * np.exp(-root)])
    np.testing.assert_allclose(covariance[0], expected, atol=0.05)


def test_scores(result):
    scores = result.scores
    assert scores["fitted"] == 400
    assert scores["held_out"] == 100
    assert scores["log_density"] > scores["baseline_log_density"]
    assert scores["correlation"] > 0.8
    assert 0.35 < scores["coverage_50"] < 0.65
    assert scores["coverage_90"] > 0.8
    assert 0.3 < scores["squared_error_over_variance"] < 3.0
    assert scores["npvi_squared_error_over_variance"] > scores["squared_error_over_variance"]
    assert set(result.seconds) == {"simulate", "learn", "prior", "inference", "hyper", "score", "map", "npvi"}
    assert result.truth.shape == result.rate.shape == result.uncertainty.shape == (12, 12)


def test_what_was_learned_stands_next_to_the_truth(result):
    found, truth = result.learned["length scale"]
    assert truth == LENGTH_SCALE
    assert all(0.3 * truth < value < 3.0 * truth for value in found)
    found, truth = result.learned["variance"]
    assert 0.2 * truth < found[0] < 5.0 * truth
    assert result.learned["level"][0][0] == pytest.approx(LEVEL, abs=1.0)


def test_picture_leaves_no_trace(result):
    before = matplotlib.get_backend(auto_select=False)
    file = io.BytesIO()
    draw(result, file)
    assert file.getvalue()[1:4] == b"PNG"
    assert matplotlib.get_backend(auto_select=False) == before
    pyplot = __import__("sys").modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


@pytest.mark.parametrize(("kind", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_other_formats(result, kind, start):
    file = io.BytesIO()
    draw(result, file, kind)
    assert file.getvalue().startswith(start)
