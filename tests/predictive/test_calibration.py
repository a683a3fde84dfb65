"""Right predictions look right, also for counts."""

from __future__ import annotations

import numpy as np
import pytest

from npvi import likelihoods
from npvi.likelihoods import Gaussian, Poisson
from npvi.predictive.base import Predictive
from npvi.predictive.calibration import coverage, randomised_pit


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Poisson()], ids=repr)
def test_right_predictions_cover_what_they_say(likelihood):
    rng = np.random.default_rng(0)
    prediction = Predictive(likelihood, rng.normal(size=4000), np.full(4000, 0.4))
    pit = randomised_pit(prediction, prediction.sample(1, seed=1)[0])
    for level in (0.5, 0.9, 0.95):
        assert coverage(pit, level) == pytest.approx(level, abs=0.025)


def test_a_number_with_its_own_probability_is_randomised():
    likelihood = likelihoods.Tweedie()
    prediction = Predictive(likelihood, np.full(3000, -0.5), np.full(3000, 0.4))
    y = prediction.sample(1, seed=1)[0]
    assert 0.1 < np.mean(y == 0.0) < 0.9
    pit = randomised_pit(prediction, y)
    for level in (0.5, 0.9):
        assert coverage(pit, level) == pytest.approx(level, abs=0.03)


def test_censored_responses_are_randomised():
    mean = np.zeros(4000)
    truth = Predictive(Gaussian(0.3), mean, mean + 0.7).sample(1, seed=1)[0]
    censored = np.select([truth > 0.5, truth < -1.0], [1.0, -1.0], 0.0)
    prediction = Predictive(likelihoods.CensoredGaussian(0.3), mean, mean + 0.7, {"censored": censored})
    pit = randomised_pit(prediction, np.clip(truth, -1.0, 0.5))
    for level in (0.5, 0.9):
        assert coverage(pit, level) == pytest.approx(level, abs=0.025)


def test_wrong_predictions_do_not():
    mean = np.zeros(1000)
    y = Predictive(Gaussian(1.0), mean, mean + 1.0).sample(1, seed=0)[0]
    assert coverage(randomised_pit(Predictive(Gaussian(0.1), mean, mean + 0.1), y), 0.9) < 0.6
